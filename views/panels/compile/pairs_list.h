// PairsList: the pairs of nodes that fusion looked at: whether one kernel computes both, why not, what that costs as
// predicted and as measured; and the buttons to have it otherwise. Of the kernel that is looked at, or of all.
#pragma once

#include <QCheckBox>
#include <QPushButton>
#include <QTreeWidget>

#include "views/document/compile/compilation.h"
#include "views/document/document.h"
#include "views/widgets/fixed_height_label.h"

namespace graft {

class PairsList : public QWidget {
  Q_OBJECT

 public:
  enum Column { Between, State, Why, Apart, Together, Measured };

  explicit PairsList(Document& document, QWidget* parent = nullptr);
  QTreeWidget* tree() { return tree_; }
  QPushButton* fuse() { return fuse_; }
  QPushButton* apart() { return apart_; }
  QPushButton* move() { return move_; }
  QCheckBox* onlyApart() { return onlyApart_; }
  QCheckBox* onlyKernel() { return onlyKernel_; }
  /// Chooses the pair, and shows it whatever is left out otherwise.
  void show(const FusionPair& pair);
  void refresh();

 Q_SIGNALS:
  void chosen(const QStringList& nodes);

 protected:
  bool eventFilter(QObject*, QEvent*) override;

 private:
  const FusionPair* current() const;
  void fitReasons();
  void explain();

  Document& document_;
  QTreeWidget* tree_;
  QCheckBox *onlyApart_, *onlyKernel_;
  QPushButton *fuse_, *apart_, *move_;
  FixedHeightLabel* why_;
  bool filling_ = false;
};

}  // namespace graft
