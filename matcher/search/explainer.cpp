#include "matcher/search/explainer.h"

#include <algorithm>
#include <tuple>

#include "matcher/rule/expression_calls.h"
#include "matcher/search/near_miss.h"

namespace graft {

bool Explainer::forgive(Mismatch m) {
  if (state_.forgiven()) {
    record(false, m.mapped ? NodeId() : m.patternNode);
    return false;
  }
  state_.forgive(std::move(m));
  return true;
}

size_t Explainer::matchedCount() const {
  const std::vector<NodeId>& nodes = state_.nodeOf();
  size_t n = static_cast<size_t>(std::count_if(nodes.begin(), nodes.end(), [](NodeId g) { return bool(g); }));
  if (const Mismatch* m = state_.forgiven()) {
    const bool counts = m->mapped || m->extraOperator || m->reason == Reason::Escapes || m->reason == Reason::Where ||
                        m->reason == Reason::Scope;
    if (!counts && m->patternNode && nodes[m->patternNode.index]) --n;
    if (m->extraOperator && n) --n;  // an operator too many weighs as much as a wrong one
  }
  return n;
}

bool Explainer::isOperandAlike(const Argument& pattern, const Argument& graph) const {
  if (const auto* any = pattern.as<Named>(); any && any->name == "_") return true;
  if (!pattern.isValue()) return pattern == graph;
  if (const Argument* bound = state_.bound(pattern.valueId())) return *bound == graph;
  const int parameter = plan_.parameterOf[pattern.valueId().index];
  if (parameter < 0) return graph.isValue();
  const PatternParameter& p = plan_.rule.parameters[static_cast<size_t>(parameter)];
  if (p.isConstant()) return !graph.isValue();
  if (!graph.isValue()) return false;
  return p.kind != PatternParameter::Kind::Weight || graph_.value(graph.valueId()).kind == Value::Kind::Weight;
}

bool Explainer::areMostOperandsAlike(NodeId patternNode) const {
  constexpr size_t many = 4;
  if (!patternNode || !state_.nodeOf()[patternNode.index]) return false;
  const Node& p = state_.pattern.node(patternNode);
  const Node& g = graph_.node(state_.nodeOf()[patternNode.index]);
  if (p.op->name != g.op->name || p.args.size() != g.args.size() || p.args.size() < many) return false;
  size_t alike = 0;
  for (size_t k = 0; k < p.args.size(); ++k) alike += isOperandAlike(p.args[k], g.args[k]);
  return 3 * alike >= 2 * p.args.size();
}

void Explainer::record(bool complete, NodeId unfit) {
  const Mismatch* forgiven = state_.forgiven();
  if (!forgiven || (forgiven->guess && !complete)) return;
  const std::vector<NodeId>& nodes = state_.nodeOf();
  PartialMatch p;
  p.matched = matchedCount();
  if (unfit && unfit != forgiven->patternNode && nodes[unfit.index] && p.matched > 0) --p.matched;
  p.complete = complete && !forgiven->partial;
  p.isAlike = areMostOperandsAlike(forgiven->patternNode);
  p.cause = *forgiven;
  const auto merit = [](const PartialMatch& x) {
    return std::tuple(x.matched, x.complete, x.isAlike, -reasonRank(x.cause.reason));
  };
  if (best_ && merit(*best_) >= merit(p)) return;
  p.anchor = state_.anchor();
  for (uint32_t n = 0; n < nodes.size(); ++n)
    if (nodes[n] && (NodeId(n) != p.cause.patternNode || p.cause.mapped || p.cause.extraOperator)) {
      p.patternNodes.push_back(NodeId(n));
      p.graphNodes.push_back(nodes[n]);
    }
  best_ = std::move(p);
}

std::string Explainer::wantedOperator(NodeId p) const {
  const PlanNode& n = plan_.nodes[p.index];
  if (n.kind == PlanNode::Kind::CallFunction && n.name) return "an operator matching \"" + n.name->pattern() + "\"";
  return std::string(state_.pattern.node(p).op->packetName());
}

std::string Explainer::describeValue(ValueId v) const {
  const Value& value = graph_.value(v);
  if (value.kind == Value::Kind::Weight) return "the weight `" + value.path + "`";
  if (value.kind == Value::Kind::BlockParameter) return "the input `" + value.name + "`";
  return "`" + value.name + "`";
}

std::string Explainer::describe(const Argument& a) const {
  return a.isValue() ? describeValue(a.valueId()) : argumentText(a);
}

}  // namespace graft
