#include "views/lists.h"

#include <QHBoxLayout>
#include <QRegularExpression>
#include <QStyle>
#include <QVBoxLayout>

#include "views/theme.h"

namespace graft {

WhyNotPanel::WhyNotPanel(Document& document, QWidget* parent) : QWidget(parent), document_(document) {
  head_ = new QLabel(this);
  head_->setWordWrap(true);
  ask_ = new QPushButton(tr("Explain"), this);
  ask_->setToolTip(tr("Rank the places where the current rule almost matches"));
  list_ = new QListWidget(this);
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
  for (auto signal : {&Document::nearMissesChanged, &Document::matchesChanged, &Document::currentRuleChanged})
    connect(&document_, signal, this, &WhyNotPanel::refresh);
  refresh();
}

void WhyNotPanel::refresh() {
  list_->clear();
  const RuleInfo* rule = document_.rule(document_.currentRule());
  ask_->setEnabled(rule && document_.isOpen());
  if (!rule) {
    head_->setText(tr("Where a rule almost matches is listed here, furthest first."));
    return;
  }
  const bool mine = document_.nearMissesOf() == rule->name;
  if (!mine)
    head_->setText(
        tr("%1 matches %2 times. Explain shows where it almost does, too.").arg(rule->name).arg(rule->matches.size()));
  else if (document_.nearMisses().empty())
    head_->setText(tr("%1 comes near nowhere.").arg(rule->name));
  else
    head_->setText(
        tr("%1 comes near in %2.")
            .arg(rule->name, counted(static_cast<qint64>(document_.nearMisses().size()), tr("place"), tr("places"))));
  if (!mine) return;
  for (const NearMissInfo& miss : document_.nearMisses()) {
    auto* item = new QListWidgetItem(list_);
    QWidget* widget = row(miss);
    // The scroll bar may come: the text is measured for the narrower list.
    const int width = std::max(200, list_->width() - style()->pixelMetric(QStyle::PM_ScrollBarExtent) - 4);
    item->setSizeHint(QSize(0, widget->layout()->heightForWidth(width) + 6));
    list_->setItemWidget(item, widget);
  }
}

QWidget* WhyNotPanel::row(const NearMissInfo& miss) {
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
  connect(there, &QPushButton::clicked, this, [this, miss] { Q_EMIT goThere(miss); });
  auto* buttons = new QHBoxLayout;
  buttons->addWidget(there);
  if (!miss.suggestedOld.isEmpty()) {
    auto* change = new QPushButton(tr("Change the rule so"), widget);
    change->setToolTip(tr("Line %1: %2 becomes %3").arg(miss.line).arg(miss.suggestedOld, miss.suggestedNew));
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

HistoryPanel::HistoryPanel(Document& document, QWidget* parent) : QWidget(parent), document_(document) {
  list_ = new QListWidget(this);
  hide_ = new QCheckBox(tr("Hide steps that changed nothing"), this);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(8, 8, 8, 8);
  column->addWidget(list_, 1);
  column->addWidget(hide_);
  connect(hide_, &QCheckBox::toggled, this, &HistoryPanel::refresh);
  connect(list_, &QListWidget::currentItemChanged, this, [this](QListWidgetItem* item) {
    if (!filling_ && item) document_.showStep(item->data(Qt::UserRole).toInt());
  });
  connect(&document_, &Document::stepsChanged, this, &HistoryPanel::refresh, Qt::QueuedConnection);
}

void HistoryPanel::refresh() {
  filling_ = true;
  list_->clear();
  const auto& steps = document_.steps();
  for (size_t i = 0; i < steps.size(); ++i) {
    const StepInfo& s = steps[i];
    if (i > 0 && s.records.empty() && hide_->isChecked() && static_cast<int>(i) != document_.position()) continue;
    QString text =
        i == 0 ? tr("Opened · %1 nodes").arg(s.graph->nodeCount())
               : tr("%1 · %2 · %3 → %4")
                     .arg(s.label, counted(static_cast<qint64>(s.records.size()), tr("rewrite"), tr("rewrites")))
                     .arg(steps[i - 1].graph->nodeCount())
                     .arg(s.graph->nodeCount());
    if (!s.rolledBack.isEmpty()) text += tr(" · %1 taken back").arg(s.rolledBack.size());
    if (s.proof.contains(tr("not proven"))) text += tr(" · not proven");
    auto* item = new QListWidgetItem(text, list_);
    item->setData(Qt::UserRole, static_cast<int>(i));
    if (static_cast<int>(i) > document_.position())
      item->setForeground(palette().color(QPalette::Disabled, QPalette::Text));
    QStringList told;
    for (const QString& r : s.rolledBack) told << tr("Taken back: %1").arg(r);
    for (const QString& r : s.refused) told << tr("Refused: %1").arg(r);
    if (!s.proof.isEmpty()) told << s.proof.left(1).toUpper() + s.proof.mid(1);
    item->setToolTip(told.join(QLatin1Char('\n')));
    if (static_cast<int>(i) == document_.position()) list_->setCurrentItem(item);
  }
  filling_ = false;
}

}  // namespace graft
