#include "views/panels/captured/training_page.h"

#include <QFileDialog>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QMenu>
#include <QResizeEvent>
#include <QScrollArea>
#include <QTabBar>
#include <QToolButton>
#include <QVBoxLayout>

#include "views/widgets/empty_hint.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

constexpr int valueRole = Qt::UserRole, moduleRole = Qt::UserRole + 1, sortRole = Qt::UserRole + 2;

/// Numbers sort as numbers.
class Row : public QTreeWidgetItem {
 public:
  using QTreeWidgetItem::QTreeWidgetItem;
  bool operator<(const QTreeWidgetItem& other) const override {
    const int column = treeWidget() ? treeWidget()->sortColumn() : 0;
    const QVariant a = data(column, sortRole), b = other.data(column, sortRole);
    return a.isValid() && b.isValid() ? a.toDouble() < b.toDouble() : text(column) < other.text(column);
  }
};

void setNumber(QTreeWidgetItem* item, int column, double value, const QString& text) {
  item->setText(column, text);
  item->setData(column, sortRole, value);
  item->setTextAlignment(column, Qt::AlignRight | Qt::AlignVCenter);
}

}  // namespace

TrainingPage::TrainingPage(PanelContext& context, QWidget* parent)
    : QWidget(parent), context_(context), cut_(context.cut()) {
  view_ = new JointView(context.document(), cut_);
  parts_ = new QSplitter;
  parts_->setChildrenCollapsible(false);
  parts_->setHandleWidth(1);
  parts_->addWidget(view_);
  parts_->addWidget(makeSide());
  parts_->setStretchFactor(0, 3);
  parts_->setStretchFactor(1, 2);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(makeHead());
  column->addWidget(parts_, 1);
  connect(view_, &JointView::chosen, this, [this](const QString& key) {
    context_.document().setSelection(key.isEmpty() ? QStringList() : QStringList{key});
  });
  connect(memory_, &LiveMemoryPlot::chosen, this, [this](const QString& node) {
    const GraphRef g = context_.document().graph();
    const NodeId n = g ? g->findNode(node.toStdString()) : NodeId();
    if (n) view_->reveal(node, QString::fromStdString(std::string(g->scopeOf(n))));
    context_.document().setSelection({node});  // the drawing stands on its module where it has no row of its own
  });
  connect(&cut_, &TrainingCut::changed, this, &TrainingPage::refresh);
  connect(&cut_, &TrainingCut::failed, &context_, &PanelContext::failed);
  connect(&cut_, &TrainingCut::message, &context_.document(), &Document::message);
  connect(&context_, &PanelContext::themeChanged, this, &TrainingPage::refreshTheme);
  refreshTheme();
  refresh();
}

QWidget* TrainingPage::makeHead() {
  auto* head = new QWidget;
  auto* budget = new QLabel(tr("&Budget"));
  slider_ = new QSlider(Qt::Horizontal);
  slider_->setRange(0, 1000);
  slider_->setValue(1000);
  slider_->setMinimumWidth(90);
  slider_->setMaximumWidth(260);
  slider_->setAccessibleName(tr("Memory budget"));
  field_ = new QDoubleSpinBox;
  field_->setRange(0, 100);
  field_->setDecimals(1);
  field_->setSuffix(tr(" %"));
  field_->setValue(100);
  field_->setKeyboardTracking(false);
  field_->setAccessibleName(tr("Memory budget in percent"));
  budget->setBuddy(field_);
  const QString tip =
      tr("How much may be saved for the backward pass, as a share of what the default cut saves.\n"
         "The rest is computed again.");
  for (QWidget* w : std::initializer_list<QWidget*>{budget, slider_, field_}) w->setToolTip(tip);
  totals_ = new FixedHeightLabel(1);
  remark_ = new FixedHeightLabel(1);
  free_ = new QToolButton;
  free_->setProperty("outlined", true);
  free_->setText(tr("Pins"));
  free_->setPopupMode(QToolButton::InstantPopup);
  free_->setToolTip(tr("What you decided of the cut: open, save, take back"));
  auto* menu = new QMenu(free_);
  menu->addAction(tr("Open a cut's file…"), this, &TrainingPage::readWishes);
  menu->addAction(tr("Save as a file for graft partition…"), this, &TrainingPage::writeWishes);
  menu->addSeparator();
  QAction* none = menu->addAction(tr("Leave all to the cut"), this, [this] { cut_.unpinAll(); });
  connect(menu, &QMenu::aboutToShow, this, [this, none] { none->setEnabled(cut_.hasPins()); });
  free_->setMenu(menu);
  legend_ = new QLabel;
  legend_->setTextFormat(Qt::RichText);
  legend_->setWordWrap(true);
  QSizePolicy policy(QSizePolicy::Ignored, QSizePolicy::Minimum);
  policy.setHeightForWidth(true);
  legend_->setSizePolicy(policy);
  auto* controls = new QHBoxLayout;
  controls->setSpacing(8);
  for (QWidget* w : std::initializer_list<QWidget*>{budget, slider_, field_, free_}) controls->addWidget(w);
  controls->addStretch(1);
  first_ = new QBoxLayout(QBoxLayout::LeftToRight);
  first_->setSpacing(4);
  first_->addLayout(controls);
  first_->addWidget(totals_, 1);
  auto* column = new QVBoxLayout(head);
  column->setContentsMargins(12, 8, 12, 6);
  column->setSpacing(4);
  column->addLayout(first_);
  column->addWidget(remark_);
  column->addWidget(legend_);
  connect(slider_, &QSlider::valueChanged, this, [this](int v) {
    if (!filling_) cut_.setMemory(v / 1000.0);
  });
  connect(field_, &QDoubleSpinBox::valueChanged, this, [this](double v) {
    if (!filling_) cut_.setMemory(v / 100);
  });
  return head;
}

QTreeWidget* TrainingPage::makeTable(const QStringList& headings) {
  auto* table = new QTreeWidget;
  table->setHeaderLabels(headings);
  table->setRootIsDecorated(false);
  table->setUniformRowHeights(true);
  table->setSortingEnabled(true);
  table->sortByColumn(-1, Qt::AscendingOrder);
  table->setContextMenuPolicy(Qt::CustomContextMenu);
  table->header()->setStretchLastSection(true);
  connect(table, &QTreeWidget::currentItemChanged, this, [this](QTreeWidgetItem* item) {
    if (!filling_ && item) view_->reveal(item->data(0, valueRole).toString(), item->data(0, moduleRole).toString());
  });
  connect(table, &QTreeWidget::customContextMenuRequested, this,
          [this, table](const QPoint& at) { showTableMenu(table, at); });
  connect(table, &QTreeWidget::itemChanged, this, [this](QTreeWidgetItem* item, int column) {
    if (filling_ || column != 0) return;
    // Later: the answer fills the tables anew, and Qt still holds this item.
    const auto decide = [this, value = item->data(0, valueRole).toString(),
                         saves = item->checkState(0) == Qt::Checked] {
      if (saves)
        cut_.alwaysSave(value);
      else
        cut_.computeAgain(value);
    };
    QMetaObject::invokeMethod(this, decide, Qt::QueuedConnection);
  });
  return table;
}

QWidget* TrainingPage::makeSide() {
  saved_ = makeTable(
      {tr("Saved"), tr("Bytes"), tr("Again in"), tr("Why it is saved"), tr("Type"), tr("Made by"), tr("Module")});
  again_ = makeTable({tr("Computed again"), tr("Bytes"), tr("Time"), tr("Why"), tr("Operator"), tr("Module")});
  saved_->headerItem()->setToolTip(2,
                                   tr("The time that computing it again would take, its operands given; an estimate"));
  saved_->setAccessibleName(tr("Tensors that are saved"));
  again_->setAccessibleName(tr("Tensors that are computed again"));
  for (QTreeWidget* t : {saved_, again_}) {
    t->headerItem()->setToolTip(0, tr("A tick means saved: take it off, and the tensor is computed again"));
    new EmptyHint(t, t == saved_ ? tr("Nothing is saved for the backward pass.")
                                 : tr("Nothing is computed again. Lower the budget, or take off a tick under Saved."));
  }
  memory_ = new LiveMemoryPlot(cut_);
  budgets_ = new BudgetPlot(cut_);
  auto* charts = new QWidget;
  charts->installEventFilter(this);
  charts_ = new QBoxLayout(QBoxLayout::TopToBottom, charts);
  charts_->setContentsMargins(0, 6, 0, 6);
  charts_->addWidget(memory_, 1);
  charts_->addWidget(budgets_, 1);
  side_ = new QTabWidget;
  side_->setDocumentMode(true);
  side_->tabBar()->setAccessibleName(tr("Parts of the training step"));
  // In a low window there may be no room for even one of them.
  auto* scroll = new QScrollArea;
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setWidgetResizable(true);
  scroll->setWidget(charts);
  side_->addTab(scroll, tr("Memory"));
  side_->addTab(saved_, tr("Saved"));
  side_->addTab(again_, tr("Computed again"));
  return side_;
}

void TrainingPage::showTableMenu(QTreeWidget* table, const QPoint& at) {
  const QTreeWidgetItem* item =
      table->currentItem();  // a right click chooses its row; the menu key comes from anywhere
  if (!item) return;
  QMenu menu;
  view_->fillMenu(menu, view_->rows().find(item->data(0, valueRole).toString(), item->data(0, moduleRole).toString()));
  const QRect row = table->visualItemRect(item);
  menu.exec(table->viewport()->mapToGlobal(row.contains(at) ? at : row.bottomLeft()));
}

void TrainingPage::setShown(bool shown) {
  cut_.setActive(shown);
  if (shown) view_->setFocus();
}

void TrainingPage::resizeEvent(QResizeEvent* e) {
  QWidget::resizeEvent(e);
  // Beside each other where both have room to be read; else the tables and charts go below.
  constexpr int narrow = 860;
  constexpr int oneLine = 640;
  first_->setDirection(e->size().width() < oneLine ? QBoxLayout::TopToBottom : QBoxLayout::LeftToRight);
  const Qt::Orientation wanted = e->size().width() < narrow ? Qt::Vertical : Qt::Horizontal;
  if (parts_->orientation() == wanted) return;
  parts_->setOrientation(wanted);
  parts_->setSizes(wanted == Qt::Vertical ? QList<int>{3200, 2000} : QList<int>{3000, 2000});
}

/// The charts stand one above the other where both are then high enough, or else beside each other, but where that
/// would be too narrow for their axes.
bool TrainingPage::eventFilter(QObject* charts, QEvent* e) {
  constexpr int narrow = 420, high = 320;
  if (e->type() == QEvent::Resize) {
    const QSize size = static_cast<QResizeEvent*>(e)->size();
    charts_->setDirection(size.height() < high && size.width() >= narrow ? QBoxLayout::LeftToRight
                                                                         : QBoxLayout::TopToBottom);
  }
  return QWidget::eventFilter(charts, e);
}

void TrainingPage::refreshLegend() {
  QStringList parts;
  for (const Crossing c : {Crossing::Must, Crossing::Dear, Crossing::Cheap, Crossing::Asked, Crossing::Again})
    parts << QStringLiteral("<span style=\"color:%1\">%2</span>&nbsp;%3")
                 .arg(crossingColor(c).name(), c == Crossing::Again ? QStringLiteral("┄┄") : QStringLiteral("▬▬"),
                      crossingText(c).toHtmlEscaped().replace(QLatin1Char(' '), QStringLiteral("&nbsp;")));
  legend_->setText(parts.join(QStringLiteral(" &nbsp; ")));
}

void TrainingPage::refreshTheme() {
  refreshLegend();
  view_->viewport()->update();
}

void TrainingPage::refresh() {
  const CutReport& r = cut_.report();
  filling_ = true;
  if (!slider_->isSliderDown()) slider_->setValue(static_cast<int>(std::lround(1000 * cut_.memory())));
  if (!field_->hasFocus() || std::abs(field_->value() - 100 * cut_.memory()) > 0.05)
    field_->setValue(100 * cut_.memory());
  filling_ = false;
  if (r.isEmpty()) {
    totals_->showText(cut_.isBusy() ? tr("Cutting the training step …") : QString());
  } else {
    const double share =
        r.defaultBytes > 0 ? 100.0 * static_cast<double>(r.savedBytes) / static_cast<double>(r.defaultBytes) : 100;
    totals_->showText(tr("Saves %1 (%2 %); computes again in %3; peak %4")
                          .arg(bytesInWords(r.savedBytes))
                          .arg(share, 0, 'f', 0)
                          .arg(timeInWords(r.recomputedMicroseconds), bytesInWords(r.peak())));
    totals_->setToolTip(tr("The default cut saves %1; with nothing computed again it would be %2, at least %3.\n"
                           "Peak of activations, simulated: forward %4, backward %5.")
                            .arg(bytesInWords(r.defaultBytes), bytesInWords(r.nothingBytes), bytesInWords(r.leastBytes),
                                 bytesInWords(r.peakForward), bytesInWords(r.peakBackward)));
  }
  QStringList pins;
  if (!cut_.alwaysSaved().isEmpty()) pins << tr("Always saved: %1").arg(cut_.alwaysSaved().join(QStringLiteral(", ")));
  if (!cut_.computedAgain().isEmpty())
    pins << tr("Computed again: %1").arg(cut_.computedAgain().join(QStringLiteral(", ")));
  pins << r.notes;
  const bool isWrong = !cut_.error().isEmpty();
  remark_->showText(isWrong          ? tr("Not cut: %1").arg(cut_.error())
                    : pins.isEmpty() ? tr("Space or a double click moves a tensor across the cut.")
                                     : pins.join(QStringLiteral(" · ")));
  tint(*remark_, isWrong ? themePalette().wrong() : themePalette().dim);
  fillTables();
}

void TrainingPage::fillTables() {
  filling_ = true;
  const CutReport& r = cut_.report();
  for (QTreeWidget* table : {saved_, again_}) {
    table->setSortingEnabled(false);
    table->clear();
  }
  const auto add = [&](QTreeWidget* table, const QString& name, const QString& module, bool isSaved, bool canMove) {
    auto* item = new Row(table);
    item->setText(0, name);
    item->setData(0, valueRole, name);
    item->setData(0, moduleRole, module);
    item->setFlags(canMove ? item->flags() | Qt::ItemIsUserCheckable : item->flags() & ~Qt::ItemIsUserCheckable);
    item->setCheckState(0, isSaved ? Qt::Checked : Qt::Unchecked);
    if (!cut_.pinOf(name, module).isEmpty()) {
      QFont bold = item->font(0);
      bold.setBold(true);
      item->setFont(0, bold);
      item->setToolTip(0, tr("You decided so"));
    }
    return item;
  };
  for (const SavedTensorInfo& s : r.saved) {
    QTreeWidgetItem* item = add(saved_, s.name, s.module, true, s.kind != Crossing::Must);
    setNumber(item, 1, static_cast<double>(s.bytes), bytesInWords(s.bytes));
    setNumber(item, 2, s.microseconds, s.producer.isEmpty() ? QString() : timeInWords(s.microseconds));
    item->setText(3, s.reason);
    item->setToolTip(3, s.reason);
    item->setText(4, s.type.section(QLatin1Char('@'), 0, 0));
    item->setToolTip(4, s.type);
    item->setText(5, s.producer);
    item->setText(6, s.module);
  }
  for (const RecomputedInfo& n : r.recomputed) {
    if (n.bytes == 0) continue;
    QTreeWidgetItem* item = add(again_, n.name, n.module, false, true);
    setNumber(item, 1, static_cast<double>(n.bytes), bytesInWords(n.bytes));
    setNumber(item, 2, n.microseconds, timeInWords(n.microseconds));
    item->setText(3, n.reason);
    item->setText(4, n.op);
    item->setText(5, n.module);
  }
  for (QTreeWidget* table : {saved_, again_}) {
    table->setSortingEnabled(true);
    for (int c = 0; c < 3; ++c) table->resizeColumnToContents(c);
    table->setColumnWidth(3, 260);
  }
  side_->setTabText(1, r.isEmpty() ? tr("Saved") : tr("Saved %1").arg(saved_->topLevelItemCount()));
  side_->setTabText(2, r.isEmpty() ? tr("Computed again") : tr("Computed again %1").arg(again_->topLevelItemCount()));
  filling_ = false;
}

void TrainingPage::readWishes() {
  const QString path =
      QFileDialog::getOpenFileName(this, tr("Cut of a training step"), QFileInfo(context_.document().path()).path(),
                                   tr("Cuts (*.json);;All files (*)"));
  if (!path.isEmpty()) cut_.read(path);
}

void TrainingPage::writeWishes() {
  const QFileInfo model(context_.document().path());
  QString path = QFileDialog::getSaveFileName(
      this, tr("Save the cut for graft partition --cut"),
      model.dir().filePath(model.completeBaseName() + QStringLiteral(".cut.json")), tr("Cuts (*.json)"));
  if (path.isEmpty()) return;
  if (QFileInfo(path).suffix().isEmpty()) path += QStringLiteral(".json");
  cut_.write(path);
}

}  // namespace graft
