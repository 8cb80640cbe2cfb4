// Attempt, part five: explaining. The same search with one mismatch forgiven; which one, and how far it then came.
#include <algorithm>

#include "core/base/words.h"
#include "matcher/rule/expression_calls.h"
#include "matcher/search/attempt.h"
#include "matcher/search/near_miss.h"

namespace graft {

std::optional<Draft> Attempt::explain(ValueId start) {
  explaining_ = true;
  best_.reset();
  run(start);
  explaining_ = false;
  return best_;
}

// Explaining only: the pattern's operator is not here. Three ways on: another operator stands in its place, the graph
// has one more, or the graph lacks it.
bool Attempt::matchOtherwise(size_t i, NodeId g) {
  if (!explaining_) return false;
  const Task t = tasks_[i];
  const NodeId pid = pattern_.value(t.pattern).producer;
  if (plan_.mayBeAbsent(pid)) return false;  // the alternative without it explains what is here
  const Node& pn = pattern_.node(pid);
  const std::string wanted = wantedOperator(pid);
  const auto firstValue = [](const Node& n) -> const Argument* {
    for (const Argument& a : n.args)
      if (a.isValue()) return &a;
    return nullptr;
  };
  if (!g) {
    const Mark m = mark();
    const Argument* inner = firstValue(pn);
    if (fail(Reason::Missing, pid, t.context.graphNode, [&](Miss& miss) {
          miss.expected = wanted;
          miss.actual = describeValue(t.graph->valueId());
          miss.partial = true;  // whatever was to be computed there: any input would do
        })) {
      bind(t.pattern, t.graph);
      if (inner && unify(*inner, *t.graph, t.context)) solve(i + 1);
    }
    undo(m);
    return false;
  }
  const Node& gn = graph_.node(g);
  const auto describeOperator = [&](Miss& miss) {
    miss.expected = wanted;
    miss.actual = std::string(gn.op->packetName());
    if (miss.actual != wanted) return;
    miss.expected = pn.op->name;  // two overloads of one name
    miss.actual = gn.op->name;
  };
  Mark m = mark();
  const bool eitherOrder = plan_.nodes[pid.index].commutative && pn.args.size() > 1 && pn.args[0] != pn.args[1];
  for (const bool swapped : {false, true}) {
    if (swapped && !eitherOrder) break;
    if (!taken_[g.index] && !covered_[g.index] && fail(Reason::Operator, pid, g, describeOperator)) {
      map(pid, g);
      bool ok = true;
      for (size_t o = 0; o < pn.outputs.size() && o < gn.outputs.size(); ++o)
        bind(pn.outputs[o], make(Argument(gn.outputs[o])));
      for (size_t k = 0; ok && k < pn.args.size(); ++k) {
        const Argument& p = pn.args[swapped && k < 2 ? 1 - k : k];
        if (!p.isValue()) continue;
        const int parameter = plan_.parameterOf[p.valueId().index];
        if (parameter >= 0 && plan_.rule.parameters[static_cast<size_t>(parameter)].isConstant()) continue;
        if (k < gn.args.size() && gn.args[k].isValue())
          ok = unify(p, gn.args[k], {pid, g, static_cast<int>(k), false});
        else
          misses_.back().partial = true;
      }
      if (ok) solve(i + 1);
    }
    undo(m);
  }
  m = mark();
  if (const Argument* inner = firstValue(gn);
      inner && !taken_[g.index] && !covered_[g.index] && t.context.patternNode) {
    if (fail(Reason::Operator, pid, g, [&](Miss& miss) {
          describeOperator(miss);
          miss.detail = "the graph has " + withArticle(gn.op->packetName()) + " behind " +
                        (wanted.starts_with("an ") ? wanted : "the " + wanted) + ", the rule does not";
          miss.parameter = "+";  // marks an operator too many
        })) {
      cover(g);
      tasks_[i].graph = inner;
      matchTask(i);
      tasks_[i] = t;
    }
  }
  undo(m);
  // What is left without it is its first operand, or another one that the pattern computes: y + linear(x).
  for (const Argument& inner : pn.args) {
    if (!inner.isValue() || (&inner != firstValue(pn) && !plan_.producer(inner.valueId()))) continue;
    m = mark();
    if (fail(Reason::Missing, pid, g, describeOperator)) {
      bind(t.pattern, t.graph);
      if (unify(inner, *t.graph, t.context)) solve(i + 1);
    }
    undo(m);
  }
  return false;
}

bool Attempt::forgive(Miss m) {
  if (!misses_.empty()) {
    record(false, m.mapped ? NodeId() : m.patternNode);
    return false;
  }
  misses_.push_back(std::move(m));
  trail_.push_back({Undo::Miss, 0});
  return true;
}

size_t Attempt::matchedCount() const {
  size_t n = 0;
  for (NodeId g : nodeAt_) n += g ? 1 : 0;
  if (!misses_.empty()) {
    const Miss& m = misses_.front();
    const bool counts = m.mapped || m.parameter == "+" || m.reason == Reason::Escapes || m.reason == Reason::Where ||
                        m.reason == Reason::Scope;
    if (!counts && m.patternNode && nodeAt_[m.patternNode.index]) --n;
    if (m.parameter == "+" && n) --n;  // an operator too many weighs as much as a wrong one
  }
  return n;
}

void Attempt::record(bool complete, NodeId unfit) {
  if (misses_.empty() || (misses_.front().guess && !complete)) return;
  Draft d;
  d.matched = matchedCount();
  if (unfit && unfit != misses_.front().patternNode && nodeAt_[unfit.index] && d.matched > 0) --d.matched;
  d.complete = complete && !misses_.front().partial;
  d.cause = misses_.front();
  const auto merit = [](const Draft& x) { return std::tuple(x.matched, x.complete, -reasonRank(x.cause.reason)); };
  if (best_ && merit(*best_) >= merit(d)) return;
  d.anchor = graph_.value(start_).producer;
  for (uint32_t p = 0; p < nodeAt_.size(); ++p)
    if (nodeAt_[p] && (NodeId(p) != d.cause.patternNode || d.cause.mapped || d.cause.parameter == "+")) {
      d.patternNodes.push_back(NodeId(p));
      d.graphNodes.push_back(nodeAt_[p]);
    }
  best_ = std::move(d);
}

std::string Attempt::wantedOperator(NodeId p) const {
  const PlanNode& n = plan_.nodes[p.index];
  if (n.kind == PlanNode::Kind::CallFunction && n.name) return "an operator matching \"" + n.name->pattern() + "\"";
  return std::string(pattern_.node(p).op->packetName());
}

std::string Attempt::describeValue(ValueId v) const {
  const Value& value = graph_.value(v);
  if (value.kind == Value::Kind::Weight) return "the weight `" + value.path + "`";
  if (value.kind == Value::Kind::BlockParameter) return "the input `" + value.name + "`";
  return "`" + value.name + "`";
}
std::string Attempt::describe(const Argument& a) const {
  return a.isValue() ? describeValue(a.valueId()) : argumentText(a);
}

}  // namespace graft
