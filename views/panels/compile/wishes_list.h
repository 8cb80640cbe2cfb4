// WishesList: what people want otherwise of the plan, an entry each as fusion.json has them, with why one cannot be
// had. An entry can be taken away.
#pragma once

#include <QPushButton>
#include <QTreeWidget>

#include "views/document/compile/compilation.h"
#include "views/document/document.h"

namespace graft {

class WishesList : public QWidget {
  Q_OBJECT

 public:
  enum Column { Wish, Nodes, Why };

  explicit WishesList(Document& document, QWidget* parent = nullptr);
  QTreeWidget* tree() { return tree_; }
  QPushButton* removeButton() { return remove_; }
  void refresh();

 Q_SIGNALS:
  void chosen(const QStringList& nodes);
  void actionAsked(const QString& name);

 private:
  Document& document_;
  QTreeWidget* tree_;
  QPushButton* remove_;
};

}  // namespace graft
