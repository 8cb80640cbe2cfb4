#include "views/panels/run/side_by_side_panel.h"

#include <QDoubleSpinBox>
#include <QFileDialog>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QMenu>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "views/document/model_files.h"
#include "views/document/run_figures.h"
#include "views/widgets/empty_hint.h"
#include "views/widgets/file_drop.h"
#include "views/widgets/theme.h"

namespace graft {

SideBySidePanel::SideBySidePanel(PanelContext& context, QWidget* parent)
    : QWidget(parent), context_(context), list_(context.document(), context.engine()) {
  table_ = new QTableWidget(0, columns, this);
  table_->setHorizontalHeaderLabels({tr("Model"), tr("Nodes"), tr("Operators"), tr("Time"), tr("10 to 90 %"),
                                     tr("Speed"), tr("Max abs"), tr("Outputs")});
  for (int c = 0; c < columns; ++c)  // as what stands below it
    table_->horizontalHeaderItem(c)->setTextAlignment((c == Name || c == Verdict ? Qt::AlignLeft : Qt::AlignRight) |
                                                      Qt::AlignVCenter);
  table_->horizontalHeaderItem(Operators)->setToolTip(
      tr("Nodes that compute something in a run: views do not. Compile shows how many kernels they become"));
  table_->horizontalHeaderItem(Speed)->setToolTip(tr("How many times as fast as the first row"));
  table_->horizontalHeaderItem(Error)->setToolTip(tr("The largest difference of an output from the first row's"));
  table_->horizontalHeader()->setHighlightSections(false);
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setSelectionMode(QAbstractItemView::ExtendedSelection);
  table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  table_->setAlternatingRowColors(true);
  table_->setShowGrid(false);
  table_->verticalHeader()->hide();
  table_->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  table_->horizontalHeader()->setSectionResizeMode(Name, QHeaderView::Interactive);
  table_->setColumnWidth(Name, 240);
  table_->horizontalHeader()->setStretchLastSection(true);
  table_->setAccessibleName(tr("Models side by side"));
  new EmptyHint(table_,
                tr("Add two or more: the model as opened, steps of the history, other files. Files can be dropped "
                   "here. All are run on the same inputs and compared with the first."));
  table_->setAcceptDrops(true);
  new FileDrop(table_->viewport(), [this](const QString& path) { list_.addFile(path); });
  sentence_ = new FixedHeightLabel(1, this);
  adding_ = new QMenu(this);
  const auto button = [this](const QString& text, const QString& tip) {
    auto* b = new QToolButton(this);
    b->setProperty("outlined", true);
    b->setText(text);
    b->setToolTip(tip);
    return b;
  };
  QToolButton* add = button(tr("Add"), tr("Add a step of the history or a file"));
  add->setMenu(adding_);
  add->setPopupMode(QToolButton::InstantPopup);
  connect(adding_, &QMenu::aboutToShow, this, &SideBySidePanel::fillAddMenu);
  remove_ = button(tr("Remove"), tr("Take the selected rows out of the table"));
  first_ = button(tr("Compare with this"), tr("The selected row comes first: the others are compared with it"));
  drawings_ = button(tr("Open drawings"), tr("Draw the two selected rows beside each other"));
  run_ = button(tr("Run all"), tr("Runs all in turn on the same inputs: times, and differences from the first"));
  seconds_ = new QDoubleSpinBox(this);
  seconds_->setRange(0.1, 600);
  seconds_->setValue(3);
  seconds_->setSuffix(tr(" s"));
  seconds_->setAccessibleName(tr("Seconds of timing"));
  seconds_->setToolTip(tr("How long to time all of them together"));
  auto* bar = new QHBoxLayout;
  for (QWidget* w : std::initializer_list<QWidget*>{add, remove_, first_, drawings_}) bar->addWidget(w);
  bar->addStretch(1);
  bar->addWidget(seconds_);
  bar->addWidget(run_);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(8, 8, 8, 8);
  column->addLayout(bar);
  column->addWidget(table_, 1);
  column->addWidget(sentence_);
  connect(remove_, &QToolButton::clicked, this, [this] {
    QList<int> rows = selectedRows();
    std::sort(rows.begin(), rows.end(), std::greater<>());
    for (const int row : rows) list_.remove(row);
  });
  connect(first_, &QToolButton::clicked, this, [this] { list_.makeFirst(selectedRows().value(0, -1)); });
  connect(drawings_, &QToolButton::clicked, this, &SideBySidePanel::openDrawings);
  connect(run_, &QToolButton::clicked, this, &SideBySidePanel::runOrStop);
  connect(table_, &QTableWidget::itemSelectionChanged, this, &SideBySidePanel::refreshActions);
  connect(&list_, &SideBySideList::changed, this, &SideBySidePanel::refresh);
  connect(&list_, &SideBySideList::failed, &context_, &PanelContext::failed);
  refresh();
}

void SideBySidePanel::fillAddMenu() {
  adding_->clear();
  const Document& document = context_.document();
  const std::vector<StepInfo>& steps = document.steps();
  for (int i = 0; i < static_cast<int>(steps.size()); ++i) {
    const QString text =
        i == 0 ? tr("The model as opened") : tr("Step %1: %2").arg(i).arg(steps[static_cast<size_t>(i)].label);
    adding_->addAction(text, this, [this, i] { list_.addStep(i); });
  }
  if (document.isOpen() && document.subStep() >= 0)
    adding_->addAction(tr("What is shown, inside step %1").arg(document.position()), this,
                       [this] { list_.addStep(context_.document().position(), context_.document().subStep()); });
  if (steps.size() > 1) adding_->addAction(tr("All steps"), this, &SideBySidePanel::addAllSteps);
  adding_->addSeparator();
  for (const QString& graph : document.capturedGraphs())
    if (graph != document.method())
      adding_->addAction(tr("Graph %1 of this capture").arg(graph), this,
                         [this, graph] { list_.addFile(context_.document().path(), graph); });
  adding_->addAction(tr("File…"), this, &SideBySidePanel::chooseFile);
}

void SideBySidePanel::addAllSteps() {
  for (int i = 0; i < static_cast<int>(context_.document().steps().size()); ++i) list_.addStep(i);
}

void SideBySidePanel::chooseFile() {
  const QStringList paths =
      QFileDialog::getOpenFileNames(this, tr("Add models"), QFileInfo(context_.document().path()).path(), openFilter());
  for (const QString& path : paths) list_.addFile(path);
}

QList<int> SideBySidePanel::selectedRows() const {
  QList<int> out;
  for (const QModelIndex& i : table_->selectionModel()->selectedRows()) out << i.row();
  std::sort(out.begin(), out.end());
  return out;
}

void SideBySidePanel::runOrStop() {
  if (list_.isRunning())
    list_.stop();
  else
    list_.run(seconds_->value());
}

void SideBySidePanel::openDrawings() {
  const QList<int> rows = selectedRows();
  if (rows.size() != 2) return;
  const SideBySideEntry &a = list_.entries()[static_cast<size_t>(rows[0])],
                        &b = list_.entries()[static_cast<size_t>(rows[1])];
  if (a.graph && b.graph) Q_EMIT pairAsked(a.graph, b.graph, a.name, b.name);
}

void SideBySidePanel::refreshActions() {
  const QList<int> rows = selectedRows();
  const auto& entries = list_.entries();
  remove_->setEnabled(!rows.isEmpty() && !list_.isRunning());
  first_->setEnabled(rows.size() == 1 && rows[0] > 0 && !list_.isRunning());
  drawings_->setEnabled(rows.size() == 2 && entries[static_cast<size_t>(rows[0])].graph &&
                        entries[static_cast<size_t>(rows[1])].graph);
  run_->setText(list_.isRunning() ? tr("Stop") : tr("Run all"));
  run_->setEnabled(list_.isRunning() || list_.canRun());
}

void SideBySidePanel::refresh() {
  const QList<int> before = selectedRows();
  table_->setRowCount(static_cast<int>(list_.entries().size()));
  for (int row = 0; row < table_->rowCount(); ++row) refreshRow(row);
  table_->clearSelection();
  for (const int row : before)
    if (row < table_->rowCount())
      for (int c = 0; c < columns; ++c) table_->item(row, c)->setSelected(true);
  const QString protocol = list_.protocol();
  sentence_->showText(!list_.error().isEmpty()      ? tr("Not run: %1").arg(list_.error())
                      : list_.isRunning()           ? tr("Running all in turn …")
                      : !protocol.isEmpty()         ? protocol
                      : list_.entries().size() == 1 ? tr("Add one more to compare with")
                                                    : QString());
  refreshActions();
}

void SideBySidePanel::refreshRow(int row) {
  const SideBySideEntry& e = list_.entries()[static_cast<size_t>(row)];
  const auto set = [&](Column column, const QString& text, const QString& tip = {}) {
    QTableWidgetItem* item = table_->item(row, column);
    if (!item) table_->setItem(row, column, item = new QTableWidgetItem);
    item->setText(text);
    item->setToolTip(tip);
    const bool isNumber = column != Name && column != Verdict;
    item->setTextAlignment((isNumber ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
    item->setForeground(palette().color(QPalette::Text));
    return item;
  };
  set(Name, e.name, e.path);
  set(Nodes, e.graph ? QString::number(e.nodes) : QString());
  set(Operators, e.wasRun ? QString::number(e.operators) : QString());
  set(Time, e.wasRun ? ms(e.medianMs) : QString());
  set(Spread, e.wasRun ? QStringLiteral("%1 – %2").arg(ms(e.p10Ms), ms(e.p90Ms)) : QString());
  const bool isFirst = row == 0;
  set(Speed, e.wasRun && !isFirst ? timesText(e.ratio, e.range) : QString(),
      tr("%1 to %2 times as fast, as far as these runs can tell")
          .arg(e.range.low, 0, 'f', 2)
          .arg(e.range.high, 0, 'f', 2));
  set(Error, e.wasRun && !isFirst ? small(e.maxAbs) : QString());
  QTableWidgetItem* verdict = set(Verdict,
                                  !e.obstacle.isEmpty() ? tr("not run: %1").arg(e.obstacle)
                                  : !e.graph            ? tr("being read …")
                                  : isFirst             ? tr("reference for the others")
                                  : !e.wasRun           ? QString()
                                  : e.passed            ? tr("agree")
                                                        : tr("differ: %1").arg(e.why),
                                  e.obstacle.isEmpty() ? e.why : e.obstacle);
  const bool isWrong = !e.obstacle.isEmpty() || (e.wasRun && !e.passed);
  if (isWrong) verdict->setForeground(QColor(css(themePalette().wrong())));
}

PanelDescription sideBySidePanel() {
  PanelDescription d;
  d.name = QStringLiteral("sideBySide");
  d.title = SideBySidePanel::tr("Side by side");
  d.help = SideBySidePanel::tr("Runs several models or steps on the same inputs: nodes, operators, times, differences");
  d.area = Qt::BottomDockWidgetArea;
  d.arrangements = {Arrangement::Measure};
  d.isOnRequest = true;
  d.tabbedWith = QStringLiteral("run");
  d.make = [](PanelContext& context) { return new SideBySidePanel(context); };
  return d;
}

}  // namespace graft
