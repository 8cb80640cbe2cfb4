#include "matcher/search/backtracking_search.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "core/base/words.h"

namespace graft {
namespace {

bool isListOfValues(const Argument& a) {
  const auto* items = a.items();
  return items && items->size() > 1 &&
         std::all_of(items->begin(), items->end(), [](const Argument& i) { return i.isValue(); });
}

// cat([a, b]) on both sides.
bool takesListsOfValues(const Node& p, const Node& g) {
  for (size_t k = 0; k < std::min(p.args.size(), g.args.size()); ++k)
    if (isListOfValues(p.args[k]) && isListOfValues(g.args[k])) return true;
  return false;
}

size_t outputAt(const Node& n, ValueId value) {
  return static_cast<size_t>(std::find(n.outputs.begin(), n.outputs.end(), value) - n.outputs.begin());
}

const Argument* firstValue(const Node& n) {
  for (const Argument& a : n.args)
    if (a.isValue()) return &a;
  return nullptr;
}

}  // namespace

BacktrackingSearch::BacktrackingSearch(const Plan& plan, const std::vector<uint8_t>& taken, Budget& budget)
    : plan_(plan),
      index_(plan.index),
      graph_(plan.index.graph),
      pattern_(plan.pattern),
      budget_(budget),
      state_(plan, taken),
      explainer_(state_),
      unifier_(state_, explainer_),
      forms_(state_, explainer_, unifier_),
      conditions_(state_, explainer_, unifier_),
      roots_(state_) {}

bool BacktrackingSearch::run(ValueId start) {
  state_.restart(start);
  budget_.anchorUsed = 0;
  state_.addGoal({alone_ ? alone_ : plan_.roots.front(), state_.make(Argument(start)), {}});
  return solve(0);
}

std::optional<PartialMatch> BacktrackingSearch::explain(ValueId start) {
  explainer_.begin();
  run(start);
  return explainer_.end();
}

Match BacktrackingSearch::match() const {
  Match out;
  out.bindings.reserve(state_.bindings().size());
  for (const Argument* bound : state_.bindings()) {
    if (bound)
      out.bindings.push_back(*bound);
    else
      out.bindings.emplace_back();
  }
  out.nodeOf = state_.nodeOf();
  out.moduleOf = state_.moduleOf();
  out.nodes = state_.coveredNodes();
  std::sort(out.nodes.begin(), out.nodes.end(),
            [&](NodeId a, NodeId b) { return index_.position[a.index] < index_.position[b.index]; });
  out.anchor = state_.anchor();
  ModuleCallId common = out.nodes.empty() ? ModuleCallId() : graph_.node(out.nodes.front()).module;
  for (NodeId n : out.nodes) common = graph_.commonModule(common, graph_.node(n).module);
  out.scope = common ? graph_.moduleCall(common).path : "";
  return out;
}

// Goals
// ---------------------------------------------------------------------------------------------------------------------

bool BacktrackingSearch::solve(size_t i) {
  if (!budget_.spend()) return false;
  assert(i <= state_.goalCount());
  return i == state_.goalCount() ? finish(i) : matchGoal(i);
}

bool BacktrackingSearch::matchGoal(size_t i) {
  const PlanNode* p = plan_.producer(state_.goal(i).pattern);
  assert(p);  // parameters are bound at once
  switch (p->kind) {
    case PlanNode::Kind::AnyOf:
      return matchAnyOf(i);
    case PlanNode::Kind::CallModule:
      return matchModule(i);
    case PlanNode::Kind::Meaning:
      state_.defer(state_.goal(i));
      return solve(i + 1);
    default:
      return matchNode(i);
  }
}

bool BacktrackingSearch::matchAnyOf(size_t i) {
  const Goal t = state_.goal(i);
  if (const Argument* bound = state_.bound(t.pattern)) return *bound == *t.graph && solve(i + 1);
  const Node& pn = pattern_.node(pattern_.value(t.pattern).producer);
  // Explaining, the alternatives that begin with the operator that is here; the others only if there are none.
  const NodeId g = explainer_.isOn() && t.graph->isValue() ? graph_.value(t.graph->valueId()).producer : NodeId();
  const auto fits = [&](const Argument& a) { return a.isValue() && mayBegin(a.valueId(), g); };
  const bool choose = g && std::any_of(pn.args.begin(), pn.args.end(), fits);
  for (const Argument& alternative : pn.args) {
    if (choose && !fits(alternative)) continue;
    const MatchState::Mark m = state_.mark();
    state_.bind(t.pattern, t.graph);
    const bool mayStand = &alternative == &pn.args.front() || isAsWanted(pn, t);
    if (mayStand && unifier_.unify(alternative, *t.graph, t.site) && solve(i + 1)) return true;
    state_.undo(m);
  }
  return false;
}

// x for x.to(dtype): where it is of that dtype.
bool BacktrackingSearch::isAsWanted(const Node& alternatives, const Goal& t) {
  for (const auto& [what, wanted] : alternatives.kwargs) {
    if (!t.graph->isValue()) return false;
    // A dtype that the match leaves open would let every tensor stand for its own cast.
    if (wanted.isValue() && pattern_.isInput(wanted.valueId()) && !state_.bound(wanted.valueId())) return false;
    const TensorInfo& info = graph_.value(t.graph->valueId()).type.tensorInfo;
    if (what == "dtype" ? !info.dtype : info.device.empty()) return false;
    const Argument has = what == "dtype" ? Argument(*info.dtype) : Argument(DeviceName{info.device});
    // Not the site's parameter: what is compared is the value itself. What differs explains nothing: the cast is
    // missing.
    const Site site{t.site.patternNode, t.site.graphNode, -1, false};
    if (!wanted.isValue() && !unifier_.literalEquals(wanted, has, site)) return false;
    if (!unifier_.unify(wanted, *state_.make(has), site)) return false;
  }
  return true;
}

bool BacktrackingSearch::mayBegin(ValueId pattern, NodeId g) const {
  const PlanNode* p = plan_.producer(pattern);
  if (!p) return false;
  if (p->kind == PlanNode::Kind::Operator || p->kind == PlanNode::Kind::CallFunction) return plan_.accepts(*p, g);
  if (p->kind != PlanNode::Kind::AnyOf) return false;
  const auto& alternatives = pattern_.node(p->id).args;
  return std::any_of(alternatives.begin(), alternatives.end(),
                     [&](const Argument& a) { return a.isValue() && mayBegin(a.valueId(), g); });
}

// Operators
// ---------------------------------------------------------------------------------------------------------------------

bool BacktrackingSearch::matchBound(size_t i) {
  const Goal t = state_.goal(i);
  if (*state_.bound(t.pattern) == *t.graph) return solve(i + 1);
  return explainer_.fail(Reason::Operand, t.site.patternNode, t.site.graphNode, [&](Mismatch& miss) {
    miss.expected = "the same value twice: " + explainer_.describe(*state_.bound(t.pattern));
    miss.actual = explainer_.describe(*t.graph);
    if (t.site.parameter >= 0) miss.parameter = unifier_.parameterName(t.site);
    miss.mapped = true;
  }) && solve(i + 1);
}

bool BacktrackingSearch::matchNode(size_t i) {
  const Goal t = state_.goal(i);
  if (state_.bound(t.pattern)) return matchBound(i);
  const NodeId pid = pattern_.value(t.pattern).producer;
  const PlanNode& p = plan_.nodes[pid.index];
  const Node& pn = pattern_.node(pid);
  if (!t.graph->isValue()) {
    return explainer_.fail(Reason::Operand, pid, t.site.graphNode, [&](Mismatch& miss) {
      miss.expected = "the result of " + std::string(pn.op->baseName());
      miss.actual = explainer_.describe(*t.graph);
    }) && solve(i + 1);
  }
  const MatchState::Mark before = state_.mark();
  ValueId v = t.graph->valueId();
  NodeId g = graph_.value(v).producer;
  // Look through operators that only hand their argument on.
  while (g && !plan_.accepts(p, g) && index_.handsOn(g) && graph_.node(g).args[0].isValue() && !state_.isTaken(g) &&
         state_.cover(g)) {
    v = graph_.node(g).args[0].valueId();
    g = graph_.value(v).producer;
  }
  if (!g || !plan_.accepts(p, g)) {
    state_.undo(before);
    return matchOtherwise(i, graph_.value(t.graph->valueId()).producer);
  }
  const Node& gn = graph_.node(g);
  bool fits = true;
  if (state_.isTaken(g) || state_.isCovered(g)) {
    fits = explainer_.fail(Reason::Overlap, pid, g, [&](Mismatch& miss) {
      miss.detail = state_.isTaken(g) ? "`" + gn.name + "` is already part of another match"
                                      : "`" + gn.name + "` already stands for another node of the pattern";
    });
  }
  if (fits && (pn.outputs.size() > gn.outputs.size() || outputAt(pn, t.pattern) != outputAt(gn, v))) {
    fits = explainer_.fail(Reason::Arity, pid, g, [&](Mismatch& miss) {
      miss.expected = "output " + std::to_string(outputAt(pn, t.pattern)) + " of " + std::string(pn.op->baseName());
      miss.actual = "output " + std::to_string(outputAt(gn, v)) + " of " + std::to_string(gn.outputs.size());
      miss.mapped = true;
    });
  }
  if (fits && !state_.coveredNodes().empty() && index_.regionOf(state_.coveredNodes().front()) != index_.regionOf(g)) {
    fits = explainer_.fail(Reason::Region, pid, g, [&](Mismatch& miss) {
      miss.detail = "`" + gn.name + "` lies in another block, autocast or grad-mode region than `" +
                    graph_.node(state_.coveredNodes().front()).name + "`";
      miss.mapped = true;
    });
  }
  if (!fits) {
    state_.undo(before);
    return false;
  }
  state_.map(pid, g);
  for (size_t o = 0; o < pn.outputs.size() && o < gn.outputs.size(); ++o)
    state_.bind(pn.outputs[o], state_.make(Argument(gn.outputs[o])));
  // The value behind identities is what the users of the match see. Nothing is bound where the graph's node has fewer
  // results than the pattern's, which only an explanation forgives.
  if (const Argument* bound = state_.bound(t.pattern); bound && *bound != *t.graph) state_.rebind(t.pattern, t.graph);
  const int forms = forms_.formsOf(p, pn, gn);
  for (int form = OperandForms::Direct; form <= OperandForms::Reshaped; form *= 2) {
    if (!(forms & form)) continue;
    const MatchState::Mark m = state_.mark();
    if (forms_.unify(pn, gn, static_cast<OperandForms::Form>(form)) && solve(i + 1)) return true;
    state_.undo(m);
  }
  if (explainer_.isOn() && p.kind == PlanNode::Kind::Operator) matchInAnotherForm(pn, gn, forms, i);
  state_.undo(before);
  return false;
}

// Explaining: the same operator with its operands in an order that means something else.
void BacktrackingSearch::matchInAnotherForm(const Node& pn, const Node& gn, int forms, size_t i) {
  const std::string here = "`" + gn.name + "` (" + std::string(gn.op->packetName()) + ")";
  const bool isTwoSided =
      pn.args.size() >= 2 && ((pn.args[0].isValue() && pn.args[1].isValue()) || pn.op->is(OperatorFact::NumberOperand));
  if (forms == OperandForms::Direct && isTwoSided) {
    const MatchState::Mark m = state_.mark();
    if (explainer_.fail(Reason::Operand, pn.id, gn.id, [&](Mismatch& miss) {
          miss.detail = "the operands of " + here + " are the other way round";
          miss.mapped = miss.guess = true;
        }))
      if (forms_.unify(pn, gn, OperandForms::Swapped)) solve(i + 1);
    state_.undo(m);
  }
  if (takesListsOfValues(pn, gn)) {
    const MatchState::Mark m = state_.mark();
    if (explainer_.fail(Reason::Operand, pn.id, gn.id, [&](Mismatch& miss) {
          miss.detail = "the items that " + here + " lists are in reverse order";
          miss.mapped = miss.guess = true;
        })) {
      unifier_.readReversed(gn.id);
      if (forms_.unify(pn, gn, OperandForms::Direct)) solve(i + 1);
      unifier_.readReversed(NodeId());
    }
    state_.undo(m);
  }
}

// Explaining only: the pattern's operator is not here. Three ways on: another operator stands in its place, the graph
// has one more, or the graph lacks it.
bool BacktrackingSearch::matchOtherwise(size_t i, NodeId g) {
  if (!explainer_.isOn()) return false;
  const Goal t = state_.goal(i);
  const NodeId pid = pattern_.value(t.pattern).producer;
  if (plan_.mayBeAbsent(pid)) return false;  // the alternative without it explains what is here
  const Node& pn = pattern_.node(pid);
  const std::string wanted = explainer_.wantedOperator(pid);
  if (!g) {
    const MatchState::Mark m = state_.mark();
    const Argument* inner = firstValue(pn);
    if (explainer_.fail(Reason::Missing, pid, t.site.graphNode, [&](Mismatch& miss) {
          miss.expected = wanted;
          miss.actual = explainer_.describeValue(t.graph->valueId());
          miss.partial = true;  // whatever was to be computed there: any input would do
        })) {
      state_.bind(t.pattern, t.graph);
      if (inner && unifier_.unify(*inner, *t.graph, t.site)) solve(i + 1);
    }
    state_.undo(m);
    return false;
  }
  const Node& gn = graph_.node(g);
  const auto describeOperator = [&](Mismatch& miss) {
    miss.expected = wanted;
    miss.actual = std::string(gn.op->packetName());
    if (miss.actual != wanted) return;
    miss.expected = pn.op->name;  // two overloads of one name
    miss.actual = gn.op->name;
  };
  const bool isFree = !state_.isTaken(g) && !state_.isCovered(g);
  const bool eitherOrder = plan_.nodes[pid.index].commutative && pn.args.size() > 1 && pn.args[0] != pn.args[1];
  for (const bool swapped : {false, true}) {
    if (swapped && !eitherOrder) break;
    const MatchState::Mark m = state_.mark();
    if (isFree && explainer_.fail(Reason::Operator, pid, g, describeOperator) && unifyOtherOperator(pn, gn, swapped))
      solve(i + 1);
    state_.undo(m);
  }
  if (const Argument* inner = firstValue(gn); inner && isFree && t.site.patternNode) {
    const MatchState::Mark m = state_.mark();
    if (explainer_.fail(Reason::Operator, pid, g, [&](Mismatch& miss) {
          describeOperator(miss);
          miss.detail = "the graph has " + withArticle(gn.op->packetName()) + " after " +
                        (wanted.starts_with("an ") ? wanted : "the " + wanted) + ", but the rule does not";
          miss.extraOperator = true;
        })) {
      state_.cover(g);
      state_.redirectGoal(i, inner);
      matchGoal(i);
      state_.redirectGoal(i, t.graph);
    }
    state_.undo(m);
  }
  // What is left without it is its first operand, or another one that the pattern computes: y + linear(x).
  for (const Argument& inner : pn.args) {
    if (!inner.isValue() || (&inner != firstValue(pn) && !plan_.producer(inner.valueId()))) continue;
    const MatchState::Mark m = state_.mark();
    if (explainer_.fail(Reason::Missing, pid, g, describeOperator)) {
      state_.bind(t.pattern, t.graph);
      if (unifier_.unify(inner, *t.graph, t.site)) solve(i + 1);
    }
    state_.undo(m);
  }
  return false;
}

// The operands of another operator that stands in the place of the pattern's, as far as it has any.
bool BacktrackingSearch::unifyOtherOperator(const Node& pn, const Node& gn, bool swapped) {
  state_.map(pn.id, gn.id);
  for (size_t o = 0; o < pn.outputs.size() && o < gn.outputs.size(); ++o)
    state_.bind(pn.outputs[o], state_.make(Argument(gn.outputs[o])));
  for (size_t k = 0; k < pn.args.size(); ++k) {
    const Argument& p = pn.args[swapped && k < 2 ? 1 - k : k];
    if (!p.isValue()) continue;
    const int parameter = plan_.parameterOf[p.valueId().index];
    if (parameter >= 0 && plan_.rule.parameters[static_cast<size_t>(parameter)].isConstant()) continue;
    if (k >= gn.args.size() || !gn.args[k].isValue())
      state_.markForgivenPartial();
    else if (!unifier_.unify(p, gn.args[k], {pn.id, gn.id, static_cast<int>(k), false}))
      return false;
  }
  return true;
}

// Module calls
// ---------------------------------------------------------------------------------------------------------------------

bool BacktrackingSearch::matchModule(size_t i) {
  const Goal t = state_.goal(i);
  const NodeId pid = pattern_.value(t.pattern).producer;
  const PlanNode& p = plan_.nodes[pid.index];
  const Node& pn = pattern_.node(pid);
  if (const Argument* bound = state_.bound(t.pattern)) return *bound == *t.graph && solve(i + 1);
  const NodeId g = t.graph->isValue() ? graph_.value(t.graph->valueId()).producer : NodeId();
  if (!g) {
    return explainer_.fail(Reason::ModuleType, pid, t.site.graphNode, [&](Mismatch& miss) {
      miss.expected = "a call of " + (p.type.empty() ? "a module" : p.type);
      miss.actual = explainer_.describe(*t.graph);
    }) && solve(i + 1);
  }
  const size_t wantedOutput = outputAt(pn, t.pattern);
  ModuleCallId nearest;
  for (ModuleCallId call = graph_.node(g).module; call; call = graph_.moduleCall(call).parent) {
    const auto outputs = plan_.outputsOf(call);
    if (wantedOutput >= outputs.size() || outputs[wantedOutput] != t.graph->valueId()) continue;
    if (!nearest) nearest = call;
    if (!plan_.accepts(p, graph_.moduleCall(call))) continue;
    const MatchState::Mark m = state_.mark();
    if (enterModule(pn, g, call, outputs) && solve(i + 1)) return true;
    state_.undo(m);
    if (explainer_.isOn()) return false;
  }
  if (!explainer_.isOn()) return false;
  const MatchState::Mark m = state_.mark();
  if (forgiveOtherModule(p, g, nearest) && (!nearest || enterModule(pn, g, nearest, {t.graph->valueId()})))
    solve(i + 1);
  state_.undo(m);
  return false;
}

bool BacktrackingSearch::enterModule(const Node& pn, NodeId g, ModuleCallId call, const std::vector<ValueId>& outputs) {
  for (NodeId n : index_.nodesIn(call)) {
    if (!index_.effective[n.index]) continue;
    if (state_.isTaken(n) || !state_.cover(n)) {
      explainer_.fail(Reason::Overlap, pn.id, n, [&](Mismatch& miss) {
        miss.detail = "`" + graph_.node(n).name + "` is already part of another match";
      });
      return false;
    }
  }
  state_.mapModule(pn.id, g, call);
  for (size_t o = 0; o < pn.outputs.size() && o < outputs.size(); ++o)
    state_.bind(pn.outputs[o], state_.make(Argument(outputs[o])));
  const std::vector<ValueId> inputs = plan_.inputsOf(call);
  // attention(x, x, x): what comes in is x.
  std::vector<Argument> args;
  for (const Argument& a : pn.args)
    if (inputs.size() >= pn.args.size() || std::find(args.begin(), args.end(), a) == args.end()) args.push_back(a);
  if (inputs.size() != args.size() && !explainer_.fail(Reason::Arity, pn.id, g, [&](Mismatch& miss) {
        miss.expected = std::to_string(args.size());
        miss.actual = counted(inputs.size(), "input") + " in the call of `" + graph_.moduleCall(call).path + "`";
        miss.mapped = true;
      }))
    return false;
  for (size_t k = 0; k < std::min(inputs.size(), args.size()); ++k)
    if (!unifier_.unify(*state_.make(args[k]), *state_.make(Argument(inputs[k])),
                        {pn.id, g, static_cast<int>(k), false}))
      return false;
  return true;
}

// Explaining: no module call here is the one that the pattern asks for. `nearest` has the same result; none: none has.
bool BacktrackingSearch::forgiveOtherModule(const PlanNode& p, NodeId g, ModuleCallId nearest) {
  const ModuleCall* call = nearest ? &graph_.moduleCall(nearest) : nullptr;
  PlanNode anyName = p;
  anyName.name = anyName.path = nullptr;
  const bool typeFits = call && !p.type.empty() && plan_.accepts(anyName, *call);
  const bool byName = call && (p.type.empty() || typeFits);
  return explainer_.fail(byName ? Reason::ModuleName : Reason::ModuleType, p.id, g, [&](Mismatch& miss) {
    if (byName) {
      miss.expected = "a name matching \"" + (p.path ? p.path->pattern() : p.name ? p.name->pattern() : "") + "\"";
      miss.actual = "`" + (p.path ? call->path : std::string(call->lastName())) + "`";
    } else {
      miss.expected = p.type.empty() ? "a module call" : p.type;
      miss.actual = call && !call->type.empty() ? call->type : "no module call with this result";
    }
    miss.mapped = true;
  });
}

// Roots
// ---------------------------------------------------------------------------------------------------------------------

bool BacktrackingSearch::finish(size_t i) {
  if (alone_) return true;
  for (ValueId root : plan_.roots)
    if (!state_.bound(root)) return matchRoot(i, root);
  const MatchState::Mark before = state_.mark();
  if (conditions_.hold()) {
    if (!explainer_.isOn()) return true;
    explainer_.record(true);
  }
  state_.undo(before);
  return false;
}

// A returned value that the first one does not reach: look among the users of what is bound already.
bool BacktrackingSearch::matchRoot(size_t i, ValueId root) {
  const ValueId from = roots_.nearestBound(root);
  const CandidateRoots* many = explainer_.isOn() ? nullptr : roots_.many(root, from, [&](ValueId r, ValueId candidate) {
    return fitsAlone(r, candidate);
  });
  if (many) {
    CandidateRootWalk walk(*many, roots_.lastMatched(), state_.taken());
    bool found = false;
    for (ValueId candidate; !found && (candidate = walk.next());) {
      if (state_.isCovered(graph_.value(candidate).producer)) continue;
      found = matchRootAt(i, root, candidate);
      if (budget_.exceeded) break;
    }
    plan_.looked += walk.looked();
    return found;
  }
  for (ValueId candidate : roots_.above(root, from, explainer_.isOn())) {
    if (matchRootAt(i, root, candidate)) return true;
    if (budget_.exceeded) return false;
  }
  if (explainer_.isOn() && !state_.forgiven()) explainMissingRoot(i, root);
  return false;
}

bool BacktrackingSearch::matchRootAt(size_t i, ValueId root, ValueId candidate) {
  const MatchState::Mark m = state_.mark();
  state_.addGoal({root, state_.make(Argument(candidate)), {}});
  if (solve(i)) return true;
  state_.undo(m);
  return false;
}

bool BacktrackingSearch::fitsAlone(ValueId root, ValueId candidate) {
  if (state_.isTaken(graph_.value(candidate).producer)) return false;
  if (!apart_) apart_ = std::make_unique<BacktrackingSearch>(plan_, state_.taken(), budget_);
  apart_->alone_ = root;
  const uint64_t spent = budget_.anchorUsed;  // this counts for the search as a whole, not for one anchor
  const bool before = std::exchange(budget_.exceeded, false);
  const bool fits = apart_->run(candidate) || budget_.exceeded;
  budget_.anchorUsed = spent;
  budget_.exceeded = budget_.exceeded || before;
  return fits;
}

// Explaining: the root is not above what is bound. Perhaps it is beside it, where something on the way is not as the
// pattern has it; otherwise it is missing.
void BacktrackingSearch::explainMissingRoot(size_t i, ValueId root) {
  constexpr size_t mostTried = 4;
  size_t tried = 0;
  for (ValueId candidate : roots_.anywhere(root)) {
    if (++tried > mostTried) break;
    const MatchState::Mark m = state_.mark();
    state_.addGoal({root, state_.make(Argument(candidate)), {}});
    solve(i);
    state_.undo(m);
  }
  NodeId named = pattern_.value(root).producer;  // any_of(f(x), …) is reported as f
  while (plan_.nodes[named.index].kind == PlanNode::Kind::AnyOf && pattern_.node(named).args[0].isValue() &&
         plan_.producer(pattern_.node(named).args[0].valueId()))
    named = plan_.producer(pattern_.node(named).args[0].valueId())->id;
  const MatchState::Mark m = state_.mark();
  explainer_.fail(Reason::Missing, named, state_.coveredNodes().empty() ? NodeId() : state_.coveredNodes().front(),
                  [&](Mismatch& miss) {
                    miss.expected = explainer_.wantedOperator(named);
                    miss.actual = "nothing near the rest of the match";
                  });
  explainer_.record(false);
  state_.undo(m);
}

}  // namespace graft
