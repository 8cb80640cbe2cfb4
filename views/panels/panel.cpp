#include "views/panels/panel.h"

namespace graft {

void PanelContext::lightPattern(const QString& patternNode) {
  Q_EMIT patternLit(patternNode);
  QStringList nodes;
  const RuleInfo* rule = document_.rule(document_.currentRule());
  if (rule && !patternNode.isEmpty())
    for (const MatchInfo& m : rule->matches)
      if (m.map.contains(patternNode)) nodes << m.map.value(patternNode);
  Q_EMIT nodesLit(nodes);
}

void PanelContext::lightPatternOf(const QString& node) {
  QString patternNode;
  if (const RuleInfo* rule = document_.rule(document_.currentRule()))
    for (const MatchInfo& m : rule->matches)
      if (m.nodes.contains(node)) patternNode = m.map.key(node);
  Q_EMIT patternLit(patternNode);
}

}  // namespace graft
