#include "matcher/search/operand_forms.h"

#include <algorithm>

#include "core/base/words.h"
#include "matcher/rule/expression_calls.h"
#include "matcher/search/reshapes.h"

namespace graft {
namespace {

using NodeKind = PlanNode::Kind;

bool isNumber(const Argument& a) { return a.as<int64_t>() || a.as<double>(); }

// The dimension that a literal names, counted from the front.
std::optional<size_t> dimension(const Argument& a, size_t rank) {
  const auto* d = a.as<int64_t>();
  if (!d) return std::nullopt;
  const int64_t at = *d < 0 ? *d + static_cast<int64_t>(rank) : *d;
  return at >= 0 && at < static_cast<int64_t>(rank) ? std::optional(static_cast<size_t>(at)) : std::nullopt;
}

}  // namespace

bool OperandForms::plausible(const Argument& p, const Argument& g) const {
  if (explainer_.isOn()) return true;
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
                           : g.isValue() || g.items() != nullptr || (kind.orNumber && isNumber(g));
}

int OperandForms::formsOf(const PlanNode& p, const Node& pn, const Node& gn) const {
  if (p.kind != NodeKind::Operator || pn.args.size() < 2 || gn.args.size() < 2) return Direct;
  if (p.reshapes && index_.opOf[gn.id.index] != p.op) return Reshaped;
  if (p.functional != GraphIndex::none && index_.opOf[gn.id.index] == p.functional) return Direct;
  if (index_.opOf[gn.id.index] != p.op) {  // mul for div, or div for mul: one operand must be a number
    int forms = 0;
    if (isNumber(gn.args[1])) forms |= Reciprocal;
    if (p.isDivision && isNumber(gn.args[0])) forms |= ReciprocalSwapped;   // x / 8 found as 0.125 * x
    if (!p.isDivision && isNumber(gn.args[1])) forms |= ReciprocalSwapped;  // 8 * x found as x / 0.125
    return forms;
  }
  if (!p.commutative) return Direct;
  // With a factor (alpha) the operands cannot be exchanged. When explaining, the factor may be the only mismatch.
  if (const Argument* alpha = gn.findArgument("alpha"); alpha && alpha->number() != 1.0 && !explainer_.isOn())
    return Direct;
  if (pn.args[0] == pn.args[1] || gn.args[0] == gn.args[1]) return Direct;
  int forms = 0;
  if (plausible(pn.args[0], gn.args[0]) && plausible(pn.args[1], gn.args[1])) forms |= Direct;
  if (plausible(pn.args[0], gn.args[1]) && plausible(pn.args[1], gn.args[0])) forms |= Swapped;
  return forms;
}

// What is written in place keeps its dtype; the function's result has the dtype that its operands promote to.
bool OperandForms::keepsDType(const Node& pn, const Node& gn) {
  const auto dtypeOf = [&](const Argument& a) {
    return a.isValue() ? graph_.value(a.valueId()).type.tensorInfo.dtype : std::nullopt;
  };
  const auto before = dtypeOf(gn.args[0]), after = dtypeOf(Argument(gn.outputs[0]));
  const bool onlyNumbers =
      std::none_of(gn.args.begin() + 1, gn.args.end(), [](const Argument& a) { return a.isValue(); });
  if (before == after && (before || onlyNumbers)) return true;
  return explainer_.fail(Reason::DType, pn.id, gn.id, [&](Mismatch& m) {
    m.parameter = "the result of `" + gn.name + "`";
    m.expected = before ? std::string(dtypeName(*before)) : "the dtype of its first operand";
    m.actual = after ? std::string(dtypeName(*after)) : "an unknown dtype";
    m.mapped = true;
  });
}

bool OperandForms::unify(const Node& pn, const Node& gn, Form form) {
  const PlanNode& p = plan_.nodes[pn.id.index];
  if (p.functional != GraphIndex::none && index_.opOf[gn.id.index] == p.functional && !keepsDType(pn, gn)) return false;
  if (form == Reshaped) return unifyReshape(pn, gn);
  if (form == Direct || form == Swapped) return unifyArguments(pn, gn, form == Swapped);
  return unifyReciprocal(pn, gn, form);
}

bool OperandForms::unifyReciprocal(const Node& pn, const Node& gn, Form form) {
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
  const Site number{pn.id, gn.id, static_cast<int>(graphNumber), true};
  const Site operand{pn.id, gn.id, static_cast<int>(1 - graphNumber), false};
  return unifier_.unify(wanted, *state_.make(Argument(1.0 / c)), number) &&
         unifier_.unify(pn.args[1 - patternNumber], value, operand);
}

bool OperandForms::unifyArguments(const Node& pn, const Node& gn, bool swapped) {
  const bool named = plan_.nodes[pn.id.index].kind == PlanNode::Kind::CallFunction;
  const auto countDiffers = [&] {
    return explainer_.fail(Reason::Arity, pn.id, gn.id, [&](Mismatch& m) {
      m.expected = std::to_string(pn.args.size());
      m.actual = counted(gn.args.size(), "argument");
    });
  };
  if (pn.args.size() > gn.args.size() || (!named && !gn.op->hasSchema && pn.args.size() != gn.args.size()))
    return countDiffers();
  // An operator found by its name may take further literals, but no further values: the rule would not know of them. A
  // pattern without arguments accepts any.
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
      if (!unifier_.unify(p, gn.args[k], {pn.id, gn.id, static_cast<int>(k), false})) return false;
    }
  }
  for (const auto& [key, p] : pn.kwargs) {
    if (named && key == "name") continue;
    const Argument* g = gn.findArgument(key);
    if (!g) return countDiffers();
    const auto at = gn.op->findParameter(key);
    if (!unifier_.unify(p, *g, {pn.id, gn.id, at ? static_cast<int>(*at) : -1, false})) return false;
  }
  if (!named && !gn.op->hasSchema)
    for (const auto& given : gn.kwargs)
      if (std::none_of(pn.kwargs.begin(), pn.kwargs.end(), [&](const auto& kw) { return kw.first == given.first; }))
        return countDiffers();
  return true;
}

// One reshape for another: each says in its own way what shape results. The sizes at the match decide whether it is the
// same shape.
bool OperandForms::unifyReshape(const Node& pn, const Node& gn) {
  if (saysWholeShape(pn.op->name) && saysWholeShape(gn.op->name)) return unifyArguments(pn, gn, false);
  const auto in = sizesOf(graph_, gn.args[0]), out = sizesOf(graph_, Argument(gn.outputs[0]));
  const auto notKnown = [&] {
    return explainer_.fail(Reason::Rank, pn.id, gn.id, [&](Mismatch& miss) {
      miss.detail = "the shapes at `" + gn.name + "` are not known, so " + std::string(pn.op->baseName()) + " and " +
                    std::string(gn.op->baseName()) + " cannot be compared";
      miss.mapped = true;
    });
  };
  const auto otherShape = [&](const std::string& wanted) {
    return explainer_.fail(Reason::Literal, pn.id, gn.id, [&](Mismatch& miss) {
      miss.parameter = "the shape of `" + gn.name + "`";
      miss.expected = wanted;
      miss.actual = out ? argumentText(listOf(*out)) : "not known";
      miss.mapped = true;
    });
  };
  const Site shape{pn.id, gn.id, -1, false}, operand{pn.id, gn.id, 0, false};
  bool fits = false;
  if (!in || !out) {
    fits = notKnown();
  } else if (saysWholeShape(pn.op->name)) {
    fits = unifier_.unify(pn.args[1], *state_.make(listOf(*out)), shape);
  } else if (!saysWholeShape(gn.op->name)) {
    fits = otherShape("what " + std::string(pn.op->baseName()) + " gives");
  } else if (pn.op->baseName() == "flatten") {
    const auto first = dimension(pn.args[1], in->size()), last = dimension(pn.args[2], in->size());
    std::vector<Polynomial> wanted;
    for (size_t k = 0; first && last && k < in->size(); ++k) {
      if (k > *first && k <= *last)
        wanted.back() = wanted.back() * (*in)[k];
      else
        wanted.push_back((*in)[k]);
    }
    fits = (first && last && wanted == *out) ||
           otherShape(first && last ? argumentText(listOf(wanted)) : "what flatten gives");
  } else {  // unflatten
    const auto at = dimension(pn.args[1], in->size());
    const size_t parts = out->size() + 1 - std::min(in->size(), out->size() + 1);
    bool others = at && parts > 0;
    for (size_t k = 0; others && k < in->size(); ++k)
      others = k == *at || (*in)[k] == (*out)[k < *at ? k : k + parts - 1];
    fits = others ? unifier_.unify(pn.args[2], *state_.make(listOf(std::span(*out).subspan(*at, parts))), shape)
                  : otherShape("one that differs from " + argumentText(listOf(*in)) + " in one dimension");
  }
  return fits && unifier_.unify(pn.args[0], gn.args[0], operand);
}

}  // namespace graft
