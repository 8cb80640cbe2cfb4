// Elements written at places that other elements say. Loops write each element once and in any order, so each element
// of the result looks through the writes for those to its own place. That pays where they are few; where they are
// many, the operator stays.

#include <algorithm>
#include <limits>

#include "core/compile/lower/operators/places.h"

namespace graft::lower {
namespace {

// Looking through these is cheaper than another kernel, whatever the number of places.
constexpr int64_t fewWrites = 4;
// Otherwise these are the most that one element looks through, and the most comparisons of all places with all writes.
constexpr int64_t mostWrites = 64, mostComparisons = 4096;

/// What is written, one element for each value of loops with these extents.
struct Writes {
  std::vector<int64_t> extents = {};
  std::vector<size_t> dims = {};  ///< of the result, whose index decides which writes are to an element
  /// Whether write `k` is to the place `at` along `dims`. Evaluated only where `isPossible`.
  std::function<ExprId(const Index& at, const Index& k)> isHere = {};
  std::function<ExprId(const Index& at)> isPossible = {};
  /// What write `k` writes to the element `i`, in the compute type of the result.
  std::function<ExprId(const Index& i, const Index& k)> value = {};

  int64_t count() const {
    int64_t n = 1;
    for (const int64_t e : extents) n *= e;
    return n;
  }
  Index at(const Index& i) const {
    Index out;
    for (const size_t d : dims) out.push_back(i[d]);
    return out;
  }
  ExprId possible(Lowering& l, const Index& at) const { return isPossible ? isPossible(at) : l.pool().boolean(true); }
};

/// The writes' extents are known, and so are the dimensions of `x` that they go to.
void requireFew(Call& c, TensorId x, const Writes& w, std::string_view parameter) {
  int64_t writes = 1, comparisons = 1;
  const auto times = [](int64_t& product, int64_t n) {
    if (__builtin_mul_overflow(product, n, &product)) product = std::numeric_limits<int64_t>::max();
  };
  for (const int64_t e : w.extents) times(writes, e);
  if (writes <= fewWrites) return;
  for (const size_t d : w.dims)
    times(comparisons, c.l.findNumber(c.sizes(x)[d]).value_or(std::numeric_limits<int64_t>::max()));
  times(comparisons, writes);
  if (writes > mostWrites || comparisons > mostComparisons)
    c.refuse(parameter, "has more places than are worth looking through for each element");
}

int64_t knownSize(Call& c, ExprId size, std::string_view parameter) {
  const auto n = c.l.findNumber(size);
  if (!n) c.refuse(parameter, "has a number of places that varies");
  return *n;
}

/// For each place along the writes' dimensions, the last write to it, or -1.
TensorId lastWrites(Call& c, TensorId x, const Writes& w) {
  Lowering& l = c.l;
  Sizes sizes;
  for (const size_t d : w.dims) sizes.push_back(c.sizes(x)[d]);
  return c.combined(ReduceKind::Maximum, DType::Int64, sizes, c.constants(w.extents),
                    [&l, w](const Index& at, const Index& k) {
                      loops::Simplifier& s = l.simplifier;
                      const ExprId none = l.integer(-1);
                      ExprId number = l.integer(0);
                      for (size_t d = 0; d < k.size(); ++d)
                        number = s.add(s.multiply(number, l.integer(w.extents[d])), k[d]);
                      return s.select(w.possible(l, at), s.select(w.isHere(at, k), number, none), none);
                    });
}

ExprId isWritten(Lowering& l, TensorId last, const Index& at) {
  return l.simplifier.compare(Op::LessEqual, l.integer(0), l.at(last, at));
}

/// x with the last of the writes to each place.
TensorId written(Call& c, TensorId x, const Writes& w) {
  if (w.count() == 0) return x;
  Lowering& l = c.l;
  const TensorId last = lastWrites(c, x, w);
  const std::array operands{x, last};
  return l.define(c.name(), c.type(x), Sizes(c.sizes(x)), 3, operands, [&l, x, w, last](const Index& i) {
    loops::Simplifier& s = l.simplifier;
    const Index at = w.at(i);
    // The number as loads prove it, and taken apart again.
    ExprId number = s.maximum(s.minimum(l.at(last, at), l.integer(w.count() - 1)), l.integer(0));
    Index k(w.extents.size());
    for (size_t d = k.size(); d-- > 0;) {
      k[d] = d == 0 ? number : s.remainder(number, l.integer(w.extents[d]));
      number = s.floorDivide(number, l.integer(w.extents[d]));
    }
    const ExprId value = s.select(isWritten(l, last, at), w.value(i, k), l.at(x, i));
    return s.select(w.possible(l, at), value, l.at(x, i));
  });
}

/// The combination of all writes to each element; `neutral` where there is none.
TensorId gathered(Call& c, ReduceKind kind, TensorId x, const Writes& w, ExprId neutral) {
  Lowering& l = c.l;
  return c.combined(kind, c.type(x), Sizes(c.sizes(x)), c.constants(w.extents),
                    [&l, w, neutral](const Index& i, const Index& k) {
                      loops::Simplifier& s = l.simplifier;
                      const Index at = w.at(i);
                      const ExprId value = s.select(w.isHere(at, k), w.value(i, k), neutral);
                      return s.select(w.possible(l, at), value, neutral);
                    });
}

/// x and each write to a place added up, multiplied, or their extreme.
enum class Combine { Sum, Product, Mean, Maximum, Minimum };

TensorId accumulated(Call& c, TensorId x, const Writes& w, Combine how, bool includesSelf) {
  const DType d = c.type(x);
  Lowering& l = c.l;
  if (d == DType::Bool) c.refuse("self", "is bool");
  if (how == Combine::Mean && !isFloatingPoint(d)) c.refuse("reduce", "is the mean of integers");
  if (w.count() == 0) return x;
  const bool isExtreme = how == Combine::Maximum || how == Combine::Minimum;
  ExprId neutral = l.constant(d, how == Combine::Product ? 1 : 0);
  if (isExtreme && isFloatingPoint(d)) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    neutral = l.constant(d, how == Combine::Maximum ? -infinity : infinity);
  } else if (isExtreme) {
    const int64_t bits = static_cast<int64_t>(dtypeSize(d)) * 8, top = bits - (d == DType::UInt8 ? 0 : 1);
    const int64_t greatest = bits == 64 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << top) - 1;
    const int64_t least = d == DType::UInt8 ? 0 : -greatest - 1;
    neutral = l.pool().number(d, how == Combine::Maximum ? least : greatest);
  }
  const ReduceKind kind = how == Combine::Product   ? ReduceKind::Product
                          : how == Combine::Maximum ? ReduceKind::Maximum
                          : how == Combine::Minimum ? ReduceKind::Minimum
                                                    : ReduceKind::Sum;
  const TensorId all = gathered(c, kind, x, w, neutral);
  std::vector<TensorId> operands{x, all};
  std::optional<TensorId> last, count;
  if (!includesSelf) operands.push_back(*(last = lastWrites(c, x, w)));
  if (how == Combine::Mean) {
    const TensorId counted = c.combined(ReduceKind::Sum, DType::Int64, Sizes(c.sizes(x)), c.constants(w.extents),
                                        [&l, w](const Index& i, const Index& k) {
                                          const ExprId one =
                                              l.simplifier.select(w.isHere(w.at(i), k), l.integer(1), l.integer(0));
                                          return l.simplifier.select(w.possible(l, w.at(i)), one, l.integer(0));
                                        });
    operands.push_back(*(count = counted));
  }
  return l.define(c.name(), d, Sizes(c.sizes(x)), 3, operands,
                  [&l, x, w, all, last, count, how, includesSelf](const Index& i) {
                    const Scalar self = l.scalarAt(x, i);
                    Scalar sum = l.scalarAt(all, i);
                    if (includesSelf) {
                      sum = how == Combine::Product   ? self * sum
                            : how == Combine::Maximum ? maximum(self, sum)
                            : how == Combine::Minimum ? minimum(self, sum)
                                                      : self + sum;
                    }
                    if (count) {
                      const Scalar n = l.scalarAt(*count, i) + (includesSelf ? 1.0 : 0.0);
                      sum = sum / maximum(n, 1.0).to(sum.dtype());
                    }
                    if (!last) return sum.id;
                    return where(l.scalar(isWritten(l, *last, w.at(i))), sum, self).id;
                  });
}

Combine combineOf(Call& c) {
  const std::string_view how = c.text("reduce");
  if (how == "sum" || how == "add") return Combine::Sum;
  if (how == "prod" || how == "multiply") return Combine::Product;
  if (how == "mean") return Combine::Mean;
  if (how == "amax") return Combine::Maximum;
  if (how == "amin") return Combine::Minimum;
  c.refuse("reduce", "is none that PyTorch has");
}

// Along one dimension, at places that a vector says -----------------------------------------------------------------

Writes writesAlong(Call& c, TensorId x, bool wraps) {
  TensorId indices = c.tensor("index");
  requireIndices(c, indices, "index");
  if (c.rank(indices) > 1) c.refuse("index", "has other than one dimension");
  if (c.rank(indices) == 0) indices = c.reshaped(indices, {c.l.integer(1)});
  const size_t dim = c.dimOf(x, "dim");
  Lowering& l = c.l;
  const ExprId size = c.sizes(x)[dim];
  Writes w;
  w.dims = {dim};
  w.extents = {knownSize(c, c.sizes(indices)[0], "index")};
  requireFew(c, x, w, "index");
  w.isHere = [&l, indices, size, wraps](const Index& at, const Index& k) {
    return l.simplifier.compare(Op::Equal, placeOf(l, l.at(indices, {k[0]}), size, wraps), at[0]);
  };
  return w;
}

/// The source's elements along the dimension are the writes.
void setSource(Call& c, TensorId x, Writes& w) {
  const TensorId source = c.tensor("source");
  if (c.type(source) != c.type(x)) c.refuse("source", "has another dtype");
  if (c.rank(source) != c.rank(x)) c.refuse("source", "has another number of dimensions");
  const size_t dim = w.dims[0];
  for (size_t d = 0; d < c.rank(x); ++d)
    if (d == dim ? knownSize(c, c.sizes(source)[d], "source") != w.extents[0] : c.sizes(source)[d] != c.sizes(x)[d])
      c.refuse("source", "has other sizes than what it is written to");
  Lowering& l = c.l;
  l.repeat(source);
  w.value = [&l, source, dim](Index i, const Index& k) {
    i[dim] = k[0];
    return l.at(source, i);
  };
}

void lowerIndexCopy(Call& c) {
  const TensorId x = c.tensor("self");
  Writes w = writesAlong(c, x, false);
  setSource(c, x, w);
  c.result(written(c, x, w));
}

void lowerIndexFill(Call& c) {
  const TensorId x = c.tensor("self"), value = c.tensor("value");
  if (c.rank(value) != 0) c.refuse("value", "has dimensions");
  Writes w = writesAlong(c, x, true);
  Lowering& l = c.l;
  w.value = [&l, value, d = c.type(x)](const Index&, const Index&) {
    return l.rounded(l.convert(l.scalarAt(value, {}), l[value].dtype, d), d).id;
  };
  c.result(written(c, x, w));
}

void lowerIndexAdd(Call& c) {
  const TensorId x = c.tensor("self");
  const DType d = c.type(x);
  const double alpha = c.number("alpha");
  if (!isFloatingPoint(d) && alpha != 1) c.refuse("alpha", "is not 1, of integers");
  Writes w = writesAlong(c, x, false);
  setSource(c, x, w);
  if (alpha != 1)
    w.value = [&l = c.l, plain = w.value, alpha](const Index& i, const Index& k) {
      return (l.scalar(plain(i, k)) * alpha).id;
    };
  c.result(accumulated(c, x, w, Combine::Sum, true));
}

void lowerIndexReduce(Call& c) {
  const TensorId x = c.tensor("self");
  Writes w = writesAlong(c, x, false);
  setSource(c, x, w);
  c.result(accumulated(c, x, w, combineOf(c), c.flag("include_self")));
}

// Along one dimension, each row at places of its own ------------------------------------------------------------------

Writes writesOfRows(Call& c, TensorId x) {
  const TensorId indices = c.tensor("index");
  requireIndices(c, indices, "index");
  const size_t dim = c.dimOf(x, "dim");
  if (c.rank(indices) != c.rank(x)) c.refuse("index", "has other dimensions than self");
  c.traits.reducedDims = {static_cast<int64_t>(dim)};
  Lowering& l = c.l;
  Writes w;
  for (size_t d = 0; d < c.rank(x); ++d) {
    w.dims.push_back(d);
    const ExprId size = c.sizes(x)[d], given = c.sizes(indices)[d];
    if (d != dim && given != size && !(l.findNumber(given) && l.findNumber(size)))
      c.refuse("index", "has a size that varies");
  }
  w.extents = {knownSize(c, c.sizes(indices)[dim], "index")};
  // Each row is searched by itself.
  requireFew(c, x, {.extents = w.extents, .dims = {dim}}, "index");
  const Sizes sizes = c.sizes(x);
  l.repeat(indices);
  w.isHere = [&l, indices, dim, sizes](Index at, const Index& k) {
    const ExprId here = at[dim];
    at[dim] = k[0];
    return l.simplifier.compare(Op::Equal, placeOf(l, l.at(indices, at), sizes[dim], false), here);
  };
  // The indices may be fewer than self has rows.
  w.isPossible = [&l, indices, dim](const Index& at) {
    ExprId all = l.pool().boolean(true);
    for (size_t d = 0; d < at.size(); ++d)
      if (d != dim) all = l.simplifier.logicalAnd(all, l.simplifier.compare(Op::Less, at[d], l[indices].sizes[d]));
    return all;
  };
  return w;
}

/// `src` or `value`.
void setRows(Call& c, TensorId x, Writes& w) {
  Lowering& l = c.l;
  const DType d = c.type(x);
  if (c.node.findArgument("value")) {
    const TensorId value = c.tensor("value");
    if (c.rank(value) != 0) c.refuse("value", "has dimensions");
    w.value = [&l, value, d](const Index&, const Index&) {
      return l.rounded(l.convert(l.scalarAt(value, {}), l[value].dtype, d), d).id;
    };
    return;
  }
  const TensorId src = c.tensor("src"), indices = c.tensor("index");
  if (c.type(src) != d) c.refuse("src", "has another dtype");
  if (c.rank(src) != c.rank(x)) c.refuse("src", "has another number of dimensions");
  for (size_t k = 0; k < c.rank(x); ++k) {
    const ExprId size = c.sizes(src)[k], wanted = c.sizes(indices)[k];
    const auto a = l.findNumber(size), b = l.findNumber(wanted);
    if (size != wanted && !(a && b && *a >= *b)) c.refuse("src", "has fewer elements than index, or sizes that vary");
  }
  const auto dim = static_cast<size_t>(c.traits.reducedDims[0]);
  l.repeat(src);
  w.value = [&l, src, dim](Index i, const Index& k) {
    i[dim] = k[0];
    return l.at(src, i);
  };
}

void lowerScatter(Call& c, bool adds) {
  const TensorId x = c.tensor("self");
  Writes w = writesOfRows(c, x);
  setRows(c, x, w);
  if (adds) {
    c.result(accumulated(c, x, w, Combine::Sum, true));
    return;
  }
  const bool combines = c.node.findArgument("reduce") != nullptr;
  const bool includesSelf = !c.node.findArgument("include_self") || c.flag("include_self");
  c.result(combines ? accumulated(c, x, w, combineOf(c), includesSelf) : written(c, x, w));
}

// At places that several tensors say together -------------------------------------------------------------------------

/// x[…, mask, …] = value, of one value for all places along the mask's dimensions.
TensorId masked(Call& c, TensorId x, TensorId mask, size_t first, bool adds) {
  Lowering& l = c.l;
  TensorId values = c.tensor("values");
  const size_t rank = c.rank(mask), behind = c.rank(x) - first - rank;
  for (size_t d = 0; d < rank; ++d)
    if (c.sizes(mask)[d] != c.sizes(x)[first + d]) c.refuse("indices", "has a mask of other sizes than self");
  // In the values, all places that the mask names are one dimension.
  Sizes to(c.sizes(x).begin(), c.sizes(x).begin() + static_cast<std::ptrdiff_t>(first));
  to.push_back(l.integer(1));
  to.insert(to.end(), c.sizes(x).end() - static_cast<std::ptrdiff_t>(behind), c.sizes(x).end());
  if (c.rank(values) > behind && !l.isOne(c.sizes(values)[c.rank(values) - behind - 1]))
    c.refuse("values", "has an element for each place of the mask");
  values = c.expanded(values, to);
  const std::array operands{x, mask, values};
  return l.define(c.name(), c.type(x), Sizes(c.sizes(x)), 2, operands,
                  [&l, x, mask, values, first, rank, adds](const Index& i) {
                    const auto begin = i.begin() + static_cast<std::ptrdiff_t>(first);
                    const auto end = begin + static_cast<std::ptrdiff_t>(rank);
                    Index from(i.begin(), begin);
                    from.push_back(l.integer(0));
                    from.insert(from.end(), end, i.end());
                    const Scalar self = l.scalarAt(x, i), value = l.scalarAt(values, from);
                    return where(l.scalarAt(mask, Index(begin, end)), adds ? self + value : value, self).id;
                  });
}

void lowerIndexPut(Call& c) {
  const TensorId x = c.tensor("self"), values = c.tensor("values");
  const bool adds = c.flag("accumulate");
  const DType d = c.type(x);
  if (c.type(values) != d) c.refuse("values", "has another dtype");
  if (adds && d == DType::Bool) c.refuse("self", "is bool");
  const auto* items = c.argument("indices").items();
  if (!items || items->size() > c.rank(x)) c.refuse("indices", "is no list of tensors");
  std::vector<std::optional<TensorId>> given(c.rank(x));
  std::vector<size_t> dims;
  for (size_t k = 0; k < items->size(); ++k)
    if (!(*items)[k].isNone()) {
      given[k] = c.tensor((*items)[k], "indices");
      dims.push_back(k);
    }
  if (dims.empty()) c.refuse("indices", "has no tensor");
  if (dims.size() == 1 && c.type(*given[dims[0]]) == DType::Bool) {
    if (dims[0] + c.rank(*given[dims[0]]) > c.rank(x)) c.refuse("indices", "has a mask of too many dimensions");
    c.result(masked(c, x, *given[dims[0]], dims[0], adds));
    return;
  }
  size_t rank = 0;
  for (const size_t k : dims) {
    requireIndices(c, *given[k], "indices");
    rank = std::max(rank, c.rank(*given[k]));
  }
  // The sizes to which the tensors of places broadcast.
  Lowering& l = c.l;
  Writes w;
  w.dims = dims;
  w.extents.assign(rank, 1);
  for (const size_t k : dims) {
    const Sizes& sizes = c.sizes(*given[k]);
    for (size_t n = 0; n < sizes.size(); ++n) {
      const int64_t size = knownSize(c, sizes[n], "indices");
      if (size != 1) w.extents[rank - sizes.size() + n] = size;
    }
  }
  requireFew(c, x, w, "indices");
  const std::vector<ExprId> common = c.constants(w.extents);
  std::vector<TensorId> places;
  for (const size_t k : dims) places.push_back(c.expanded(*given[k], common));
  const Sizes sizes = c.sizes(x);
  w.isHere = [&l, places, dims, sizes](const Index& at, const Index& k) {
    ExprId all = l.pool().boolean(true);
    for (size_t n = 0; n < dims.size(); ++n) {
      const ExprId place = placeOf(l, l.at(places[n], k), sizes[dims[n]], true);
      all = l.simplifier.logicalAnd(all, l.simplifier.compare(Op::Equal, place, at[n]));
    }
    return all;
  };
  // As x[indices] would be: where the places' dimensions stand, see lowerIndex.
  const bool isTogether = dims.back() - dims.front() + 1 == dims.size();
  const size_t front = isTogether ? dims.front() : 0;
  Sizes full;
  std::vector<size_t> rest;  // dimensions of x without places
  for (size_t k = 0; k < sizes.size(); ++k)
    if (!given[k]) rest.push_back(k);
  for (size_t n = 0; n < front; ++n) full.push_back(sizes[rest[n]]);
  full.insert(full.end(), common.begin(), common.end());
  for (size_t n = front; n < rest.size(); ++n) full.push_back(sizes[rest[n]]);
  const TensorId spread = c.expanded(values, full);
  l.repeat(values);
  w.value = [&l, spread, rest, front](const Index& i, const Index& k) {
    Index at;
    for (size_t n = 0; n < front; ++n) at.push_back(i[rest[n]]);
    at.insert(at.end(), k.begin(), k.end());
    for (size_t n = front; n < rest.size(); ++n) at.push_back(i[rest[n]]);
    return l.at(spread, at);
  };
  c.result(adds ? accumulated(c, x, w, Combine::Sum, true) : written(c, x, w));
}

/// The elements of `source`, one after another, where the mask says so.
void lowerMaskedScatter(Call& c) {
  const TensorId x = c.tensor("self"), source = c.tensor("source");
  TensorId mask = c.tensor("mask");
  if (c.type(mask) != DType::Bool) c.refuse("mask", "is not bool");
  if (c.type(source) != c.type(x)) c.refuse("source", "has another dtype");
  const Sizes sizes = c.resultSizes();
  if (c.sizes(x) != sizes) c.refuse("self", "has other sizes than the result");
  Lowering& l = c.l;
  mask = c.expanded(mask, sizes);
  const ExprId count = l.product(sizes), given = l.product(c.sizes(source));
  if (const auto n = l.findNumber(given); !n || *n == 0) c.refuse("source", "has a size that varies or is 0");
  const TensorId flatMask = c.reshaped(c.widened(mask, DType::Int64), {count});
  const TensorId soFar = c.reshaped(l.scan(ReduceKind::Sum, flatMask, 0), sizes);
  const TensorId flatSource = c.reshaped(source, {given});
  l.repeat(source);
  const std::array operands{x, mask, soFar};
  c.result(l.define(c.name(), c.type(x), sizes, 3, operands, [&l, x, mask, soFar, flatSource, given](const Index& i) {
    const ExprId place = l.simplifier.subtract(l.at(soFar, i), l.integer(1));
    const ExprId element = l.at(flatSource, {l.pool().checkedIndex(place, given)});
    return l.simplifier.select(l.at(mask, i), element, l.at(x, i));
  }));
}

}  // namespace

std::vector<Entry> scatterOperators() {
  return {
      {"aten.index_copy.default", Kind::Pointwise, lowerIndexCopy},
      {"aten.index_fill.int_Scalar", Kind::Pointwise, lowerIndexFill},
      {"aten.index_fill.int_Tensor", Kind::Pointwise, lowerIndexFill},
      {"aten.index_add.default", Kind::Pointwise, lowerIndexAdd},
      {"aten.index_reduce.default", Kind::Pointwise, lowerIndexReduce},
      {"aten.index_put.default", Kind::Pointwise, lowerIndexPut},
      {"aten.scatter.src", Kind::Reduction, [](Call& c) { lowerScatter(c, false); }},
      {"aten.scatter.value", Kind::Reduction, [](Call& c) { lowerScatter(c, false); }},
      {"aten.scatter.reduce", Kind::Reduction, [](Call& c) { lowerScatter(c, false); }},
      {"aten.scatter.value_reduce", Kind::Reduction, [](Call& c) { lowerScatter(c, false); }},
      {"aten.scatter_reduce.two", Kind::Reduction, [](Call& c) { lowerScatter(c, false); }},
      {"aten.scatter_add.default", Kind::Reduction, [](Call& c) { lowerScatter(c, true); }},
      {"aten.masked_scatter.default", Kind::Gather, lowerMaskedScatter},
  };
}

}  // namespace graft::lower
