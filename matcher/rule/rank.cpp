#include "matcher/rule/rank.h"

#include <algorithm>
#include <array>

namespace graft {
namespace {

constexpr int maxDepth = 24;

bool oneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::optional<int64_t> rankOf(const Graph& g, const Argument& a, int depth);

std::optional<int64_t> rankOf(const Graph& g, ValueId v, int depth) {
  const Value& value = g.value(v);
  if (const auto rank = value.type.tensorInfo.rank()) return rank;
  if (!value.producer || depth > maxDepth) return std::nullopt;
  const Node& n = g.node(value.producer);
  if (n.args.empty() || n.outputs.front() != v || !n.op->packetName().starts_with("aten.")) return std::nullopt;
  const std::string_view base = n.op->baseName();
  const auto first = [&] { return rankOf(g, n.args[0], depth + 1); };
  if (oneOf(base, {"view", "reshape", "_unsafe_view", "expand", "permute"}) && n.args.size() > 1 && n.args[1].items())
    return static_cast<int64_t>(n.args[1].items()->size());
  if (oneOf(base, {"transpose", "softmax", "log_softmax", "dropout", "contiguous",  "clone", "relu",
                   "gelu",      "silu",    "tanh",        "sigmoid", "neg",         "exp",   "layer_norm",
                   "rms_norm",  "to",      "linear",      "slice",   "masked_fill", "cat"})) {
    if (base == "cat" && n.args[0].items() && !n.args[0].items()->empty())
      return rankOf(g, n.args[0].items()->front(), depth + 1);
    return first();
  }
  if (base == "embedding" && n.args.size() > 1) {
    const auto ids = rankOf(g, n.args[1], depth + 1);
    return ids ? std::optional(*ids + 1) : std::nullopt;
  }
  if (base == "unsqueeze") {
    const auto rank = first();
    return rank ? std::optional(*rank + 1) : std::nullopt;
  }
  if (oneOf(base, {"add", "sub", "mul", "div", "matmul"}) && n.args.size() > 1) {
    const auto a = first(), b = n.args[1].isValue() ? rankOf(g, n.args[1], depth + 1) : std::optional<int64_t>(0);
    if (!a || !b || (base == "matmul" && (*a < 2 || *b < 2))) return std::nullopt;
    return std::max(*a, *b);
  }
  return std::nullopt;
}

std::optional<int64_t> rankOf(const Graph& g, const Argument& a, int depth) {
  return a.isValue() ? rankOf(g, a.valueId(), depth) : std::nullopt;
}

}  // namespace

std::optional<int64_t> knownRank(const Graph& g, ValueId v) { return rankOf(g, v, 0); }

std::optional<int64_t> knownParts(const Graph& g, ValueId list) {
  const NodeId producer = g.value(list).producer;
  if (!producer || g.node(producer).args.size() < 2) return std::nullopt;
  const Node& n = g.node(producer);
  const std::string_view base = n.op->baseName();
  if (!n.op->packetName().starts_with("aten.") ||
      !oneOf(base, {"chunk", "split", "split_with_sizes", "tensor_split", "unbind"}))
    return std::nullopt;
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
