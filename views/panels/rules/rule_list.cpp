#include "views/panels/rules/rule_list.h"

#include <QHeaderView>
#include <algorithm>

#include "views/widgets/empty_hint.h"
#include "views/widgets/qt_color.h"

namespace graft {
namespace {

enum RuleColumn { RuleName, Matches, Gain };
constexpr int fewest = 3, most = 5;  // rows that show at once

/// "+12 %": so much faster is the model with the rule than without it.
QString gainText(double ratio) {
  const double percent = (ratio - 1) * 100;
  return RuleList::tr("%1%2 %")
      .arg(percent < 0 ? QStringLiteral("−") : QStringLiteral("+"))
      .arg(std::abs(percent), 0, 'f', 0);
}

}  // namespace

RuleList::RuleList(Document& document, QWidget* parent) : QTreeWidget(parent), document_(document) {
  setObjectName(QStringLiteral("ruleList"));
  setAccessibleName(tr("Rules"));
  setHeaderLabels({tr("Rule"), tr("Matches"), tr("Gain")});
  setRootIsDecorated(false);
  setUniformRowHeights(true);
  setToolTip(tr("The rule whose matches are shown below; the ones that match most come first"));
  headerItem()->setToolTip(Gain,
                           tr("How much faster the model is with the rule than without it, as Optimize measured"));
  header()->setStretchLastSection(false);
  header()->setSectionResizeMode(RuleName, QHeaderView::Stretch);
  for (const int column : {Matches, Gain}) {
    header()->setSectionResizeMode(column, QHeaderView::ResizeToContents);
    headerItem()->setTextAlignment(column, Qt::AlignRight | Qt::AlignVCenter);
  }
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Maximum);
  new EmptyHint(this, tr("The rules of the text above are listed here."));
  connect(this, &QTreeWidget::currentItemChanged, this, [this](QTreeWidgetItem* item) {
    if (filling_ || !item) return;
    isChoosing_ = true;
    Q_EMIT chosen(nameOf(*item));
    isChoosing_ = false;
  });
  refresh();
}

QString RuleList::nameOf(const QTreeWidgetItem& item) { return item.data(RuleName, Qt::UserRole).toString(); }

/// While one chooses, each rule keeps its row: what is pressed stays under the pointer.
std::vector<const RuleInfo*> RuleList::rulesInOrder() const {
  const QHash<QString, double>& gains = document_.gains();
  std::vector<const RuleInfo*> rules;
  for (const RuleInfo& r : document_.rules()) rules.push_back(&r);
  std::stable_sort(rules.begin(), rules.end(), [&](const RuleInfo* a, const RuleInfo* b) {
    if (a->matches.size() != b->matches.size()) return a->matches.size() > b->matches.size();
    return gains.value(a->name, 0) > gains.value(b->name, 0);
  });
  if (!isChoosing_) return rules;
  QHash<QString, int> rows;
  for (int i = 0; i < topLevelItemCount(); ++i) rows.insert(nameOf(*topLevelItem(i)), i);
  const int last = topLevelItemCount();
  std::stable_sort(rules.begin(), rules.end(), [&](const RuleInfo* a, const RuleInfo* b) {
    return rows.value(a->name, last) < rows.value(b->name, last);
  });
  return rules;
}

/// Rows are filled anew, never made anew: Qt selects the row that was pressed after it told that it is the current one.
void RuleList::refresh() {
  filling_ = true;
  const auto rules = rulesInOrder();
  const auto count = static_cast<int>(rules.size());
  while (topLevelItemCount() > count) delete takeTopLevelItem(count);
  while (topLevelItemCount() < count) new QTreeWidgetItem(this);
  QTreeWidgetItem* current = nullptr;
  bool anyGain = false;
  for (int i = 0; i < count; ++i) {
    const RuleInfo& rule = *rules[static_cast<size_t>(i)];
    fill(*topLevelItem(i), rule);
    anyGain |= document_.gains().contains(rule.name);
    if (rule.name == document_.currentRule()) current = topLevelItem(i);
  }
  setCurrentItem(current);
  setColumnHidden(Gain, !anyGain);
  filling_ = false;
  updateGeometry();
  if (!isChoosing_) showCurrent();
}

void RuleList::fill(QTreeWidgetItem& item, const RuleInfo& rule) const {
  const QHash<QString, double>& gains = document_.gains();
  const bool isKnown = rule.matched || !rule.matches.empty();
  const bool isFaint = isKnown && rule.matches.empty();
  item.setText(RuleName, rule.name);
  item.setText(Matches, isKnown ? QString::number(rule.matches.size()) : QString());
  item.setText(Gain, gains.contains(rule.name) ? gainText(gains.value(rule.name)) : QString());
  item.setData(RuleName, Qt::UserRole, rule.name);
  item.setToolTip(RuleName, rule.description.isEmpty() ? rule.name : rule.name + QLatin1Char('\n') + rule.description);
  for (const int column : {Matches, Gain}) item.setTextAlignment(column, Qt::AlignRight | Qt::AlignVCenter);
  for (const int column : {RuleName, Matches})
    item.setForeground(column, isFaint ? QBrush(toQt(themePalette().faint())) : QBrush());
}

void RuleList::showCurrent() {
  if (currentItem()) scrollToItem(currentItem());
}

void RuleList::resizeEvent(QResizeEvent* e) {
  QTreeWidget::resizeEvent(e);
  showCurrent();
}

int RuleList::heightOf(int rows) const {
  const int row = topLevelItemCount() > 0 ? sizeHintForRow(0) : fontMetrics().height() + 8;
  return header()->sizeHint().height() + rows * row + 2 * frameWidth();
}

QSize RuleList::sizeHint() const { return {200, heightOf(std::clamp(topLevelItemCount(), fewest, most))}; }
QSize RuleList::minimumSizeHint() const { return {120, heightOf(fewest)}; }

}  // namespace graft
