// RuleList: the rules that are being written, those first that match most, and of these the ones that make the model
// faster. Optimize measures that; before it, the column stays away.
//
//   auto* list = new RuleList(document);   connect(list, &RuleList::chosen, editor, …);
#pragma once

#include <QTreeWidget>

#include "views/document/document.h"

namespace graft {

class RuleList : public QTreeWidget {
  Q_OBJECT

 public:
  explicit RuleList(Document& document, QWidget* parent = nullptr);
  void refresh();
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;

 Q_SIGNALS:
  void chosen(const QString& rule);

 private:
  static QString nameOf(const QTreeWidgetItem& item);
  std::vector<const RuleInfo*> rulesInOrder() const;
  void fill(QTreeWidgetItem& item, const RuleInfo& rule) const;
  void showCurrent();
  void resizeEvent(QResizeEvent* e) override;
  int heightOf(int rows) const;

  Document& document_;
  bool filling_ = false, isChoosing_ = false;
};

}  // namespace graft
