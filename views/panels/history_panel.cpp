#include "views/panels/history_panel.h"

#include <QEvent>
#include <QHeaderView>
#include <QSettings>
#include <QVBoxLayout>
#include <algorithm>

#include "views/canvas/canvas_scene.h"
#include "views/widgets/qt_color.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

constexpr int stepRole = Qt::UserRole, subStepRole = Qt::UserRole + 1;
const QString hideSetting = QStringLiteral("hideIdleSteps");
enum Column { Name, Applied, Time };

/// "0.4 ms", "35 ms", "1.2 s".
QString duration(double ms) {
  if (ms >= 1000) return HistoryPanel::tr("%1 s").arg(ms / 1000, 0, 'f', 1);
  return HistoryPanel::tr("%1 ms").arg(ms, 0, 'f', ms < 10 ? 1 : 0);
}

/// What became of rewrites that did not stay.
QString outcomes(const QList<RolledBackInfo>& rolledBack, const QStringList& refused) {
  QStringList told;
  for (const RolledBackInfo& r : rolledBack) told << HistoryPanel::tr("Taken back: %1").arg(r.text);
  for (const QString& r : refused) told << HistoryPanel::tr("Refused: %1").arg(r);
  return told.join(QLatin1Char('\n'));
}

/// "12 of 13": rewrites that were refused or taken back count as matches only.
void fillNumbers(QTreeWidgetItem* item, qsizetype applied, qsizetype matches, double ms) {
  item->setText(Applied, HistoryPanel::tr("%1 of %2").arg(applied).arg(matches));
  item->setText(Time, duration(ms));
  for (const int column : {Applied, Time}) item->setTextAlignment(column, Qt::AlignRight | Qt::AlignVCenter);
}

/// Also where the column of times has no room.
QString took(double ms) { return HistoryPanel::tr("Took %1").arg(duration(ms)); }

/// In front: a narrow panel cuts off the end of a long line.
void warn(QTreeWidgetItem* item) { item->setIcon(Name, icon(QStringLiteral("warning"))); }

}  // namespace

HistoryPanel::HistoryPanel(Document& document, QWidget* parent) : QWidget(parent), document_(document) {
  tree_ = new QTreeWidget(this);
  tree_->setAccessibleName(tr("Steps"));
  tree_->setHeaderLabels({tr("Step"), tr("Applied"), tr("Time")});
  tree_->setUniformRowHeights(true);
  tree_->setTextElideMode(Qt::ElideMiddle);  // the end says what became of it
  tree_->setIndentation(14);
  tree_->header()->setStretchLastSection(false);
  tree_->header()->setSectionResizeMode(Name, QHeaderView::Stretch);
  for (const int column : {Applied, Time}) {
    tree_->header()->setSectionResizeMode(column, QHeaderView::ResizeToContents);
    tree_->headerItem()->setTextAlignment(column, Qt::AlignRight | Qt::AlignVCenter);
  }
  tree_->headerItem()->setToolTip(Applied, tr("Rewrites that stayed, of all places that matched"));
  tree_->headerItem()->setToolTip(Time, tr("The time to search, rewrite and verify"));
  hide_ = new QCheckBox(tr("Hide steps without changes"), this);
  hide_->setChecked(QSettings().value(hideSetting, true).toBool());
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(8, 8, 8, 8);
  column->addWidget(tree_, 1);
  column->addWidget(hide_);
  tree_->viewport()->installEventFilter(this);
  connect(hide_, &QCheckBox::toggled, this, [this](bool on) {
    QSettings().setValue(hideSetting, on);
    refresh();
  });
  connect(tree_, &QTreeWidget::currentItemChanged, this, &HistoryPanel::go);
  connect(tree_, &QTreeWidget::itemCollapsed, this,
          [this](QTreeWidgetItem* item) { closed_.insert(item->data(Name, stepRole).toInt()); });
  connect(tree_, &QTreeWidget::itemExpanded, this,
          [this](QTreeWidgetItem* item) { closed_.remove(item->data(Name, stepRole).toInt()); });
  connect(&document_, &Document::opened, this, [this] { closed_.clear(); });
  connect(&document_, &Document::stepsChanged, this, &HistoryPanel::refresh, Qt::QueuedConnection);
}

void HistoryPanel::go(QTreeWidgetItem* item) {
  if (filling_ || !item) return;
  document_.showStep(item->data(Name, stepRole).toInt(), item->data(Name, subStepRole).toInt());
}

QTreeWidgetItem* HistoryPanel::addStep(int step) {
  const auto i = static_cast<size_t>(step);
  const std::vector<StepInfo>& steps = document_.steps();
  const StepInfo& s = steps[i];
  const size_t nodes = s.graph->nodeCount();
  QString text =
      step == 0 ? tr("Opened · %1").arg(counted(static_cast<qint64>(nodes), tr("node"), tr("nodes"))) : s.label;
  // Counts that are the same say nothing, where something else does.
  const bool isSame = step == 0 || (nodes == steps[i - 1].graph->nodeCount() && !s.rolledBack.isEmpty());
  if (!isSame) text += tr(" · %1 → %2").arg(steps[i - 1].graph->nodeCount()).arg(nodes);
  if (!s.rolledBack.isEmpty()) text += tr(" · %1 taken back").arg(s.rolledBack.size());
  const bool isUnverified = s.isUnverified();
  if (isUnverified) text += tr(" · not verified");
  auto* item = new QTreeWidgetItem(tree_, {text});
  if (isUnverified || s.isOther || !s.rolledBack.isEmpty()) warn(item);
  item->setData(Name, stepRole, step);
  item->setData(Name, subStepRole, -1);
  if (step == 0) {
    item->setFirstColumnSpanned(true);
    return item;
  }
  const auto applied = static_cast<qsizetype>(s.records.size());
  fillNumbers(item, applied, applied + s.refused.size() + s.rolledBack.size(), s.milliseconds);
  QStringList told{text};
  if (const QString lines = outcomes(s.rolledBack, s.refused); !lines.isEmpty()) told << lines;
  if (!s.verification.isEmpty()) told << s.verification.left(1).toUpper() + s.verification.mid(1);
  if (s.isOther) told << tr("Done again, it gives another model than in the last window");
  told << took(s.milliseconds);
  item->setToolTip(Name, told.join(QLatin1Char('\n')));
  return item;
}

void HistoryPanel::addSubSteps(QTreeWidgetItem* recipe, int step) {
  const std::vector<SubStepInfo>& subSteps = document_.steps()[static_cast<size_t>(step)].subSteps;
  const QColor dim = toQt(themePalette().dim), later = toQt(themePalette().faint());
  const bool isHere = step == document_.position();
  for (size_t i = 0; i < subSteps.size(); ++i) {
    const SubStepInfo& p = subSteps[i];
    const int subStep = static_cast<int>(i) + 1;
    if (p.records.empty() && hide_->isChecked() && !(isHere && document_.subStep() == subStep)) continue;
    QString text = p.name;
    if (!p.rolledBack.isEmpty()) text += tr(" · %1 taken back").arg(p.rolledBack.size());
    auto* item = new QTreeWidgetItem(recipe, {text});
    if (!p.rolledBack.isEmpty()) warn(item);
    item->setData(Name, stepRole, step);
    item->setData(Name, subStepRole, subStep);
    fillNumbers(item, static_cast<qsizetype>(p.records.size()), p.matches(), p.milliseconds);
    QStringList told{p.isRule ? text : tr("%1, a pass").arg(text)};
    if (const QString lines = outcomes(p.rolledBack, p.refused); !lines.isEmpty()) told << lines;
    told << took(p.milliseconds) << tr("Click to see the model after this step of the recipe");
    item->setToolTip(Name, told.join(QLatin1Char('\n')));
    const bool isLater =
        step > document_.position() || (isHere && document_.subStep() >= 0 && subStep > document_.subStep());
    for (const int column : {Name, Applied, Time})
      if (isLater || p.records.empty()) item->setForeground(column, isLater ? later : dim);
    if (isHere && document_.subStep() == subStep) tree_->setCurrentItem(item);
  }
}

void HistoryPanel::refresh() {
  filling_ = true;
  tree_->clear();
  const std::vector<StepInfo>& steps = document_.steps();
  for (int i = 0; i < static_cast<int>(steps.size()); ++i) {
    const StepInfo& s = steps[static_cast<size_t>(i)];
    if (i > 0 && s.records.empty() && hide_->isChecked() && i != document_.position()) continue;
    QTreeWidgetItem* item = addStep(i);
    if (i > document_.position())
      for (const int column : {Name, Applied, Time}) item->setForeground(column, toQt(themePalette().faint()));
    if (i == document_.position() && document_.subStep() < 0) tree_->setCurrentItem(item);
    if (s.subSteps.empty()) continue;
    addSubSteps(item, i);
    item->setExpanded(!closed_.contains(i));
  }
  filling_ = false;
  fitTimes();
}

/// What a step did has the room first, then how long it took.
void HistoryPanel::fitTimes() {
  const QHeaderView& header = *tree_->header();
  const QAbstractItemView& rows = *tree_;
  const auto wide = [&](int column) {
    return std::max(rows.sizeHintForColumn(column), header.sectionSizeHint(column));
  };
  const int wanted = wide(Name) + wide(Applied) + wide(Time);
  tree_->setColumnHidden(Time, wanted > tree_->viewport()->width());
}

bool HistoryPanel::eventFilter(QObject* watched, QEvent* e) {
  if (watched == tree_->viewport() && e->type() == QEvent::Resize) fitTimes();
  return QWidget::eventFilter(watched, e);
}

PanelDescription historyPanel() {
  PanelDescription d;
  d.name = QStringLiteral("history");
  d.title = HistoryPanel::tr("History");
  d.help = HistoryPanel::tr("Lists the steps from the model as opened; a click on one goes there");
  d.area = Qt::RightDockWidgetArea;
  d.arrangements = {Arrangement::Rewrite};
  d.size = {0, 280};
  d.make = [](PanelContext& context) {
    auto* history = new HistoryPanel(context.document());
    QObject::connect(&context, &PanelContext::themeChanged, history, &HistoryPanel::refreshTheme);
    return history;
  };
  return d;
}

}  // namespace graft
