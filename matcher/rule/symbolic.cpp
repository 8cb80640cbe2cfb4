#include "matcher/rule/symbolic.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "core/ir/size_expression.h"
#include "matcher/rule/rank.h"

namespace graft {
namespace {

std::optional<Polynomial> arithmetic(const Graph& g, const Node& n, int depth);

std::optional<Polynomial> meaning(const Graph& g, const Argument& a, int depth) {
  if (const auto* i = a.as<int64_t>()) return Polynomial::constant(*i);
  if (const auto* s = a.as<SymbolicInt>()) return Polynomial::parse(s->expression);
  if (!a.isValue()) return std::nullopt;
  const Value& v = g.value(a.valueId());
  const Type::Kind k = v.type.kind;
  if (k != Type::Kind::Int && k != Type::Kind::Number && k != Type::Kind::Any) return std::nullopt;
  if (v.producer && depth < 64) {
    if (auto p = arithmetic(g, g.node(v.producer), depth)) return p;
  }
  if (k == Type::Kind::Any) return std::nullopt;
  return Polynomial::atom("%" + v.name);
}

std::optional<Polynomial> arithmetic(const Graph& g, const Node& n, int depth) {
  const std::string_view op = n.op->packetName();
  if (op == "aten.size" || op == "aten.sym_size") {
    if (n.args.size() != 2 || !n.args[0].isValue() || !n.args[1].as<int64_t>()) return std::nullopt;
    return sizeMeaning(g, n.args[0].valueId(), *n.args[1].as<int64_t>());
  }
  const size_t dot = op.rfind('.');
  const std::string_view base = dot == std::string_view::npos ? op : op.substr(dot + 1);
  if ((base == "neg") && n.args.size() == 1) {
    auto a = meaning(g, n.args[0], depth + 1);
    return a ? std::optional(Polynomial::constant(0) - *a) : std::nullopt;
  }
  if (n.args.size() != 2 || (base != "add" && base != "sub" && base != "mul" && base != "floordiv"))
    return std::nullopt;
  auto a = meaning(g, n.args[0], depth + 1), b = meaning(g, n.args[1], depth + 1);
  if (!a || !b) return std::nullopt;
  if (base == "add") return *a + *b;
  if (base == "sub") return *a - *b;
  if (base == "mul") return *a * *b;
  return a->floorDivide(*b);
}

}  // namespace

Polynomial Polynomial::constant(int64_t n) {
  Polynomial p;
  p.add({}, n);
  return p;
}
Polynomial Polynomial::atom(std::string name) {
  Polynomial p;
  p.add({std::move(name)}, 1);
  return p;
}
std::optional<Polynomial> Polynomial::parse(std::string_view text) {
  using Kind = SizeExpression::Kind;
  const auto expression = SizeExpression::parse(text, SizeExpression::Names::Any);
  if (!expression) return std::nullopt;
  std::vector<Polynomial> stack;
  const auto pop = [&] {
    Polynomial top = std::move(stack.back());
    stack.pop_back();
    return top;
  };
  const auto call = [](std::string_view name, const Polynomial& a, const Polynomial& b) {
    return atom(std::string(name) + "(" + a.text() + ", " + b.text() + ")");
  };
  for (const SizeExpression::Step& s : expression->steps()) {
    if (s.kind == Kind::Number || s.kind == Kind::Symbol) {
      stack.push_back(s.kind == Kind::Number ? constant(s.number) : atom(s.symbol));
      continue;
    }
    const Polynomial b = pop(), a = s.kind == Kind::Negate ? constant(0) : pop();
    switch (s.kind) {
      case Kind::Add:
        stack.push_back(a + b);
        break;
      case Kind::Multiply:
        stack.push_back(a * b);
        break;
      case Kind::FloorDivide:
        stack.push_back(a.floorDivide(b));
        break;
      case Kind::Mod:
        stack.push_back(call("Mod", a, b));
        break;
      case Kind::Max:
        stack.push_back(call("Max", a, b));
        break;
      case Kind::Min:
        stack.push_back(call("Min", a, b));
        break;
      default:  // Subtract, Negate
        stack.push_back(a - b);
    }
  }
  return pop();
}

void Polynomial::add(const Monomial& m, int64_t factor) {
  if (factor == 0) return;
  const auto [it, fresh] = terms_.try_emplace(m, factor);
  // Wrapping is harmless here: sizes are far from 2^63, and unsigned arithmetic keeps it defined.
  if (!fresh) it->second = static_cast<int64_t>(static_cast<uint64_t>(it->second) + static_cast<uint64_t>(factor));
  if (it->second == 0) terms_.erase(it);
}

Polynomial Polynomial::operator+(const Polynomial& o) const {
  Polynomial out = *this;
  for (const auto& [m, f] : o.terms_) out.add(m, f);
  return out;
}
Polynomial Polynomial::operator-(const Polynomial& o) const {
  Polynomial out = *this;
  for (const auto& [m, f] : o.terms_) out.add(m, -f);
  return out;
}
Polynomial Polynomial::operator*(const Polynomial& o) const {
  Polynomial out;
  for (const auto& [m, f] : terms_)
    for (const auto& [m2, f2] : o.terms_) {
      Monomial both = m;
      both.insert(both.end(), m2.begin(), m2.end());
      std::sort(both.begin(), both.end());
      out.add(both, static_cast<int64_t>(static_cast<uint64_t>(f) * static_cast<uint64_t>(f2)));
    }
  return out;
}

Polynomial Polynomial::floorDivide(const Polynomial& o) const {
  const auto a = number(), b = o.number();
  if (a && b && *b != 0) return constant(*a / *b - ((*a % *b != 0) && ((*a < 0) != (*b < 0)) ? 1 : 0));
  if (o.terms_.size() == 1) {
    const auto& [divisor, factor] = *o.terms_.begin();
    Polynomial out;
    bool exact = true;
    for (const auto& [m, f] : terms_) {
      exact = exact && f % factor == 0 && std::includes(m.begin(), m.end(), divisor.begin(), divisor.end());
      if (!exact) break;
      Monomial rest;
      std::set_difference(m.begin(), m.end(), divisor.begin(), divisor.end(), std::back_inserter(rest));
      out.add(rest, f / factor);
    }
    if (exact) return out;
  }
  if (b && *b > 1) {
    // floor(g*x / (g*n)) is floor(x/n) for whole x.
    int64_t common = *b;
    for (const auto& [m, f] : terms_) common = std::gcd(common, f);
    if (common > 1) {
      Polynomial reduced;
      for (const auto& [m, f] : terms_) reduced.add(m, f / common);
      return reduced.floorDivide(constant(*b / common));
    }
    if (const auto inner = divided()) {
      int64_t product = 0;
      if (!__builtin_mul_overflow(inner->second, *b, &product)) return inner->first.floorDivide(constant(product));
    }
  }
  return atom("floor(" + text() + "," + o.text() + ")");
}

// x and m of the atom floor(x,m) alone, with m a positive number: floor(floor(x/m)/n) is floor(x/(m*n)).
std::optional<std::pair<Polynomial, int64_t>> Polynomial::divided() const {
  constexpr std::string_view head = "floor(";
  if (terms_.size() != 1 || terms_.begin()->second != 1 || terms_.begin()->first.size() != 1) return std::nullopt;
  const std::string_view whole = terms_.begin()->first[0];
  if (!whole.starts_with(head) || !whole.ends_with(')')) return std::nullopt;
  const std::string_view inside = whole.substr(head.size(), whole.size() - head.size() - 1);
  const size_t comma = inside.rfind(',');
  if (comma == inside.npos) return std::nullopt;
  const std::string_view number = inside.substr(comma + 1);
  int64_t m = 0;
  const auto [end, bad] = std::from_chars(number.data(), number.data() + number.size(), m);
  if (bad != std::errc() || end != number.data() + number.size() || m < 1) return std::nullopt;
  auto x = parse(inside.substr(0, comma));
  return x ? std::optional(std::pair(std::move(*x), m)) : std::nullopt;
}

std::optional<int64_t> Polynomial::number() const {
  if (terms_.empty()) return 0;
  if (terms_.size() == 1 && terms_.begin()->first.empty()) return terms_.begin()->second;
  return std::nullopt;
}

std::string Polynomial::text() const {
  if (terms_.empty()) return "0";
  std::string out;
  // Numbers last, as people write them: the empty monomial sorts first.
  auto write = [&](const Monomial& m, int64_t f) {
    if (!out.empty())
      out += f < 0 ? " - " : " + ";
    else if (f < 0)
      out += "-";
    const uint64_t size = f < 0 ? uint64_t{0} - static_cast<uint64_t>(f) : static_cast<uint64_t>(f);
    if (m.empty() || size != 1) out += std::to_string(size) + (m.empty() ? "" : "*");
    for (size_t i = 0; i < m.size(); ++i) out += (i ? "*" : "") + m[i];
  };
  for (const auto& [m, f] : terms_)
    if (!m.empty()) write(m, f);
  if (auto it = terms_.find({}); it != terms_.end()) write(it->first, it->second);
  return out;
}

Argument Polynomial::argument() const {
  if (auto n = number()) return Argument(*n);
  return Argument(SymbolicInt{text()});
}

std::optional<int64_t> knownSize(const Graph& g, ValueId tensor, int64_t dim) {
  const auto& shape = g.value(tensor).type.tensorInfo.shape;
  if (!shape) return std::nullopt;
  const auto rank = static_cast<int64_t>(shape->size());
  if (dim < 0) dim += rank;
  if (dim < 0 || dim >= rank || !(*shape)[static_cast<size_t>(dim)].isStatic()) return std::nullopt;
  return (*shape)[static_cast<size_t>(dim)].size;
}

std::optional<Polynomial> sizeMeaning(const Graph& g, ValueId tensor, int64_t dim) {
  const Value& v = g.value(tensor);
  if (!v.type.isTensor() && v.type.kind != Type::Kind::Any) return std::nullopt;
  const TensorInfo& info = v.type.tensorInfo;
  if (auto rank = info.rank()) {
    if (dim < 0) dim += *rank;
    if (dim < 0 || dim >= *rank) return std::nullopt;
    const Dim& d = (*info.shape)[static_cast<size_t>(dim)];
    if (d.isStatic()) return Polynomial::constant(d.size);
    if (!d.symbol.empty()) return Polynomial::parse(d.symbol);
  }
  if (dim < 0) {
    const auto rank = knownRank(g, tensor);
    if (rank) dim += *rank;
  }
  return Polynomial::atom("size(" + v.name + "," + std::to_string(dim) + ")");
}

std::optional<Polynomial> integerMeaning(const Graph& g, const Argument& a) { return meaning(g, a, 0); }

}  // namespace graft
