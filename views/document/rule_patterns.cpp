#include "views/document/rule_patterns.h"

#include <string>

#include "views/document/graph_decode.h"
#include "views/document/json_fields.h"

namespace graft {
namespace {

HeldPattern decoded(const QJsonObject& answer, int line) {
  HeldPattern out{decodeGraph(objectAt(answer, "pattern")), {}, {}, line};
  const QJsonObject lines = objectAt(answer, "patternLines");
  for (auto it = lines.begin(); it != lines.end(); ++it) {
    const QJsonObject l = it.value().toObject();
    out.lines.insert(it.key(), {at(l, "line").toInt(), at(l, "column").toInt(), at(l, "endColumn").toInt()});
  }
  for (NodeId id : out.graph->order()) out.order << toQt(out.graph->node(id).name);
  return out;
}

/// The file that the rule stands in; empty where all of its nodes stand in others.
std::string ownFile(const HeldPattern& held) {
  for (NodeId id : held.graph->order()) {
    const Node& n = held.graph->node(id);
    if (const SourceLocation* s = held.graph->sourceOf(n); s && held.lines.contains(toQt(n.name))) return s->file;
  }
  return {};
}

/// The same pattern of a rule that stands so many lines further down.
void moveLines(HeldPattern& held, int by) {
  const std::string file = ownFile(held);
  for (TextRange& range : held.lines) range.line += by;
  Graph moved = *held.graph;
  for (size_t i = 0; i < moved.nodeBound(); ++i) {
    const NodeId id(static_cast<uint32_t>(i));
    const SourceLocation* s = moved.isAlive(id) ? moved.sourceOf(moved.node(id)) : nullptr;
    if (!s || s->file != file) continue;
    SourceLocation at = *s;
    at.line += by;
    moved.setSource(id, moved.addSource(std::move(at)));
  }
  held.graph = std::make_shared<const Graph>(std::move(moved));
  held.line += by;
}

}  // namespace

HeldPatterns heldPatterns(const std::vector<RuleInfo>& rules) {
  HeldPatterns out;
  for (const RuleInfo& r : rules)
    if (!r.fingerprint.isEmpty()) out.insert(r.fingerprint, {r.pattern, r.lines, r.patternOrder, r.line});
  return out;
}

void readPattern(const QJsonObject& answer, const HeldPatterns& held, RuleInfo& rule) {
  rule.fingerprint = at(answer, "fingerprint").toString();
  const auto known = held.find(rule.fingerprint);
  HeldPattern pattern = known != held.end() ? *known : decoded(answer, rule.line);
  if (pattern.line != rule.line) moveLines(pattern, rule.line - pattern.line);
  rule.pattern = pattern.graph;
  rule.lines = pattern.lines;
  rule.patternOrder = pattern.order;
}

}  // namespace graft
