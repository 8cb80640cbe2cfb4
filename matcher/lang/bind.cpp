#include "matcher/lang/bind.h"

#include <fmt/format.h>

#include "core/base/suggest.h"
#include "core/ir/normal_form.h"
#include "matcher/lang/names.h"

namespace graft::lang {
namespace {

using TypeKind = Type::Kind;
using ParameterKind = PatternParameter::Kind;

bool isNumber(TypeKind k) {
  return k == TypeKind::Int || k == TypeKind::Float || k == TypeKind::Number || k == TypeKind::Bool ||
         k == TypeKind::Complex;
}

/// How a term is taken: a list is written as a list; one number stands for a list; a number stands for a tensor.
enum class Fit { Exact, OneForList, NumberForTensor };

/// The `...` of x[..., i], among indices that are tensors.
bool standsForDimensions(const Argument& a, const Type& element) {
  return a.as<Ellipsis>() && element.kind == TypeKind::Optional && element.element().isTensor();
}

bool literalFits(const Argument& a, const Type& type, Fit fit) {
  switch (type.kind) {
    case TypeKind::Any:
      return true;
    case TypeKind::Optional:
      return a.isNone() || literalFits(a, type.element(), fit);
    case TypeKind::None:
      return a.isNone();
    case TypeKind::Tensor:
      return fit == Fit::NumberForTensor && a.number().has_value();
    case TypeKind::Bool:
      return a.as<bool>();
    case TypeKind::Int:
      return a.as<int64_t>() || a.as<SymbolicInt>();
    case TypeKind::Float:
      return a.as<double>() || a.as<int64_t>();
    case TypeKind::Complex:
      return a.as<std::complex<double>>() || a.as<double>();
    case TypeKind::Number:
      return a.number().has_value() || a.as<std::complex<double>>();
    case TypeKind::String:
      return a.as<std::string>();
    case TypeKind::DType:
      return a.as<DType>();
    case TypeKind::Device:
      return a.as<DeviceName>() || a.as<std::string>();
    case TypeKind::Layout:
    case TypeKind::MemoryFormat:
      return a.as<Named>();
    case TypeKind::List:
      if (const auto* items = a.items()) {
        for (const Argument& i : *items)
          if (!literalFits(i, type.element(), fit) && !standsForDimensions(i, type.element())) return false;
        return true;
      }
      return fit != Fit::Exact && (type.element().kind == TypeKind::Int || type.element().kind == TypeKind::Float) &&
             literalFits(a, type.element(), Fit::OneForList);
    default:
      return false;
  }
}

bool valueFits(const GraphValue& v, const Type& type, Fit fit) {
  const bool strict = fit != Fit::NumberForTensor;
  if (type.kind == TypeKind::Any) return true;
  if (type.kind == TypeKind::Optional) return valueFits(v, type.element(), fit);
  if (v.isList) return type.kind == TypeKind::List;
  const ParameterKind p = v.parameter.value_or(ParameterKind::Tensor);
  switch (p) {
    case ParameterKind::Value:
      return strict ? type.kind == TypeKind::Tensor : true;
    case ParameterKind::Tensor:
    case ParameterKind::Weight:
      return type.kind == TypeKind::Tensor;
    case ParameterKind::Float:
      return type.kind == TypeKind::Float || type.kind == TypeKind::Number ||
             (!strict && type.kind == TypeKind::Tensor);
    case ParameterKind::Int:
      return type.kind == TypeKind::Int || type.kind == TypeKind::Float || type.kind == TypeKind::Number ||
             (!strict && type.kind == TypeKind::Tensor) ||
             (!strict && type.kind == TypeKind::List && type.element().kind == TypeKind::Int);
    case ParameterKind::Bool:
      return type.kind == TypeKind::Bool;
    case ParameterKind::String:
      return type.kind == TypeKind::String;
    case ParameterKind::IntList:
      return type.kind == TypeKind::List && type.element().kind == TypeKind::Int;
    case ParameterKind::Constant:
      return !strict || type.kind != TypeKind::Tensor;
  }
  return false;
}

bool fits(const Term& t, const Type& type, Fit fit) {
  const bool strict = fit != Fit::NumberForTensor;
  if (t.as<Wildcard>()) return true;
  if (const Argument* a = t.literal()) return literalFits(*a, type, fit);
  if (const auto* v = t.as<GraphValue>()) return valueFits(*v, type, fit);
  if (t.as<Expression>()) {
    const Type& base = type.kind == TypeKind::Optional ? type.element() : type;
    return base.kind == TypeKind::Any || isNumber(base.kind) || base.kind == TypeKind::DType ||
           base.kind == TypeKind::Device || (base.kind == TypeKind::List && base.element().kind == TypeKind::Int) ||
           (!strict && base.kind == TypeKind::Tensor);
  }
  if (const auto* s = t.as<Sequence>()) {
    if (type.kind == TypeKind::Optional) return fits(t, type.element(), fit);
    if (type.kind == TypeKind::Any) return true;
    if (type.kind != TypeKind::List) return false;
    for (const Term& i : s->items)
      if (!fits(i, type.element(), fit) && !(i.literal() && standsForDimensions(*i.literal(), type.element())))
        return false;
    return true;
  }
  return false;
}

std::string describe(const Term& t) {
  if (t.as<Wildcard>()) return "`_`";
  if (const Argument* a = t.literal()) {
    if (a->isNone()) return "None";
    if (a->as<bool>()) return "a bool";
    if (a->as<int64_t>()) return "an int";
    if (a->as<double>()) return "a float";
    if (a->as<std::string>()) return "a string";
    if (a->as<DType>()) return "a dtype";
    return "a constant";
  }
  if (const auto* v = t.as<GraphValue>())
    return v->isConstant() ? "a constant" : v->isList ? "a list of tensors" : "a tensor";
  if (const auto* s = t.as<Sequence>()) return s->isTuple ? "a tuple" : "a list";
  if (t.as<Expression>()) return "a number";
  return "a name";
}

std::string readableType(const Type& type) {
  switch (type.kind) {
    case TypeKind::Optional:
      return readableType(type.element()) + " or None";
    case TypeKind::Tensor:
      return "a tensor";
    case TypeKind::Number:
      return "a number";
    case TypeKind::Int:
      return "an int";
    case TypeKind::Float:
      return "a float";
    case TypeKind::Bool:
      return "a bool";
    case TypeKind::String:
      return "a string";
    case TypeKind::DType:
      return "a dtype";
    case TypeKind::List:
      return "a list of " +
             std::string(type.element().kind == TypeKind::Tensor ? "tensors" : toString(type.element()) + "s");
    default:
      return toString(type);
  }
}

/// Whether everything from `first` on can be the items of one list: x.view(2, -1), torch.einsum("ij,jk", a, b).
bool gathers(const Call& call, size_t first, const Type& list) {
  if (list.kind != TypeKind::List || call.positional.size() <= first) return false;
  const TypeKind element =
      list.element().kind == TypeKind::Optional ? list.element().element().kind : list.element().kind;
  if (element != TypeKind::Int && element != TypeKind::Tensor) return false;
  if (element == TypeKind::Tensor && call.positional.size() == first + 1 &&
      call.positional[first].as<GraphValue>() == nullptr)
    return false;
  for (size_t i = first; i < call.positional.size(); ++i)
    if (call.positional[i].as<Sequence>() || !fits(call.positional[i], list.element(), Fit::NumberForTensor))
      return false;
  // One number alone is left as it is: it may stand for several (stride=2), or for the list itself (x.view(shape)).
  if (call.positional.size() == first + 1 && element == TypeKind::Int) return false;
  return true;
}

struct Attempt {
  std::optional<BoundCall> bound;
  std::string why;  ///< where not
  Span at;
  size_t progress = 0;
};

/// Python says `input` where schemas say `self`.
std::optional<size_t> parameterNamed(const Operator& op, std::string_view name) {
  if (auto i = op.findParameter(name)) return i;
  if (name == "input" || name == "tensor") return op.findParameter("self");
  if (name == "self") return op.findParameter("input");
  if (name == "axis") return op.findParameter("dim");
  if (name == "shape") return op.findParameter("size");
  return std::nullopt;
}

Attempt tryOverload(const Call& call, const OperatorRef& op, Fit fit, const SourceText& text) {
  Attempt out;
  BoundCall b{op, std::vector<std::optional<Term>>(op->parameters.size())};
  const auto refuse = [&](std::string why, Span at) {
    out.why = std::move(why);
    out.at = at;
    return out;
  };
  size_t next = 0;
  for (size_t i = 0; i < call.positional.size(); ++i) {
    const Term& t = call.positional[i];
    if (next >= op->parameters.size() || op->parameters[next].keywordOnly)
      return refuse(fmt::format("`{}` takes {} positional argument{}, and {} are given", call.spelled, next,
                                next == 1 ? "" : "s", call.positional.size()),
                    t.span);
    const Parameter& p = op->parameters[next];
    const bool last = next + 1 >= op->parameters.size() || op->parameters[next + 1].keywordOnly;
    if (gathers(call, i, p.type) &&
        (call.positional.size() > i + 1 ? last || p.type.element().kind == TypeKind::Int : true)) {
      Sequence s;
      s.items.assign(call.positional.begin() + static_cast<ptrdiff_t>(i), call.positional.end());
      // f(x, 2, 0) of f(Tensor, int[1] dim, bool keepdim): only gather what is really a list.
      if (call.positional.size() == i + 1 || last) {
        b.arguments[next] = Term{std::move(s), t.span};
        out.progress += call.positional.size() - i;
        ++next;
        break;
      }
    }
    if (!fits(t, p.type, fit))
      return refuse(fmt::format("`{}` of `{}` is {}, not {}", p.name, call.spelled, readableType(p.type), describe(t)),
                    t.span);
    b.arguments[next] = t;
    ++out.progress;
    ++next;
  }
  for (const auto& [name, t] : call.keywords) {
    const auto i = parameterNamed(*op, name);
    if (!i) {
      std::vector<std::string> names;
      for (const Parameter& p : op->parameters) names.push_back(p.name);
      const auto near = nearestName(name, names);
      return refuse(fmt::format("`{}` has no argument `{}`{}", call.spelled, name,
                                near ? fmt::format("; did you mean `{}`?", *near) : ""),
                    text.keywordSpan(name, t.span));
    }
    if (b.arguments[*i]) return refuse(fmt::format("`{}` is given twice", name), text.keywordSpan(name, t.span));
    const Parameter& p = op->parameters[*i];
    if (!fits(t, p.type, fit))
      return refuse(fmt::format("`{}` of `{}` is {}, not {}", name, call.spelled, readableType(p.type), describe(t)),
                    t.span);
    b.arguments[*i] = t;
    ++out.progress;
  }
  for (size_t i = 0; i < op->parameters.size(); ++i) {
    const Parameter& p = op->parameters[i];
    if (!b.arguments[i] && !p.defaultValue)
      return refuse(fmt::format("`{}` needs its argument `{}`", call.spelled, p.name == "self" ? "input" : p.name),
                    call.span);
  }
  out.bound = std::move(b);
  return out;
}

bool usable(const Operator& op) {
  if (op.name.ends_with("out") && op.findParameter("out")) return false;
  for (const Parameter& p : op.parameters)
    if (p.keywordOnly && p.written) return false;
  for (const Parameter& p : op.parameters)  // named dimensions: nobody means these by a string
    if (p.type == Type(TypeKind::String) && p.name == "dim") return false;
  return op.name.find("names") == std::string::npos && !op.name.ends_with("Dimname") && !op.name.ends_with("_t");
}

}  // namespace

Argument literalAs(const Argument& a, const Type& type) {
  switch (type.kind) {
    case TypeKind::Optional:
      return a.isNone() ? a : literalAs(a, type.element());
    case TypeKind::Float:
      if (const auto* i = a.as<int64_t>()) return Argument(static_cast<double>(*i));
      return a;
    case TypeKind::Device:
      if (const auto* s = a.as<std::string>()) return Argument(DeviceName{*s});
      return a;
    case TypeKind::List: {
      std::vector<Argument> items;
      if (const auto* given = a.items()) {
        for (const Argument& i : *given) items.push_back(literalAs(i, type.element()));
      } else {
        items.push_back(literalAs(a, type.element()));
      }
      return Argument::list(std::move(items));
    }
    default:
      return a;
  }
}

BoundCall bindCall(const Call& call, const OperatorSet& operators, const SourceText& text) {
  std::vector<OperatorRef> candidates;
  if (call.exactOverload) {
    if (OperatorRef op = operators.find(call.packet)) candidates.push_back(op);
  } else {
    for (const OperatorRef& op : operators.overloads(call.packet))
      if (usable(*op)) candidates.push_back(op);
  }
  if (candidates.empty()) {
    const std::string near = nearestFunction(call.spelled, call.packet);
    if (call.packet.starts_with("graft.") && operators.overloads("graft.attention").empty())
      text.fail(call.span.begin,
                fmt::format("`{}` is one of Graft's operators, and their library is not loaded", call.spelled));
    const bool isOwn = call.spelled.starts_with("torch.ops.") && !call.packet.starts_with("aten.");
    const std::string help = !near.empty() ? fmt::format("; did you mean `{}`?", near)
                             : isOwn       ? "; load the library that defines it with --library LIB.so, or by "
                                             "`library(\"LIB.so\")` in this file"
                                           : "";
    text.fail(call.span.begin, fmt::format("`{}` is not a known operator{}", call.spelled, help));
  }
  Attempt best;
  bool haveBest = false;
  for (const Fit fit : {Fit::Exact, Fit::OneForList, Fit::NumberForTensor}) {
    for (const OperatorRef& op : candidates) {
      Attempt a = tryOverload(call, op, fit, text);
      if (a.bound) {
        const std::string_view canonical = canonicalOperator(op->name);
        if (canonical != op->name)
          if (OperatorRef other = operators.find(canonical); other && other->parameters.size() == op->parameters.size())
            a.bound->op = other;
        return std::move(*a.bound);
      }
      if (!haveBest || a.progress > best.progress ||
          (fit == Fit::NumberForTensor && a.progress == best.progress && candidates.size() == 1)) {
        best = std::move(a);
        haveBest = true;
      }
    }
  }
  text.fail(best.at.begin, best.why);
}

}  // namespace graft::lang
