#include "matcher/search/conditions.h"

#include <algorithm>

#include "matcher/rule/expression_calls.h"
#include "matcher/rule/meaning.h"
#include "matcher/rule/rank.h"
#include "matcher/rule/symbolic.h"

namespace graft {
namespace {

// The elements of a calculated list, where the expression shows them: (x.shape[:-1] + (n, 4)) has the sizes of x
// without the last, then n, then 4. Names that nothing binds yet are left as expressions.
struct Element {
  std::optional<Argument> value;
  const Expression* open = nullptr;
};

bool elementsOf(const Expression& e, const Environment& env, std::vector<Element>& out) {
  using ExpressionKind = Expression::Kind;
  if (e.kind == ExpressionKind::Binary && e.name == "+")
    return elementsOf(e.operands[0], env, out) && elementsOf(e.operands[1], env, out);
  if (e.kind == ExpressionKind::List || e.kind == ExpressionKind::Tuple) {
    for (const Expression& o : e.operands) {
      auto v = evaluate(o, env);
      if (v)
        out.push_back({*v, nullptr});
      else if (o.kind == ExpressionKind::Name)
        out.push_back({std::nullopt, &o});
      else
        return false;
    }
    return true;
  }
  auto v = evaluate(e, env);
  if (!v || !v->items()) return false;
  for (const Argument& a : *v->items()) out.push_back({a, nullptr});
  return true;
}

}  // namespace

bool Conditions::hold() {
  for (size_t d = 0; d < state_.deferred().size(); ++d) bindFromShape(state_.deferred()[d]);
  if (!state_.deferred().empty()) bindBySizes();
  for (size_t d = 0; d < state_.deferred().size(); ++d)
    if (!checkCalculated(state_.deferred()[d])) return false;
  return checkScope() && soundness_.nothingEscapes() && checkWhere() && checkUnpacking() && soundness_.keepsOrder() &&
         soundness_.keepsMemory();
}

// A constant that is one element of a calculated shape binds what the graph has there.
void Conditions::bindFromShape(const Goal& t) {
  const PlanNode& p = *plan_.producer(t.pattern);
  if (p.expression < 0 || !t.graph->items()) return;
  const Expression& e = plan_.rule.patternExpressions[static_cast<size_t>(p.expression)];
  std::vector<Element> elements;
  if (!elementsOf(e, state_.environment(), elements) || elements.size() != t.graph->items()->size()) return;
  for (size_t k = 0; k < elements.size(); ++k) {
    if (!elements[k].open) continue;
    const ValueId v = pattern_.findValue(elements[k].open->name);
    if (v && pattern_.isInput(v) && !state_.bound(v)) unifier_.bindParameter(v, (*t.graph->items())[k], t.site);
  }
}

// A value that the pattern knows by its sizes alone, y in x[:, :y.shape[0]]: any with these sizes will do, since
// nothing else of it is asked. Where the graph asks a value for that size, it is this one; else the first input that
// has it, or the first value before the match.
void Conditions::bindBySizes() {
  constexpr size_t mostTried = 200;
  for (ValueId input : pattern_.inputs()) {
    const int at = plan_.parameterOf[input.index];
    if (state_.bound(input) || at < 0 || plan_.rule.parameters[static_cast<size_t>(at)].isConstant()) continue;
    const std::string& name = pattern_.value(input).name;
    std::vector<const Goal*> goals;
    for (const Goal& t : state_.deferred()) {
      const int e = plan_.producer(t.pattern)->expression;
      if (e >= 0 && reads(plan_.rule.patternExpressions[static_cast<size_t>(e)], name)) goals.push_back(&t);
    }
    if (goals.empty()) continue;
    std::vector<ValueId> candidates;
    const auto add = [&](ValueId v) {
      const NodeId by = graph_.value(v).producer;
      const bool isEarlier = !by || (!state_.isCovered(by) && state_.anchor() &&
                                     index_.position[by.index] < index_.position[state_.anchor().index]);
      if (candidates.size() < mostTried && isEarlier && graph_.value(v).type.isTensor()) candidates.push_back(v);
    };
    for (const Goal* t : goals) {
      const NodeId asker = t->graph->isValue() ? graph_.value(t->graph->valueId()).producer : NodeId();
      if (asker && graph_.node(asker).op->baseName() == "size" && graph_.node(asker).args[0].isValue())
        add(graph_.node(asker).args[0].valueId());
    }
    for (ValueId v : graph_.inputs()) add(v);
    for (NodeId n : index_.order)
      if (candidates.size() < mostTried)
        for (ValueId v : graph_.node(n).outputs) add(v);
    const auto fits = [&](const Goal* t) {
      const int e = plan_.producer(t->pattern)->expression;
      auto value = evaluate(plan_.rule.patternExpressions[static_cast<size_t>(e)], state_.environment());
      return value && isSame(*value, *t);
    };
    for (ValueId candidate : candidates) {
      const MatchState::Mark before = state_.mark();
      state_.bind(input, state_.make(Argument(candidate)));
      if (std::all_of(goals.begin(), goals.end(), fits)) break;
      state_.undo(before);
    }
  }
}

bool Conditions::isSame(const Argument& wanted, const Goal& t) const {
  const auto same = [&](const Argument& a, const Argument& b) {
    if (const auto* i = a.as<int64_t>(), *j = b.as<int64_t>(); i && j) return *i == *j;
    const auto x = integerMeaning(graph_, a), y = integerMeaning(graph_, b);
    if (x && y && (*x == *y || !b.isValue())) return *x == *y;
    return unifier_.literalEquals(a, b, t.site);
  };
  const auto listed = wanted.items() && t.graph->isValue() ? meaningOf(graph_, *t.graph) : std::nullopt;
  const auto *a = wanted.items(), *b = listed ? listed->items() : t.graph->items();
  if (!a || !b) return same(wanted, *t.graph);
  const bool shape = t.site.graphNode && graph_.node(t.site.graphNode).op->is(OperatorFact::Reshape);
  bool equal = a->size() == b->size();
  for (size_t k = 0; equal && k < a->size(); ++k)
    equal = same((*a)[k], (*b)[k]) || (shape && (isMinusOne((*a)[k]) != isMinusOne((*b)[k])));
  return equal;
}

// Calculated integers and lists, once every name is bound.
bool Conditions::checkCalculated(const Goal& t) {
  const PlanNode& p = *plan_.producer(t.pattern);
  const auto wrong = [&](std::string expected, std::string detail = {}) {
    return explainer_.fail(Reason::Literal, t.site.patternNode ? t.site.patternNode : p.id, t.site.graphNode,
                           [&](Mismatch& m) {
                             m.parameter = unifier_.parameterName(t.site);
                             m.expected = std::move(expected);
                             m.actual = explainer_.describe(*t.graph);
                             if (auto meaning = integerMeaning(graph_, *t.graph)) m.actual = meaning->text();
                             m.detail = std::move(detail);
                             m.mapped = true;
                           });
  };
  std::optional<Argument> wanted;
  if (p.expression >= 0) {
    const Expression& e = plan_.rule.patternExpressions[static_cast<size_t>(p.expression)];
    auto value = evaluate(e, state_.environment());
    // Where nothing has bound a parameter by now, the whole shape does not fit, whatever the parameter is.
    if (!value) return wrong(toString(e), namesUnbound(e, true) ? std::string() : value.error().message);
    wanted = *value;
  } else {
    // aten.size.int(x, 0) of the pattern: the same calculation over the bound values.
    const Node& n = pattern_.node(p.id);
    if (n.args.size() == 2 && n.op->baseName() == "size" && n.args[0].isValue() && n.args[1].as<int64_t>()) {
      const Argument* of = state_.bound(n.args[0].valueId());
      if (of && of->isValue())
        if (auto size = sizeMeaning(graph_, of->valueId(), *n.args[1].as<int64_t>())) wanted = size->argument();
    }
    if (!wanted)
      return wrong("the integer " + std::string(n.op->packetName()),
                   "the pattern calculates it in a way that cannot be compared");
  }
  if (!isSame(*wanted, t)) return wrong(argumentText(*wanted));
  state_.bind(t.pattern, t.graph);
  return true;
}

// `a, b = x.chunk(n)` means two, as in Python: a third that nobody reads would go unnoticed.
bool Conditions::checkUnpacking() {
  if (state_.forgiven()) return true;  // the forgiven mismatch says it already
  for (const auto& [list, wanted] : plan_.rule.unpacked) {
    if (!state_.bound(list) || !state_.bound(list)->isValue()) continue;
    const ValueId v = state_.bound(list)->valueId();
    const auto parts = knownParts(graph_, v);
    if (!parts || static_cast<size_t>(*parts) == wanted) continue;
    if (!explainer_.fail(Reason::Arity, pattern_.value(list).producer, graph_.value(v).producer,
                         [&, wanted = wanted](Mismatch& miss) {
                           miss.detail = "`" + graph_.value(v).name + "` is a list of " + std::to_string(*parts) +
                                         ", but the rule unpacks it into " + std::to_string(wanted);
                           miss.mapped = true;
                         }))
      return false;
  }
  return true;
}

bool Conditions::checkScope() {
  if (!plan_.scope) return true;
  ModuleCallId m = state_.coveredNodes().empty() ? ModuleCallId() : graph_.node(state_.coveredNodes().front()).module;
  for (NodeId n : state_.coveredNodes()) m = graph_.commonModule(m, graph_.node(n).module);
  const std::string actual = m ? graph_.moduleCall(m).path : "";
  for (; m; m = graph_.moduleCall(m).parent)
    if (RE2::FullMatch(graph_.moduleCall(m).path, *plan_.scope)) return true;
  return explainer_.fail(Reason::Scope, {}, state_.anchor(), [&](Mismatch& miss) {
    miss.expected = "\"" + plan_.rule.scope + "\"";
    miss.actual = actual.empty() ? "the model itself" : "\"" + actual + "\"";
  });
}

// Names of the pattern's inputs alone, or of any value of the pattern.
bool Conditions::namesUnbound(const Expression& e, bool inputs) const {
  if (e.kind == Expression::Kind::Name) {
    const ValueId v = pattern_.findValue(e.name);
    if (v && !state_.bound(v) && (!inputs || pattern_.isInput(v))) return true;
  }
  return std::any_of(e.operands.begin(), e.operands.end(),
                     [&](const Expression& o) { return namesUnbound(o, inputs); });
}

bool Conditions::checkWhere() {
  if (!plan_.rule.where) return true;
  const Expression& e = *plan_.rule.where;
  auto value = evaluate(e, state_.environment());
  if (!value && state_.forgiven() && namesUnbound(e, false)) return true;  // the forgiven mismatch says it already
  if (value && value->as<bool>() && *value->as<bool>()) return true;
  if (value && value->number() && *value->number() != 0) return true;
  return explainer_.fail(Reason::Where, {}, state_.anchor(), [&](Mismatch& miss) {
    // Of a conjunction, the first part that does not hold is the cause.
    const Expression* part = &e;
    std::string why = value ? "" : value.error().message;
    while (part->kind == Expression::Kind::Binary && part->name == "and") {
      auto left = evaluate(part->operands[0], state_.environment());
      const bool holds = left && (left->as<bool>() ? *left->as<bool>() : left->number().value_or(0) != 0);
      if (!left) why = left.error().message;
      part = &part->operands[holds ? 1 : 0];
    }
    miss.expected = toString(*part);
    miss.actual = "it is false here";
    if (part->kind == Expression::Kind::Binary && !part->operands.empty()) {
      if (auto left = evaluate(part->operands[0], state_.environment()))
        miss.actual = toString(part->operands[0]) + " is " + explainer_.describe(*left);
    }
    miss.detail = why;
  });
}

}  // namespace graft
