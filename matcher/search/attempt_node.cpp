// Attempt, part two: one pattern node at one place of the graph: an operator, its operands in every order that means
// the same, or a whole module call.
#include <algorithm>

#include "core/base/words.h"
#include "matcher/search/attempt.h"

namespace graft {
namespace {

using NodeKind = PlanNode::Kind;

// Ways to lay a pattern node's operands on a graph node's.
enum Form : int { Direct = 1, Swapped = 2, Reciprocal = 4, ReciprocalSwapped = 8, Reshaped = 16 };

bool listsValues(const Argument& a) {
  const auto* items = a.items();
  return items && items->size() > 1 &&
         std::all_of(items->begin(), items->end(), [](const Argument& i) { return i.isValue(); });
}

// cat([a, b]) on both sides.
bool takesListsOfValues(const Node& p, const Node& g) {
  for (size_t k = 0; k < std::min(p.args.size(), g.args.size()); ++k)
    if (listsValues(p.args[k]) && listsValues(g.args[k])) return true;
  return false;
}

bool isNumber(const Argument& a) { return a.as<int64_t>() || a.as<double>(); }

}  // namespace

bool Attempt::matchNode(size_t i) {
  const Task t = tasks_[i];
  const NodeId pid = pattern_.value(t.pattern).producer;
  const PlanNode& p = plan_.nodes[pid.index];
  const Node& pn = pattern_.node(pid);
  if (bound_[t.pattern.index]) {
    if (*bound_[t.pattern.index] == *t.graph) return solve(i + 1);
    return fail(Reason::Operand, t.context.patternNode, t.context.graphNode,
                [&](Miss& miss) {
                  miss.expected = "the same value twice: " + describe(*bound_[t.pattern.index]);
                  miss.actual = describe(*t.graph);
                  const int at = t.context.parameter;
                  if (t.context.graphNode && at >= 0)
                    if (const auto& p = graph_.node(t.context.graphNode).op->parameters;
                        static_cast<size_t>(at) < p.size())
                      miss.parameter = p[static_cast<size_t>(at)].name;
                  miss.mapped = true;
                }) &&
           solve(i + 1);
  }
  if (!t.graph->isValue()) {
    return fail(Reason::Operand, pid, t.context.graphNode,
                [&](Miss& miss) {
                  miss.expected = "the result of " + std::string(pn.op->baseName());
                  miss.actual = describe(*t.graph);
                }) &&
           solve(i + 1);
  }
  const Mark before = mark();
  ValueId v = t.graph->valueId();
  NodeId g = graph_.value(v).producer;
  // Look through operators that only hand their argument on.
  while (g && !plan_.accepts(p, g) && index_.handsOn(g) && graph_.node(g).args[0].isValue() && !taken_[g.index] &&
         cover(g)) {
    v = graph_.node(g).args[0].valueId();
    g = graph_.value(v).producer;
  }
  if (!g || !plan_.accepts(p, g)) {
    undo(before);
    return matchOtherwise(i, graph_.value(t.graph->valueId()).producer);
  }
  const Node& gn = graph_.node(g);
  bool fits = true;
  if (taken_[g.index] || covered_[g.index]) {
    fits = fail(Reason::Overlap, pid, g, [&](Miss& miss) {
      miss.detail = taken_[g.index] ? "`" + gn.name + "` is part of another match already"
                                    : "`" + gn.name + "` stands for another node of the pattern already";
    });
  }
  const auto outputAt = [](const Node& n, ValueId value) {
    return std::find(n.outputs.begin(), n.outputs.end(), value) - n.outputs.begin();
  };
  if (fits && (pn.outputs.size() > gn.outputs.size() || outputAt(pn, t.pattern) != outputAt(gn, v))) {
    fits = fail(Reason::Arity, pid, g, [&](Miss& miss) {
      miss.expected = "output " + std::to_string(outputAt(pn, t.pattern)) + " of " + std::string(pn.op->baseName());
      miss.actual = "output " + std::to_string(outputAt(gn, v)) + " of " + std::to_string(gn.outputs.size());
      miss.mapped = true;
    });
  }
  if (fits && !coveredNodes_.empty() && index_.regionOf(coveredNodes_.front()) != index_.regionOf(g)) {
    fits = fail(Reason::Region, pid, g, [&](Miss& miss) {
      miss.detail = "`" + gn.name + "` lies in another block, autocast or grad-mode region than `" +
                    graph_.node(coveredNodes_.front()).name + "`";
      miss.mapped = true;
    });
  }
  if (!fits) {
    undo(before);
    return false;
  }
  map(pid, g);
  for (size_t o = 0; o < pn.outputs.size() && o < gn.outputs.size(); ++o)
    bind(pn.outputs[o], make(Argument(gn.outputs[o])));
  if (pn.outputs[static_cast<size_t>(outputAt(pn, t.pattern))] == t.pattern && *bound_[t.pattern.index] != *t.graph)
    bound_[t.pattern.index] = t.graph;  // the value behind identities is what the users of the match see
  const int forms = formsOf(p, pn, gn);
  for (int form = Direct; form <= Reshaped; form *= 2) {
    if (!(forms & form)) continue;
    const Mark m = mark();
    if (tryForm(pn, gn, form, i)) return true;
    undo(m);
  }
  if (explaining_ && forms == Direct && p.kind == NodeKind::Operator && pn.args.size() >= 2 && pn.args[0].isValue() &&
      pn.args[1].isValue()) {
    const Mark m = mark();
    if (fail(Reason::Operand, pid, g, [&](Miss& miss) {
          miss.detail =
              "the operands of `" + gn.name + "` (" + std::string(gn.op->packetName()) + ") are the other way round";
          miss.mapped = miss.guess = true;
        }))
      tryForm(pn, gn, Swapped, i);
    undo(m);
  }
  if (explaining_ && p.kind == NodeKind::Operator && takesListsOfValues(pn, gn)) {
    const Mark m = mark();
    if (fail(Reason::Operand, pid, g, [&](Miss& miss) {
          miss.detail =
              "what `" + gn.name + "` (" + std::string(gn.op->packetName()) + ") lists is the other way round";
          miss.mapped = miss.guess = true;
        })) {
      reversed_ = g;
      tryForm(pn, gn, Direct, i);
      reversed_ = NodeId();
    }
    undo(m);
  }
  undo(before);
  return false;
}

bool Attempt::plausible(const Argument& p, const Argument& g) const {
  if (explaining_) return true;
  if (!p.isValue()) return !isNumber(p) || isNumber(g);
  const ValueId v = p.valueId();
  if (const PlanNode* q = plan_.producer(v)) {
    if (q->kind != NodeKind::Operator) return true;
    if (!g.isValue()) return false;
    const NodeId n = graph_.value(g.valueId()).producer;
    return n && (plan_.accepts(*q, n) || index_.handsOn(n));
  }
  const int parameter = plan_.parameterOf[v.index];
  if (parameter < 0) return true;
  const PatternParameter& kind = plan_.rule.parameters[static_cast<size_t>(parameter)];
  if (kind.kind == PatternParameter::Kind::Weight) return g.isValue() && index_.isWeightLike(g.valueId());
  return kind.isConstant() ? !g.isValue() || kind.kind == PatternParameter::Kind::Int
                           : g.isValue() || g.items() != nullptr;
}

int Attempt::formsOf(const PlanNode& p, const Node& pn, const Node& gn) const {
  if (p.kind != NodeKind::Operator || pn.args.size() < 2 || gn.args.size() < 2) return Direct;
  if (p.reshapes && index_.opOf[gn.id.index] != p.op) return Reshaped;
  if (index_.opOf[gn.id.index] != p.op) {  // mul for div, or div for mul: one operand must be a number
    int forms = 0;
    if (isNumber(gn.args[1])) forms |= Reciprocal;
    if (p.isDivision && isNumber(gn.args[0])) forms |= ReciprocalSwapped;   // x / 8 found as 0.125 * x
    if (!p.isDivision && isNumber(gn.args[1])) forms |= ReciprocalSwapped;  // 8 * x found as x / 0.125
    return forms;
  }
  if (!p.commutative) return Direct;
  // With a factor the operands are no longer alike; explaining, the factor may be all that is wrong.
  if (const Argument* alpha = gn.findArgument("alpha"); alpha && alpha->number() != 1.0 && !explaining_) return Direct;
  if (pn.args[0] == pn.args[1] || gn.args[0] == gn.args[1]) return Direct;
  int forms = 0;
  if (plausible(pn.args[0], gn.args[0]) && plausible(pn.args[1], gn.args[1])) forms |= Direct;
  if (plausible(pn.args[0], gn.args[1]) && plausible(pn.args[1], gn.args[0])) forms |= Swapped;
  return forms;
}

bool Attempt::tryForm(const Node& pn, const Node& gn, int form, size_t i) {
  if (form == Reshaped) return tryReshape(pn, gn, i);
  if (form == Direct || form == Swapped) return unifyArguments(pn, gn, form == Swapped) && solve(i + 1);
  const bool division = plan_.nodes[pn.id.index].isDivision;
  // Where the pattern's number stands, and where the graph's.
  const size_t patternNumber = !division && form == ReciprocalSwapped ? 0 : 1;
  const size_t graphNumber = division && form == ReciprocalSwapped ? 0 : 1;
  const double c = *gn.args[graphNumber].number();
  if (c == 0.0) return false;
  // An integer factor keeps integers integers, a division never does: only floating-point values have both forms.
  const Argument& value = gn.args[1 - graphNumber];
  if (!value.isValue()) return false;
  const auto dtype = graph_.value(value.valueId()).type.tensorInfo.dtype;
  const bool integerFactor =
      division ? gn.args[graphNumber].as<int64_t>() != nullptr : pn.args[patternNumber].as<int64_t>() != nullptr;
  if (integerFactor && !(dtype && isFloatingPoint(*dtype))) return false;
  const Argument& wanted = pn.args[patternNumber];
  if (wanted.isValue() && plan_.parameterOf[wanted.valueId().index] >= 0 &&
      !plan_.rule.parameters[static_cast<size_t>(plan_.parameterOf[wanted.valueId().index])].isConstant())
    return false;
  if (!wanted.isValue() && !isNumber(wanted)) return false;
  const Context number{pn.id, gn.id, static_cast<int>(graphNumber), true};
  const Context operand{pn.id, gn.id, static_cast<int>(1 - graphNumber), false};
  return unify(wanted, *make(Argument(1.0 / c)), number) && unify(pn.args[1 - patternNumber], value, operand) &&
         solve(i + 1);
}

bool Attempt::matchModule(size_t i) {
  const Task t = tasks_[i];
  const NodeId pid = pattern_.value(t.pattern).producer;
  const PlanNode& p = plan_.nodes[pid.index];
  const Node& pn = pattern_.node(pid);
  if (bound_[t.pattern.index]) return *bound_[t.pattern.index] == *t.graph && solve(i + 1);
  const NodeId g = t.graph->isValue() ? graph_.value(t.graph->valueId()).producer : NodeId();
  if (!g) {
    return fail(Reason::ModuleType, pid, t.context.graphNode,
                [&](Miss& miss) {
                  miss.expected = "a call of " + (p.type.empty() ? "a module" : p.type);
                  miss.actual = describe(*t.graph);
                }) &&
           solve(i + 1);
  }
  const size_t wantedOutput =
      static_cast<size_t>(std::find(pn.outputs.begin(), pn.outputs.end(), t.pattern) - pn.outputs.begin());
  const auto enter = [&](ModuleCallId call, const std::vector<ValueId>& outputs) {
    for (NodeId n : index_.nodesIn(call)) {
      if (!index_.effective[n.index]) continue;
      if (taken_[n.index] || !cover(n)) {
        return fail(Reason::Overlap, pid, n,
                    [&](Miss& miss) {
                      miss.detail = "`" + graph_.node(n).name + "` is part of another match already";
                    }) &&
               false;
      }
    }
    map(pid, g);
    moduleAt_[pid.index] = call;
    for (size_t o = 0; o < pn.outputs.size() && o < outputs.size(); ++o)
      bind(pn.outputs[o], make(Argument(outputs[o])));
    const std::vector<ValueId> inputs = plan_.inputsOf(call);
    if (inputs.size() != pn.args.size() && !fail(Reason::Arity, pid, g, [&](Miss& miss) {
          miss.expected = std::to_string(pn.args.size());
          miss.actual = counted(inputs.size(), "input") + " in the call of `" + graph_.moduleCall(call).path + "`";
          miss.mapped = true;
        }))
      return false;
    for (size_t k = 0; k < std::min(inputs.size(), pn.args.size()); ++k)
      if (!unify(pn.args[k], *make(Argument(inputs[k])), {pid, g, static_cast<int>(k), false})) return false;
    return true;
  };
  ModuleCallId nearest;
  for (ModuleCallId call = graph_.node(g).module; call; call = graph_.moduleCall(call).parent) {
    const auto outputs = plan_.outputsOf(call);
    if (wantedOutput >= outputs.size() || outputs[wantedOutput] != t.graph->valueId()) continue;
    if (!nearest) nearest = call;
    if (!plan_.accepts(p, graph_.moduleCall(call))) continue;
    const Mark m = mark();
    if (enter(call, outputs) && solve(i + 1)) return true;
    undo(m);
    if (explaining_) return false;
  }
  if (!explaining_) return false;
  const Mark m = mark();
  const ModuleCall* call = nearest ? &graph_.moduleCall(nearest) : nullptr;
  PlanNode anyName = p;
  anyName.name = anyName.path = nullptr;
  const bool typeFits = call && !p.type.empty() && plan_.accepts(anyName, *call);
  const bool byName = call && (p.type.empty() || typeFits);
  const bool forgiven = fail(byName ? Reason::ModuleName : Reason::ModuleType, pid, g, [&](Miss& miss) {
    if (byName) {
      miss.expected = "a name matching \"" + (p.path ? p.path->pattern() : p.name ? p.name->pattern() : "") + "\"";
      miss.actual = "`" + (p.path ? call->path : std::string(call->lastName())) + "`";
    } else {
      miss.expected = p.type.empty() ? "a module call" : p.type;
      miss.actual = call && !call->type.empty() ? call->type : "no module call with this result";
    }
    miss.mapped = true;
  });
  if (forgiven && (nearest ? enter(nearest, {t.graph->valueId()}) : true)) solve(i + 1);
  undo(m);
  return false;
}

}  // namespace graft
