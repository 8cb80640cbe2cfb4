// find_linear: a product of a tensor and a weight that torch.einsum or torch.tensordot spells becomes F.linear, which
// rules give packed weights and activations. PyTorch computes einsum by bmm, and lays the weight out anew in each call.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/calls/einsum.h"
#include "matcher/passes/pass.h"
#include "matcher/search/graph_index.h"

namespace graft {
namespace {

bool hasLetter(const std::string& s, char letter) { return s.find(letter) != std::string::npos; }

/// tensordot as the einsum that it is.
std::optional<EinsumEquation> tensordotOf(const Node& n, const std::array<size_t, 2>& ranks) {
  constexpr std::string_view dimLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  if (ranks[0] + ranks[1] > dimLetters.size() || n.args.size() < 4) return std::nullopt;
  EinsumEquation e{{std::string(dimLetters.substr(0, ranks[0])), std::string(dimLetters.substr(ranks[0], ranks[1]))},
                   {}};
  const std::vector<Argument>*first = n.args[2].items(), *second = n.args[3].items();
  if (!first || !second || first->size() != second->size()) return std::nullopt;
  const auto place = [&](const Argument& a, size_t k) -> std::optional<size_t> {
    const int64_t* d = a.as<int64_t>();
    const auto rank = static_cast<int64_t>(ranks[k]);
    if (!d || *d < -rank || *d >= rank) return std::nullopt;
    return static_cast<size_t>(*d < 0 ? *d + rank : *d);
  };
  for (size_t i = 0; i < first->size(); ++i) {
    const auto a = place((*first)[i], 0), b = place((*second)[i], 1);
    if (!a || !b) return std::nullopt;
    e.operands[1][*b] = e.operands[0][*a];
  }
  const auto isOnce = [&](char letter) { return std::ranges::count(e.operands[1], letter) == 1; };
  if (!std::ranges::all_of(e.operands[1], isOnce)) return std::nullopt;
  for (size_t k = 0; k < 2; ++k)
    for (const char letter : e.operands[k])
      if (!hasLetter(e.operands[1 - k], letter)) e.result += letter;
  return e;
}

/// result = linear(x, weight): the rows are of x alone, the columns of the weight alone, and the rest is summed up.
struct WeightedProduct {
  NodeId node;
  size_t weightPlace = 1;               ///< among the two operands
  std::string ofX, ofWeight, ofResult;  ///< letters of their dimensions
  std::string rows, columns, inner;     ///< rows and columns in the result's order, the rest in x's
  std::vector<int64_t> columnSizes;
  int64_t innerSize = 1;
};

bool isEinsum(const Node& n) { return n.op->name == "aten.einsum.default"; }

/// Those of einsum and tensordot.
std::optional<std::array<ValueId, 2>> operandsOf(const Node& n) {
  if ((!isEinsum(n) && n.op->name != "aten.tensordot.default") || n.args.size() < 2) return std::nullopt;
  const std::vector<Argument>* from = isEinsum(n) ? n.args[1].items() : &n.args;
  if (!from || from->size() < 2 || (isEinsum(n) && from->size() > 2)) return std::nullopt;
  if (!(*from)[0].isValue() || !(*from)[1].isValue()) return std::nullopt;
  return std::array{(*from)[0].valueId(), (*from)[1].valueId()};
}

std::optional<WeightedProduct> weightedProductOf(const Graph& g, const GraphIndex& index, const Node& n) {
  const auto operands = operandsOf(n);
  if (!operands || n.outputs.size() != 1) return std::nullopt;
  const std::array shapes{shapeOf(g, (*operands)[0]), shapeOf(g, (*operands)[1])};
  const std::string* text = n.args[0].as<std::string>();
  if (!shapes[0] || !shapes[1] || (isEinsum(n) && !text)) return std::nullopt;
  const std::array ranks{shapes[0]->size(), shapes[1]->size()};
  const auto e = isEinsum(n) ? EinsumEquation::of(*text, ranks) : tensordotOf(n, ranks);
  const std::array isWeight{index.isWeightLike((*operands)[0]), index.isWeightLike((*operands)[1])};
  if (!e || isWeight[0] == isWeight[1]) return std::nullopt;
  const size_t w = isWeight[1] ? 1 : 0;

  WeightedProduct p{n.id, w, e->operands[1 - w], e->operands[w], e->result, {}, {}, {}, {}};
  const auto dtypeOf = [&](ValueId v) { return g.value(v).type.tensorInfo.dtype; };
  const auto dtype = dtypeOf(n.outputs[0]);
  if (!dtype || !isFloatingPoint(*dtype) || dtypeOf((*operands)[0]) != dtype || dtypeOf((*operands)[1]) != dtype)
    return std::nullopt;
  const std::vector<Dim>&shapeOfX = *shapes[1 - w], &shapeOfWeight = *shapes[w];
  if (!std::ranges::all_of(shapeOfWeight, [](const Dim& d) { return d.isStatic() && d.size > 0; })) return std::nullopt;
  for (const char letter : p.ofResult) {
    const bool isOfX = hasLetter(p.ofX, letter), isOfWeight = hasLetter(p.ofWeight, letter);
    if (isOfX == isOfWeight) return std::nullopt;
    (isOfX ? p.rows : p.columns) += letter;
    if (isOfWeight) p.columnSizes.push_back(shapeOfWeight[p.ofWeight.find(letter)].size);
  }
  for (size_t d = 0; d < p.ofX.size(); ++d) {
    const size_t at = p.ofWeight.find(p.ofX[d]);
    if (at == std::string::npos) continue;
    // Of one element, it would broadcast.
    if (shapeOfX[d] != shapeOfWeight[at] || shapeOfWeight[at].size == 1) return std::nullopt;
    p.inner += p.ofX[d];
    p.innerSize *= shapeOfWeight[at].size;
  }
  const bool isWhole =
      p.rows.size() + p.inner.size() == p.ofX.size() && p.columns.size() + p.inner.size() == p.ofWeight.size();
  // A view may need the result as PyTorch lays it out: row by row, turned where a product of x and the weight (in this
  // order) ends with a column. Columns before all rows are a product of the weight and x.
  const bool endsWithColumn =
      !p.columnSizes.empty() && p.columnSizes.back() > 1 && p.columns.back() == p.ofResult.back();
  if (p.rows + p.columns != p.ofResult && !(endsWithColumn && w == 1)) return std::nullopt;
  return isWhole && !p.rows.empty() && !p.columns.empty() && !p.inner.empty() ? std::optional(p) : std::nullopt;
}

/// Inserts what takes the place of one product.
class LinearBuilder {
 public:
  /// The operands are those that the node has by now: another product may have made one of them.
  LinearBuilder(GraphEditor& editor, const WeightedProduct& p)
      : p_(p), operands_(operandsOf(editor.graph().node(p.node)).value()), b_(editor, p.node) {}
  const std::optional<Error>& error() const { return b_.error(); }

  Argument build() {
    Argument x = permuted(Argument(operands_[1 - p_.weightPlace]), p_.ofX, p_.rows + p_.inner);
    const auto inner = static_cast<int64_t>(p_.inner.size());
    if (inner > 1) x = b_.call("aten.flatten.using_ints", {x, Argument(-inner), Argument(int64_t{-1})});
    Argument w = permuted(Argument(operands_[p_.weightPlace]), p_.ofWeight, p_.columns + p_.inner);
    if (p_.ofWeight.size() != 2) w = b_.call("aten.reshape.default", {w, listOf({-1, p_.innerSize})});
    Argument y = b_.call("aten.linear.default", {x, w});
    if (p_.columns.size() > 1) y = b_.call("aten.unflatten.int", {y, Argument(int64_t{-1}), listOf(p_.columnSizes)});
    return permuted(y, p_.rows + p_.columns, p_.ofResult);
  }

 private:
  const WeightedProduct& p_;
  const std::array<ValueId, 2> operands_;
  NodeBuilder b_;

  static Argument listOf(const std::vector<int64_t>& numbers) {
    std::vector<Argument> items;
    for (const int64_t n : numbers) items.emplace_back(n);
    return Argument::list(std::move(items));
  }
  Argument permuted(const Argument& t, const std::string& from, const std::string& to) {
    if (from == to) return t;
    std::vector<int64_t> order;
    for (const char letter : to) order.push_back(static_cast<int64_t>(from.find(letter)));
    return b_.call("aten.permute.default", {t, listOf(order)});
  }
};

Status findLinear(GraphEditor& editor, const Step&) {
  std::vector<WeightedProduct> found;
  {
    const GraphIndex index(editor.graph());
    for (const NodeId id : index.order)
      if (auto p = weightedProductOf(editor.graph(), index, editor.graph().node(id))) found.push_back(std::move(*p));
  }
  for (const WeightedProduct& p : found) {
    editor.begin(p.node);
    LinearBuilder builder(editor, p);
    const Argument by = builder.build();
    if (builder.error()) {
      editor.cancel();
      editor.noteRefused(builder.error()->message);
      continue;
    }
    editor.replaceValue(editor.graph().node(p.node).outputs[0], by.valueId());
    editor.erase(p.node);
    editor.commit();
  }
  return done();
}

}  // namespace

GRAFT_PASS(find_linear, "",
           "products with a weight that `torch.einsum` or `torch.tensordot` spell become linear layers", findLinear)

}  // namespace graft
