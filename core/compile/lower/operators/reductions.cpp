// Sums, extremes, means, norms and softmax: what all elements along dimensions make together; and scans.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/compile/lower/call.h"
#include "core/compile/lower/operators/statistics.h"

namespace graft::lower {

ExprId countOf(Lowering& l, TensorId x, std::span<const size_t> dims) {
  ExprId n = l.integer(1);
  for (const size_t d : dims) n = l.simplifier.multiply(n, l[x].sizes[d]);
  return n;
}

Scalar countAs(Lowering& l, ExprId n, Scalar like) { return l.convert(l.scalar(n), DType::Int64, like.dtype()); }

TensorId mapped(Lowering& l, TensorId x, double cost, DType gives, std::function<Scalar(Scalar)> f,
                std::string_view name) {
  return l.define(name.empty() ? l[x].name : std::string(name), gives, Sizes(l[x].sizes), cost, std::span(&x, 1),
                  [&l, x, f = std::move(f)](const Index& i) { return f(l.scalarAt(x, i)).id; });
}

TensorId mappedWith(Lowering& l, TensorId x, TensorId y, double cost, DType gives,
                    std::function<Scalar(Scalar, Scalar)> f) {
  const std::array operands{x, y};
  const Sizes sizes = l[x].sizes;
  if (l[y].sizes != sizes) l.keep(y);
  return l.define(l[x].name, gives, sizes, cost, operands, [&l, x, y, sizes, f = std::move(f)](const Index& i) {
    return f(l.scalarAt(x, i), l.scalar(l.broadcastAt(y, i, sizes))).id;
  });
}

TensorId roundedOperand(Lowering& l, TensorId x) {
  const DType d = l[x].dtype;
  if (!isHalf(d)) return x;
  return mapped(l, x, 0, d, [&l, d](Scalar v) { return l.rounded(v, d); });
}

TensorId meanOf(Lowering& l, TensorId x, std::span<const size_t> dims) {
  const ExprId n = countOf(l, x, dims);
  return mapped(
      l, l.reduce(ReduceKind::Sum, x, dims, true), 1, l[x].dtype, [&l, n](Scalar s) { return s / countAs(l, n, s); },
      "mean");
}

namespace {

/// In parts, whose memory is read once. A part of columns sums up what its elements are off its first one, and the
/// squares of that: as the first is one of them, the error of the squares' sum is at most as many times the rounding as
/// the part has elements. A part of a row stays in the cache and is read again for what its elements are off its own
/// mean. Then parts are joined, as Chan, Golub and LeVeque do (Updating Formulae and a Pairwise Algorithm for Computing
/// Sample Variances, 1979).
Statistics statisticsOfParts(Lowering& l, TensorId x, std::span<const size_t> dims, const Lowering::Parts& parts,
                             const std::function<Scalar(Scalar)>& divided) {
  const DType d = l[x].dtype;
  const Sizes whole = l[x].sizes;
  const auto ahead = static_cast<std::ptrdiff_t>(parts.outer.size()) + 1;
  // (outer dimensions, parts, …), with the indices of one part along the dimensions that are taken apart.
  Sizes apart = whole, counts;
  std::vector<bool> isOuter(whole.size());
  for (const size_t k : parts.outer) {
    counts.push_back(whole[k]);
    apart[k] = l.integer(1);
    isOuter[k] = true;
  }
  counts.push_back(l.integer(parts.count));
  apart[parts.dim] = l.integer(parts.each);
  apart.insert(apart.begin(), counts.begin(), counts.end());
  const TensorId parted = l.view(x, apart, [&l, ahead, parts](const Index& i) {
    Index source(i.begin() + ahead, i.end());
    for (size_t k = 0; k < parts.outer.size(); ++k) source[parts.outer[k]] = i[k];
    const ExprId first = l.simplifier.multiply(i[static_cast<size_t>(ahead) - 1], l.integer(parts.each));
    source[parts.dim] = l.simplifier.add(first, source[parts.dim]);
    return source;
  });
  std::vector<size_t> inPart, overParts(static_cast<size_t>(ahead));
  std::iota(overParts.begin(), overParts.end(), size_t{0});
  Sizes one = apart;
  int64_t count = parts.count;
  for (const size_t k : parts.outer) count *= *l.findNumber(whole[k]);
  for (const size_t k : dims) {
    if (isOuter[k]) continue;
    inPart.push_back(k + static_cast<size_t>(ahead));
    one[inPart.back()] = l.integer(1);
  }
  const ExprId n = countOf(l, parted, inPart);
  const auto counted = [&l, n](Scalar like) { return countAs(l, n, like); };
  const auto summed = [&](TensorId of) { return l.reduceWhole(ReduceKind::Sum, of, inPart, true); };
  TensorId sums, squares, means;
  if (parts.isColumns) {
    const TensorId first = l.view(parted, one, [](const Index& i) { return i; });
    const TensorId off = mappedWith(l, parted, first, 1, d, [](Scalar v, Scalar f) { return v - f; });
    l.share(off);
    sums = summed(off);
    squares = summed(mapped(l, off, 1, d, [](Scalar v) { return v * v; }));
    const std::array ofMeans{first, sums};
    means = l.define("part_mean", d, one, 2, ofMeans, [&l, first, sums, counted](const Index& i) {
      const Scalar sum = l.scalarAt(sums, i);
      return (l.scalarAt(first, i) + sum / counted(sum)).id;
    });
  } else {
    l.share(parted);
    sums = summed(parted);
    // Without a tensor for the part's mean: the squares read the sum itself, so that one nest makes both.
    const std::array ofSquares{parted, sums};
    squares = summed(l.define("square", d, apart, 4, ofSquares, [&l, parted, sums, inPart, counted](const Index& i) {
      Index ofPart = i;
      for (const size_t k : inPart) ofPart[k] = l.integer(0);
      const Scalar sum = l.scalarAt(sums, ofPart), off = l.scalarAt(parted, i) - sum / counted(sum);
      return (off * off).id;
    }));
    means = mapped(
        l, sums, 1, d, [counted](Scalar sum) { return sum / counted(sum); }, "part_mean");
  }
  const auto withoutParts = [&](TensorId t) {
    return l.view(t, Sizes(one.begin() + ahead, one.end()), [&l, ahead](const Index& i) {
      Index source(static_cast<size_t>(ahead), l.integer(0));
      source.insert(source.end(), i.begin(), i.end());
      return source;
    });
  };
  const TensorId sumOfMeans = l.reduceWhole(ReduceKind::Sum, means, overParts, true);
  const TensorId mean = l.stored(mapped(
      l, sumOfMeans, 1, d, [n = static_cast<double>(count)](Scalar s) { return s / n; }, "mean"));
  const bool fromFirst = parts.isColumns;
  const std::array ofSpreads{sums, squares, means, mean};
  const TensorId spreads = l.define("spread", d, one, 6, ofSpreads, [=, &l](const Index& i) {
    Index ofMean = i;
    std::fill(ofMean.begin(), ofMean.begin() + ahead, l.integer(0));
    const Scalar apartFrom = l.scalarAt(means, i) - l.scalarAt(mean, ofMean);
    Scalar own = l.scalarAt(squares, i);
    if (fromFirst) {
      const Scalar sum = l.scalarAt(sums, i);
      own = maximum(own - sum * sum / counted(sum), 0.0);
    }
    return (own + counted(own) * apartFrom * apartFrom).id;
  });
  const TensorId spread = l.reduceWhole(ReduceKind::Sum, spreads, overParts, true);
  return {withoutParts(mean), withoutParts(l.stored(mapped(l, spread, 1, d, divided, "variance"))), true};
}

}  // namespace

Statistics statisticsOf(Lowering& l, TensorId x, std::span<const size_t> dims, double correction) {
  l.share(x);
  const ExprId n = countOf(l, x, dims);
  const auto divided = [&l, n, correction](Scalar s) {
    const Scalar count = countAs(l, n, s);
    if (correction == 0) return s / count;
    return s / maximum(count - correction, 0.0);
  };
  if (const auto parts = l.findEvenParts(x, dims)) return statisticsOfParts(l, x, dims, *parts, divided);
  const TensorId mean = meanOf(l, x, dims);
  const TensorId squares = mappedWith(l, x, mean, 2, l[x].dtype, [](Scalar v, Scalar m) { return (v - m) * (v - m); });
  const TensorId sum = l.reduce(ReduceKind::Sum, squares, dims, true);
  const TensorId variance = mapped(l, sum, 1, l[x].dtype, divided, "variance");
  return {mean, variance};
}

TensorId logSoftmaxOf(Lowering& l, TensorId x, std::span<const size_t> dims) {
  const DType d = l[x].dtype;
  l.share(x);
  const TensorId greatest = l.reduce(ReduceKind::Maximum, x, dims, true);
  const TensorId off = mappedWith(l, x, greatest, 1, d, [](Scalar v, Scalar m) { return v - m; });
  const TensorId powers = mapped(l, off, 12, d, [](Scalar v) { return exp(v); });
  const TensorId sum = mapped(l, l.reduce(ReduceKind::Sum, powers, dims, true), 12, d, [](Scalar s) { return log(s); });
  return mappedWith(l, off, sum, 1, d, [](Scalar v, Scalar s) { return v - s; });
}

namespace {

std::vector<int64_t> asNumbers(std::span<const size_t> dims) { return {dims.begin(), dims.end()}; }

/// The dimensions 1 that a reduction kept, gone unless the caller wants them.
TensorId squeezed(Call& c, TensorId kept, std::span<const size_t> dims, bool keep) {
  if (keep) return kept;
  Sizes sizes;
  for (size_t d = 0; d < c.rank(kept); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) sizes.push_back(c.sizes(kept)[d]);
  return c.reshaped(kept, std::move(sizes));
}

bool keepsDims(Call& c) { return c.has("keepdim") && c.flag("keepdim"); }

/// `dim` of one number, a list or None.
std::vector<size_t> reducedDims(Call& c, TensorId x) {
  const bool named = c.node.findArgument("dim") != nullptr;
  std::vector<size_t> dims;
  if (named)
    dims = c.dims("dim", c.rank(x));
  else
    for (size_t d = 0; d < c.rank(x); ++d) dims.push_back(d);
  c.traits.reducedDims = asNumbers(dims);
  return dims;
}

/// What sums are computed in: the result's dtype.
TensorId operandAs(Call& c, DType d) { return c.widened(c.tensor("self"), d); }

void lowerSimple(Call& c, ReduceKind kind) {
  const DType d = c.resultType();
  if (d == DType::Bool && (kind == ReduceKind::Sum || kind == ReduceKind::Product)) c.refuse("the result is bool");
  TensorId x = operandAs(c, d);
  const bool isBool = d == DType::Bool;
  if (isBool && kind == ReduceKind::Maximum) kind = ReduceKind::Any;
  if (isBool && kind == ReduceKind::Minimum) kind = ReduceKind::All;
  const std::vector<size_t> dims = reducedDims(c, x);
  c.result(squeezed(c, c.l.reduce(kind, x, dims, true), dims, keepsDims(c)));
}

void lowerMean(Call& c) {
  const DType d = c.floatingType();
  const TensorId x = operandAs(c, d);
  const std::vector<size_t> dims = reducedDims(c, x);
  c.result(squeezed(c, meanOf(c.l, x, dims), dims, keepsDims(c)));
}

void lowerAnyAll(Call& c, ReduceKind kind) {
  const TensorId self = c.tensor("self");
  const TensorId x = c.widened(self, DType::Bool);
  const std::vector<size_t> dims = reducedDims(c, x);
  // The result is bool, of uint8 uint8.
  c.result(c.widened(squeezed(c, c.l.reduce(kind, x, dims, true), dims, keepsDims(c)), c.resultType()));
}

TensorId placesOf(Call& c, TensorId x, std::span<const size_t> dims, ReduceKind kind) {
  // Bool is compared as a number.
  const TensorId compared = c.type(x) == DType::Bool ? c.widened(x, DType::UInt8) : roundedOperand(c.l, x);
  return c.l.reduce(kind, compared, dims, true);
}

/// max.dim and min.dim: values and places.
void lowerExtremeAndPlace(Call& c, bool isMaximum) {
  const TensorId x = c.tensor("self");
  c.l.share(x);
  const std::vector<size_t> dims = c.rank(x) == 0 ? std::vector<size_t>() : std::vector{c.dim("dim", c.rank(x))};
  c.traits.reducedDims = asNumbers(dims);
  const bool isBool = c.type(x) == DType::Bool;
  const ReduceKind kind = isBool ? (isMaximum ? ReduceKind::Any : ReduceKind::All)
                                 : (isMaximum ? ReduceKind::Maximum : ReduceKind::Minimum);
  const bool keep = c.flag("keepdim");
  c.result(squeezed(c, c.l.reduce(kind, x, dims, true), dims, keep), 0);
  const TensorId places = placesOf(c, x, dims, isMaximum ? ReduceKind::ArgMaximum : ReduceKind::ArgMinimum);
  c.result(squeezed(c, places, dims, keep), 1);
}

void lowerPlace(Call& c, ReduceKind kind) {
  const TensorId x = c.tensor("self");
  const bool all = !c.has("dim");
  std::vector<size_t> dims;
  if (all)
    for (size_t d = 0; d < c.rank(x); ++d) dims.push_back(d);
  else if (c.rank(x) > 0)
    dims.push_back(c.dim("dim", c.rank(x)));
  c.traits.reducedDims = asNumbers(dims);
  c.result(squeezed(c, placesOf(c, x, dims, kind), dims, c.flag("keepdim")));
}

void lowerAminmax(Call& c) {
  const TensorId x = c.tensor("self");
  if (c.type(x) == DType::Bool) c.refuse("self", "is bool");
  c.l.share(x);
  std::vector<size_t> dims = c.has("dim") && c.rank(x) > 0 ? std::vector{c.dim("dim", c.rank(x))} : reducedDims(c, x);
  c.traits.reducedDims = asNumbers(dims);
  const bool keep = c.flag("keepdim");
  c.result(squeezed(c, c.l.reduce(ReduceKind::Minimum, x, dims, true), dims, keep), 0);
  c.result(squeezed(c, c.l.reduce(ReduceKind::Maximum, x, dims, true), dims, keep), 1);
}

double correctionOf(Call& c) {
  if (c.node.findArgument("unbiased")) return c.flag("unbiased") ? 1 : 0;
  return c.has("correction") ? c.number("correction") : 1;
}

/// var, std, and these with the mean as a second result.
void lowerVariance(Call& c, bool isDeviation, bool withMean) {
  const TensorId x = c.tensor("self");
  if (!isFloatingPoint(c.type(x))) c.refuse("self", "has no floating numbers");
  const std::vector<size_t> dims = reducedDims(c, x);
  const bool keep = keepsDims(c);
  const Statistics s = statisticsOf(c.l, x, dims, correctionOf(c));
  const TensorId spread =
      isDeviation ? mapped(c.l, s.variance, 4, c.type(x), [](Scalar v) { return sqrt(v); }) : s.variance;
  c.result(squeezed(c, spread, dims, keep), 0);
  if (withMean) c.result(squeezed(c, s.mean, dims, keep), 1);
}

TensorId normOf(Lowering& l, TensorId x, std::span<const size_t> dims, double order) {
  const DType d = l[x].dtype;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (std::isinf(order)) {
    const TensorId size = mapped(l, x, 1, d, [](Scalar v) { return abs(v); });
    return l.reduce(order == infinity ? ReduceKind::Maximum : ReduceKind::Minimum, size, dims, true);
  }
  if (order == 0) {
    const TensorId counted = mapped(l, x, 1, d, [](Scalar v) { return (v != 0.0).to(v.dtype()); });
    return l.reduce(ReduceKind::Sum, counted, dims, true);
  }
  if (order == 1) return l.reduce(ReduceKind::Sum, mapped(l, x, 1, d, [](Scalar v) { return abs(v); }), dims, true);
  if (order == 2) {
    const TensorId squares = mapped(l, x, 1, d, [](Scalar v) { return v * v; });
    return mapped(l, l.reduce(ReduceKind::Sum, squares, dims, true), 4, d, [](Scalar v) { return sqrt(v); });
  }
  const TensorId powers = mapped(l, x, 26, d, [order](Scalar v) { return power(abs(v), v.number(order)); });
  return mapped(l, l.reduce(ReduceKind::Sum, powers, dims, true), 26, d,
                [order](Scalar v) { return power(v, v.number(1 / order)); });
}

void lowerVectorNorm(Call& c) {
  const TensorId x = operandAs(c, c.floatingType());
  const std::vector<size_t> dims = reducedDims(c, x);
  const double order = c.number(c.node.findArgument("ord") ? "ord" : "p");
  c.result(squeezed(c, normOf(c.l, x, dims, order), dims, keepsDims(c)));
}

/// The norm of the difference.
void lowerDistance(Call& c) {
  const DType d = c.floatingType();
  const std::array operands{c.tensor("self"), c.tensor("other")};
  const Sizes sizes = c.commonSizes(operands);
  const TensorId off = c.pointwise(operands, sizes, d, d, 1, [](std::span<const Scalar> v) { return v[0] - v[1]; });
  (void)reducedDims(c, operands[0]);
  std::vector<size_t> dims(sizes.size());
  std::iota(dims.begin(), dims.end(), size_t{0});
  c.result(c.reshaped(normOf(c.l, off, dims, c.number("p")), {}));
}

void lowerLogSumExp(Call& c) {
  const DType d = c.floatingType();
  const TensorId x = operandAs(c, d);
  const std::vector<size_t> dims = reducedDims(c, x);
  Lowering& l = c.l;
  l.share(x);
  // An infinite maximum is taken as 0: its differences would be NaN.
  const TensorId greatest = mapped(l, l.reduce(ReduceKind::Maximum, x, dims, true), 2, d,
                                   [](Scalar m) { return where(isInfinite(m), m.number(0), m); });
  const TensorId powers = mappedWith(l, x, greatest, 13, d, [](Scalar v, Scalar m) { return exp(v - m); });
  const TensorId result = mappedWith(l, l.reduce(ReduceKind::Sum, powers, dims, true), greatest, 13, d,
                                     [](Scalar s, Scalar m) { return log(s) + m; });
  c.result(squeezed(c, result, dims, keepsDims(c)));
}

enum class SoftmaxForm : uint8_t {
  Plain,
  Log,
  Safe,  ///< zeros where all elements of a row are -Inf, as a row of an attention mask may have it
};

void lowerSoftmax(Call& c, SoftmaxForm form) {
  const DType d = c.floatingType();
  const TensorId x = operandAs(c, d);
  const std::vector<size_t> dims = c.rank(x) == 0 ? std::vector<size_t>() : std::vector{c.dim("dim", c.rank(x))};
  c.traits.reducedDims = asNumbers(dims);
  Lowering& l = c.l;
  l.share(x);
  if (form == SoftmaxForm::Log) {
    c.result(logSoftmaxOf(l, x, dims));
    return;
  }
  const TensorId greatest = l.reduce(ReduceKind::Maximum, x, dims, true);
  const TensorId powers = mappedWith(l, x, greatest, 13, d, [](Scalar v, Scalar m) { return expNonPositive(v - m); });
  l.share(powers);
  // One division for each row: the error of a product with the inverse is 1.5 units in the last place, not 0.5.
  const TensorId inverse = mapped(
      l, l.reduce(ReduceKind::Sum, powers, dims, true), 4, d, [](Scalar s) { return 1.0 / s; }, "inverse");
  if (form == SoftmaxForm::Safe) {
    c.result(c.pointwise({powers, inverse, greatest}, d, d, 2, [](std::span<const Scalar> v) {
      return where(v[2] == v[2].number(-std::numeric_limits<double>::infinity()), v[0].number(0), v[0] * v[1]);
    }));
    return;
  }
  c.result(mappedWith(l, powers, inverse, 1, d, [](Scalar p, Scalar s) { return p * s; }));
}

void lowerCountNonzero(Call& c) {
  const TensorId self = c.tensor("self");
  const TensorId x = c.widened(c.widened(self, DType::Bool), DType::Int64);
  std::vector<size_t> dims;
  if (c.has("dim") && c.rank(x) > 0)
    dims = c.dims("dim", c.rank(x));
  else
    for (size_t d = 0; d < c.rank(x); ++d) dims.push_back(d);
  c.traits.reducedDims = asNumbers(dims);
  c.result(squeezed(c, c.l.reduce(ReduceKind::Sum, x, dims, true), dims, false));
}

TensorId withoutNan(Lowering& l, TensorId x, DType d) {
  return mapped(l, x, 2, d, [](Scalar v) { return where(isNan(v), v.number(0), v); });
}

void lowerNansum(Call& c) {
  const DType d = c.resultType();
  const TensorId x = operandAs(c, d);
  const std::vector<size_t> dims = reducedDims(c, x);
  const TensorId known = withoutNan(c.l, x, d);
  c.result(squeezed(c, c.l.reduce(ReduceKind::Sum, known, dims, true), dims, keepsDims(c)));
}

void lowerNanmean(Call& c) {
  const DType d = c.floatingType();
  const TensorId x = operandAs(c, d);
  const std::vector<size_t> dims = reducedDims(c, x);
  Lowering& l = c.l;
  l.share(x);
  const TensorId known = withoutNan(l, x, d);
  const TensorId counted = mapped(l, x, 2, d, [](Scalar v) { return where(isNan(v), v.number(0), v.number(1)); });
  const TensorId mean =
      mappedWith(l, l.reduce(ReduceKind::Sum, known, dims, true), l.reduce(ReduceKind::Sum, counted, dims, true), 4, d,
                 [](Scalar sum, Scalar count) { return sum / count; });
  c.result(squeezed(c, mean, dims, keepsDims(c)));
}

void lowerCumulative(Call& c, ReduceKind kind) {
  const DType d = c.resultType();
  if (d == DType::Bool) c.refuse("the result is bool");
  const TensorId x = operandAs(c, d);
  if (c.rank(x) == 0) {
    c.result(x);
    return;
  }
  const size_t dim = c.dim("dim", c.rank(x));
  c.traits.reducedDims = {static_cast<int64_t>(dim)};
  c.result(c.l.scan(kind, x, dim));
}

/// The greatest element so far, or the least, and where it lies: the last of equals, and the last NaN.
void lowerRunningExtreme(Call& c, bool isMaximum) {
  const TensorId x = roundedOperand(c.l, c.tensor("self"));
  if (c.type(x) == DType::Bool) c.refuse("self", "is bool");
  Lowering& l = c.l;
  if (c.rank(x) == 0) {
    c.result(x, 0);
    c.result(l.define("place", DType::Int64, {}, 0, {}, [&l](const Index&) { return l.integer(0); }), 1);
    return;
  }
  const size_t dim = c.dim("dim", c.rank(x));
  c.traits.reducedDims = {static_cast<int64_t>(dim)};
  l.share(x);
  const TensorId extreme = l.scan(isMaximum ? ReduceKind::Maximum : ReduceKind::Minimum, x, dim);
  c.result(extreme, 0);
  const std::array operands{x, extreme};
  const TensorId place =
      l.define("place", DType::Int64, Sizes(c.sizes(x)), 3, operands, [&l, x, extreme, dim](const Index& i) {
        const Scalar v = l.scalarAt(x, i);
        return where((v == l.scalarAt(extreme, i)) | isNan(v), l.scalar(i[dim]), l.scalar(l.integer(0))).id;
      });
  c.result(l.scan(ReduceKind::Maximum, place, dim), 1);
}

void lowerDot(Call& c, std::string_view other) {
  const TensorId x = c.tensor("self"), y = c.tensor(other);
  const DType d = c.resultType();
  if (c.rank(x) != 1 || c.sizes(x) != c.sizes(y) || d == DType::Bool) c.refuse("self", "is no vector of numbers");
  c.traits.reducedDims = {0};
  const TensorId products = mappedWith(c.l, x, y, 1, d, [](Scalar a, Scalar b) { return a * b; });
  const size_t all = 0;
  c.result(c.l.reduce(ReduceKind::Sum, products, std::span(&all, 1), false));
}

}  // namespace

std::vector<Entry> reductionOperators() {
  std::vector<Entry> out;
  const auto reduction = [&](const char* name, std::function<void(Call&)> build) {
    out.push_back({std::string("aten.") + name, Kind::Reduction, std::move(build)});
  };
  for (const char* name : {"sum.default", "sum.dim_IntList"})
    reduction(name, [](Call& c) { lowerSimple(c, ReduceKind::Sum); });
  for (const char* name : {"prod.default", "prod.dim_int"})
    reduction(name, [](Call& c) { lowerSimple(c, ReduceKind::Product); });
  for (const char* name : {"amax.default", "max.default"})
    reduction(name, [](Call& c) { lowerSimple(c, ReduceKind::Maximum); });
  for (const char* name : {"amin.default", "min.default"})
    reduction(name, [](Call& c) { lowerSimple(c, ReduceKind::Minimum); });
  for (const char* name : {"mean.default", "mean.dim"}) reduction(name, lowerMean);
  for (const char* name : {"any.default", "any.dim", "any.dims"})
    reduction(name, [](Call& c) { lowerAnyAll(c, ReduceKind::Any); });
  for (const char* name : {"all.default", "all.dim", "all.dims"})
    reduction(name, [](Call& c) { lowerAnyAll(c, ReduceKind::All); });
  reduction("max.dim", [](Call& c) { lowerExtremeAndPlace(c, true); });
  reduction("min.dim", [](Call& c) { lowerExtremeAndPlace(c, false); });
  reduction("argmax.default", [](Call& c) { lowerPlace(c, ReduceKind::ArgMaximum); });
  reduction("argmin.default", [](Call& c) { lowerPlace(c, ReduceKind::ArgMinimum); });
  reduction("aminmax.default", lowerAminmax);
  for (const char* name : {"var.default", "var.dim", "var.correction"})
    reduction(name, [](Call& c) { lowerVariance(c, false, false); });
  for (const char* name : {"std.default", "std.dim", "std.correction"})
    reduction(name, [](Call& c) { lowerVariance(c, true, false); });
  for (const char* name : {"var_mean.default", "var_mean.dim", "var_mean.correction"})
    reduction(name, [](Call& c) { lowerVariance(c, false, true); });
  for (const char* name : {"std_mean.default", "std_mean.dim", "std_mean.correction"})
    reduction(name, [](Call& c) { lowerVariance(c, true, true); });
  reduction("linalg_vector_norm.default", lowerVectorNorm);
  reduction("norm.ScalarOpt_dim", lowerVectorNorm);
  reduction("logsumexp.default", lowerLogSumExp);
  for (const char* name : {"softmax.int", "_softmax.default"})
    reduction(name, [](Call& c) { lowerSoftmax(c, SoftmaxForm::Plain); });
  reduction("_safe_softmax.default", [](Call& c) { lowerSoftmax(c, SoftmaxForm::Safe); });
  for (const char* name : {"log_softmax.int", "_log_softmax.default"})
    reduction(name, [](Call& c) { lowerSoftmax(c, SoftmaxForm::Log); });
  reduction("count_nonzero.default", lowerCountNonzero);
  reduction("count_nonzero.dim_IntList", lowerCountNonzero);
  reduction("nansum.default", lowerNansum);
  reduction("nanmean.default", lowerNanmean);
  reduction("dist.default", lowerDistance);
  reduction("dot.default", [](Call& c) { lowerDot(c, "tensor"); });
  reduction("vdot.default", [](Call& c) { lowerDot(c, "other"); });
  out.push_back({"aten.cummax.default", Kind::Scan, [](Call& c) { lowerRunningExtreme(c, true); }});
  out.push_back({"aten.cummin.default", Kind::Scan, [](Call& c) { lowerRunningExtreme(c, false); }});
  out.push_back({"aten.cumsum.default", Kind::Scan, [](Call& c) { lowerCumulative(c, ReduceKind::Sum); }});
  out.push_back({"aten.cumprod.default", Kind::Scan, [](Call& c) { lowerCumulative(c, ReduceKind::Product); }});
  return out;
}

}  // namespace graft::lower
