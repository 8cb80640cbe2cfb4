// Tour: seven steps from a model to a faster one, in a small window beside the large one. A step is ticked when it has
// been done; its links do it.
//
//   Tour* tour = new Tour(document, window);  connect(tour, &Tour::asked, …);  tour->show();
#pragma once

#include <QDialog>
#include <QSet>
#include <QTextBrowser>

#include "views/document.h"

namespace graft {

class Tour : public QDialog {
  Q_OBJECT

 public:
  explicit Tour(Document& document, QWidget* parent = nullptr);
  /// Numbers of the steps that have been done, from 1.
  const QSet<int>& done() const { return done_; }
  QTextBrowser* text() { return text_; }
  void refreshTheme() { refresh(); }

 Q_SIGNALS:
  void asked(const QString& action);  ///< by a link: the object name of the window's action

 private:
  void note();
  void refresh();
  Document& document_;
  QTextBrowser* text_;
  QSet<int> done_;
};

}  // namespace graft
