#include "views/panels/compile/pairs_list.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QStyledItemDelegate>
#include <QVBoxLayout>

#include "views/document/run_figures.h"
#include "views/widgets/empty_hint.h"
#include "views/widgets/fit_column.h"
#include "views/widgets/qt_color.h"

namespace graft {
namespace {

constexpr int pairRole = Qt::UserRole;

QString stateOf(const FusionPair& p) {
  if (p.isMerged) return p.isAsked ? PairsList::tr("fused, as asked") : PairsList::tr("fused");
  return p.isLegal ? PairsList::tr("apart") : PairsList::tr("cannot be fused");
}

/// Rows as high as their reasons, which are sentences: a tree wraps words, and by itself makes no room for them.
class ReasonDelegate : public QStyledItemDelegate {
 public:
  ReasonDelegate(QTreeView& tree, int column) : QStyledItemDelegate(&tree), tree_(tree), column_(column) {}
  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    constexpr int margins = 24, tall = 1000;
    QStyleOptionViewItem wrapped = option;
    wrapped.rect = {0, 0, tree_.columnWidth(column_) - margins, tall};
    return QStyledItemDelegate::sizeHint(wrapped, index);
  }

 private:
  QTreeView& tree_;
  int column_;
};

}  // namespace

PairsList::PairsList(Document& document, QWidget* parent) : QWidget(parent), document_(document) {
  tree_ = new QTreeWidget(this);
  tree_->setAccessibleName(tr("Pairs of nodes"));
  tree_->setHeaderLabels({tr("Between"), tr("State"), tr("Why"), tr("Apart"), tr("Together"), tr("Measured")});
  tree_->headerItem()->setToolTip(Apart, tr("What both take as two kernels, predicted"));
  tree_->headerItem()->setToolTip(Together, tr("What one kernel of both takes, predicted"));
  tree_->headerItem()->setToolTip(Measured, tr("What both take as they are now"));
  tree_->setRootIsDecorated(false);
  tree_->setWordWrap(true);
  tree_->setItemDelegateForColumn(Why, new ReasonDelegate(*tree_, Why));
  tree_->header()->setStretchLastSection(false);
  tree_->header()->setSectionResizeMode(QHeaderView::ResizeToContents);
  tree_->header()->setSectionResizeMode(Why, QHeaderView::Fixed);
  // Afterwards: while a header fits its columns to what is in them, it gives the others the widths that they had
  // before.
  connect(
      tree_->header(), &QHeaderView::sectionResized, this,
      [this](int column) {
        if (column != Why) fitReasons();
      },
      Qt::QueuedConnection);
  tree_->viewport()->installEventFilter(this);
  for (const int column : {Apart, Together, Measured})
    tree_->headerItem()->setTextAlignment(column, Qt::AlignRight | Qt::AlignVCenter);
  new EmptyHint(tree_, tr("No value passes here from one kernel to another."));
  onlyApart_ = new QCheckBox(tr("Only those &apart"), this);
  onlyApart_->setToolTip(tr("Leaves out the pairs that one kernel computes"));
  onlyApart_->setChecked(true);
  onlyKernel_ = new QCheckBox(tr("Only of the chosen &kernel"), this);
  fuse_ = new QPushButton(tr("Fuse"), this);
  fuse_->setToolTip(tr("One kernel is to compute both, whatever it costs"));
  apart_ = new QPushButton(tr("Keep apart"), this);
  apart_->setToolTip(tr("No kernel is to hold both"));
  move_ = new QPushButton(tr("&Move there"), this);
  move_->setToolTip(tr("The second node leaves its kernel for the one of the first"));
  why_ = new FixedHeightLabel(1, this);
  auto* across = new QHBoxLayout;
  across->setSpacing(8);
  for (QWidget* w : std::initializer_list<QWidget*>{onlyApart_, onlyKernel_}) across->addWidget(w);
  across->addWidget(why_, 1);
  for (QWidget* w : std::initializer_list<QWidget*>{fuse_, apart_, move_}) across->addWidget(w);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 6, 0, 0);
  column->addLayout(across);
  column->addWidget(tree_, 1);
  Compilation& compilation = document_.compilation();
  for (QCheckBox* box : {onlyApart_, onlyKernel_}) connect(box, &QCheckBox::toggled, this, &PairsList::refresh);
  connect(&compilation, &Compilation::changed, this, &PairsList::refresh);
  connect(&compilation, &Compilation::currentChanged, this, [this] {
    if (onlyKernel_->isChecked()) refresh();
  });
  connect(tree_, &QTreeWidget::currentItemChanged, this, [this] {
    explain();
    if (const FusionPair* p = current(); p && !filling_) Q_EMIT chosen({p->producer, p->consumer});
  });
  connect(fuse_, &QPushButton::clicked, this, [this] {
    if (const FusionPair* p = current()) document_.compilation().fuse({p->producer, p->consumer});
  });
  connect(apart_, &QPushButton::clicked, this, [this] {
    if (const FusionPair* p = current()) document_.compilation().keepApart({p->producer, p->consumer});
  });
  connect(move_, &QPushButton::clicked, this, [this] {
    if (const FusionPair* p = current()) document_.compilation().move(p->consumer, p->producer);
  });
  // A button that has done its work is switched off, and Qt would hand the keyboard to whatever comes next.
  for (QPushButton* button : {fuse_, apart_, move_})
    connect(button, &QPushButton::clicked, tree_, qOverload<>(&QWidget::setFocus));
  explain();
}

const FusionPair* PairsList::current() const {
  const QTreeWidgetItem* row = tree_->currentItem();
  const QStringList nodes = row ? row->data(Between, pairRole).toStringList() : QStringList();
  return row ? document_.compilation().plan().pairOf(nodes.value(0), nodes.value(1)) : nullptr;
}

void PairsList::refresh() {
  const QStringList chosen =
      tree_->currentItem() ? tree_->currentItem()->data(Between, pairRole).toStringList() : QStringList();
  const Compilation& compilation = document_.compilation();
  const KernelInfo* kernel = onlyKernel_->isChecked() ? compilation.current() : nullptr;
  filling_ = true;
  tree_->clear();
  const auto& pairs = compilation.plan().pairs;
  QList<QTreeWidgetItem*> rows;
  QTreeWidgetItem* again = nullptr;
  for (const FusionPair& p : pairs) {
    if (!compilation.isKnown()) break;
    if (onlyApart_->isChecked() && p.isMerged) continue;
    if (onlyKernel_->isChecked() &&
        !(kernel && (kernel->nodes.contains(p.producer) || kernel->nodes.contains(p.consumer))))
      continue;
    auto* row = new QTreeWidgetItem;
    row->setText(Between,
                 p.areSiblings ? tr("%1 ∥ %2").arg(p.producer, p.consumer) : tr("%1 → %2").arg(p.producer, p.consumer));
    row->setToolTip(Between, p.areSiblings ? tr("Both read %1, and neither needs the other").arg(p.value)
                                           : tr("%1 passes between them").arg(p.value));
    row->setText(State, stateOf(p));
    row->setText(Why, p.why);
    row->setToolTip(Why, p.why);
    const CompilePlan& plan = compilation.plan();
    row->setText(Apart, micros(p.apart));
    row->setText(Together, micros(p.together));
    row->setText(Measured, plan.measuredText(p.measured));
    for (const int column : {Apart, Together, Measured})
      row->setTextAlignment(column, Qt::AlignRight | Qt::AlignVCenter);
    if (std::isnan(p.measured) && plan.isChangedSince)
      row->setToolTip(Measured, tr("Not measured since the plan changed: Measure, above, does it"));
    else if (!std::isnan(p.measured) && (plan.isChangedSince || plan.isMeasuredBefore))
      row->setToolTip(Measured, tr("Measured %1").arg(whenText(plan.measuredAt)));
    if (!p.isLegal) row->setForeground(State, toQt(themePalette().dim));
    const QStringList nodes{p.producer, p.consumer};
    row->setData(Between, pairRole, nodes);
    if (nodes == chosen) again = row;
    rows << row;
  }
  tree_->addTopLevelItems(rows);
  if (again) tree_->setCurrentItem(again);
  filling_ = false;
  explain();
}

void PairsList::show(const FusionPair& pair) {
  const QStringList nodes{pair.producer, pair.consumer};
  const bool isMerged = pair.isMerged;
  const auto find = [&]() -> QTreeWidgetItem* {
    for (int i = 0; i < tree_->topLevelItemCount(); ++i)
      if (tree_->topLevelItem(i)->data(Between, pairRole).toStringList() == nodes) return tree_->topLevelItem(i);
    return nullptr;
  };
  if (!find()) {
    onlyKernel_->setChecked(false);
    if (isMerged) onlyApart_->setChecked(false);
  }
  if (QTreeWidgetItem* row = find()) tree_->setCurrentItem(row);
}

void PairsList::fitReasons() {
  constexpr int least = 260;
  fitColumn(*tree_, Why, least);
  tree_->doItemsLayout();  // rows are as high as their reasons
}

bool PairsList::eventFilter(QObject* watched, QEvent* e) {
  if (watched == tree_->viewport() && e->type() == QEvent::Resize) fitReasons();
  return QWidget::eventFilter(watched, e);
}

/// What the buttons would do, and whether they can.
void PairsList::explain() {
  const FusionPair* p = current();
  const CompilePlan& plan = document_.compilation().plan();
  const bool isFree = p && !document_.compilation().isBusy();
  fuse_->setEnabled(isFree && !p->isMerged);
  apart_->setEnabled(isFree && p->isMerged);
  const KernelInfo* to = p ? plan.kernelOf(p->producer) : nullptr;
  const KernelInfo* from = p ? plan.kernelOf(p->consumer) : nullptr;
  move_->setEnabled(isFree && to && from && to != from && to->isGenerated());
  QString text;
  if (p && p->isMerged)
    text = tr("One kernel saves %1, predicted").arg(micros(p->apart - p->together));
  else if (p && p->isLegal)
    text = tr("One kernel would take %1 more, predicted").arg(micros(p->together - p->apart));
  else if (p)
    text = p->why;
  why_->showText(text);
}

}  // namespace graft
