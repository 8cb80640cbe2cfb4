#include "matcher/internal/attempt.h"

#include <algorithm>

#include "core/ir/normal_form.h"
#include "matcher/internal/expression_calls.h"

namespace graft {
namespace {

using Kind = PlanNode::Kind;

// Ways to lay a pattern node's operands on a graph node's.
enum Form : int { Direct = 1, Swapped = 2, Reciprocal = 4, ReciprocalSwapped = 8 };

bool isNumber(const Argument& a) { return a.as<int64_t>() || a.as<double>(); }

}  // namespace

Attempt::Attempt(const Plan& plan, const std::vector<uint8_t>& taken, Budget& budget)
    : plan_(plan),
      index_(plan.index),
      graph_(plan.index.graph),
      pattern_(plan.pattern),
      taken_(taken),
      budget_(budget),
      bound_(plan.pattern.valueBound(), nullptr),
      nodeAt_(plan.pattern.nodeBound()),
      moduleAt_(plan.pattern.nodeBound()),
      covered_(plan.index.graph.nodeBound(), 0) {}

bool Attempt::run(ValueId start) {
  undo({0, 0, 0});
  start_ = start;
  budget_.anchorUsed = 0;
  const ValueId root = plan_.roots.front();
  tasks_.push_back({root, make(Argument(start)), {}});
  return solve(0);
}

std::optional<Draft> Attempt::explain(ValueId start) {
  explaining_ = true;
  best_.reset();
  run(start);
  explaining_ = false;
  return best_;
}

bool Attempt::solve(size_t i) {
  if (!budget_.spend()) return false;
  return i == tasks_.size() ? finish(i) : matchTask(i);
}

bool Attempt::matchTask(size_t i) {
  const ValueId v = tasks_[i].pattern;
  const PlanNode& p = *plan_.producer(v);
  switch (p.kind) {
    case Kind::AnyOf:
      return matchAnyOf(i);
    case Kind::CallModule:
      return matchModule(i);
    case Kind::Meaning:
      deferred_.push_back(tasks_[i]);
      trail_.push_back({Undo::Deferred, 0});
      return solve(i + 1);
    default:
      return matchNode(i);
  }
}

bool Attempt::matchAnyOf(size_t i) {
  const Task t = tasks_[i];
  if (bound_[t.pattern.index]) return *bound_[t.pattern.index] == *t.graph && solve(i + 1);
  const Node& pn = pattern_.node(pattern_.value(t.pattern).producer);
  for (const Argument& alternative : pn.args) {
    const Mark m = mark();
    bind(t.pattern, t.graph);
    if (unify(alternative, *t.graph, t.context) && solve(i + 1)) return true;
    undo(m);
  }
  return false;
}

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
  while (g && !plan_.accepts(p, g) && isIdentity(graph_.node(g).op->name) && graph_.node(g).args[0].isValue() &&
         !taken_[g.index] && cover(g)) {
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
  if (fits && !coveredNodes_.empty() && index_.region[coveredNodes_.front().index] != index_.region[g.index]) {
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
  for (int form = Direct; form <= ReciprocalSwapped; form *= 2) {
    if (!(forms & form)) continue;
    const Mark m = mark();
    if (tryForm(pn, gn, form, i)) return true;
    undo(m);
  }
  if (explaining_ && forms == Direct && p.kind == Kind::Operator && pn.args.size() >= 2 && pn.args[0].isValue() &&
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
  undo(before);
  return false;
}

// Explaining only: the pattern's operator is not here. Three ways on: another operator stands in its place, the graph
// has one more, or the graph lacks it.
bool Attempt::matchOtherwise(size_t i, NodeId g) {
  if (!explaining_) return false;
  const Task t = tasks_[i];
  const NodeId pid = pattern_.value(t.pattern).producer;
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
  };
  Mark m = mark();
  if (!taken_[g.index] && !covered_[g.index] && fail(Reason::Operator, pid, g, describeOperator)) {
    map(pid, g);
    bool ok = true;
    for (size_t o = 0; o < pn.outputs.size() && o < gn.outputs.size(); ++o)
      bind(pn.outputs[o], make(Argument(gn.outputs[o])));
    for (size_t k = 0; ok && k < pn.args.size(); ++k) {
      if (!pn.args[k].isValue()) continue;
      const int parameter = plan_.parameterOf[pn.args[k].valueId().index];
      if (parameter >= 0 && plan_.rule.parameters[static_cast<size_t>(parameter)].isConstant()) continue;
      ok = k < gn.args.size() && gn.args[k].isValue();
      if (ok)
        ok = unify(pn.args[k], gn.args[k], {pid, g, static_cast<int>(k), false});
      else
        record(false);  // takes fewer operands: not a stand-in for the pattern's operator
    }
    if (ok) solve(i + 1);
  }
  undo(m);
  m = mark();
  if (const Argument* inner = firstValue(gn);
      inner && !taken_[g.index] && !covered_[g.index] && t.context.patternNode) {
    if (fail(Reason::Operator, pid, g, [&](Miss& miss) {
          describeOperator(miss);
          miss.detail = "there is a " + std::string(gn.op->packetName()) + " before the " + wanted +
                        " that the rule does not know of";
          miss.parameter = "+";  // marks an operator too many
        })) {
      cover(g);
      tasks_[i].graph = inner;
      matchTask(i);
      tasks_[i] = t;
    }
  }
  undo(m);
  m = mark();
  if (const Argument* inner = firstValue(pn)) {
    if (fail(Reason::Missing, pid, g, describeOperator)) {
      bind(t.pattern, t.graph);
      if (unify(*inner, *t.graph, t.context)) solve(i + 1);
    }
  }
  undo(m);
  return false;
}

bool Attempt::plausible(const Argument& p, const Argument& g) const {
  if (explaining_) return true;
  if (!p.isValue()) return !isNumber(p) || isNumber(g);
  const ValueId v = p.valueId();
  if (const PlanNode* q = plan_.producer(v)) {
    if (q->kind != Kind::Operator) return true;
    if (!g.isValue()) return false;
    const NodeId n = graph_.value(g.valueId()).producer;
    return n && (plan_.accepts(*q, n) || isIdentity(graph_.node(n).op->name));
  }
  const int parameter = plan_.parameterOf[v.index];
  if (parameter < 0) return true;
  const PatternParameter& kind = plan_.rule.parameters[static_cast<size_t>(parameter)];
  if (kind.kind == PatternParameter::Kind::Weight) return g.isValue() && index_.weightLike[g.valueId().index];
  return kind.isConstant() ? !g.isValue() || kind.kind == PatternParameter::Kind::Int
                           : g.isValue() || g.items() != nullptr;
}

int Attempt::formsOf(const PlanNode& p, const Node& pn, const Node& gn) const {
  if (p.kind != Kind::Operator || pn.args.size() < 2 || gn.args.size() < 2) return Direct;
  if (index_.opOf[gn.id.index] != p.op) {  // mul for div, or div for mul: one operand must be a number
    int forms = 0;
    if (isNumber(gn.args[1])) forms |= Reciprocal;
    if (p.isDivision && isNumber(gn.args[0])) forms |= ReciprocalSwapped;   // x / 8 found as 0.125 * x
    if (!p.isDivision && isNumber(gn.args[1])) forms |= ReciprocalSwapped;  // 8 * x found as x / 0.125
    return forms;
  }
  if (!p.commutative) return Direct;
  if (const Argument* alpha = gn.findArgument("alpha"); alpha && alpha->number() != 1.0) return Direct;
  if (pn.args[0] == pn.args[1] || gn.args[0] == gn.args[1]) return Direct;
  int forms = 0;
  if (plausible(pn.args[0], gn.args[0]) && plausible(pn.args[1], gn.args[1])) forms |= Direct;
  if (plausible(pn.args[0], gn.args[1]) && plausible(pn.args[1], gn.args[0])) forms |= Swapped;
  return forms;
}

bool Attempt::tryForm(const Node& pn, const Node& gn, int form, size_t i) {
  if (form == Direct || form == Swapped) {
    std::vector<size_t> order(pn.args.size());
    for (size_t k = 0; k < order.size(); ++k) order[k] = k;
    if (form == Swapped) std::swap(order[0], order[1]);
    return unifyArguments(pn, gn, order) && solve(i + 1);
  }
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
          miss.expected = std::to_string(pn.args.size()) + " inputs";
          miss.actual = std::to_string(inputs.size()) + " inputs of `" + graph_.moduleCall(call).path + "`";
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

bool Attempt::finish(size_t i) {
  for (ValueId root : plan_.roots)
    if (!bound_[root.index]) return matchRoot(i, root);
  const Mark before = mark();
  for (size_t d = 0; d < deferred_.size(); ++d) bindFromShape(deferred_[d]);
  for (size_t d = 0; d < deferred_.size(); ++d)
    if (!checkDeferred(deferred_[d])) {
      undo(before);
      return false;
    }
  if (!checkConditions()) {
    undo(before);
    return false;
  }
  if (!explaining_) return true;
  record(true);
  undo(before);
  return false;
}

// A returned value that the first one does not reach: look among the users of what is bound already.
bool Attempt::matchRoot(size_t i, ValueId root) {
  for (ValueId place : placesFor(root)) {
    const Mark m = mark();
    tasks_.push_back({root, make(Argument(place)), {}});
    if (solve(i)) return true;
    undo(m);
    if (budget_.exceeded) return false;
  }
  if (explaining_ && misses_.empty()) {
    const NodeId pid = pattern_.value(root).producer;
    forgive({Reason::Missing, pid, coveredNodes_.empty() ? NodeId() : coveredNodes_.front(), "",
             std::string(pattern_.node(pid).op->packetName()), "nothing near the rest of the match", "", false});
    record(false);
    misses_.pop_back();
    trail_.pop_back();
  }
  return false;
}

std::vector<ValueId> Attempt::placesFor(ValueId root) const {
  // Up from something bound that takes part in it: the value with the fewest users, results of matched nodes before
  // parameters, whose users may be anywhere.
  ValueId from;
  std::pair<bool, size_t> fewest;
  for (uint32_t v = 0; v < bound_.size(); ++v) {
    if (!bound_[v] || !bound_[v]->isValue() || !plan_.ancestorsOf(root)[v]) continue;
    const std::pair here(plan_.producer(ValueId(v)) == nullptr, graph_.value(bound_[v]->valueId()).users.size());
    if (from && here >= fewest) continue;
    from = ValueId(v);
    fewest = here;
  }
  const auto& outputs = pattern_.node(pattern_.value(root).producer).outputs;
  const size_t output = static_cast<size_t>(std::find(outputs.begin(), outputs.end(), root) - outputs.begin());
  std::vector<ValueId> out = from ? plan_.climb(from, bound_[from.index]->valueId(), root, explaining_)
                                  : plan_.valuesOf(*plan_.producer(root), output);
  // Near the match first: in the same module, then after it, then by distance. So q, k and v of one layer come together
  // and in order.
  NodeId last = coveredNodes_.empty() ? NodeId() : coveredNodes_.front();
  for (ValueId r : plan_.roots)
    if (bound_[r.index] && bound_[r.index]->isValue()) last = graph_.value(bound_[r.index]->valueId()).producer;
  const auto key = [&](ValueId v) {
    const NodeId n = graph_.value(v).producer;
    if (!n || !last) return std::tuple(0, true, 0u);
    int depth = 0;
    for (ModuleCallId m = graph_.commonModule(graph_.node(n).module, graph_.node(last).module); m;
         m = graph_.moduleCall(m).parent)
      ++depth;
    const uint32_t a = index_.position[n.index], b = index_.position[last.index];
    return std::tuple(-depth, a < b, a < b ? b - a : a - b);
  };
  std::vector<std::pair<std::tuple<int, bool, uint32_t>, ValueId>> sorted;
  for (ValueId v : out) {
    const NodeId n = graph_.value(v).producer;
    if (n && !taken_[n.index] && !covered_[n.index]) sorted.emplace_back(key(v), v);
  }
  std::sort(sorted.begin(), sorted.end());
  out.clear();
  for (const auto& [k, v] : sorted) out.push_back(v);
  return out;
}

// Bookkeeping
// -----------------------------------------------------------------------------------------------------------------

void Attempt::bind(ValueId v, const Argument* a) {
  bound_[v.index] = a;
  trail_.push_back({Undo::Binding, v.index});
}
void Attempt::map(NodeId p, NodeId g) {
  nodeAt_[p.index] = g;
  trail_.push_back({Undo::Node, p.index});
  if (!covered_[g.index]) cover(g);
}
bool Attempt::cover(NodeId g) {
  if (covered_[g.index]) return false;
  covered_[g.index] = 1;
  coveredNodes_.push_back(g);
  trail_.push_back({Undo::Cover, g.index});
  return true;
}
const Argument* Attempt::make(Argument a) {
  made_.push_back(std::move(a));
  return &made_.back();
}

void Attempt::undo(const Mark& m) {
  while (trail_.size() > m.trail) {
    const Undo u = trail_.back();
    trail_.pop_back();
    switch (u.kind) {
      case Undo::Binding:
        bound_[u.index] = nullptr;
        break;
      case Undo::Node:
        nodeAt_[u.index] = NodeId();
        moduleAt_[u.index] = ModuleCallId();
        break;
      case Undo::Cover:
        covered_[u.index] = 0;
        coveredNodes_.pop_back();
        break;
      case Undo::Deferred:
        deferred_.pop_back();
        break;
      case Undo::Miss:
        misses_.pop_back();
        break;
    }
  }
  tasks_.resize(m.tasks);
  while (made_.size() > m.made) made_.pop_back();
}

bool Attempt::forgive(Miss m) {
  if (!misses_.empty()) {
    record(false);
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
    const bool counts =
        m.mapped || m.reason == Reason::Escapes || m.reason == Reason::Where || m.reason == Reason::Scope;
    if (!counts && m.patternNode && nodeAt_[m.patternNode.index]) --n;
    if (m.parameter == "+" && n) --n;  // an operator too many weighs as much as a wrong one
  }
  return n;
}

void Attempt::record(bool complete) {
  if (misses_.empty() || (misses_.front().guess && !complete)) return;
  Draft d;
  d.matched = matchedCount();
  d.complete = complete;
  if (best_ && std::pair(best_->matched, best_->complete) >= std::pair(d.matched, d.complete)) return;
  d.cause = misses_.front();
  d.anchor = graph_.value(start_).producer;
  for (uint32_t p = 0; p < nodeAt_.size(); ++p)
    if (nodeAt_[p] && (NodeId(p) != d.cause.patternNode || d.cause.mapped)) {
      d.patternNodes.push_back(NodeId(p));
      d.graphNodes.push_back(nodeAt_[p]);
    }
  best_ = std::move(d);
}

std::string Attempt::wantedOperator(NodeId p) const {
  const PlanNode& n = plan_.nodes[p.index];
  if (n.kind == Kind::CallFunction && n.name) return "an operator matching \"" + n.name->pattern() + "\"";
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

Match Attempt::match() const {
  Match out;
  out.bindings.resize(bound_.size());
  for (size_t v = 0; v < bound_.size(); ++v)
    if (bound_[v]) out.bindings[v] = *bound_[v];
  out.nodeOf = nodeAt_;
  out.moduleOf = moduleAt_;
  out.nodes = coveredNodes_;
  std::sort(out.nodes.begin(), out.nodes.end(),
            [&](NodeId a, NodeId b) { return index_.position[a.index] < index_.position[b.index]; });
  out.anchor = graph_.value(start_).producer;
  ModuleCallId common = out.nodes.empty() ? ModuleCallId() : graph_.node(out.nodes.front()).module;
  for (NodeId n : out.nodes) common = graph_.commonModule(common, graph_.node(n).module);
  out.scope = common ? graph_.moduleCall(common).path : "";
  return out;
}

}  // namespace graft
