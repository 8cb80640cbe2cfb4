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
    if (!filling_ && item) Q_EMIT chosen(item->data(RuleName, Qt::UserRole).toString());
  });
  refresh();
}

void RuleList::refresh() {
  filling_ = true;
  const QHash<QString, double>& gains = document_.gains();
  std::vector<const RuleInfo*> rules;
  for (const RuleInfo& r : document_.rules()) rules.push_back(&r);
  std::stable_sort(rules.begin(), rules.end(), [&](const RuleInfo* a, const RuleInfo* b) {
    if (a->matches.size() != b->matches.size()) return a->matches.size() > b->matches.size();
    return gains.value(a->name, 0) > gains.value(b->name, 0);
  });
  clear();
  bool anyGain = false;
  for (const RuleInfo* r : rules) {
    const bool isKnown = r->matched || !r->matches.empty();
    const bool hasGain = gains.contains(r->name);
    anyGain |= hasGain;
    auto* item = new QTreeWidgetItem(this, {r->name, isKnown ? QString::number(r->matches.size()) : QString(),
                                            hasGain ? gainText(gains.value(r->name)) : QString()});
    item->setData(RuleName, Qt::UserRole, r->name);
    item->setToolTip(RuleName, r->description.isEmpty() ? r->name : r->name + QLatin1Char('\n') + r->description);
    for (const int column : {Matches, Gain}) item->setTextAlignment(column, Qt::AlignRight | Qt::AlignVCenter);
    if (isKnown && r->matches.empty())
      for (const int column : {RuleName, Matches}) item->setForeground(column, toQt(themePalette().faint()));
    if (r->name == document_.currentRule()) setCurrentItem(item);
  }
  setColumnHidden(Gain, !anyGain);
  filling_ = false;
  updateGeometry();
}

int RuleList::heightOf(int rows) const {
  const int row = topLevelItemCount() > 0 ? sizeHintForRow(0) : fontMetrics().height() + 8;
  return header()->sizeHint().height() + rows * row + 2 * frameWidth();
}

QSize RuleList::sizeHint() const { return {200, heightOf(std::clamp(topLevelItemCount(), fewest, most))}; }
QSize RuleList::minimumSizeHint() const { return {120, heightOf(fewest)}; }

}  // namespace graft
