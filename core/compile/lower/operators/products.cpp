// Matrix products: sums of products over a dimension that both operands have. A half is multiplied as f32 and the sum
// is f32, rounded where it is stored: what follows in the group reads more digits than PyTorch's operators keep.

#include <algorithm>
#include <array>
#include <map>

#include "core/compile/lower/call.h"
#include "core/ir/calls/einsum.h"

namespace graft::lower {
namespace {

using Values = std::span<const Scalar>;

/// An operand as batches of matrices. `sizes` has the batch's dimensions, then two: rows and columns.
struct Matrices {
  TensorId tensor;
  Sizes sizes;
  std::function<Index(const Index&)> source;  ///< the tensor's index, of one of these sizes
};

Matrices asMatrices(Call& c, TensorId t) {
  return {t, c.sizes(t), [](const Index& i) { return i; }};
}

Matrices transposed(Matrices m) {
  const size_t rank = m.sizes.size();
  std::swap(m.sizes[rank - 2], m.sizes[rank - 1]);
  const auto source = m.source;
  m.source = [source, rank](const Index& i) {
    Index swapped = i;
    std::swap(swapped[rank - 2], swapped[rank - 1]);
    return source(swapped);
  };
  return m;
}

/// Sums of a's rows times b's columns, with the batches of both broadcast to `batch`.
TensorId productOf(Call& c, const Matrices& a, const Matrices& b, const Sizes& batch) {
  Lowering& l = c.l;
  const DType d = c.type(a.tensor);
  if (!isFloatingPoint(d)) c.refuse("its operands are no floating numbers");
  if (c.type(b.tensor) != d) c.refuse("its operands have different dtypes");
  const size_t rankA = a.sizes.size(), rankB = b.sizes.size();
  const ExprId k = a.sizes[rankA - 1];
  if (b.sizes[rankB - 2] != k) c.refuse("nothing says whether the operands' inner sizes are equal");
  // Each element is read once for every row or column of the other operand.
  l.repeat(a.tensor);
  l.repeat(b.tensor);
  Sizes sizes = batch;
  sizes.insert(sizes.end(), {a.sizes[rankA - 2], b.sizes[rankB - 1], k});
  const auto place = [&l](const Matrices& m, const Index& i, const Sizes& batch, ExprId row, ExprId column) {
    Index at;
    const size_t own = m.sizes.size() - 2, skip = batch.size() - own;
    for (size_t d = 0; d < own; ++d)
      at.push_back(l.isOne(m.sizes[d]) && !l.isOne(batch[skip + d]) ? l.integer(0) : i[skip + d]);
    at.push_back(row);
    at.push_back(column);
    return m.source(at);
  };
  const size_t n = batch.size();
  const std::array operands{a.tensor, b.tensor};
  const TensorId terms = l.define(c.name(), d, sizes, 2, operands, [&l, a, b, batch, place, n](const Index& i) {
    const Scalar left = l.scalarAt(a.tensor, place(a, i, batch, i[n], i[n + 2]));
    const Scalar right = l.scalarAt(b.tensor, place(b, i, batch, i[n + 2], i[n + 1]));
    return (left * right).id;
  });
  const std::array summed{n + 2};
  return l.reduce(ReduceKind::Sum, terms, summed, false);
}

/// beta * self + alpha * product; a beta of 0 leaves self out, whatever it holds.
TensorId withAddend(Call& c, TensorId product) {
  const double beta = c.number("beta"), alpha = c.number("alpha");
  const DType d = c.resultType();
  const auto scaled = [](Scalar x, double by) { return by == 1 ? x : x * by; };
  if (beta == 0)
    return alpha == 1 ? product : c.pointwise({product}, d, d, 1, [=](Values v) { return scaled(v[0], alpha); });
  return c.pointwise({c.tensor("self"), product}, d, d, 2,
                     [=](Values v) { return scaled(v[0], beta) + scaled(v[1], alpha); });
}

Sizes batchOf(Call& c, const Matrices& a, const Matrices& b) {
  const size_t rank = std::max(a.sizes.size(), b.sizes.size()) - 2;
  Sizes batch(rank, c.l.integer(1));
  for (const Matrices* m : {&a, &b}) {
    const size_t own = m->sizes.size() - 2;
    for (size_t d = 0; d < own; ++d) {
      ExprId& size = batch[rank - own + d];
      if (size == m->sizes[d] || c.l.isOne(m->sizes[d])) continue;
      if (!c.l.isOne(size)) c.refuse("nothing says whether the batches' sizes are equal");
      size = m->sizes[d];
    }
  }
  return batch;
}

void requireRank(Call& c, TensorId t, size_t rank, std::string_view parameter) {
  if (c.rank(t) != rank) c.refuse(parameter, "has another number of dimensions");
}

/// mm, bmm and what adds something to them.
void lowerProduct(Call& c, std::string_view left, std::string_view right, size_t rank, bool adds) {
  const TensorId a = c.tensor(left), b = c.tensor(right);
  requireRank(c, a, rank, left);
  requireRank(c, b, rank, right);
  c.traits.multiplied = adds ? std::vector<size_t>{1, 2} : std::vector<size_t>{0, 1};
  const Matrices x = asMatrices(c, a), y = asMatrices(c, b);
  Sizes batch;
  if (rank == 3) batch.push_back(c.sizes(a)[0]);
  if (rank == 3 && c.sizes(b)[0] != batch[0]) c.refuse("nothing says whether the batches' sizes are equal");
  const TensorId product = productOf(c, x, y, batch);
  c.result(adds ? withAddend(c, product) : product);
}

void lowerMatmul(Call& c) {
  const TensorId a = c.tensor("self"), b = c.tensor("other");
  if (c.rank(a) < 2) c.refuse("self", "has fewer than two dimensions");
  if (c.rank(b) < 2) c.refuse("other", "has fewer than two dimensions");
  c.traits.multiplied = {0, 1};
  const Matrices x = asMatrices(c, a), y = asMatrices(c, b);
  c.result(productOf(c, x, y, batchOf(c, x, y)));
}

/// einsum of two operands: what is in neither's result is summed up.
void lowerEinsum(Call& c) {
  const std::vector<TensorId> operands = c.tensors("tensors");
  if (operands.size() != 2) c.refuse("tensors", "are not two");
  const auto equation = EinsumEquation::of(c.text("equation"), std::array{c.rank(operands[0]), c.rank(operands[1])});
  if (!equation) c.refuse("equation", "does not name each dimension of an operand by a letter of its own");
  const std::vector<std::string>& names = equation->operands;
  const std::string& kept = equation->result;
  std::map<char, ExprId> sizes;
  for (size_t k = 0; k < 2; ++k) {
    for (size_t d = 0; d < names[k].size(); ++d) {
      const ExprId size = c.sizes(operands[k])[d];
      if (sizes.try_emplace(names[k][d], size).first->second != size)
        c.refuse("nothing says whether the operands' sizes are equal");
    }
  }
  std::string all = kept;
  for (const auto& [name, size] : sizes)
    if (kept.find(name) == std::string::npos) all += name;
  if (all.size() == kept.size()) c.refuse("equation", "sums up nothing");
  Lowering& l = c.l;
  const DType d = c.type(operands[0]);
  if (!isFloatingPoint(d) || c.type(operands[1]) != d)
    c.refuse("its operands have no dtype of floating numbers in common");
  c.traits.multiplied = {1};
  Sizes each;
  for (const char name : all) each.push_back(sizes.at(name));
  for (const TensorId t : operands) l.repeat(t);
  const auto at = [&l, all](TensorId t, const std::string& names, const Index& i) {
    Index index;
    for (const char name : names) index.push_back(i[all.find(name)]);
    return l.scalarAt(t, index);
  };
  const TensorId terms = l.define(c.name(), d, each, 2, operands, [at, operands, names](const Index& i) {
    return (at(operands[0], names[0], i) * at(operands[1], names[1], i)).id;
  });
  std::vector<size_t> summed;
  for (size_t k = kept.size(); k < all.size(); ++k) summed.push_back(k);
  c.result(l.reduce(ReduceKind::Sum, terms, summed, false));
}

TensorId linearOf(Call& c, std::string_view input) {
  const TensorId x = c.tensor(input), w = c.tensor("weight");
  requireRank(c, w, 2, "weight");
  if (c.rank(x) < 1) c.refuse(input, "has no dimensions");
  c.traits.multiplied = {0, 1};
  Matrices rows = asMatrices(c, x);
  const bool isVector = c.rank(x) == 1;
  if (isVector) {
    rows.sizes.insert(rows.sizes.begin(), c.l.integer(1));
    rows.source = [](const Index& i) { return Index{i.back()}; };
  }
  const Matrices columns = transposed(asMatrices(c, w));
  TensorId product = productOf(c, rows, columns, Sizes(rows.sizes.begin(), rows.sizes.end() - 2));
  if (isVector) product = c.reshaped(product, {c.sizes(w)[0]});
  if (!c.has("bias")) return product;
  const DType d = c.resultType();
  return c.pointwise({product, c.tensor("bias")}, d, d, 1, [](Values v) { return v[0] + v[1]; });
}

/// With an activation, the operator's own kernels compute all of it.
void lowerOwnLinear(Call& c) {
  if (c.text("activation") != "none") c.refuse("activation", "is computed by the operator's own kernels");
  TensorId sum = linearOf(c, "x");
  if (c.has("residual")) {
    const DType d = c.resultType();
    sum = c.pointwise({sum, c.tensor("residual")}, d, d, 1, [](Values v) { return v[0] + v[1]; });
  }
  c.result(sum);
}

}  // namespace

std::vector<Entry> productOperators() {
  return {
      {"aten.mm.default", Kind::Product, [](Call& c) { lowerProduct(c, "self", "mat2", 2, false); }},
      {"aten.bmm.default", Kind::Product, [](Call& c) { lowerProduct(c, "self", "mat2", 3, false); }},
      {"aten.addmm.default", Kind::Product, [](Call& c) { lowerProduct(c, "mat1", "mat2", 2, true); }},
      {"aten.baddbmm.default", Kind::Product, [](Call& c) { lowerProduct(c, "batch1", "batch2", 3, true); }},
      {"aten.matmul.default", Kind::Product, lowerMatmul},
      {"aten.einsum.default", Kind::Product, lowerEinsum},
      {"aten.linear.default", Kind::Product, [](Call& c) { c.result(linearOf(c, "input")); }},
      {"graft.linear.default", Kind::Product, lowerOwnLinear},
  };
}

}  // namespace graft::lower
