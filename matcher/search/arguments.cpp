// Attempt, part three: comparing arguments by meaning.
#include <algorithm>
#include <cmath>

#include "core/base/words.h"
#include "core/ir/normal_form.h"
#include "matcher/rule/expression_calls.h"
#include "matcher/rule/rank.h"
#include "matcher/rule/symbolic.h"
#include "matcher/search/attempt.h"
#include "matcher/search/reshapes.h"

namespace graft {
namespace {

using ParameterKind = PatternParameter::Kind;

bool isPlainNumber(const Argument& a) { return a.as<int64_t>() || a.as<double>(); }

std::string_view kindWords(ParameterKind k) {
  switch (k) {
    case ParameterKind::Value:
      return "a value";
    case ParameterKind::Tensor:
      return "a tensor";
    case ParameterKind::Weight:
      return "a weight";
    case ParameterKind::Float:
      return "a number";
    case ParameterKind::Int:
      return "an integer";
    case ParameterKind::Bool:
      return "True or False";
    case ParameterKind::String:
      return "a string";
    case ParameterKind::IntList:
      return "a list of integers";
    case ParameterKind::Constant:
      return "a constant";
  }
  return "";
}

bool sameNumber(double a, double b, bool reciprocal) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return std::signbit(a) == std::signbit(b);
  // 1 / 3 was rounded when the model was written: to double, or to the float that the tensors hold.
  return reciprocal && (std::abs(a - b) <= 4e-16 * std::abs(a) || static_cast<float>(a) == static_cast<float>(b));
}

const Parameter* parameterAt(const Node& n, int i) {
  return i >= 0 && static_cast<size_t>(i) < n.op->parameters.size() ? &n.op->parameters[static_cast<size_t>(i)]
                                                                    : nullptr;
}

// What explanations call the argument; a reshape compared with another kind of reshape is compared by shape.
std::string nameOfParameter(const Graph& g, NodeId node, int i) {
  if (!node) return "";
  const Node& n = g.node(node);
  if (const Parameter* p = parameterAt(n, i)) return p->name;
  return i < 0 && isReshape(n.op->name) ? "shape" : "";
}

const Type& plainType(const Type& t) {
  return t.kind == Type::Kind::Optional || t.kind == Type::Kind::List ? plainType(t.element()) : t;
}

// How many dimensions a dim argument of the node counts in.
std::optional<int64_t> rankFor(const Graph& g, const Node& n) {
  for (const Argument& a : n.args) {
    const Argument* first = a.items() && !a.items()->empty() ? &a.items()->front() : &a;
    if (!first->isValue()) continue;
    auto rank = knownRank(g, first->valueId());
    if (rank && n.op->facts->shape == ShapeRule::OneMore) ++*rank;
    return rank;
  }
  return std::nullopt;
}

bool isMinusOne(const Argument& a) { return a.as<int64_t>() && *a.as<int64_t>() == -1; }

}  // namespace

bool Attempt::unifyArguments(const Node& pn, const Node& gn, bool swapped) {
  const bool named = plan_.nodes[pn.id.index].kind == PlanNode::Kind::CallFunction;
  const auto countDiffers = [&] {
    return fail(Reason::Arity, pn.id, gn.id, [&](Miss& m) {
      m.expected = std::to_string(pn.args.size());
      m.actual = counted(gn.args.size(), "argument");
    });
  };
  if (pn.args.size() > gn.args.size() || (!named && !gn.op->hasSchema && pn.args.size() != gn.args.size()))
    return countDiffers();
  // By name, what else the operator takes may be any literal, but no value that the rule does not know of, unless it
  // gives none.
  if (named && !pn.args.empty())
    for (size_t k = pn.args.size(); k < gn.args.size(); ++k) {
      const auto isNamed = [&](const auto& kw) {
        const auto at = gn.op->findParameter(kw.first);
        return at && *at == k;
      };
      if (gn.args[k].isValue() && std::none_of(pn.kwargs.begin(), pn.kwargs.end(), isNamed)) return countDiffers();
    }
  const uint64_t irrelevant = plan_.irrelevant(plan_.nodes[pn.id.index], *gn.op);
  // Literals first: they fail without a search.
  for (const bool literals : {true, false}) {
    for (size_t k = 0; k < pn.args.size(); ++k) {
      const Argument& p = pn.args[swapped && k < 2 ? 1 - k : k];
      if (p.isValue() == literals) continue;
      if (k < 64 && (irrelevant >> k & 1)) continue;
      if (!unify(p, gn.args[k], {pn.id, gn.id, static_cast<int>(k), false})) return false;
    }
  }
  for (const auto& [key, p] : pn.kwargs) {
    if (named && key == "name") continue;
    const Argument* g = gn.findArgument(key);
    if (!g) return countDiffers();
    const auto at = gn.op->findParameter(key);
    if (!unify(p, *g, {pn.id, gn.id, at ? static_cast<int>(*at) : -1, false})) return false;
  }
  if (!named && !gn.op->hasSchema)
    for (const auto& given : gn.kwargs)
      if (std::none_of(pn.kwargs.begin(), pn.kwargs.end(), [&](const auto& kw) { return kw.first == given.first; }))
        return countDiffers();
  return true;
}

bool Attempt::unify(const Argument& p, const Argument& g, const Context& c) {
  if (const auto* any = p.as<Named>(); any && any->name == "_") return true;
  if (p.isValue()) {
    const ValueId v = p.valueId();
    if (!plan_.producer(v)) return bindParameter(v, g, c);
    tasks_.push_back({v, &g, c});
    return true;
  }
  if (p.items() && (g.items() || isPlainNumber(g))) return unifyLists(p, g, c);
  if (const auto* ps = p.as<Argument::Slice>(), *gs = g.as<Argument::Slice>();
      ps && gs && ps->bounds.size() == gs->bounds.size()) {
    for (size_t k = 0; k < ps->bounds.size(); ++k)
      if (!unify(ps->bounds[k], gs->bounds[k], c)) return false;
    return true;
  }
  if (const auto* pd = p.as<Argument::Dict>(), *gd = g.as<Argument::Dict>();
      pd && gd && pd->items.size() == gd->items.size()) {
    for (size_t k = 0; k < pd->items.size(); ++k)
      if (!unify(pd->items[k].first, gd->items[k].first, c) || !unify(pd->items[k].second, gd->items[k].second, c))
        return false;
    return true;
  }
  return compareLiteral(p, g, c);
}

bool Attempt::unifyLists(const Argument& p, const Argument& g, const Context& c) {
  const auto& ps = *p.items();
  if (!g.items()) return ps.size() == 1 ? unify(ps[0], g, c) : compareLiteral(p, g, c);  // dim=1 for dim=[1]
  const auto& gs = *g.items();
  if (ps.size() != gs.size()) {
    return fail(Reason::Arity, c.patternNode, c.graphNode, [&](Miss& m) {
      m.parameter = nameOfParameter(graph_, c.graphNode, c.parameter);
      m.expected = std::to_string(ps.size());
      m.actual = counted(gs.size(), "element");
    });
  }
  const bool shape = c.graphNode && graph_.node(c.graphNode).op->is(OperatorFact::Reshape);
  const auto isLiteral = [](const Argument& a) { return !a.isValue() && !a.as<Named>(); };
  if (explaining_ && !shape && std::all_of(ps.begin(), ps.end(), isLiteral) &&
      std::all_of(gs.begin(), gs.end(), isLiteral))
    return compareLiteral(p, g, c);  // one mismatch, however many elements differ
  for (size_t k = 0; k < ps.size(); ++k) {
    // -1 in a target shape is whatever is left: when all other sizes agree, so does this one.
    if (shape && isMinusOne(ps[k]) && std::count_if(ps.begin(), ps.end(), isMinusOne) == 1) continue;
    if (shape && isMinusOne(gs[k])) {
      if (auto size = sizeMeaning(graph_, graph_.node(c.graphNode).outputs[0], static_cast<int64_t>(k));
          size && graph_.value(graph_.node(c.graphNode).outputs[0]).type.tensorInfo.shape) {
        if (!unify(ps[k], *make(size->argument()), c)) return false;
        continue;
      }
    }
    if (!unify(ps[k], gs[reversed_ && c.graphNode == reversed_ ? gs.size() - 1 - k : k], c)) return false;
  }
  return true;
}

// What the parameter binds when given `g`; null where its kind does not allow that.
const Argument* Attempt::accepted(PatternParameter::Kind kind, const Argument& g) {
  const auto holdsValue = [&](const Argument& a) {
    bool any = false;
    a.forEachValue([&](ValueId) { any = true; });
    return any;
  };
  switch (kind) {
    case ParameterKind::Value:
      return holdsValue(g) ? &g : nullptr;
    case ParameterKind::Tensor: {
      if (!g.isValue()) return nullptr;
      const Type::Kind k = graph_.value(g.valueId()).type.kind;
      const bool tensor = k == Type::Kind::Tensor || k == Type::Kind::Any || k == Type::Kind::Optional;
      return tensor ? &g : nullptr;
    }
    case ParameterKind::Weight:
      return g.isValue() && index_.isWeightLike(g.valueId()) ? &g : nullptr;
    case ParameterKind::Float:
      if (g.as<double>()) return &g;
      return g.as<int64_t>() ? make(Argument(*g.number())) : nullptr;
    case ParameterKind::Int:
      if (g.as<int64_t>() || g.as<SymbolicInt>()) return &g;
      // The value itself, even where its number is known: with other inputs it may be another.
      return g.isValue() && integerMeaning(graph_, g) ? &g : nullptr;
    case ParameterKind::Bool:
      return g.as<bool>() ? &g : nullptr;
    case ParameterKind::String:
      return g.as<std::string>() ? &g : nullptr;
    case ParameterKind::IntList: {
      if (g.as<int64_t>()) return make(Argument::list({g}));
      if (!g.items()) return nullptr;
      for (const Argument& i : *g.items())
        if (!integerMeaning(graph_, i)) return nullptr;
      return &g;
    }
    case ParameterKind::Constant:
      return holdsValue(g) ? nullptr : &g;
  }
  return nullptr;
}

bool Attempt::bindParameter(ValueId pattern, const Argument& g, const Context& c) {
  const std::string& name = pattern_.value(pattern).name;
  const int at = plan_.parameterOf[pattern.index];
  const ParameterKind kind = at < 0 ? ParameterKind::Value : plan_.rule.parameters[static_cast<size_t>(at)].kind;
  const bool orNone = at >= 0 && plan_.rule.parameters[static_cast<size_t>(at)].orNone;
  const Argument* value = orNone && g.isNone() ? &g : accepted(kind, g);
  const auto parameterName = [&](Miss& m) { m.parameter = nameOfParameter(graph_, c.graphNode, c.parameter); };
  if (!value) {
    return fail(kind == ParameterKind::Weight ? Reason::Weight : Reason::ConstantKind, c.patternNode, c.graphNode,
                [&](Miss& m) {
                  parameterName(m);
                  m.expected = std::string(kindWords(kind)) + (orNone ? " or None" : "") + " for `" + name + "`";
                  m.actual = describe(g);
                  m.detail = "";
                });
  }
  if (const Argument* before = bound_[pattern.index]) {
    if (before->isValue() || value->isValue() ? sameValue(*before, *value, kind) : literalEquals(*before, *value, c))
      return true;
    return fail(Reason::Operand, c.patternNode, c.graphNode, [&](Miss& m) {
      parameterName(m);
      m.expected = "`" + name + "`, which is " + describe(*before);
      m.actual = describe(*value);
    });
  }
  if (value->isValue() && !checkType(pattern, value->valueId(), c)) return false;
  bind(pattern, value);
  return true;
}

bool Attempt::sameValue(const Argument& a, const Argument& b, ParameterKind kind) const {
  if (a == b) return true;
  if (kind != ParameterKind::Int) return false;
  const auto x = integerMeaning(graph_, a), y = integerMeaning(graph_, b);
  return x && y && *x == *y;
}

// A parameter may be declared with a dtype and shape: f16[?,64].
bool Attempt::checkType(ValueId pattern, ValueId graph, const Context& c) {
  const TensorInfo& wanted = pattern_.value(pattern).type.tensorInfo;
  const TensorInfo& has = graph_.value(graph).type.tensorInfo;
  const std::string& name = pattern_.value(pattern).name;
  if (wanted.dtype && wanted.dtype != has.dtype) {
    if (!fail(Reason::DType, c.patternNode, c.graphNode, [&](Miss& m) {
          m.parameter = name;
          m.expected = std::string(dtypeName(*wanted.dtype));
          m.actual = has.dtype ? std::string(dtypeName(*has.dtype)) : "an unknown dtype";
        }))
      return false;
  }
  if (!wanted.shape) return true;
  bool fits = has.shape && has.shape->size() == wanted.shape->size();
  for (size_t i = 0; fits && i < wanted.shape->size(); ++i)
    fits = !(*wanted.shape)[i].isStatic() || (*wanted.shape)[i] == (*has.shape)[i];
  return fits || fail(Reason::Rank, c.patternNode, c.graphNode, [&](Miss& m) {
           m.parameter = name;
           m.expected = "the shape " + shapeString(wanted);
           m.actual = shapeString(has);
         });
}

bool Attempt::literalEquals(const Argument& p, const Argument& g, const Context& c) const {
  const Node* gn = c.graphNode ? &graph_.node(c.graphNode) : nullptr;
  const Parameter* parameter = gn ? parameterAt(*gn, c.parameter) : nullptr;
  if (p.as<int64_t>() && (g.isValue() || g.as<SymbolicInt>())) {
    auto meaning = integerMeaning(graph_, g);
    return meaning && meaning->number() == *p.as<int64_t>();
  }
  if (isPlainNumber(p) && isPlainNumber(g)) {
    if (p.as<int64_t>() && g.as<int64_t>()) {
      const int64_t a = *p.as<int64_t>(), b = *g.as<int64_t>();
      if (a == b) return true;
      if (gn && gn->op->packetName() == "prim.getitem" && gn->args[0].isValue() && (a < 0) != (b < 0)) {
        const auto parts = knownParts(graph_, gn->args[0].valueId());  // list[-1]
        return parts && (a < 0 ? a + *parts : a) == (b < 0 ? b + *parts : b);
      }
      if (!parameter || !isDimensionParameter(gn->op->name, parameter->name) || (a < 0) == (b < 0)) return false;
      const auto rank = rankFor(graph_, *gn);
      return rank && (a < 0 ? a + *rank : a) == (b < 0 ? b + *rank : b);
    }
    if (parameter && plainType(parameter->type).kind == Type::Kind::Int) return false;
    return sameNumber(*p.number(), *g.number(), c.reciprocal);
  }
  if (const auto* a = p.items(), *b = g.items(); a && b && a->size() == b->size()) {
    for (size_t k = 0; k < a->size(); ++k)
      if (!literalEquals((*a)[k], (*b)[k], c)) return false;
    return true;
  }
  return p == g;
}

bool Attempt::compareLiteral(const Argument& p, const Argument& g, const Context& c) {
  if (literalEquals(p, g, c)) return true;
  const Node* gn = c.graphNode ? &graph_.node(c.graphNode) : nullptr;
  // transpose exchanges two dimensions: which is named first does not matter.
  if (gn && c.parameter >= 1 && gn->args.size() == 3 && gn->op->baseName() == "transpose") {
    const Node& pn = pattern_.node(c.patternNode);
    const Context one{c.patternNode, c.graphNode, 1, false}, two{c.patternNode, c.graphNode, 2, false};
    if (pn.args.size() == 3 && !pn.args[1].isValue() && !pn.args[2].isValue() &&
        literalEquals(pn.args[1], gn->args[2], two) && literalEquals(pn.args[2], gn->args[1], one))
      return true;
  }
  return fail(Reason::Literal, c.patternNode, c.graphNode, [&](Miss& m) {
    if (const Parameter* parameter = gn ? parameterAt(*gn, c.parameter) : nullptr) {
      m.parameter = parameter->name;
      if (isDimensionParameter(gn->op->name, parameter->name) && p.as<int64_t>() && g.as<int64_t>() &&
          (*p.as<int64_t>() < 0) != (*g.as<int64_t>() < 0) && !rankFor(graph_, *gn)) {
        m.reason = Reason::Rank;
        m.detail = "the rank of the tensor is not known, so " + argumentText(p) + " and " + argumentText(g) +
                   " cannot be compared";
      }
    }
    if (m.parameter.empty()) m.parameter = nameOfParameter(graph_, c.graphNode, c.parameter);
    m.expected = argumentText(p);
    m.actual = c.reciprocal && g.number() ? argumentText(g) + " (it multiplies by the inverse)" : describe(g);
  });
}

// The elements of a calculated list, where the expression shows them: (x.shape[:-1] + (n, 4)) is the sizes of x but the
// last, n and
// 4. Names that nothing binds yet are left as expressions.
namespace {

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

// A constant that stands in a calculated shape alone takes what the graph has there.
void Attempt::bindFromShape(const Task& t) {
  const PlanNode& p = *plan_.producer(t.pattern);
  if (p.expression < 0 || !t.graph->items()) return;
  const Expression& e = plan_.rule.patternExpressions[static_cast<size_t>(p.expression)];
  std::vector<Element> elements;
  if (!elementsOf(e, environment(), elements) || elements.size() != t.graph->items()->size()) return;
  for (size_t k = 0; k < elements.size(); ++k) {
    if (!elements[k].open) continue;
    const ValueId v = pattern_.findValue(elements[k].open->name);
    if (v && pattern_.isInput(v) && !bound_[v.index]) bindParameter(v, (*t.graph->items())[k], t.context);
  }
}

bool Attempt::namesUnbound(const Expression& e) const {
  if (e.kind == Expression::Kind::Name) {
    const ValueId v = pattern_.findValue(e.name);
    return v && pattern_.isInput(v) && !bound_[v.index];
  }
  return std::any_of(e.operands.begin(), e.operands.end(), [&](const Expression& o) { return namesUnbound(o); });
}

// Calculated integers and lists, once every name is bound.
bool Attempt::checkDeferred(const Task& t) {
  const PlanNode& p = *plan_.producer(t.pattern);
  const auto wrong = [&](std::string expected, std::string detail = {}) {
    return fail(Reason::Literal, t.context.patternNode ? t.context.patternNode : p.id, t.context.graphNode,
                [&](Miss& m) {
                  m.parameter = nameOfParameter(graph_, t.context.graphNode, t.context.parameter);
                  m.expected = std::move(expected);
                  m.actual = describe(*t.graph);
                  if (auto meaning = integerMeaning(graph_, *t.graph)) m.actual = meaning->text();
                  m.detail = std::move(detail);
                  m.mapped = true;
                });
  };
  std::optional<Argument> wanted;
  if (p.expression >= 0) {
    const Expression& e = plan_.rule.patternExpressions[static_cast<size_t>(p.expression)];
    auto value = evaluate(e, environment());
    // A parameter that nothing has bound by now: the shape as a whole does not fit, whatever the parameter were.
    if (!value) return wrong(toString(e), namesUnbound(e) ? std::string() : value.error().message);
    wanted = *value;
  } else {
    // aten.size.int(x, 0) of the pattern: the same calculation over the bound values.
    const Node& n = pattern_.node(p.id);
    if (n.args.size() == 2 && n.op->baseName() == "size" && n.args[0].isValue() && n.args[1].as<int64_t>()) {
      const Argument* of = bound_[n.args[0].valueId().index];
      if (of && of->isValue())
        if (auto size = sizeMeaning(graph_, of->valueId(), *n.args[1].as<int64_t>())) wanted = size->argument();
    }
    if (!wanted)
      return wrong("the integer " + std::string(n.op->packetName()),
                   "the pattern calculates it in a way that cannot be compared");
  }
  const auto same = [&](const Argument& a, const Argument& b) {
    if (const auto* i = a.as<int64_t>(), *j = b.as<int64_t>(); i && j) return *i == *j;
    const auto x = integerMeaning(graph_, a), y = integerMeaning(graph_, b);
    if (x && y) return *x == *y;
    return literalEquals(a, b, t.context);
  };
  bool equal = false;
  if (const auto* a = wanted->items(), *b = t.graph->items(); a && b) {
    const bool shape = t.context.graphNode && graph_.node(t.context.graphNode).op->is(OperatorFact::Reshape);
    equal = a->size() == b->size();
    for (size_t k = 0; equal && k < a->size(); ++k)
      equal = same((*a)[k], (*b)[k]) || (shape && (isMinusOne((*a)[k]) != isMinusOne((*b)[k])));
  } else {
    equal = same(*wanted, *t.graph);
  }
  if (!equal) return wrong(argumentText(*wanted));
  bound_[t.pattern.index] = t.graph;
  trail_.push_back({Undo::Binding, t.pattern.index});
  return true;
}

const Environment& Attempt::environment() const {
  Environment& env = environment_;
  env.graph = &graph_;
  env.names.clear();
  env.modules.clear();
  for (uint32_t v = 0; v < bound_.size(); ++v)
    if (bound_[v]) env.names.emplace_back(pattern_.value(ValueId(v)).name, bound_[v]);
  for (uint32_t p = 0; p < moduleAt_.size(); ++p)
    if (moduleAt_[p]) env.modules.emplace(pattern_.node(NodeId(p)).name, moduleAt_[p]);
  return env;
}

}  // namespace graft
