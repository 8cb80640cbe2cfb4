#include "views/panels/captured/guards_panel.h"

#include <QHeaderView>
#include <QStyle>
#include <QStyledItemDelegate>
#include <QTextLayout>
#include <QVBoxLayout>
#include <algorithm>

#include "views/widgets/empty_hint.h"

namespace graft {
namespace {

QString groupTitle(const QString& about) {
  if (about == QLatin1String("arguments")) return GuardsPanel::tr("What the model is called with");
  if (about == QLatin1String("model")) return GuardsPanel::tr("The model itself");
  return GuardsPanel::tr("Python and PyTorch around it");
}

/// Lines that are longer than the panel is wide go on below: their ends say what the guard was captured with.
class WrappedLines : public QStyledItemDelegate {
 public:
  explicit WrappedLines(QTreeWidget* tree) : QStyledItemDelegate(tree), tree_(tree) {}

  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const QSize one = QStyledItemDelegate::sizeHint(option, index);
    const int indent = tree_->indentation() * (index.parent().isValid() ? 2 : 1);
    const int margins = 2 * (tree_->style()->pixelMetric(QStyle::PM_FocusFrameHMargin, nullptr, tree_) + 1);
    // Where the style writes: its item has a padding of its own.
    QStyleOptionViewItem whole = option;
    initStyleOption(&whole, index);
    whole.rect = {0, 0, std::max(1, tree_->columnWidth(0) - indent), 1 << 12};
    const QRect room = tree_->style()->subElementRect(QStyle::SE_ItemViewItemText, &whole, tree_);
    const int width = std::max(1, std::min(room.width(), whole.rect.width()) - margins);
    const int lines = linesOf(whole.text, whole.font, width);
    return {one.width(), one.height() + (lines - 1) * QFontMetrics(whole.font).lineSpacing()};
  }

 protected:
  void initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const override {
    QStyledItemDelegate::initStyleOption(option, index);
    option->features |= QStyleOptionViewItem::WrapText;
  }

 private:
  /// As the style breaks them.
  static int linesOf(const QString& text, const QFont& font, int width) {
    QTextOption wraps;
    wraps.setWrapMode(QTextOption::WordWrap);
    QTextLayout layout(text, font);
    layout.setTextOption(wraps);
    layout.beginLayout();
    int lines = 0;
    for (QTextLine line = layout.createLine(); line.isValid(); line = layout.createLine()) {
      line.setLineWidth(width);
      ++lines;
    }
    layout.endLayout();
    return std::max(1, lines);
  }

  QTreeWidget* tree_;
};

}  // namespace

GuardsPanel::GuardsPanel(PanelContext& context, QWidget* parent)
    : QWidget(parent), capture_(context.capture()), document_(context.document()) {
  sentence_ = new FixedHeightLabel(2, this);
  filter_ = new QLineEdit(this);
  filter_->setPlaceholderText(tr("Filter guards"));
  filter_->setClearButtonEnabled(true);
  filter_->setAccessibleName(tr("Filter guards"));
  tree_ = new QTreeWidget(this);
  tree_->setHeaderLabels({tr("Captured again by a call with")});
  tree_->setAccessibleName(tr("Guards of the captured graph"));
  tree_->header()->setSectionResizeMode(0, QHeaderView::Stretch);
  auto* lines = new WrappedLines(tree_);
  tree_->setItemDelegate(lines);
  tree_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  tree_->setIndentation(12);
  new EmptyHint(tree_, tr("Guards are of graphs that torch.compile captured: open a .fx file of graft_fx.capture()."));
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(8, 8, 8, 8);
  column->addWidget(sentence_);
  column->addWidget(filter_);
  column->addWidget(tree_, 1);
  connect(filter_, &QLineEdit::textChanged, this, &GuardsPanel::applyFilter);
  connect(tree_->header(), &QHeaderView::sectionResized, lines, [lines] { Q_EMIT lines->sizeHintChanged({}); });
  connect(&capture_, &Capture::changed, this, &GuardsPanel::refresh);
  refresh();
}

void GuardsPanel::refresh() {
  const auto count = static_cast<qint64>(capture_.guards().size());
  sentence_->showText(count == 0 ? QString()
                                 : tr("%1 holds under %2. A call that breaks one is captured again.")
                                       .arg(document_.method(), counted(count, tr("guard"), tr("guards"))));
  tree_->clear();
  QTreeWidgetItem* group = nullptr;
  QString about;
  for (const GuardInfo& g : capture_.guards()) {
    if (!group || g.about != about) {
      about = g.about;
      group = new QTreeWidgetItem(tree_);
      group->setFlags(Qt::ItemIsEnabled);
    }
    auto* item = new QTreeWidgetItem(group, {g.brokenBy});
    item->setToolTip(0, g.brokenBy + QStringLiteral("\n\n") + g.text);
    item->setData(0, Qt::UserRole, g.text);
    group->setText(0, tr("%1 · %2").arg(groupTitle(about)).arg(group->childCount()));
    group->setExpanded(about == QLatin1String("arguments"));
  }
  applyFilter();
}

void GuardsPanel::applyFilter() {
  const QString wanted = filter_->text().trimmed();
  for (int i = 0; i < tree_->topLevelItemCount(); ++i) {
    QTreeWidgetItem* group = tree_->topLevelItem(i);
    bool any = false;
    for (int k = 0; k < group->childCount(); ++k) {
      QTreeWidgetItem* item = group->child(k);
      const bool fits = item->text(0).contains(wanted, Qt::CaseInsensitive) ||
                        item->data(0, Qt::UserRole).toString().contains(wanted, Qt::CaseInsensitive);
      item->setHidden(!fits);
      any |= fits;
    }
    group->setHidden(!any);
    if (!wanted.isEmpty()) group->setExpanded(any);
  }
}

PanelDescription guardsPanel() {
  PanelDescription d;
  d.name = QStringLiteral("guards");
  d.title = GuardsPanel::tr("&Guards");
  d.help = GuardsPanel::tr("Lists under which conditions a captured graph holds, and which call would break each");
  d.area = Qt::RightDockWidgetArea;
  d.arrangements = {Arrangement::Explore};
  d.isOnRequest = true;
  d.tabbedWith = QStringLiteral("inspector");
  d.make = [](PanelContext& context) { return new GuardsPanel(context); };
  return d;
}

}  // namespace graft
