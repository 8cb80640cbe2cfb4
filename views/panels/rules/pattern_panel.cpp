#include "views/panels/rules/pattern_panel.h"

#include "views/widgets/theme.h"

namespace graft {

PatternPanel::PatternPanel(PanelContext& context) : document_(context.document()) {
  setAutoFit(true, smallest);
  setPlaceholder(tr("The current rule's pattern is drawn here."));
  connect(this, &Canvas::hovered, &context, &PanelContext::lightPattern);
  connect(&context, &PanelContext::patternLit, this,
          [this](const QString& node) { setLit(node.isEmpty() ? QStringList() : QStringList{node}); });
  connect(&context, &PanelContext::themeChanged, this, [this] { setTheme(currentTheme()); });
  for (auto signal : {&Document::matchesChanged, &Document::currentRuleChanged, &Document::rulesChanged,
                      &Document::nearMissesChanged})
    connect(&document_, signal, this, &PatternPanel::refresh);
}

void PatternPanel::refresh() {
  const RuleInfo* rule = document_.rule(document_.currentRule());
  setGraph(rule ? rule->pattern : nullptr);
  Decorations d;
  if (rule) {
    const std::vector<NearMissInfo>& misses = document_.nearMisses();
    const bool isMiss = rule->matches.empty() && !misses.empty() && document_.nearMissesOf() == rule->name;
    for (int i = 0; i < rule->patternOrder.size(); ++i)
      if (!isMiss || misses.front().map.contains(rule->patternOrder[i])) d.pattern.insert(rule->patternOrder[i], i);
    d.stale = document_.ruleError().any();
  }
  setDecorations(d);
}

PanelDescription patternPanel() {
  PanelDescription d;
  d.name = QStringLiteral("pattern");
  d.title = PatternPanel::tr("Pattern");
  d.help = PatternPanel::tr("Draws the current rule's pattern; pointing at a node lights what it matches");
  d.area = Qt::RightDockWidgetArea;
  d.arrangements = {Arrangement::Rewrite};
  d.size = {320, 460};
  d.make = [](PanelContext& context) { return new PatternPanel(context); };
  return d;
}

}  // namespace graft
