#include "views/panels/rules/matches_panel.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QMenu>
#include <QVBoxLayout>
#include <utility>

#include "views/panels/rules/rule_list.h"
#include "views/widgets/qt_color.h"
#include "views/widgets/theme.h"

namespace graft {

MatchesPanel::MatchesPanel(Document& document, QWidget* parent) : QWidget(parent), document_(document) {
  recipes_ = new QToolButton(this);
  recipes_->setProperty("outlined", true);
  recipes_->setText(tr("Recipe"));
  recipes_->setPopupMode(QToolButton::InstantPopup);
  recipes_->setToolTip(tr("Run all steps of a recipe in order"));
  recipes_->setMenu(new QMenu(recipes_));
  list_ = new QTreeWidget(this);
  list_->setHeaderLabels({tr("Where"), tr("Nodes")});
  list_->setRootIsDecorated(false);
  list_->setUniformRowHeights(true);
  list_->setMouseTracking(true);
  list_->header()->setSectionResizeMode(0, QHeaderView::Stretch);
  list_->header()->setSectionResizeMode(1, QHeaderView::ResizeToContents);
  list_->header()->setStretchLastSection(false);
  list_->setAccessibleName(tr("Matches of the rule"));
  rules_ = new RuleList(document_, this);
  hint_ = new QLabel(this);
  hint_->setWordWrap(true);
  hint_->setTextFormat(Qt::RichText);
  hint_->setAlignment(Qt::AlignTop | Qt::AlignLeft);
  hint_->setContentsMargins(4, 8, 4, 8);
  hint_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  connect(hint_, &QLabel::linkActivated, this, &MatchesPanel::whyNotAsked);
  preview_ = new QPushButton(tr("Preview"), this);
  preview_->setCheckable(true);
  preview_->setToolTip(tr("Draw what Apply would change"));
  apply_ = new QPushButton(icon(QStringLiteral("apply")), tr("Apply"), this);
  apply_->setDefault(true);

  auto* bottom = new QHBoxLayout;
  bottom->addWidget(recipes_);
  bottom->addStretch();
  bottom->addWidget(preview_);
  bottom->addWidget(apply_);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(8, 8, 8, 8);
  column->addWidget(rules_);
  column->addWidget(list_, 1);
  column->addWidget(hint_, 1);
  column->addLayout(bottom);
  QWidget* before = rules_;
  for (QWidget* next : std::initializer_list<QWidget*>{list_, recipes_, preview_, apply_})
    setTabOrder(std::exchange(before, next), next);

  connect(rules_, &RuleList::chosen, this, &MatchesPanel::ruleChosen);
  connect(list_, &QTreeWidget::currentItemChanged, this, [this](QTreeWidgetItem* item) {
    if (filling_ || !item) return;
    current_ = list_->indexOfTopLevelItem(item);
    if (const RuleInfo* r = document_.rule(document_.currentRule()))
      if (current_ < static_cast<int>(r->matches.size()))
        Q_EMIT matchChosen(r->matches[static_cast<size_t>(current_)].nodes);
  });
  connect(list_, &QTreeWidget::itemEntered, this, [this](QTreeWidgetItem* item) {
    const RuleInfo* r = document_.rule(document_.currentRule());
    const int i = list_->indexOfTopLevelItem(item);
    if (r && i >= 0 && i < static_cast<int>(r->matches.size()))
      Q_EMIT matchHovered(r->matches[static_cast<size_t>(i)].nodes);
  });
  connect(list_, &QTreeWidget::itemChanged, this, [this](QTreeWidgetItem* item) {
    if (filling_) return;
    document_.setTicked(document_.currentRule(), list_->indexOfTopLevelItem(item), item->checkState(0) == Qt::Checked);
    refreshApply();
  });
  connect(preview_, &QPushButton::clicked, this, &MatchesPanel::togglePreview);
  connect(apply_, &QPushButton::clicked, this, &MatchesPanel::applyTicked);
  for (auto signal : {&Document::rulesChanged, &Document::matchesChanged, &Document::currentRuleChanged,
                      &Document::graphChanged, &Document::previewChanged, &Document::opened})
    connect(&document_, signal, this, &MatchesPanel::refresh);
  refresh();
}

void MatchesPanel::refresh() {
  const RuleInfo* now = document_.rule(document_.currentRule());
  // The answer is on its way: what is shown stays until it is here, and nothing flickers.
  if (now && now->name == shown_ && !now->matched && document_.isOpen() && !document_.ruleError().any()) return;
  const int before = now && now->name == shown_ ? current_ : -1;
  shown_ = now ? now->name : QString();
  filling_ = true;
  rules_->refresh();
  recipes_->menu()->clear();
  for (const RecipeInfo& recipe : document_.recipes()) {
    QAction* action =
        recipes_->menu()->addAction(recipe.name, this, [this, name = recipe.name] { document_.applyRecipe(name); });
    action->setToolTip(recipe.steps.join(QStringLiteral(" → ")));
  }
  recipes_->menu()->setToolTipsVisible(true);
  recipes_->setEnabled(!document_.recipes().empty() && document_.isOpen());
  list_->clear();
  const RuleInfo* rule = document_.rule(document_.currentRule());
  if (rule)
    for (const MatchInfo& m : rule->matches) {
      auto* item = new QTreeWidgetItem(
          list_, {m.scope.isEmpty() ? tr("(the model)") : m.scope, QString::number(m.nodes.size())});
      item->setCheckState(0, m.ticked ? Qt::Checked : Qt::Unchecked);
      item->setToolTip(0, m.nodes.join(QStringLiteral(", ")));
      if (!rule->matched || document_.ruleError().any()) item->setForeground(0, toQt(themePalette().faint()));
    }
  current_ = before < list_->topLevelItemCount() ? before : -1;
  if (current_ >= 0) list_->setCurrentItem(list_->topLevelItem(current_));
  filling_ = false;
  tellWhyEmpty(rule);
  apply_->setIcon(icon(QStringLiteral("apply")));
  refreshApply();
}

void MatchesPanel::refreshApply() {
  const RuleInfo* rule = document_.rule(document_.currentRule());
  const auto count = ticked().size(), all = static_cast<qsizetype>(list_->topLevelItemCount());
  const bool can = rule && rule->matched && !rule->finds && count > 0 && !document_.ruleError().any();
  apply_->setText(rule && rule->finds ? tr("Only finds")
                  : all <= 1          ? tr("Apply")
                  : count == all      ? tr("Apply all %1").arg(count)
                                      : tr("Apply %1").arg(count));
  apply_->setEnabled(can);
  preview_->setEnabled(can || document_.isPreviewing());
  preview_->setChecked(document_.isPreviewing());
}

void MatchesPanel::tellWhyEmpty(const RuleInfo* rule) {
  const bool isEmpty = list_->topLevelItemCount() == 0;
  list_->setVisible(!isEmpty);
  hint_->setVisible(isEmpty);
  if (!isEmpty) return;
  QString text =
      tr("The places where a rule matches are listed here, each with a tick: only ticked ones are rewritten.");
  if (rule && !document_.isOpen())
    text = tr("Open a model to see where %1 matches.").arg(rule->name.toHtmlEscaped());
  else if (rule && rule->matched)
    text = tr("%1 matches nowhere in this model. <a style=\"color:%2\" href=\"why\">Why not?</a>")
               .arg(rule->name.toHtmlEscaped(), css(themePalette().accent));
  hint_->setText(text);
}

QList<int> MatchesPanel::ticked() const {
  QList<int> out;
  for (int i = 0; i < list_->topLevelItemCount(); ++i)
    if (list_->topLevelItem(i)->checkState(0) == Qt::Checked) out << i;
  return out;
}

QString MatchesPanel::whyNone(bool ofTicked) const {
  const RuleInfo* rule = document_.rule(document_.currentRule());
  if (!rule) return tr("There is no rule yet: write one, or take one from the library");
  if (list_->topLevelItemCount() == 0)
    return rule->matched && document_.rulesAreRead() ? tr("%1 matches nowhere in this model").arg(rule->name)
                                                     : tr("%1 is still being matched").arg(rule->name);
  return ofTicked && ticked().isEmpty() ? tr("No match is ticked") : QString();
}

void MatchesPanel::next(int step) {
  const int count = list_->topLevelItemCount();
  if (count == 0) return Q_EMIT document_.message(whyNone(false));
  const int to = current_ < 0 ? (step > 0 ? 0 : count - 1) : (current_ + step + count) % count;
  list_->setCurrentItem(list_->topLevelItem(to));
  if (current_ != to) {  // it was current already, as after a refresh
    current_ = to;
    if (const RuleInfo* r = document_.rule(document_.currentRule()))
      Q_EMIT matchChosen(r->matches[static_cast<size_t>(to)].nodes);
  }
}

void MatchesPanel::applyTicked() {
  const QList<int> some = ticked();
  const RuleInfo* rule = document_.rule(document_.currentRule());
  if (some.isEmpty() || !rule) return Q_EMIT document_.message(whyNone(true));
  // Ticks are of the matches that are shown: those of the text as it is may be others.
  if (!document_.ruleError().any() && (!document_.rulesAreRead() || !rule->matched))
    return Q_EMIT document_.message(tr("The rule is still being matched; nothing was applied"));
  document_.apply(document_.currentRule(), some.size() == list_->topLevelItemCount() ? QList<int>() : some);
}

void MatchesPanel::applyAll() {
  if (const RuleInfo* r = document_.rule(document_.currentRule()); r && !r->matches.empty()) document_.apply(r->name);
}

void MatchesPanel::keyPressEvent(QKeyEvent* e) {
  if (e->key() != Qt::Key_Escape || !document_.isPreviewing()) return QWidget::keyPressEvent(e);
  document_.endPreview();
}

void MatchesPanel::togglePreview() {
  if (document_.isPreviewing()) return document_.endPreview();
  const QList<int> some = ticked();
  if (some.isEmpty()) {  // without a list it would be of all
    preview_->setChecked(false);
    return Q_EMIT document_.message(whyNone(true));
  }
  document_.preview(document_.currentRule(), some);
}

}  // namespace graft
