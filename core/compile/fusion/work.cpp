#include "core/compile/fusion/work.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/compile/fusion/fusion.h"
#include "core/compile/fusion/fusion_nodes.h"
#include "core/compile/lower/lower.h"

namespace graft {
namespace {

using loops::Expr;
using loops::ExprId;
using loops::Op;
using loops::RangeId;

constexpr double kDrawing = 20;  ///< of a random number, where neighbours share what they are drawn from

bool isFloat(DType d) { return d == DType::Float32 || d == DType::Float64; }

bool isArithmetic(const Expr& e) {
  switch (e.op) {
    case Op::Constant:
    case Op::Range:
    case Op::Size:
    case Op::Load:
    case Op::Cast:
    case Op::Select:
    case Op::CopySign:
    case Op::CheckedIndex:
    case Op::CheckedDivisor:
    case Op::Reduce:
      return false;
    default:
      return isFloat(e.dtype);
  }
}

/// Counts one nest: of each expression once, for the ranges that it depends on.
class Counter {
 public:
  Counter(const loops::Program& p, std::span<const int64_t> sizes) : p_(p), sizes_(sizes) {}

  double nest(const loops::Nest& nest) {
    counted_.clear();
    double sum = 0;
    for (const loops::Store& s : nest.stores) {
      sum += of(s.value);
      if (!s.scan || !isFloat(p_.expressions[s.value].dtype)) continue;
      Ranges all = nest.outer;
      all.insert(all.end(), s.ranges.begin(), s.ranges.end());
      sum += trips(all);
    }
    return sum;
  }

 private:
  using Ranges = std::vector<RangeId>;

  double trips(const Ranges& ranges) const {
    double n = 1;
    for (const RangeId r : ranges) n *= static_cast<double>(p_.evaluate(p_.range(r).extent, sizes_));
    return n;
  }

  /// The ranges that the expression depends on, without those that it reduces over.
  const Ranges& dependsOn(ExprId id) {
    if (const auto known = ranges_.find(id.index); known != ranges_.end()) return known->second;
    const Expr& e = p_.expressions[id];
    Ranges out;
    const auto add = [&](RangeId r) {
      if (std::find(out.begin(), out.end(), r) == out.end()) out.push_back(r);
    };
    if (e.op == Op::Range) add(e.range());
    for (const ExprId operand : e.operands)
      for (const RangeId r : dependsOn(operand)) add(r);
    for (const RangeId r : e.ranges) std::erase(out, r);
    return ranges_.emplace(id.index, std::move(out)).first->second;
  }

  double of(ExprId id) {
    if (!counted_.insert(id.index).second) return 0;
    const Expr& e = p_.expressions[id];
    double sum = isArithmetic(e) ? trips(dependsOn(id)) : 0;
    if (e.op == Op::Uniform) sum *= kDrawing;
    if (e.op == Op::Reduce && isFloat(p_.expressions[e.operands.front()].dtype)) {
      Ranges all = dependsOn(id);
      all.insert(all.end(), e.ranges.begin(), e.ranges.end());
      sum += trips(all);
    }
    for (const ExprId operand : e.operands) sum += of(operand);
    return sum;
  }

  const loops::Program& p_;
  std::span<const int64_t> sizes_;
  std::unordered_map<uint32_t, Ranges> ranges_;
  std::unordered_set<uint32_t> counted_;
};

/// The shape of a tensor whose dimensions are numbers.
std::optional<std::vector<double>> shapeOf(const Graph& g, const Argument* a) {
  if (!a || !a->isValue()) return std::nullopt;
  const Type& type = g.value(a->valueId()).type;
  if (!type.isTensor() || !type.tensorInfo.shape) return std::nullopt;
  std::vector<double> out;
  for (const Dim& d : *type.tensorInfo.shape) {
    if (!d.isStatic()) return std::nullopt;
    out.push_back(static_cast<double>(d.size));
  }
  return out;
}

double productOfAll(const std::vector<double>& sizes) {
  double n = 1;
  for (const double s : sizes) n *= s;
  return n;
}

/// q k^T and its product with v; nothing where the node has no such operands.
std::optional<double> ofAttention(const Graph& g, const Node& n) {
  if (n.args.size() < 3) return std::nullopt;
  const auto q = shapeOf(g, &n.args[0]), k = shapeOf(g, &n.args[1]), v = shapeOf(g, &n.args[2]);
  if (!q || !k || !v || q->size() < 3 || k->size() < 2 || v->empty() || q->back() == 0) return std::nullopt;
  const double keys = (*k)[k->size() - 2];
  return 2 * productOfAll(*q) * keys + 2 * productOfAll(*q) / q->back() * v->back() * keys;
}

/// A linear layer's product: of as many rows as `x` has.
std::optional<double> ofLinear(const std::optional<std::vector<double>>& weight, double rows) {
  return weight && weight->size() == 2 ? std::optional(2 * rows * productOfAll(*weight)) : std::nullopt;
}

/// Of operators that no loops are made of.
std::optional<double> ofProducts(const Graph& g, const Node& n) {
  const std::string_view base = n.op->baseName();
  if (base == "scaled_dot_product_attention" || n.op->name == "graft.attention.default") return ofAttention(g, n);
  if (!n.op->name.starts_with("graft.") || n.outputs.empty()) return std::nullopt;
  const auto weight = shapeOf(g, n.findArgument("weight")), next = shapeOf(g, n.findArgument("next_weight"));
  if (base.starts_with("conv") && weight && !weight->empty() && weight->front() > 0) {
    const Argument result(n.outputs.front());
    const auto out = shapeOf(g, &result);
    return out ? std::optional(2 * productOfAll(*out) * productOfAll(*weight) / weight->front()) : std::nullopt;
  }
  if (base.starts_with("linear")) {
    const auto x = shapeOf(g, n.findArgument("x"));
    if (!x || x->empty() || x->back() == 0) return std::nullopt;
    const double rows = productOfAll(*x) / x->back();
    const auto first = ofLinear(weight, rows), second = ofLinear(next, rows);
    return first ? std::optional(*first + second.value_or(0)) : std::nullopt;
  }
  return std::nullopt;
}

bool isTensorList(const Type& type) { return type.kind == Type::Kind::List && type.element().isTensor(); }

}  // namespace

double floatingOperations(const loops::Program& p, std::span<const int64_t> sizes) {
  double sum = 0;
  Counter counter(p, sizes);
  for (const loops::Nest& nest : p.nests) sum += counter.nest(nest);
  return sum;
}

std::optional<double> floatingOperations(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  if (const auto products = ofProducts(g, n)) return products;
  if (lower::kindOf(n.op->name) == lower::Kind::None || !n.blocks.empty()) return std::nullopt;
  FusionGroup alone;
  alone.nodes = alone.computing = {id};
  std::vector<ValueId> numbers;
  bool isFit = true;
  for (const Argument& a : n.args)
    a.forEachValue([&](ValueId v) {
      if (isTensorList(g.value(v).type)) isFit = false;
      std::vector<ValueId>& into = g.value(v).type.isTensor() ? alone.inputs : numbers;
      if (std::find(into.begin(), into.end(), v) == into.end()) into.push_back(v);
    });
  for (const ValueId v : n.outputs) isFit = isFit && g.value(v).type.isTensor();
  if (!isFit || n.outputs.empty()) return std::nullopt;
  alone.inputs.insert(alone.inputs.end(), numbers.begin(), numbers.end());
  alone.outputs.assign(n.outputs.begin(), n.outputs.end());
  const auto program = lower::lower(groupGraph(g, alone));
  // A number that is computed is a size that nobody knows here.
  return program && program->sizes.empty() ? std::optional(floatingOperations(*program, {})) : std::nullopt;
}

}  // namespace graft
