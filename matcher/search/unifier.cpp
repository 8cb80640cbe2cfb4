#include "matcher/search/unifier.h"

#include <algorithm>
#include <cmath>

#include "core/base/words.h"
#include "core/ir/normal_form.h"
#include "matcher/rule/expression_calls.h"
#include "matcher/rule/meaning.h"
#include "matcher/rule/rank.h"
#include "matcher/rule/symbolic.h"
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

const Type& plainType(const Type& t) {
  return t.kind == Type::Kind::Optional || t.kind == Type::Kind::List ? plainType(t.element()) : t;
}

// The rank that a dim argument of the node counts in.
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

}  // namespace

// A reshape that is compared with another kind of reshape is compared by shape.
std::string Unifier::parameterName(const Site& c) const {
  if (!c.graphNode) return "";
  const Node& n = graph_.node(c.graphNode);
  if (const Parameter* p = parameterAt(n, c.parameter)) return p->name;
  return c.parameter < 0 && isReshape(n.op->name) ? "shape" : "";
}

bool Unifier::unify(const Argument& p, const Argument& g, const Site& c) {
  if (const auto* any = p.as<Named>(); any && any->name == "_") return true;
  if (p.isValue()) {
    const ValueId v = p.valueId();
    if (!plan_.producer(v)) return bindParameter(v, g, c);
    state_.addGoal({v, &g, c});
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

bool Unifier::unifyLists(const Argument& p, const Argument& g, const Site& c) {
  const auto& ps = *p.items();
  if (!g.items()) return ps.size() == 1 ? unify(ps[0], g, c) : compareLiteral(p, g, c);  // dim=1 for dim=[1]
  const auto& gs = *g.items();
  if (std::any_of(ps.begin(), ps.end(), [](const Argument& a) { return a.as<Ellipsis>(); }))
    return unifyIndices(ps, gs, c);
  if (ps.size() != gs.size()) {
    return explainer_.fail(Reason::Arity, c.patternNode, c.graphNode, [&](Mismatch& m) {
      m.parameter = parameterName(c);
      m.expected = std::to_string(ps.size());
      m.actual = counted(gs.size(), "element");
    });
  }
  const bool shape = c.graphNode && graph_.node(c.graphNode).op->is(OperatorFact::Reshape);
  const auto isLiteral = [](const Argument& a) { return !a.isValue() && !a.as<Named>(); };
  if (explainer_.isOn() && !shape && std::all_of(ps.begin(), ps.end(), isLiteral) &&
      std::all_of(gs.begin(), gs.end(), isLiteral))
    return compareLiteral(p, g, c);  // one mismatch, however many elements differ
  for (size_t k = 0; k < ps.size(); ++k) {
    // -1 in a target shape is whatever is left: when all other sizes agree, so does this one.
    if (shape && isMinusOne(ps[k]) && std::count_if(ps.begin(), ps.end(), isMinusOne) == 1) continue;
    if (shape && isMinusOne(gs[k])) {
      if (auto size = sizeMeaning(graph_, graph_.node(c.graphNode).outputs[0], static_cast<int64_t>(k));
          size && graph_.value(graph_.node(c.graphNode).outputs[0]).type.tensorInfo.shape) {
        if (!unify(ps[k], *state_.make(size->argument()), c)) return false;
        continue;
      }
    }
    if (!unify(ps[k], gs[reversed_ && c.graphNode == reversed_ ? gs.size() - 1 - k : k], c)) return false;
  }
  return true;
}

// x[..., i]: the ellipsis stands for as many dimensions as are left, and dimensions at the end need no entry.
bool Unifier::unifyIndices(const std::vector<Argument>& ps, const std::vector<Argument>& gs, const Site& c) {
  static const Argument none;
  const Argument& indexed = graph_.node(c.graphNode).args[0];
  const auto known = indexed.isValue() ? knownRank(graph_, indexed.valueId()) : std::nullopt;
  const size_t rank = known ? static_cast<size_t>(*known) : 0;
  if (!known || rank + 1 < ps.size() || gs.size() > rank)
    return explainer_.fail(Reason::Rank, c.patternNode, c.graphNode, [&](Mismatch& m) {
      m.parameter = indexed.isValue() ? graph_.value(indexed.valueId()).name : parameterName(c);
      m.expected = "one of " + counted(ps.size() - 1, "dimension") + " or more";
      m.actual = "of " + (known ? counted(rank, "dimension") : "an unknown number of dimensions");
    });
  const auto dots = static_cast<size_t>(
      std::find_if(ps.begin(), ps.end(), [](const Argument& a) { return a.as<Ellipsis>(); }) - ps.begin());
  const size_t after = ps.size() - dots - 1;
  for (size_t k = 0; k < rank; ++k) {
    const Argument& p = k < dots ? ps[k] : k >= rank - after ? ps[ps.size() - (rank - k)] : none;
    if (!unify(p, k < gs.size() ? gs[k] : none, c)) return false;
  }
  return true;
}

// What the parameter binds when given `g`; null where its kind does not allow that.
const Argument* Unifier::accepted(PatternParameter::Kind kind, bool orNumber, const Argument& g) {
  switch (kind) {
    case ParameterKind::Value:
      return g.holdsValue() || (orNumber && (isPlainNumber(g) || g.as<SymbolicInt>())) ? &g : nullptr;
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
      return g.as<int64_t>() ? state_.make(Argument(*g.number())) : nullptr;
    case ParameterKind::Int:
      if (g.as<int64_t>() || g.as<SymbolicInt>()) return &g;
      // The value itself, even where its number is known: with other inputs it may be another.
      return g.isValue() && integerMeaning(graph_, g) ? &g : nullptr;
    case ParameterKind::Bool:
      return g.as<bool>() ? &g : nullptr;
    case ParameterKind::String:
      return g.as<std::string>() ? &g : nullptr;
    case ParameterKind::IntList: {
      if (g.as<int64_t>()) return state_.make(Argument::list({g}));
      if (!g.items()) return nullptr;
      for (const Argument& i : *g.items())
        if (!integerMeaning(graph_, i)) return nullptr;
      return &g;
    }
    case ParameterKind::Constant:
      return g.holdsValue() ? nullptr : &g;
  }
  return nullptr;
}

bool Unifier::bindParameter(ValueId pattern, const Argument& g, const Site& c) {
  const std::string& name = pattern_.value(pattern).name;
  const int at = plan_.parameterOf[pattern.index];
  const ParameterKind kind = at < 0 ? ParameterKind::Value : plan_.rule.parameters[static_cast<size_t>(at)].kind;
  const bool orNone = at >= 0 && plan_.rule.parameters[static_cast<size_t>(at)].orNone;
  const bool orNumber = at >= 0 && plan_.rule.parameters[static_cast<size_t>(at)].orNumber;
  const Argument* value = orNone && g.isNone() ? &g : accepted(kind, orNumber, g);
  const auto nameParameter = [&](Mismatch& m) { m.parameter = parameterName(c); };
  if (!value) {
    return explainer_.fail(kind == ParameterKind::Weight ? Reason::Weight : Reason::ConstantKind, c.patternNode,
                           c.graphNode, [&](Mismatch& m) {
                             nameParameter(m);
                             m.expected = std::string(kindWords(kind)) + (orNumber ? " or a number" : "") +
                                          (orNone ? " or None" : "") + " for `" + name + "`";
                             m.actual = explainer_.describe(g);
                             m.detail = "";
                           });
  }
  if (const Argument* before = state_.bound(pattern)) {
    if (before->isValue() || value->isValue() ? sameValue(*before, *value, kind) : literalEquals(*before, *value, c))
      return true;
    return explainer_.fail(Reason::Operand, c.patternNode, c.graphNode, [&](Mismatch& m) {
      nameParameter(m);
      m.expected = "`" + name + "`, which is " + explainer_.describe(*before);
      m.actual = explainer_.describe(*value);
    });
  }
  if (value->isValue() && !checkType(pattern, value->valueId(), c)) return false;
  state_.bind(pattern, value);
  return true;
}

bool Unifier::sameValue(const Argument& a, const Argument& b, ParameterKind kind) const {
  if (a == b) return true;
  if (kind != ParameterKind::Int) return false;
  const auto x = integerMeaning(graph_, a), y = integerMeaning(graph_, b);
  return x && y && *x == *y;
}

// A parameter may be declared with a dtype and shape: f16[?,64].
bool Unifier::checkType(ValueId pattern, ValueId graph, const Site& c) {
  const TensorInfo& wanted = pattern_.value(pattern).type.tensorInfo;
  const TensorInfo& has = graph_.value(graph).type.tensorInfo;
  const std::string& name = pattern_.value(pattern).name;
  if (wanted.dtype && wanted.dtype != has.dtype) {
    if (!explainer_.fail(Reason::DType, c.patternNode, c.graphNode, [&](Mismatch& m) {
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
  return fits || explainer_.fail(Reason::Rank, c.patternNode, c.graphNode, [&](Mismatch& m) {
    m.parameter = name;
    m.expected = "the shape " + shapeString(wanted);
    m.actual = shapeString(has);
  });
}

// Whether what the node computes is no more precise than single precision.
bool Unifier::isSingle(const Node* n) const {
  const auto dtype = n ? graph_.value(n->outputs[0]).type.tensorInfo.dtype : std::nullopt;
  return dtype && isFloatingPoint(*dtype) && dtypeSize(*dtype) <= 4;
}

bool Unifier::literalEquals(const Argument& p, const Argument& g, const Site& c) const {
  const Node* gn = c.graphNode ? &graph_.node(c.graphNode) : nullptr;
  const Parameter* parameter = gn ? parameterAt(*gn, c.parameter) : nullptr;
  if (p.as<int64_t>() && (g.isValue() || g.as<SymbolicInt>())) {
    auto meaning = integerMeaning(graph_, g);
    if (meaning && meaning->number()) return *meaning->number() == *p.as<int64_t>();
    if (!g.isValue()) return false;
  }
  if (g.isValue() && !p.isValue()) {
    const auto meant = meaningOf(graph_, g);
    if (!meant) return false;
    // Traced code calculates with numbers as tensors, in single precision.
    const bool asTensor = graph_.value(g.valueId()).type.isTensor() && p.number() && meant->number();
    if (asTensor) return static_cast<float>(*p.number()) == static_cast<float>(*meant->number()) && isSingle(gn);
    return literalEquals(p, *meant, c);
  }
  if (p.isNone() != g.isNone() && parameter && gn->op->facts->family == OperatorFamily::Factory) {
    // Where a pattern names no device, tensors are made where the model makes them.
    if (p.isNone() && parameter->name == "device") return g.as<DeviceName>();
    const auto meant = meaningOfNone(graph_, *gn, parameter->name);
    return meant && *meant == (p.isNone() ? g : p);
  }
  if (const auto* list = g.items(); list && list->size() == 1 && isPlainNumber(p))
    return literalEquals(p, list->front(), c);
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

bool Unifier::compareLiteral(const Argument& p, const Argument& g, const Site& c) {
  if (literalEquals(p, g, c)) return true;
  const Node* gn = c.graphNode ? &graph_.node(c.graphNode) : nullptr;
  // transpose exchanges two dimensions: which is named first does not matter.
  if (gn && c.parameter >= 1 && gn->args.size() == 3 && gn->op->baseName() == "transpose") {
    const Node& pn = pattern_.node(c.patternNode);
    const Site one{c.patternNode, c.graphNode, 1, false}, two{c.patternNode, c.graphNode, 2, false};
    if (pn.args.size() == 3 && !pn.args[1].isValue() && !pn.args[2].isValue() &&
        literalEquals(pn.args[1], gn->args[2], two) && literalEquals(pn.args[2], gn->args[1], one))
      return true;
  }
  return explainer_.fail(Reason::Literal, c.patternNode, c.graphNode, [&](Mismatch& m) {
    if (const Parameter* parameter = gn ? parameterAt(*gn, c.parameter) : nullptr) {
      m.parameter = parameter->name;
      if (isDimensionParameter(gn->op->name, parameter->name) && p.as<int64_t>() && g.as<int64_t>() &&
          (*p.as<int64_t>() < 0) != (*g.as<int64_t>() < 0) && !rankFor(graph_, *gn)) {
        m.reason = Reason::Rank;
        m.detail = "the rank of the tensor is not known, so " + argumentText(p) + " and " + argumentText(g) +
                   " cannot be compared";
      }
    }
    if (m.parameter.empty()) m.parameter = parameterName(c);
    m.expected = argumentText(p);
    m.actual =
        c.reciprocal && g.number() ? argumentText(g) + " (it multiplies by the inverse)" : explainer_.describe(g);
  });
}

}  // namespace graft
