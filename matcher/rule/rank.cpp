#include "matcher/rule/rank.h"

#include <algorithm>
#include <unordered_map>

namespace graft {
namespace {

/// Follows one value's rank back to ranks that are known. Each value is asked once: sums of sums have many paths.
class RankSearch {
 public:
  explicit RankSearch(const Graph& g) : g_(g) {}

  std::optional<int64_t> of(ValueId v, int depth = 0) {
    const Value& value = g_.value(v);
    if (const auto rank = value.type.tensorInfo.rank()) return rank;
    if (!value.producer || depth > maxDepth) return std::nullopt;
    if (const auto at = found_.find(v); at != found_.end()) return at->second;
    const auto rank = ofProducer(g_.node(value.producer), v, depth + 1);
    found_.emplace(v, rank);
    return rank;
  }

 private:
  static constexpr int maxDepth = 24;
  const Graph& g_;
  std::unordered_map<ValueId, std::optional<int64_t>> found_;

  std::optional<int64_t> of(const Argument& a, int depth) {
    return a.isValue() ? of(a.valueId(), depth) : std::nullopt;
  }

  // A plain number has no dimensions.
  std::optional<int64_t> broadcast(const Node& n, int depth) {
    if (n.op->parameters.empty()) return std::nullopt;
    const auto takesTensor = [](const Type& t) {
      return t.isTensor() || (t.kind == Type::Kind::Optional && t.element().isTensor());
    };
    int64_t most = 0;
    for (size_t i = 0; i < n.args.size() && i < n.op->parameters.size(); ++i) {
      if (!takesTensor(n.op->parameters[i].type) || !n.args[i].isValue()) continue;
      const auto rank = of(n.args[i], depth);
      // Models do not write masks of more dimensions than what they hide, and often nothing is known of a mask.
      if (!rank && i > 0 && n.op->baseName() == "masked_fill") continue;
      if (!rank) return std::nullopt;
      most = std::max(most, *rank);
    }
    return most;
  }

  std::optional<int64_t> ofProducer(const Node& n, ValueId v, int depth) {
    if (n.args.empty() || n.outputs.front() != v || !n.op->packetName().starts_with("aten.")) return std::nullopt;
    if (n.op->writes()) return std::nullopt;
    // The first argument's, of a list that of its first element.
    const Argument* operand = &n.args[0];
    if (operand->items() && !operand->items()->empty()) operand = &operand->items()->front();
    const auto first = [&] { return of(*operand, depth); };
    const auto second = [&] { return n.args.size() > 1 ? of(n.args[1], depth) : std::nullopt; };
    const auto plus = [](std::optional<int64_t> rank, int64_t more) {
      return rank ? std::optional(*rank + more) : std::nullopt;
    };
    switch (n.op->facts->shape) {
      case ShapeRule::Listed:
      case ShapeRule::Permuted:
        return n.args.size() > 1 && n.args[1].items() ? std::optional(static_cast<int64_t>(n.args[1].items()->size()))
                                                      : std::nullopt;
      case ShapeRule::AsFirst:
      case ShapeRule::SameRank:
        return first();
      case ShapeRule::OneMore:
        return plus(first(), 1);
      case ShapeRule::OneLess:
        return plus(first(), -1);
      case ShapeRule::Lookup:
        return plus(second(), 1);
      case ShapeRule::Broadcast:
        return broadcast(n, depth);
      case ShapeRule::Product: {
        const auto a = first(), b = second();
        return a && b && *a >= 2 && *b >= 2 ? std::optional(std::max(*a, *b)) : std::nullopt;
      }
      default:
        return std::nullopt;
    }
  }
};

}  // namespace

std::optional<int64_t> knownRank(const Graph& g, ValueId v) { return RankSearch(g).of(v); }

std::optional<int64_t> knownParts(const Graph& g, ValueId list) {
  const NodeId producer = g.value(list).producer;
  if (!producer || g.node(producer).args.size() < 2) return std::nullopt;
  const Node& n = g.node(producer);
  const std::string_view base = n.op->baseName();
  if (!n.op->is(OperatorFact::Splits)) return std::nullopt;
  const Argument& how = n.args[1];
  if (const auto* sizes = how.items())
    return static_cast<int64_t>(sizes->size()) + (base == "tensor_split" ? 1 : 0);  // there they say where to cut
  const auto* each = how.as<int64_t>();
  if (base == "tensor_split") return each ? std::optional(*each) : std::nullopt;

  const Argument* dim = n.findArgument("dim");
  const auto* at = dim ? dim->as<int64_t>() : nullptr;
  const auto shape = n.args[0].isValue() ? g.value(n.args[0].valueId()).type.tensorInfo.shape : std::nullopt;
  std::optional<int64_t> size;
  if (shape && at) {
    const int64_t rank = static_cast<int64_t>(shape->size()), d = *at < 0 ? *at + rank : *at;
    if (d >= 0 && d < rank && (*shape)[static_cast<size_t>(d)].isStatic()) size = (*shape)[static_cast<size_t>(d)].size;
  }
  if (base == "unbind") return size;
  if (!each || *each <= 0) return std::nullopt;
  if (base == "split") return size ? std::optional(std::max<int64_t>(1, (*size + *each - 1) / *each)) : std::nullopt;
  if (!size || *size == 0) return *each;  // chunk: fewer only where the dimension is too short
  const int64_t width = (*size + *each - 1) / *each;
  return (*size + width - 1) / width;
}

}  // namespace graft
