// Order among the elements of short rows: each element counts those before it. A row of n takes n * n comparisons,
// which run in vectors; long rows stay with PyTorch's sort.

#include <fmt/format.h>

#include <array>

#include "core/compile/lower/call.h"
#include "core/compile/lower/operators/statistics.h"

namespace graft::lower {
namespace {

constexpr int64_t longestRow = 64;
constexpr int64_t mostCandidates = 256;  ///< that one element is compared with

/// NaN is greater than all numbers.
Scalar isGreater(Scalar a, Scalar b) { return isFloatingPoint(a.dtype()) ? (a > b) | (isNan(a) & !isNan(b)) : a > b; }

struct Row {
  TensorId x;
  size_t dim = 0;
  int64_t length = 0;
};

Row rowOf(Call& c) {
  TensorId x = roundedOperand(c.l, c.tensor("self"));
  if (c.type(x) == DType::Bool) c.refuse("self", "is bool");
  Row r{x, c.dimOf(x, "dim")};
  const auto length = c.l.findNumber(c.sizes(x)[r.dim]);
  if (!length) c.refuse("self", "has rows whose length varies");
  if (*length > longestRow) c.refuse("self", fmt::format("has rows of more than {} elements", longestRow));
  r.length = *length;
  c.traits.reducedDims = {static_cast<int64_t>(r.dim)};
  c.l.repeat(x);
  return r;
}

/// How many elements of its row stand before each element. Of equals, the first stands first.
TensorId ranks(Call& c, const Row& r, bool descending) {
  Lowering& l = c.l;
  return c.combined(ReduceKind::Sum, DType::Int32, Sizes(c.sizes(r.x)), {l.integer(r.length)},
                    [&l, r, descending](const Index& i, const Index& k) {
                      Index other = i;
                      other[r.dim] = k[0];
                      const Scalar mine = l.scalarAt(r.x, i), its = l.scalarAt(r.x, other);
                      const Scalar isMineFirst = descending ? isGreater(mine, its) : isGreater(its, mine);
                      const Scalar isItsFirst = descending ? isGreater(its, mine) : isGreater(mine, its);
                      const Scalar isEarlier = l.scalar(l.simplifier.compare(Op::Less, k[0], i[r.dim]));
                      return ((isEarlier & !isMineFirst) | (isItsFirst & !isEarlier)).to(DType::Int32).id;
                    });
}

/// For each place of the ordered row, of which `count` are wanted, where its element stands.
TensorId placesInOrder(Call& c, const Row& r, bool descending, int64_t count) {
  Lowering& l = c.l;
  const TensorId rank = ranks(c, r, descending);
  Sizes sizes = c.sizes(r.x);
  sizes[r.dim] = l.integer(count);
  const TensorId found =
      c.combined(ReduceKind::Sum, DType::Int64, sizes, {l.integer(r.length)}, [&l, r, rank](Index i, const Index& k) {
        const Scalar wanted = l.scalar(i[r.dim]).to(DType::Int32);
        i[r.dim] = k[0];
        const Scalar isIt = l.scalarAt(rank, i) == wanted;
        return l.simplifier.select(isIt.id, k[0], l.integer(0));
      });
  return found;
}

void setOrdered(Call& c, const Row& r, TensorId places, size_t valuesOutput, size_t placesOutput) {
  Lowering& l = c.l;
  c.result(places, placesOutput);
  const std::array operands{r.x, places};
  c.result(l.define(c.name(), c.type(r.x), Sizes(c.sizes(places)), 2, operands,
                    [&l, r, places](Index i) {
                      // One place is found, and it is in the row: said as loads prove it.
                      loops::Simplifier& s = l.simplifier;
                      const ExprId last = l.integer(r.length - 1);
                      i[r.dim] = s.maximum(s.minimum(l.at(places, i), last), l.integer(0));
                      return l.at(r.x, i);
                    }),
           valuesOutput);
}

void lowerTopK(Call& c) {
  if (c.node.outputs.size() > 1 && !c.l.graph.isUnused(c.node.outputs[1]))
    c.refuse("its places are read: PyTorch does not say which of equal elements it takes");
  const Row r = rowOf(c);
  const int64_t k = c.integer("k");
  if (k < 0 || k > r.length) c.refuse("k", "is more than the row has");
  setOrdered(c, r, placesInOrder(c, r, c.flag("largest"), k), 0, 1);
}

void lowerSort(Call& c) {
  const Row r = rowOf(c);
  setOrdered(c, r, placesInOrder(c, r, c.flag("descending"), r.length), 0, 1);
}

void lowerArgSort(Call& c) {
  const Row r = rowOf(c);
  c.result(placesInOrder(c, r, c.flag("descending"), r.length));
}

// Comparisons with a few candidates -----------------------------------------------------------------------------------

int64_t candidates(Call& c, TensorId of, std::string_view parameter) {
  const auto n = c.l.findNumber(c.l.product(c.sizes(of)));
  if (!n) c.refuse(parameter, "has a size that varies");
  if (*n > mostCandidates) c.refuse(parameter, fmt::format("has more than {} elements", mostCandidates));
  return *n;
}

/// How many boundaries, which ascend, are less than each element; or not greater.
void lowerBuckets(Call& c, std::string_view sorted) {
  TensorId x = c.tensor("self"), boundaries = c.tensor(sorted);
  if (c.rank(boundaries) != 1) c.refuse(sorted, "has other than one dimension");
  if (c.node.findArgument("sorter") && c.has("sorter")) c.refuse("sorter", "is given");
  bool isRight = c.flag("right");
  if (c.node.findArgument("side") && c.has("side")) isRight = c.text("side") == "right";
  const int64_t n = candidates(c, boundaries, sorted);
  const DType d = c.type(boundaries), gives = c.resultType();
  if (c.l[x].isNumber)
    x = c.widened(x, d);
  else if (c.type(x) != d)
    c.refuse(sorted, "has another dtype");
  if (d == DType::Bool) c.refuse(sorted, "is bool");
  x = roundedOperand(c.l, x);
  boundaries = roundedOperand(c.l, boundaries);
  Lowering& l = c.l;
  l.repeat(x);
  l.repeat(boundaries);
  c.result(c.combined(ReduceKind::Sum, gives, Sizes(c.sizes(x)), {l.integer(n)},
                      [&l, x, boundaries, isRight, gives](const Index& i, const Index& k) {
                        const Scalar v = l.scalarAt(x, i), b = l.scalarAt(boundaries, {k[0]});
                        // NaN goes behind all of them.
                        return (isRight ? !(b > v) : !(b >= v)).to(gives).id;
                      }));
}

void lowerIsIn(Call& c) {
  const bool isNumber = c.node.findArgument("test_element") != nullptr;
  const TensorId x = c.tensor("elements");
  TensorId wanted = c.tensor(isNumber ? "test_element" : "test_elements");
  const int64_t n = candidates(c, wanted, "test_elements");
  const std::array both{x, wanted};
  const DType d = promoted(c.l, both);
  wanted = c.reshaped(wanted, {c.l.integer(n)});
  const bool inverts = c.flag("invert");
  Lowering& l = c.l;
  l.repeat(x);
  const TensorId found = c.combined(ReduceKind::Any, DType::Bool, Sizes(c.sizes(x)), {l.integer(n)},
                                    [&l, x, wanted, d](const Index& i, const Index& k) {
                                      const auto as = [&](TensorId t, const Index& at) {
                                        return l.rounded(l.convert(l.scalarAt(t, at), l[t].dtype, d), d);
                                      };
                                      return (as(x, i) == as(wanted, {k[0]})).id;
                                    });
  c.result(inverts ? mapped(l, found, 1, DType::Bool, [](Scalar v) { return !v; }) : found);
}

}  // namespace

std::vector<Entry> orderOperators() {
  return {
      {"aten.topk.default", Kind::Reduction, lowerTopK},
      {"aten.sort.default", Kind::Reduction, lowerSort},
      {"aten.sort.stable", Kind::Reduction, lowerSort},
      {"aten.argsort.default", Kind::Reduction, lowerArgSort},
      {"aten.argsort.stable", Kind::Reduction, lowerArgSort},
      {"aten.bucketize.Tensor", Kind::Pointwise, [](Call& c) { lowerBuckets(c, "boundaries"); }},
      {"aten.searchsorted.Tensor", Kind::Gather, [](Call& c) { lowerBuckets(c, "sorted_sequence"); }},
      {"aten.isin.Tensor_Tensor", Kind::Pointwise, lowerIsIn},
      {"aten.isin.Tensor_Scalar", Kind::Pointwise, lowerIsIn},
  };
}

}  // namespace graft::lower
