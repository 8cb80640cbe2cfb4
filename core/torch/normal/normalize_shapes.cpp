// Steps of the normal form that follow sizes and constants: what PyTorch's ways out spell differently although it is
// known.
#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "core/ir/calls/whole_slice.h"
#include "core/torch/normal/normal_steps.h"

namespace graft {
namespace {

bool listsShape(const Node& n) {
  return n.op->facts->shape == ShapeRule::Listed && n.args.size() >= 2 && n.args[1].items();
}

bool keepsShape(const Node& n) {
  return n.op->facts->shape == ShapeRule::AsFirst && !n.op->writes() && !n.args.empty() && n.args[0].isValue();
}

const int64_t* integer(const Node& n, size_t i) { return i < n.args.size() ? n.args[i].as<int64_t>() : nullptr; }

// What a size follows from: another value's size, or a number that the graph calculates.
struct Size {
  ValueId of;
  int64_t dim = 0;
  ValueId number;
};

class SizeOrigins {
 public:
  explicit SizeOrigins(const Graph& g) : g_(g) {}

  std::optional<int64_t> rank(ValueId v, int depth = 0) const {
    const Value& value = g_.value(v);
    if (const auto r = value.type.tensorInfo.rank()) return r;
    if (!value.producer || depth > 50) return std::nullopt;
    const Node& n = g_.node(value.producer);
    switch (n.op->facts->shape) {
      case ShapeRule::Listed:
      case ShapeRule::Permuted:
        return n.args.size() >= 2 && n.args[1].items() ? std::optional<int64_t>(n.args[1].items()->size())
                                                       : std::nullopt;
      case ShapeRule::AsFirst:
      case ShapeRule::SameRank:
        if (!n.op->writes() && !n.args.empty() && n.args[0].isValue() && n.outputs[0] == v)
          return rank(n.args[0].valueId(), depth + 1);
        break;
      default:
        break;
    }
    return std::nullopt;
  }

  Size origin(ValueId v, int64_t dim) const {
    Size at{v, dim, {}};
    for (int steps = 0; steps < 200; ++steps)
      if (const auto next = step(at.of, at.dim)) {
        at = *next;
        if (at.number) break;
      } else {
        break;
      }
    return at;
  }

 private:
  std::optional<Size> step(ValueId v, int64_t dim) const {
    const Value& value = g_.value(v);
    if (!value.producer) return std::nullopt;
    const Node& n = g_.node(value.producer);
    if (n.outputs[0] != v || n.args.empty() || !n.args[0].isValue()) return std::nullopt;
    const ValueId x = n.args[0].valueId();
    if (keepsShape(n)) return Size{x, dim, {}};
    const auto r = rank(v);
    const int64_t d = dim < 0 && r ? dim + *r : dim;
    if (listsShape(n)) {
      const auto& sizes = *n.args[1].items();
      if (d < 0 || static_cast<size_t>(d) >= sizes.size() || !sizes[static_cast<size_t>(d)].isValue())
        return std::nullopt;
      return Size{{}, 0, sizes[static_cast<size_t>(d)].valueId()};
    }
    if (!r || d < 0 || d >= *r) return std::nullopt;
    if (n.op->name == "aten.linear.default")
      return d == *r - 1 || !rank(x) ? std::nullopt : std::optional(Size{x, d, {}});
    if (n.op->baseName() == "permute" && n.args.size() >= 2 && n.args[1].items()) {
      const auto* from = (*n.args[1].items())[static_cast<size_t>(d)].as<int64_t>();
      return from ? std::optional(Size{x, *from < 0 ? *from + *r : *from, {}}) : std::nullopt;
    }
    if (n.op->name == "aten.transpose.int") {
      const auto *a = integer(n, 1), *b = integer(n, 2);
      if (!a || !b) return std::nullopt;
      const int64_t first = *a < 0 ? *a + *r : *a, second = *b < 0 ? *b + *r : *b;
      return Size{x, d == first ? second : d == second ? first : d, {}};
    }
    return std::nullopt;
  }

  const Graph& g_;
};

// The only user of a value that does not merely ask for sizes, where it reorders dimensions.
NodeId reordering(const Graph& g, ValueId v) {
  NodeId found;
  for (NodeId user : g.value(v).users) {
    const Node& u = g.node(user);
    if (u.op->name == "aten.size.int") continue;
    if (found && found != user) return {};
    found = user;
  }
  if (!found || g.value(v).returnUses > 0) return {};
  const std::string_view base = g.node(found).op->baseName();
  return (base == "permute" || base == "transpose") && g.node(found).args[0] == Argument(v) ? found : NodeId();
}

// The dimension of the reordered value that is dimension `dim` of its argument.
std::optional<int64_t> reordered(const Node& n, int64_t dim, int64_t rank) {
  const auto positive = [&](int64_t d) { return d < 0 ? d + rank : d; };
  dim = positive(dim);
  if (n.op->baseName() == "permute") {
    if (n.args.size() < 2 || !n.args[1].items()) return std::nullopt;
    const auto& dims = *n.args[1].items();
    for (size_t i = 0; i < dims.size(); ++i)
      if (const auto* d = dims[i].as<int64_t>(); d && positive(*d) == dim) return static_cast<int64_t>(i);
    return std::nullopt;
  }
  const auto *a = integer(n, 1), *b = integer(n, 2);
  if (!a || !b) return std::nullopt;
  return dim == positive(*a) ? positive(*b) : dim == positive(*b) ? positive(*a) : dim;
}

// Asks the reordered value instead, which stays where a rule takes the calculation before it away.
bool askLater(Graph& g, NodeId id, int64_t dim, const SizeOrigins& sizes) {
  const Node& n = g.node(id);
  const ValueId asked = n.args[0].valueId();
  const NodeId after = reordering(g, asked);
  const auto rank = sizes.rank(asked);
  if (!after || !rank || g.node(after).parent != n.parent) return false;
  const auto where = reordered(g.node(after), dim, *rank);
  const auto& users = g.value(n.outputs[0]).users;
  if (!where || g.value(n.outputs[0]).returnUses > 0 || !std::all_of(users.begin(), users.end(), [&](NodeId u) {
        return g.node(u).parent == n.parent && g.isBefore(after, u);
      }))
    return false;
  const NodeId moved = g.insertAfter(after, n.op, {Argument(g.output(after)), Argument(*where)}, "size");
  g.setType(g.output(moved), g.value(g.output(id)).type);
  g.setModule(moved, g.node(id).module);
  g.setSource(moved, g.node(id).source);
  g.replaceAllUses(g.output(id), g.output(moved));
  return true;
}

// What is known of a tensor's elements without running anything: all lie in [low, high].
struct Range {
  double low, high;
  bool is(double x) const { return low == x && high == x; }
};

class Ranges {
 public:
  explicit Ranges(const Graph& g) {
    for (NodeId id : g.order()) {
      const Node& n = g.node(id);
      if (n.outputs.size() != 1 || n.op->writes()) continue;
      if (const auto range = ofResult(n)) known_.emplace(n.outputs[0], *range);
    }
  }

  std::optional<Range> of(const Argument& a) const {
    if (const auto x = a.number()) return Range{*x, *x};
    if (!a.isValue()) return std::nullopt;
    const auto at = known_.find(a.valueId());
    return at == known_.end() ? std::nullopt : std::optional(at->second);
  }

 private:
  std::unordered_map<ValueId, Range> known_;

  std::optional<Range> ofResult(const Node& n) const {
    const std::string_view base = n.op->baseName();
    const auto arg = [&](size_t i) { return i < n.args.size() ? of(n.args[i]) : std::nullopt; };
    if (n.op->is(OperatorFact::MovesOnly)) return arg(0);
    if (base == "zeros" || base == "zeros_like" || base == "new_zeros") return Range{0, 0};
    if (base == "ones" || base == "ones_like" || base == "new_ones") return Range{1, 1};
    if (base == "full" || base == "full_like") return arg(1);
    if (base == "new_full") return arg(2);
    if (n.op->name == "aten.arange.default") {
      const auto* end = n.args[0].as<int64_t>();
      return Range{0, end ? static_cast<double>(*end) - 1 : std::numeric_limits<double>::infinity()};
    }
    if (base == "add" && n.args.size() == 3 && n.args[2].number() == 1.0) {
      const auto x = arg(0), y = arg(1);
      return x && y ? std::optional(Range{x->low + y->low, x->high + y->high}) : std::nullopt;
    }
    if (base == "where" && n.args.size() == 3) {
      const auto condition = arg(0);
      if (!condition) return std::nullopt;
      if (condition->is(1)) return arg(1);
      return condition->is(0) ? arg(2) : std::nullopt;
    }
    if (base == "bitwise_and" || base == "logical_and") return both(arg(0), arg(1));
    if (base == "to" || base == "_to_copy") {
      const Argument* dtype = n.findArgument("dtype");
      const auto x = arg(0);
      return x && (x->is(0) || x->is(1)) && dtype ? x : std::nullopt;
    }
    return compared(base, arg(0), arg(1));
  }

  static std::optional<Range> both(const std::optional<Range>& x, const std::optional<Range>& y) {
    if (!x || !y || !(x->is(0) || x->is(1)) || !(y->is(0) || y->is(1))) return std::nullopt;
    return x->is(1) && y->is(1) ? Range{1, 1} : Range{0, 0};
  }
  static std::optional<Range> compared(std::string_view base, const std::optional<Range>& x,
                                       const std::optional<Range>& y) {
    if (!x || !y) return std::nullopt;
    constexpr Range yes{1, 1}, no{0, 0};
    if (base == "ge")
      return x->low >= y->high ? std::optional(yes) : x->high < y->low ? std::optional(no) : std::nullopt;
    if (base == "gt")
      return x->low > y->high ? std::optional(yes) : x->high <= y->low ? std::optional(no) : std::nullopt;
    if (base == "le") return compared("ge", y, x);
    if (base == "lt") return compared("gt", y, x);
    return std::nullopt;
  }
};

}  // namespace

bool changesShapesInPlace(const Graph& g) {
  const std::vector<NodeId> order = g.order();
  return std::any_of(order.begin(), order.end(),
                     [&](NodeId id) { return g.node(id).op->is(OperatorFact::ReshapesInPlace); });
}

void askSizesEarly(Graph& g) {
  if (changesShapesInPlace(g)) return;
  const SizeOrigins sizes(g);
  for (NodeId id : g.order()) {
    if (!g.isAlive(id) || g.node(id).op->name != "aten.size.int") continue;
    const Node& n = g.node(id);
    const auto* dim = integer(n, 1);
    if (!dim || !n.args[0].isValue()) continue;
    const ValueId asked = n.args[0].valueId();
    if (askLater(g, id, *dim, sizes)) continue;
    const Size from = sizes.origin(asked, *dim);
    if (from.number) {
      // The number may itself be asked of a value inside of what a rule replaces.
      const NodeId by = g.value(from.number).producer;
      const bool inner = by && g.node(by).op->name == "aten.size.int" && g.node(by).args[0].isValue() &&
                         g.value(g.node(by).args[0].valueId()).kind != Value::Kind::BlockParameter;
      if (!inner && g.value(from.number).type.kind == Type::Kind::Int) g.replaceAllUses(n.outputs[0], from.number);
    } else if (from.of != asked && g.value(from.of).kind == Value::Kind::BlockParameter) {
      // Nothing takes an input away; another value in between might be inside of what a rule replaces.
      g.setArguments(id, {Argument(from.of), Argument(from.dim)});
    }
  }
}

void removeIdleMasks(Graph& g) {
  std::optional<Ranges> ranges;  // few graphs ask for them
  for (NodeId id : g.order()) {
    const Node& n = g.node(id);
    if (n.op->name != "aten.add.Tensor" || n.args.size() != 3 || n.args[2].number() != 1.0) continue;
    const Value& sum = g.value(n.outputs[0]);
    if (sum.returnUses > 0 || sum.users.empty()) continue;
    // Of a sum with 0, a softmax does not even see the sign of zeros.
    if (!std::all_of(sum.users.begin(), sum.users.end(), [&](NodeId u) {
          return g.node(u).op->name == "aten.softmax.int" || g.node(u).op->name == "aten._softmax.default";
        }))
      continue;
    for (size_t i : {1, 0}) {
      if (!n.args[i].isValue() || !n.args[1 - i].isValue()) continue;
      if (!ranges) ranges.emplace(g);
      const auto mask = ranges->of(n.args[i]);
      const TensorInfo& other = g.value(n.args[1 - i].valueId()).type.tensorInfo;
      if (!mask || !mask->is(0) || !other.dtype || !other.shape || !(other == sum.type.tensorInfo)) continue;
      g.replaceAllUses(n.outputs[0], n.args[1 - i].valueId());
      break;
    }
  }
}

void removeWholeSlices(Graph& g) {
  const std::vector<NodeId> order = g.order();
  if (std::any_of(order.begin(), order.end(), [&](NodeId id) { return g.node(id).op->writes(); })) return;
  for (NodeId id : order) {
    const Node& n = g.node(id);
    if (isWholeSlice(n) && n.args[0].isValue()) g.replaceAllUses(n.outputs[0], n.args[0].valueId());
  }
}

}  // namespace graft
