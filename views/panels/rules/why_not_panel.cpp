#include "views/panels/rules/why_not_panel.h"

#include <QHBoxLayout>
#include <QRegularExpression>
#include <QStyle>
#include <QVBoxLayout>
#include <algorithm>
#include <tuple>

#include "views/widgets/theme.h"

namespace graft {
namespace {

/// Places with one reason, the nearest to a match first: more of the pattern, then what an edit would mend, then what
/// is so in more places.
std::vector<std::vector<NearMissInfo>> byReason(const std::vector<NearMissInfo>& misses) {
  std::vector<std::vector<NearMissInfo>> out;
  for (const NearMissInfo& miss : misses) {
    const auto same = std::find_if(out.begin(), out.end(), [&](const auto& group) {
      const NearMissInfo& first = group.front();
      return first.matched == miss.matched && first.patternNode == miss.patternNode && first.message == miss.message &&
             first.suggestion == miss.suggestion;
    });
    if (same == out.end())
      out.push_back({miss});
    else
      same->push_back(miss);
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    const auto rank = [](const auto& group) {
      return std::tuple(-group.front().matched, group.front().edits.isEmpty(), -static_cast<int>(group.size()));
    };
    return rank(a) < rank(b);
  });
  return out;
}

}  // namespace

WhyNotPanel::WhyNotPanel(Document& document, QWidget* parent) : QWidget(parent), document_(document) {
  head_ = new QLabel(this);
  head_->setWordWrap(true);
  head_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);  // long names widen nothing
  ask_ = new QPushButton(tr("Explain"), this);
  ask_->setToolTip(tr("List the places where the current rule almost matches"));
  list_ = new QListWidget(this);
  list_->setAccessibleName(tr("Places where the rule almost matches"));
  list_->setSelectionMode(QAbstractItemView::NoSelection);
  list_->setVerticalScrollMode(QAbstractItemView::ScrollPerPixel);
  auto* top = new QHBoxLayout;
  top->addWidget(head_, 1);
  top->addWidget(ask_);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(8, 8, 8, 8);
  column->addLayout(top);
  column->addWidget(list_, 1);
  connect(ask_, &QPushButton::clicked, this, [this] { document_.explain(document_.currentRule()); });
  for (auto signal :
       {&Document::nearMissesChanged, &Document::matchesChanged, &Document::currentRuleChanged, &Document::opened})
    connect(&document_, signal, this, &WhyNotPanel::refresh);
  refresh();
}

void WhyNotPanel::refresh() {
  const RuleInfo* rule = document_.rule(document_.currentRule());
  const bool isWrong = document_.ruleError().any();
  ask_->setEnabled(rule && document_.isOpen() && !isWrong);
  list_->setEnabled(!isWrong);
  if (rule && isWrong)  // what the last good text missed stays, greyed
    return head_->setText(
        tr("The rules have a mistake. Once it is corrected, this lists again where %1 almost matches.")
            .arg(rule->name));
  list_->clear();
  if (!rule) {
    head_->setText(tr("This lists the places where a rule almost matches, the nearest first."));
    return;
  }
  const bool mine = document_.nearMissesOf() == rule->name;
  if (!mine)
    head_->setText(rule->matches.empty() ? tr("Explain shows where %1 almost matches.").arg(rule->name)
                                         : tr("%1 matches in %2. Explain also shows where it almost matches.")
                                               .arg(rule->name, counted(static_cast<qint64>(rule->matches.size()),
                                                                        tr("place"), tr("places"))));
  else if (document_.nearMisses().empty())
    head_->setText(tr("%1 almost matches nowhere.").arg(rule->name));
  else
    head_->setText(
        tr("%1 almost matches in %2.")
            .arg(rule->name, counted(static_cast<qint64>(document_.nearMisses().size()), tr("place"), tr("places"))));
  if (!mine) return;
  for (const std::vector<NearMissInfo>& places : byReason(document_.nearMisses())) {
    auto* item = new QListWidgetItem(list_);
    QWidget* widget = row(places);
    // The scroll bar may come: the text is measured for the narrower list.
    const int width = std::max(200, list_->width() - style()->pixelMetric(QStyle::PM_ScrollBarExtent) - 4);
    item->setSizeHint(QSize(0, widget->layout()->heightForWidth(width) + 6));
    list_->setItemWidget(item, widget);
  }
}

QWidget* WhyNotPanel::row(const std::vector<NearMissInfo>& places) {
  const NearMissInfo& miss = places.front();
  auto* widget = new QWidget;
  const Palette& p = themePalette();
  QString text =
      tr("<b>%1 of %2</b> nodes%3<br>%4")
          .arg(miss.matched)
          .arg(miss.total)
          .arg(miss.scope.isEmpty()
                   ? QString()
                   : tr(" in <span style=\"color:%1\">%2</span>").arg(css(p.dim), miss.scope.toHtmlEscaped()))
          .arg(tr("stopped at <code>%1</code>: %2").arg(miss.at.toHtmlEscaped(), miss.message.toHtmlEscaped()));
  if (places.size() > 1)
    text +=
        QStringLiteral("<br>") +
        tr("and so in %1").arg(counted(static_cast<qint64>(places.size()) - 1, tr("place more"), tr("places more")));
  if (!miss.suggestion.isEmpty()) {
    static const QRegularExpression quoted(QStringLiteral("`([^`]*)`"));
    text += QStringLiteral("<br><i>%1</i>")
                .arg(miss.suggestion.toHtmlEscaped().replace(quoted, QStringLiteral("<code>\\1</code>")));
  }
  auto* label = new QLabel(text, widget);
  label->setWordWrap(true);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  auto* there = new QPushButton(tr("Go there"), widget);
  there->setEnabled(!miss.at.isEmpty());
  if (places.size() > 1) there->setToolTip(tr("Pressed again, it goes to the next of these places"));
  connect(there, &QPushButton::clicked, this,
          [this, places, next = size_t{0}]() mutable { Q_EMIT goThere(places[next++ % places.size()]); });
  auto* buttons = new QHBoxLayout;
  buttons->addWidget(there);
  if (!miss.edits.isEmpty()) {
    auto* change = new QPushButton(tr("Fix the rule"), widget);
    change->setObjectName(QStringLiteral("change"));
    QStringList told;
    for (const RuleEdit& e : miss.edits)
      told << (e.before.isEmpty() ? tr("Line %1: insert %2").arg(e.line).arg(e.after)
                                  : tr("Line %1: %2 becomes %3").arg(e.line).arg(e.before, e.after));
    told << tr("Then the rule matches here. Ctrl+Z in the editor undoes it");
    change->setToolTip(told.join(QLatin1Char('\n')));
    connect(change, &QPushButton::clicked, this, [this, miss] { Q_EMIT suggested(miss); });
    buttons->addWidget(change);
  }
  buttons->addStretch();
  auto* column = new QVBoxLayout(widget);
  column->setContentsMargins(4, 8, 4, 8);
  column->setSpacing(6);
  column->addWidget(label);
  column->addLayout(buttons);
  return widget;
}

}  // namespace graft
