#include "matcher/rule/expression.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/suggest.h"
#include "matcher/rule/expression_calls.h"
#include "matcher/rule/symbolic.h"

namespace graft {
namespace {

using Kind = Expression::Kind;

Result<Argument> binary(const Expression& e, const Argument& a, const Argument& b);

Argument boolean(bool b) { return Argument(b); }

std::optional<Polynomial> polynomialOf(const Argument& a) {
  if (const auto* i = a.as<int64_t>()) return Polynomial::constant(*i);
  if (const auto* b = a.as<bool>()) return Polynomial::constant(*b ? 1 : 0);
  if (const auto* s = a.as<SymbolicInt>()) return Polynomial::parse(s->expression);
  return std::nullopt;
}

Error unknownSize(const Expression& e, const Argument& a, const Argument& b) {
  const auto name = [](const Argument& x) {
    return x.as<SymbolicInt>() ? x.as<SymbolicInt>()->expression : std::string();
  };
  std::string size = name(a).empty() ? name(b) : name(a);
  return expressionError(e, "`" + toString(e) + "` needs the size " + size +
                                ", which is only known when the model runs; import the model with example inputs");
}

// -1, 0, 1 for numbers that can be ordered; an error where a symbolic size decides.
Result<int> order(const Expression& e, const Argument& a, const Argument& b) {
  if (a.as<SymbolicInt>() || b.as<SymbolicInt>()) {
    auto p = polynomialOf(a), q = polynomialOf(b);
    if (p && q) {
      if (auto d = (*p - *q).number()) return *d < 0 ? -1 : *d > 0 ? 1 : 0;
    }
    return unknownSize(e, a, b);
  }
  if (const auto* x = a.as<int64_t>(), *y = b.as<int64_t>(); x && y) return *x < *y ? -1 : *x > *y ? 1 : 0;
  if (auto x = a.number(), y = b.number(); x && y) return *x < *y ? -1 : *x > *y ? 1 : 0;
  if (const auto* x = a.as<std::string>(), *y = b.as<std::string>(); x && y) return x->compare(*y) < 0 ? -1 : *x != *y;
  if (const auto* x = a.items(), *y = b.items(); x && y) {
    for (size_t i = 0; i < std::min(x->size(), y->size()); ++i) {
      auto c = order(e, (*x)[i], (*y)[i]);
      if (!c || *c != 0) return c;
    }
    return x->size() < y->size() ? -1 : x->size() > y->size() ? 1 : 0;
  }
  return expressionError(e,
                         "cannot order " + argumentText(a) + " and " + argumentText(b) + " in `" + toString(e) + "`");
}

Result<bool> equal(const Expression& e, const Argument& a, const Argument& b) {
  if (a.as<SymbolicInt>() || b.as<SymbolicInt>()) {
    auto p = polynomialOf(a), q = polynomialOf(b);
    if (!p || !q) return false;
    if (auto d = (*p - *q).number()) return *d == 0;
    return unknownSize(e, a, b);
  }
  if (auto x = a.number(), y = b.number(); x && y) {
    if (const auto* i = a.as<int64_t>(), *j = b.as<int64_t>(); i && j) return *i == *j;
    return *x == *y;
  }
  if (const auto* x = a.items(), *y = b.items(); x && y) {
    if (a.isList() != b.isList() || x->size() != y->size()) return false;
    for (size_t i = 0; i < x->size(); ++i) {
      auto same = equal(e, (*x)[i], (*y)[i]);
      if (!same || !*same) return same;
    }
    return true;
  }
  const auto deviceText = [](const Argument& x) -> const std::string* {
    if (const auto* d = x.as<DeviceName>()) return &d->name;
    return x.as<std::string>();
  };
  if (a.as<DeviceName>() || b.as<DeviceName>()) {
    const auto *x = deviceText(a), *y = deviceText(b);
    return x && y && *x == *y;
  }
  return a == b;
}

// Shapes compare with lists as with tuples: `x.shape == [1, 2]` is what people write.
Result<bool> equalLoosely(const Expression& e, const Argument& a, const Argument& b) {
  if (const auto* x = a.items(), *y = b.items(); x && y && a.isList() != b.isList())
    return equal(e, Argument::list(*x), Argument::list(*y));
  return equal(e, a, b);
}

Result<Argument> contains(const Expression& e, const Argument& item, const Argument& container, bool wanted) {
  if (const auto* text = container.as<std::string>()) {
    const auto* part = item.as<std::string>();
    if (!part) return expressionError(e, "`in` a string needs a string on the left");
    return boolean((text->find(*part) != std::string::npos) == wanted);
  }
  const auto* items = container.items();
  if (!items) return expressionError(e, "`in` needs a list on the right, not " + argumentText(container));
  std::optional<Error> unknown;
  for (const Argument& i : *items) {
    auto same = equalLoosely(e, item, i);
    if (!same)
      unknown = same.error();
    else if (*same)
      return boolean(wanted);
  }
  if (unknown) return *unknown;
  return boolean(!wanted);
}

std::optional<int64_t> wholeNumber(const Argument& a) {
  if (const auto* i = a.as<int64_t>()) return *i;
  if (const auto* truth = a.as<bool>()) return *truth ? 1 : 0;
  return std::nullopt;
}

Result<Argument> power(const Expression& e, const Argument& a, const Argument& b) {
  if (const auto x = wholeNumber(a), y = wholeNumber(b); x && y && *y >= 0) {
    int64_t out = 1;
    for (int64_t i = 0; i < *y; ++i) {
      if (__builtin_mul_overflow(out, *x, &out))
        return expressionError(e, "`" + toString(e) + "` does not fit 64 bits");
      if (out == 0 || (out == 1 && *x == 1)) break;
      if (*x == -1) {
        out = *y % 2 ? -1 : 1;
        break;
      }
    }
    return Argument(out);
  }
  auto x = a.number(), y = b.number();
  if (!x || !y) return expressionError(e, "`**` needs numbers");
  if (*x == 0 && *y < 0) return expressionError(e, "`" + toString(e) + "` divides by zero");
  if (*x < 0 && *y != std::floor(*y)) return expressionError(e, "`" + toString(e) + "` is a complex number");
  return Argument(std::pow(*x, *y));
}

bool isBitwise(std::string_view op) { return op == "&" || op == "|" || op == "^" || op == "<<" || op == ">>"; }

Result<Argument> bitwise(const Expression& e, int64_t a, int64_t b, bool truths) {
  const std::string& op = e.name;
  if (op == "&" || op == "|" || op == "^") {
    const int64_t out = op == "&" ? a & b : op == "|" ? a | b : a ^ b;
    return truths ? boolean(out != 0) : Argument(out);
  }
  if (b < 0) return expressionError(e, "`" + toString(e) + "` shifts by a negative number");
  if (op == ">>") return Argument(a >> std::min<int64_t>(b, 63));
  int64_t out = 0;
  if ((b >= 63 && a != 0) || __builtin_mul_overflow(a, int64_t{1} << std::min<int64_t>(b, 62), &out))
    return expressionError(e, "`" + toString(e) + "` does not fit 64 bits");
  return Argument(out);
}

Result<Argument> arithmetic(const Expression& e, const Argument& a, const Argument& b) {
  const std::string& op = e.name;
  if (op == "+" || op == "*") {
    if (const auto* x = a.items(), *y = b.items(); op == "+" && x && y) {
      std::vector<Argument> all = *x;
      all.insert(all.end(), y->begin(), y->end());
      return a.isTuple() ? Argument::tuple(std::move(all)) : Argument::list(std::move(all));
    }
    const Argument& list = a.items() ? a : b;
    const Argument& count = a.items() ? b : a;
    if (op == "*" && list.items() && count.as<int64_t>()) {
      std::vector<Argument> all;
      const int64_t n = *count.as<int64_t>();
      if (n > 4096) return expressionError(e, "`" + toString(e) + "` makes too long a list");
      for (int64_t i = 0; i < n; ++i) all.insert(all.end(), list.items()->begin(), list.items()->end());
      return list.isTuple() ? Argument::tuple(std::move(all)) : Argument::list(std::move(all));
    }
    if (const auto* x = a.as<std::string>(), *y = b.as<std::string>(); op == "+" && x && y) return Argument(*x + *y);
  }
  if (op == "**") return power(e, a, b);
  if (a.as<SymbolicInt>() || b.as<SymbolicInt>()) {
    auto p = polynomialOf(a), q = polynomialOf(b);
    if (!p || !q) return expressionError(e, "`" + op + "` of a symbolic size needs an integer on the other side");
    if (op == "+") return (*p + *q).argument();
    if (op == "-") return (*p - *q).argument();
    if (op == "*") return (*p * *q).argument();
    if (op == "//") {
      if (q->number() == 0) return expressionError(e, "`" + toString(e) + "` divides by zero");
      return p->floorDivide(*q).argument();
    }
    if (op == "%" && q->number() && *q->number() != 0) {
      const Polynomial quotient = p->floorDivide(*q);
      if (auto rest = (*p - quotient * *q).number()) return Argument(*rest);
    }
    return unknownSize(e, a, b);
  }
  const auto x = wholeNumber(a), y = wholeNumber(b);
  if (x && y && op != "/") {
    int64_t out = 0;
    bool overflow = false;
    if (isBitwise(op)) return bitwise(e, *x, *y, a.as<bool>() && b.as<bool>());
    if (op == "+")
      overflow = __builtin_add_overflow(*x, *y, &out);
    else if (op == "-")
      overflow = __builtin_sub_overflow(*x, *y, &out);
    else if (op == "*")
      overflow = __builtin_mul_overflow(*x, *y, &out);
    else if (*y == 0)
      return expressionError(e, "`" + toString(e) + "` divides by zero");
    else if (*y == -1)
      overflow = op == "//" && __builtin_sub_overflow(int64_t{0}, *x, &out);
    else {
      int64_t quotient = *x / *y, rest = *x % *y;
      if (rest != 0 && (rest < 0) != (*y < 0)) {  // Python rounds down
        --quotient;
        rest += *y;
      }
      out = op == "//" ? quotient : rest;
    }
    if (overflow) return expressionError(e, "`" + toString(e) + "` does not fit 64 bits");
    return Argument(out);
  }
  const auto u = a.number(), v = b.number();
  if (!u || !v || isBitwise(op) || op == "@") {
    return expressionError(e, "`" + op + "` does not work on " + argumentText(a) + " and " + argumentText(b));
  }
  if (op == "+") return Argument(*u + *v);
  if (op == "-") return Argument(*u - *v);
  if (op == "*") return Argument(*u * *v);
  if (*v == 0) return expressionError(e, "`" + toString(e) + "` divides by zero");
  if (op == "/") return Argument(*u / *v);
  // As Python has it: 1.0 // 0.1 is 9, although 1.0 / 0.1 rounds to 10.
  double rest = std::fmod(*u, *v);
  double quotient = (*u - rest) / *v;
  if (rest != 0 && (rest < 0) != (*v < 0)) {
    rest += *v;
    --quotient;
  }
  if (op == "%") return Argument(rest == 0 ? std::copysign(0.0, *v) : rest);
  return Argument(quotient == 0 ? std::copysign(0.0, *u / *v) : std::round(quotient));
}

Result<Argument> binary(const Expression& e, const Argument& a, const Argument& b) {
  const std::string& op = e.name;
  if (op == "==" || op == "!=") {
    auto same = equalLoosely(e, a, b);
    if (!same) return same.error();
    return boolean(*same == (op == "=="));
  }
  if (op == "is" || op == "is not") {
    // `is` on constants: identity of None and bools, and of values of the graph.
    return boolean((a == b) == (op == "is"));
  }
  if (op == "in" || op == "not in") return contains(e, a, b, op == "in");
  if (op == "<" || op == "<=" || op == ">" || op == ">=") {
    const auto isNan = [](const Argument& x) { return x.as<double>() && std::isnan(*x.as<double>()); };
    if (isNan(a) || isNan(b)) return boolean(false);
    auto c = order(e, a, b);
    if (!c) return c.error();
    return boolean(op == "<" ? *c < 0 : op == "<=" ? *c <= 0 : op == ">" ? *c > 0 : *c >= 0);
  }
  return arithmetic(e, a, b);
}

Result<Argument> subscript(const Expression& e, const Argument& base, const Argument& index) {
  if (const auto* d = base.as<Argument::Dict>()) {
    for (const auto& [k, v] : d->items)
      if (k == index) return v;
    return expressionError(e, "there is no " + argumentText(index) + " in `" + toString(e.operands[0]) + "`");
  }
  const auto* i = index.as<int64_t>();
  if (!i) return expressionError(e, "an index must be a known integer");
  const auto* items = base.items();
  const auto* text = base.as<std::string>();
  if (!items && !text) return expressionError(e, "`" + toString(e.operands[0]) + "` cannot be indexed");
  const auto size = static_cast<int64_t>(items ? items->size() : text->size());
  const int64_t at = *i < 0 ? *i + size : *i;
  if (at < 0 || at >= size) {
    return expressionError(e, "`" + toString(e) + "`: index " + std::to_string(*i) + " is outside of " +
                                  std::to_string(size) + " elements");
  }
  return items ? (*items)[static_cast<size_t>(at)] : Argument(std::string(1, (*text)[static_cast<size_t>(at)]));
}

// Python's slice rules: clamped bounds, negative steps walk backwards.
Result<Argument> slice(const Expression& e, const Argument& base, const std::vector<Argument>& bounds) {
  const auto* items = base.items();
  if (!items) return expressionError(e, "only lists and shapes can be sliced");
  for (const Argument& b : bounds)
    if (!b.isNone() && !b.as<int64_t>()) return expressionError(e, "slice bounds must be known integers");
  const auto size = static_cast<int64_t>(items->size());
  const int64_t step = bounds.size() > 2 && bounds[2].as<int64_t>() ? *bounds[2].as<int64_t>() : 1;
  if (step == 0) return expressionError(e, "a slice's step must not be zero");
  const auto bound = [&](size_t i, int64_t otherwise) {
    if (i >= bounds.size() || bounds[i].isNone()) return otherwise;
    int64_t b = *bounds[i].as<int64_t>();
    if (b < 0) b += size;
    return std::clamp<int64_t>(b, step > 0 ? 0 : -1, step > 0 ? size : size - 1);
  };
  const int64_t start = bound(0, step > 0 ? 0 : size - 1), stop = bound(1, step > 0 ? size : -1);
  std::vector<Argument> out;
  for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) out.push_back((*items)[static_cast<size_t>(i)]);
  return base.isTuple() ? Argument::tuple(std::move(out)) : Argument::list(std::move(out));
}

// x.shape[i] is one size: it has a meaning even where the rank is not known and the whole shape has none.
std::optional<Argument> sizeOfShape(const Expression& e, const Environment& env) {
  const Expression &base = e.operands[0], &index = e.operands[1];
  if (base.kind != Kind::Attribute || base.name != "shape" || index.kind == Kind::Slice || !env.graph)
    return std::nullopt;
  auto of = evaluate(base.operands[0], env);
  auto at = evaluate(index, env);
  if (!of || !of->isValue() || !at || !at->as<int64_t>()) return std::nullopt;
  return sizeIn(env, of->valueId(), *at->as<int64_t>());
}

}  // namespace

Result<bool> truth(const Expression& e, const Argument& a) {
  if (a.isNone()) return false;
  if (auto n = a.number()) return *n != 0;
  if (const auto* s = a.as<std::string>()) return !s->empty();
  if (const auto* items = a.items()) return !items->empty();
  if (a.as<SymbolicInt>()) {
    return expressionError(e,
                           "whether " + a.as<SymbolicInt>()->expression + " is zero is only known when the model runs");
  }
  if (a.isValue())
    return expressionError(e, "a tensor's numbers are not known here; ask for its shape, dtype or device");
  return true;
}

Error expressionError(const Expression& e, std::string message) {
  Error out = badInput(std::move(message));
  if (e.source.line > 0) out.position = Position{e.source.file, e.source.line, e.source.column, e.source.code};
  return out;
}

bool reads(const Expression& e, std::string_view name) {
  return (e.kind == Kind::Name && e.name == name) ||
         std::any_of(e.operands.begin(), e.operands.end(), [&](const Expression& o) { return reads(o, name); });
}

const Argument* Environment::find(std::string_view name) const {
  for (const auto& [known, meant] : names)
    if (known == name) return meant;
  return nullptr;
}

Result<Argument> evaluate(const Expression& e, const Environment& env) {
  std::vector<Argument> operands;
  const auto all = [&]() -> Status {
    for (const Expression& o : e.operands) {
      auto v = evaluate(o, env);
      if (!v) return v.error();
      operands.push_back(std::move(*v));
    }
    return done();
  };
  switch (e.kind) {
    case Kind::Literal:
      return e.literal;
    case Kind::Name: {
      if (const Argument* meant = env.find(e.name)) {
        if (meant->isValue() && env.graph) {  // sizes are numbers here, whatever computes them in the graph
          const Type::Kind k = env.graph->value(meant->valueId()).type.kind;
          if (k == Type::Kind::Int || k == Type::Kind::Number)
            if (auto p = integerMeaning(*env.graph, *meant)) return p->argument();
        }
        return *meant;
      }
      std::vector<std::string> known;
      for (const auto& [name, unused] : env.names) known.emplace_back(name);
      std::sort(known.begin(), known.end());
      for (const auto& [name, unused] : env.modules) known.push_back(name);
      auto nearest = nearestName(e.name, known);
      return expressionError(
          e, "nothing is called `" + e.name + "` here" + (nearest ? "; did you mean `" + *nearest + "`?" : ""));
    }
    case Kind::Attribute:
      return evaluateAttribute(e, env);
    case Kind::Call:
      return evaluateCall(e, env);
    case Kind::Binary:
      if (e.name == "and" || e.name == "or") {
        auto left = evaluate(e.operands[0], env);
        if (!left) return left;
        auto yes = truth(e.operands[0], *left);
        if (!yes) return yes.error();
        return *yes == (e.name == "or") ? left : evaluate(e.operands[1], env);
      }
      if (Status s = all(); !s) return s.error();
      return binary(e, operands[0], operands[1]);
    case Kind::IfElse: {
      auto condition = evaluate(e.operands[0], env);
      if (!condition) return condition;
      auto yes = truth(e.operands[0], *condition);
      if (!yes) return yes.error();
      return evaluate(e.operands[*yes ? 1 : 2], env);
    }
    case Kind::Subscript: {
      if (auto size = sizeOfShape(e, env)) return *size;
      const bool slicing = e.operands[1].kind == Kind::Slice;
      auto base = evaluate(e.operands[0], env);
      if (!base) return base;
      if (!slicing) {
        auto index = evaluate(e.operands[1], env);
        return index ? subscript(e, *base, *index) : index;
      }
      for (const Expression& o : e.operands[1].operands) {
        auto v = evaluate(o, env);
        if (!v) return v;
        operands.push_back(std::move(*v));
      }
      return slice(e, *base, operands);
    }
    case Kind::Slice:
      return expressionError(e, "a slice belongs in brackets after a list");
    case Kind::Unary: {
      if (Status s = all(); !s) return s.error();
      if (e.name == "not") {
        auto yes = truth(e.operands[0], operands[0]);
        if (!yes) return yes.error();
        return boolean(!*yes);
      }
      if (e.name == "~") {
        const auto i = polynomialOf(operands[0]);
        if (!i) return expressionError(e, "`~` needs a whole number");
        return (Polynomial::constant(-1) - *i).argument();
      }
      if (const auto* i = operands[0].as<int64_t>()) {
        int64_t out = *i;
        if (e.name == "-" && __builtin_sub_overflow(int64_t{0}, *i, &out))
          return expressionError(e, "`" + toString(e) + "` does not fit 64 bits");
        return Argument(out);
      }
      if (const auto* d = operands[0].as<double>()) return Argument(e.name == "-" ? -*d : *d);
      if (auto p = polynomialOf(operands[0])) return (e.name == "-" ? Polynomial::constant(0) - *p : *p).argument();
      return expressionError(e, "`" + e.name + "` needs a number");
    }
    case Kind::List:
    case Kind::Tuple:
      if (Status s = all(); !s) return s.error();
      return e.kind == Kind::List ? Argument::list(std::move(operands)) : Argument::tuple(std::move(operands));
  }
  return expressionError(e, "cannot be calculated");
}

}  // namespace graft
