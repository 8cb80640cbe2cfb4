// Tour: seven steps from a model to a faster one, in a small window beside the large one, or where the large one leaves
// no room, over a corner of its drawing. All titles stand there, the text only of the step one is at: that is the first
// that has not been done, or one that was clicked. A step is ticked when it has been done; its links do it.
//
//   Tour* tour = new Tour(document, window);  connect(tour, &Tour::asked, …);  tour->show();
#pragma once

#include <QDialog>
#include <QElapsedTimer>
#include <QSet>
#include <QTextBrowser>
#include <functional>

#include "views/document/document.h"

namespace graft {

class Tour : public QDialog {
  Q_OBJECT

 public:
  explicit Tour(Document& document, QWidget* parent = nullptr);
  static int count();
  /// Numbers of the steps that have been done, from 1.
  const QSet<int>& done() const { return done_; }
  /// The step whose text is shown.
  int current() const;
  void goTo(int step);
  /// A drawing or a report has been written.
  void noteWritten();
  QTextBrowser* text() { return text_; }
  void refreshTheme() { refresh(); }
  /// Where a window of that size goes, on the screen. It stays where its user has put it.
  void setPlace(std::function<QPoint(QSize)> place) { place_ = std::move(place), settle(); }
  void settle();

 Q_SIGNALS:
  void asked(const QString& action);  ///< by a link: the object name of the window's action

 protected:
  void moveEvent(QMoveEvent*) override;

 private:
  void note();
  void refresh();
  Document& document_;
  QTextBrowser* text_;
  QSet<int> done_;
  int chosen_ = 0;  ///< by a click, until it has been done; 0: none
  std::function<QPoint(QSize)> place_;
  QPoint asked_;
  QElapsedTimer sinceAsked_;
  bool isMoved_ = false;
};

}  // namespace graft
