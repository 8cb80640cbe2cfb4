// find_products: a product of matrices that is written as a product of broadcast tensors and a sum, as in
// `(x.unsqueeze(2) * y.unsqueeze(1)).sum(-1)`, becomes torch.einsum. The tensor in between is as large as both sides of
// the result times what is summed up; einsum multiplies matrices and does not make it.
#include <algorithm>
#include <memory>
#include <set>

#include "core/ir/operators/operator_facts.h"
#include "matcher/passes/pass.h"
#include "matcher/search/graph_index.h"

namespace graft {
namespace {

/// Below that, the sum of a generated kernel is as fast.
constexpr int64_t leastSide = 8;
constexpr int64_t unknownSize = 16;
constexpr size_t mostDims = 26;  // letters

struct Product {
  ValueId left, right;
  /// A letter for each dimension. One of one element broadcasts, in einsum as in the multiplication: whether it always
  /// has one element is not known of a traced model.
  std::string equation;
  std::vector<int64_t> reduced;  ///< dimensions of the multiplication's result, ascending
  bool keepsDims = false;
  NodeId multiplication;
};

std::optional<std::vector<int64_t>> dimsOf(const Argument& a, size_t rank) {
  const auto* items = a.items();
  if (!items || items->empty()) return std::nullopt;
  std::set<int64_t> dims;
  for (const Argument& item : *items) {
    const auto* d = item.as<int64_t>();
    const auto n = static_cast<int64_t>(rank);
    if (!d || *d < -n || *d >= n) return std::nullopt;
    dims.insert(*d < 0 ? *d + n : *d);
  }
  return std::vector<int64_t>(dims.begin(), dims.end());
}

std::optional<Product> productOf(const Graph& g, const GraphIndex& index, const Node& sum) {
  if (sum.op->name != "aten.sum.dim_IntList" || sum.args.size() < 2 || !sum.args[0].isValue()) return std::nullopt;
  const ValueId whole = sum.args[0].valueId();
  const Value& between = g.value(whole);
  if (!between.producer || between.users.size() != 1 || between.returnUses > 0) return std::nullopt;
  const Node& mul = g.node(between.producer);
  if (mul.parent != sum.parent) return std::nullopt;
  if (mul.op->name != "aten.mul.Tensor" || mul.args.size() < 2 || !mul.args[0].isValue() || !mul.args[1].isValue())
    return std::nullopt;
  const ValueId x = mul.args[0].valueId(), y = mul.args[1].valueId();
  if (index.isWritten(index.memoryOf(x)) || index.isWritten(index.memoryOf(y)) || x == y) return std::nullopt;
  const auto dtypeOf = [&](ValueId v) { return g.value(v).type.tensorInfo.dtype; };
  const auto dtype = dtypeOf(x);
  if (!dtype || !isFloatingPoint(*dtype) || dtypeOf(y) != dtype || dtypeOf(sum.outputs[0]) != dtype)
    return std::nullopt;
  const auto *of = shapeOf(g, whole), *ofX = shapeOf(g, x), *ofY = shapeOf(g, y);
  if (!of || !ofX || !ofY || of->size() > mostDims) return std::nullopt;
  const auto reduced = dimsOf(sum.args[1], of->size());
  const Argument* const keepdim = sum.findArgument("keepdim");
  const bool* const keepsDims = keepdim ? keepdim->as<bool>() : nullptr;
  if (!reduced || (keepdim && !keepsDims)) return std::nullopt;

  std::string left, right, result;
  int64_t rows = 1, columns = 1, inner = 1;
  for (size_t i = 0; i < of->size(); ++i) {
    const auto place = [&](const std::vector<Dim>& shape) {
      return static_cast<int64_t>(i) - static_cast<int64_t>(of->size() - shape.size());
    };
    const auto isOne = [&](const std::vector<Dim>& shape) {
      return place(shape) < 0 || shape[static_cast<size_t>(place(shape))].size == 1;
    };
    const bool xBroadcasts = isOne(*ofX), yBroadcasts = isOne(*ofY);
    const int64_t size = (*of)[i].isStatic() ? (*of)[i].size : unknownSize;
    const char letter = static_cast<char>('a' + i);
    if (place(*ofX) >= 0) left += letter;
    if (place(*ofY) >= 0) right += letter;
    if (std::ranges::find(*reduced, static_cast<int64_t>(i)) != reduced->end()) {
      if (xBroadcasts || yBroadcasts) return std::nullopt;
      inner *= size;
    } else {
      if (xBroadcasts != yBroadcasts) (yBroadcasts ? rows : columns) *= size;
      result += letter;
    }
  }
  if (rows < leastSide || columns < leastSide || inner < leastSide) return std::nullopt;
  return Product{x, y, left + "," + right + "->" + result, *reduced, keepsDims && *keepsDims, mul.id};
}

Status replace(GraphEditor& editor, NodeId id, const Product& p) {
  editor.begin(id);
  NodeBuilder b(editor, id);
  Argument whole =
      b.call("aten.einsum.default", {Argument(p.equation), Argument::list({Argument(p.left), Argument(p.right)})});
  for (const int64_t d : p.reduced)
    if (p.keepsDims) whole = b.call("aten.unsqueeze.default", {whole, Argument(d)});
  if (b.error()) {  // it stays as it is
    editor.cancel();
    return done();
  }
  const Graph& g = editor.graph();
  editor.setType(whole.valueId(), g.value(g.node(id).outputs[0]).type);
  editor.replaceValue(g.node(id).outputs[0], whole.valueId());
  editor.erase(id);
  editor.erase(p.multiplication);
  editor.commit();
  return done();
}

Status findProducts(GraphEditor& editor, const Step&) {
  const Graph& g = editor.graph();
  // An operand of one may be the result of another: each is looked for in what the graph is by then.
  auto index = std::make_unique<GraphIndex>(g);
  for (const NodeId id : std::vector<NodeId>(index->order)) {
    const auto product = productOf(g, *index, g.node(id));
    if (!product) continue;
    if (const Status s = replace(editor, id, *product); !s) return s;
    index = std::make_unique<GraphIndex>(g);
  }
  return done();
}

}  // namespace

GRAFT_PASS(find_products, "",
           "products of matrices that are written as a multiplication that broadcasts and a sum become `torch.einsum`",
           findProducts, false, true)

}  // namespace graft
