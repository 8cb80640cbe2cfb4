// Pooling: elements from a window of the operand. Loads outside of it are guarded.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "core/compile/lower/call.h"
#include "core/compile/lower/operators/joins.h"
#include "core/compile/lower/operators/statistics.h"

namespace graft::lower {
namespace {

/// One number for each of the last `n` dimensions; one number serves all.
std::vector<int64_t> perDim(Call& c, std::string_view parameter, size_t n, int64_t otherwise) {
  if (!c.has(parameter)) return std::vector<int64_t>(n, otherwise);
  std::vector<int64_t> v = c.integers(parameter);
  if (v.size() == 1) v.resize(n, v[0]);
  if (v.size() != n) c.refuse(parameter, "has another number of dimensions");
  return v;
}

struct Window {
  std::vector<int64_t> kernel, stride, padding, dilation;
};

Window windowOf(Call& c, size_t n) {
  Window w;
  w.kernel = perDim(c, "kernel_size", n, 1);
  const bool hasStride = c.has("stride") && !(c.argument("stride").items() && c.argument("stride").items()->empty());
  w.stride = hasStride ? perDim(c, "stride", n, 1) : w.kernel;
  w.padding = perDim(c, "padding", n, 0);
  w.dilation = c.node.findArgument("dilation") ? perDim(c, "dilation", n, 1) : std::vector<int64_t>(n, 1);
  for (size_t k = 0; k < n; ++k)
    if (w.kernel[k] < 1 || w.stride[k] < 1) c.refuse("kernel_size", "is less than 1");
  return w;
}

/// What `f` makes of the operand at `at` along the last dimensions, or `outside` where that is not in it.
ExprId guarded(Lowering& l, TensorId x, Index i, const Index& at, ExprId outside,
               const std::function<ExprId(ExprId)>& f = {}) {
  loops::Simplifier& s = l.simplifier;
  const size_t skip = i.size() - at.size();
  ExprId isInside = l.pool().boolean(true);
  for (size_t k = 0; k < at.size(); ++k) {
    isInside = s.logicalAnd(isInside, s.compare(Op::LessEqual, l.integer(0), at[k]));
    isInside = s.logicalAnd(isInside, s.compare(Op::Less, at[k], l[x].sizes[skip + k]));
    i[skip + k] = at[k];
  }
  const ExprId element = l.at(x, i);
  return s.select(isInside, f ? f(element) : element, outside);
}
ExprId guarded(Lowering& l, TensorId x, const Index& i, const Index& at, double outside) {
  return guarded(l, x, i, at, l.pool().number(computeType(l[x].dtype), outside));
}

Index windowPlaces(Lowering& l, const Window& w, const Index& i, const Index& offsets) {
  loops::Simplifier& s = l.simplifier;
  const size_t n = offsets.size();
  Index at;
  for (size_t k = 0; k < n; ++k) {
    const ExprId start = s.subtract(s.multiply(i[i.size() - n + k], l.integer(w.stride[k])), l.integer(w.padding[k]));
    at.push_back(s.add(start, s.multiply(offsets[k], l.integer(w.dilation[k]))));
  }
  return at;
}

/// `at`, or where that is not in the operand the nearest place that is.
Index nearestInside(Lowering& l, TensorId x, Index i, const Index& at) {
  loops::Simplifier& s = l.simplifier;
  const size_t skip = i.size() - at.size();
  for (size_t k = 0; k < at.size(); ++k) {
    const ExprId last = s.subtract(l[x].sizes[skip + k], l.integer(1));
    i[skip + k] = s.maximum(s.minimum(at[k], last), l.integer(0));
  }
  return i;
}

/// Whether the place nearest to each one of a window belongs to that window. The greatest element may be looked for
/// among those then, with no place left out: on a GPU neighbouring threads load them together.
bool hasNearestInside(const Lowering& l, const Window& w) {
  if (!l.machine.isGpu) return false;
  for (size_t k = 0; k < w.kernel.size(); ++k)
    if (w.dilation[k] != 1 || 2 * w.padding[k] > w.kernel[k]) return false;
  return true;
}

TensorId windowOperand(Call& c, std::string_view parameter, size_t n) {
  const TensorId x = c.tensor(parameter);
  if (c.rank(x) < n + 1 || c.rank(x) > n + 2) c.refuse(parameter, "has another number of dimensions");
  (void)c.resultOfRank(c.rank(x));
  c.requireType(x);
  c.traits.repeatsReads = true;
  c.l.repeat(x);
  return x;
}

/// The place `at` in a tensor's last dimensions, counted in row-major order.
ExprId flatPlace(Lowering& l, TensorId x, const Index& at) {
  loops::Simplifier& s = l.simplifier;
  ExprId place = l.integer(0);
  const size_t skip = l[x].sizes.size() - at.size();
  for (size_t k = 0; k < at.size(); ++k) place = s.add(s.multiply(place, l[x].sizes[skip + k]), at[k]);
  return place;
}

/// Where in the operand's last dimensions, counted in row-major order, the greatest element of each window lies: the
/// last NaN, or the first of the greatest. `visit` gives what it is told to make of each element of a window.
using Visit = std::function<ExprId(const Index& i, const Index& offsets, ExprId outside,
                                   const std::function<ExprId(ExprId element, ExprId place)>&)>;
TensorId placesOfGreatest(Call& c, TensorId greatest, const std::vector<ExprId>& extents, const Visit& visit) {
  Lowering& l = c.l;
  const Sizes sizes = c.sizes(greatest);
  const auto placeWhere = [&](ReduceKind kind, int64_t otherwise, std::function<Scalar(Scalar, const Index&)> holds) {
    return c.combined(kind, DType::Int64, sizes, extents,
                      [&l, visit, otherwise, holds = std::move(holds)](const Index& i, const Index& offsets) {
                        const ExprId none = l.integer(otherwise);
                        return visit(i, offsets, none, [&](ExprId element, ExprId place) {
                          return l.simplifier.select(holds(l.scalar(element), i).id, place, none);
                        });
                      });
  };
  const TensorId first = placeWhere(ReduceKind::Minimum, std::numeric_limits<int64_t>::max(),
                                    [&l, greatest](Scalar x, const Index& i) { return x == l.scalarAt(greatest, i); });
  const TensorId lastNan = placeWhere(ReduceKind::Maximum, -1, [](Scalar x, const Index&) { return isNan(x); });
  const std::array operands{first, lastNan};
  return l.define(c.name(), DType::Int64, sizes, 2, operands, [&l, first, lastNan](const Index& i) {
    const Scalar nan = l.scalarAt(lastNan, i);
    return where(nan >= 0.0, nan, l.scalarAt(first, i)).id;
  });
}

bool readsPlaces(Call& c) { return c.node.outputs.size() > 1 && !c.l.graph.isUnused(c.node.outputs[1]); }

constexpr double lowest = -std::numeric_limits<double>::infinity();

/// The same where the elements of a window are those nearest to its places: by its first greatest element. Which one
/// that is follows without the greatest element, in the same pass. A window is searched for NaN only where there is
/// one.
TensorId placesOfNearest(Call& c, TensorId x, TensorId greatest, const Window& w) {
  Lowering& l = c.l;
  const std::vector<ExprId> extents = c.constants(w.kernel);
  const TensorId first = c.combined(ReduceKind::ArgMaximum, DType::Int64, c.sizes(greatest), extents,
                                    [&l, x, w](const Index& i, const Index& offsets) {
                                      return l.at(x, nearestInside(l, x, i, windowPlaces(l, w, i, offsets)));
                                    });
  const auto lastNan = [&l, x, w, extents](const Index& i) {
    return Call::combination(l, ReduceKind::Maximum, extents, [&](const Index& offsets) {
      loops::Simplifier& s = l.simplifier;
      ExprId offset = l.integer(0);
      for (size_t k = 0; k < offsets.size(); ++k)
        offset = s.add(s.multiply(offset, l.integer(w.kernel[k])), offsets[k]);
      const ExprId none = l.integer(-1);
      return guarded(l, x, i, windowPlaces(l, w, i, offsets), none,
                     [&](ExprId element) { return s.select(isNan(l.scalar(element)).id, offset, none); });
    });
  };
  const std::array operands{greatest, first};
  return l.define(c.name(), DType::Int64, c.sizes(greatest), 12, operands, [=, &l](const Index& i) {
    loops::Simplifier& s = l.simplifier;
    const int64_t elements = std::accumulate(w.kernel.begin(), w.kernel.end(), int64_t{1}, std::multiplies<>());
    ExprId offset = s.select(isNan(l.scalarAt(greatest, i)).id, lastNan(i), l.at(first, i));
    offset = s.maximum(s.minimum(offset, l.integer(elements - 1)), l.integer(0));
    Index offsets(w.kernel.size());
    for (size_t k = offsets.size(); k-- > 0; offset = s.floorDivide(offset, l.integer(w.kernel[k])))
      offsets[k] = k == 0 ? offset : s.remainder(offset, l.integer(w.kernel[k]));
    const Index at = nearestInside(l, x, i, windowPlaces(l, w, i, offsets));
    return flatPlace(l, x, Index(at.end() - static_cast<ptrdiff_t>(offsets.size()), at.end()));
  });
}

void lowerMaxPool(Call& c, size_t n) {
  const bool wantsPlaces = readsPlaces(c);
  TensorId x = windowOperand(c, "self", n);
  const DType d = c.resultType();
  if (!isFloatingPoint(d)) c.refuse("self", "has no floating numbers");
  if (wantsPlaces) x = roundedOperand(c.l, x);
  const Window w = windowOf(c, n);
  const std::vector<ExprId> extents = c.constants(w.kernel);
  Lowering& l = c.l;
  const bool isNearest = hasNearestInside(l, w);
  const TensorId greatest = c.combined(
      ReduceKind::Maximum, d, c.resultSizes(), extents, [&l, x, w, isNearest](const Index& i, const Index& offsets) {
        const Index at = windowPlaces(l, w, i, offsets);
        return isNearest ? l.at(x, nearestInside(l, x, i, at)) : guarded(l, x, i, at, lowest);
      });
  c.result(greatest);
  if (!wantsPlaces) return;
  if (isNearest) {
    c.result(placesOfNearest(c, x, greatest, w), 1);
    return;
  }
  c.result(placesOfGreatest(c, greatest, extents,
                            [&l, x, w](const Index& i, const Index& offsets, ExprId outside, const auto& f) {
                              const Index at = windowPlaces(l, w, i, offsets);
                              return guarded(l, x, i, at, outside,
                                             [&](ExprId element) { return f(element, flatPlace(l, x, at)); });
                            }),
           1);
}

/// What each element of the operand gets of the gradients of the windows whose greatest element it is. No window is
/// asked whether the element is in it: its place says so.
void lowerMaxPoolGradient(Call& c, size_t n) {
  const TensorId g = c.tensor("grad_output"), places = c.tensor("indices");
  const DType d = c.resultType();
  c.requireType(g);
  if (!isFloatingPoint(d)) c.refuse("grad_output", "has no floating numbers");
  if (c.rank(g) < n + 1 || c.rank(g) > n + 2) c.refuse("grad_output", "has another number of dimensions");
  if (c.sizes(places) != c.sizes(g)) c.refuse("indices", "have other sizes than the gradient");
  if (c.type(places) != DType::Int64) c.refuse("indices", "are no int64");
  const Window w = windowOf(c, n);
  Lowering& l = c.l;
  const Sizes sizes = c.resultOfRank(c.rank(g));
  const size_t skip = sizes.size() - n;
  std::vector<int64_t> most;  // windows that reach a place, along each dimension
  for (size_t k = 0; k < n; ++k) {
    if (w.dilation[k] < 1) c.refuse("dilation", "is less than 1");
    if (l.simplifier.bounds(c.sizes(g)[skip + k]).min.value_or(0) < 1) c.refuse("grad_output", "may have a size 0");
    most.push_back((w.dilation[k] * (w.kernel[k] - 1) + w.stride[k]) / w.stride[k]);
  }
  c.traits.repeatsReads = true;
  l.repeat(g);
  l.repeat(places);
  c.result(c.combined(ReduceKind::Sum, d, sizes, c.constants(most),
                      [&l, g, places, sizes, w, skip](const Index& i, const Index& offsets) {
                        loops::Simplifier& s = l.simplifier;
                        ExprId isInside = l.pool().boolean(true), own = l.integer(0);
                        Index at;
                        for (size_t k = 0; k < offsets.size(); ++k) {
                          const ExprId from = s.add(i[skip + k], l.integer(w.padding[k]));
                          at.push_back(s.subtract(s.floorDivide(from, l.integer(w.stride[k])), offsets[k]));
                          isInside = s.logicalAnd(isInside, s.compare(Op::LessEqual, l.integer(0), at.back()));
                          isInside = s.logicalAnd(isInside, s.compare(Op::Less, at.back(), l[g].sizes[skip + k]));
                          own = s.add(s.multiply(own, sizes[skip + k]), i[skip + k]);
                        }
                        const Index window = nearestInside(l, g, i, at);
                        const ExprId isOwn = s.compare(Op::Equal, l.at(places, window), own);
                        return s.select(s.logicalAnd(isInside, isOwn), l.at(g, window), l.constant(l[g].dtype, 0));
                      }));
}

void lowerAveragePool(Call& c, size_t n) {
  const TensorId x = windowOperand(c, "self", n);
  const DType d = c.resultType();
  if (!isFloatingPoint(d)) c.refuse("self", "has no floating numbers");
  const Window w = windowOf(c, n);
  const Sizes sizes = c.resultSizes();
  Lowering& l = c.l;
  const TensorId sum =
      c.combined(ReduceKind::Sum, d, sizes, c.constants(w.kernel), [&l, x, w](const Index& i, const Index& offsets) {
        return guarded(l, x, i, windowPlaces(l, w, i, offsets), 0.0);
      });
  const bool counts = c.flag("count_include_pad");
  const bool hasDivisor = c.has("divisor_override");
  const int64_t divisor = hasDivisor ? c.integer("divisor_override") : 0;
  if (hasDivisor && divisor == 0) c.refuse("divisor_override", "is 0");
  const int64_t elements = std::accumulate(w.kernel.begin(), w.kernel.end(), int64_t{1}, std::multiplies<>());
  const bool isExact = elements < int64_t{1} << 24;
  c.result(l.define(c.name(), d, sizes, 4, std::span(&sum, 1), [=, &l](const Index& i) {
    loops::Simplifier& s = l.simplifier;
    const Scalar total = l.scalarAt(sum, i);
    const bool isApart = isExact && (total.dtype() == DType::Float32 || total.dtype() == DType::Float64);
    ExprId count = l.integer(hasDivisor ? divisor : 1);
    std::optional<Scalar> varying;  // the lengths that differ from place to place
    for (size_t k = 0; k < n && !hasDivisor; ++k) {
      // The padding belongs to the window where it counts; what lies behind it never does.
      const ExprId size = l[x].sizes[i.size() - n + k], pad = l.integer(w.padding[k]);
      const ExprId start = s.subtract(s.multiply(i[i.size() - n + k], l.integer(w.stride[k])), pad);
      const ExprId end = s.minimum(s.add(start, l.integer(w.kernel[k])), counts ? s.add(size, pad) : size);
      const ExprId length = s.subtract(end, counts ? start : s.maximum(start, l.integer(0)));
      if (l.program.expressions.findInteger(length) || !isApart) {
        count = s.multiply(count, length);
        continue;
      }
      // Of integers that a number holds, the product of numbers is the product of integers; and the length along rows
      // is the same for all columns.
      varying = varying ? *varying * countAs(l, length, total) : countAs(l, length, total);
    }
    const int64_t* whole = l.program.expressions.findInteger(count);
    if (varying && whole && *whole == 1) return (total / *varying).id;
    return (total / (varying ? countAs(l, count, total) * *varying : countAs(l, count, total))).id;
  }));
}

/// As many windows along the last n dimensions as the result has places: from floor(o * in / out) to
/// ceil((o + 1) * in / out).
struct AdaptiveWindows {
  TensorId x;
  Sizes sizes;  ///< of the result
  size_t n = 0;
  std::vector<ExprId> extents = {};  ///< of the longest windows
  std::vector<bool> isEven = {};     ///< all windows are of one length

  size_t skip() const { return sizes.size() - n; }
  ExprId start(Lowering& l, const Index& i, size_t k) const {
    loops::Simplifier& s = l.simplifier;
    const ExprId at = i[skip() + k];
    if (isEven[k]) return s.multiply(at, extents[k]);
    return s.floorDivide(s.multiply(at, l[x].sizes[skip() + k]), sizes[skip() + k]);
  }
  ExprId length(Lowering& l, const Index& i, size_t k) const {
    loops::Simplifier& s = l.simplifier;
    if (isEven[k]) return extents[k];
    const ExprId next = s.multiply(s.add(i[skip() + k], l.integer(1)), l[x].sizes[skip() + k]);
    const ExprId last = s.subtract(sizes[skip() + k], l.integer(1));
    return s.subtract(s.floorDivide(s.add(next, last), sizes[skip() + k]), start(l, i, k));
  }
  /// Whether the element at this offset along dimension k belongs to the window.
  ExprId isInside(Lowering& l, const Index& i, ExprId offset, size_t k) const {
    loops::Simplifier& s = l.simplifier;
    if (isEven[k]) return l.pool().boolean(true);
    const ExprId isIn = s.compare(Op::Less, s.add(start(l, i, k), offset), l[x].sizes[skip() + k]);
    return s.logicalAnd(s.compare(Op::Less, offset, length(l, i, k)), isIn);
  }
  /// What `f` makes of the element and its place, or `outside` where the window is shorter.
  ExprId at(Lowering& l, const Index& i, const Index& offsets, ExprId outside,
            const std::function<ExprId(ExprId element, ExprId place)>& f) const {
    loops::Simplifier& s = l.simplifier;
    ExprId isElement = l.pool().boolean(true);
    Index source = i, place;
    for (size_t k = 0; k < n; ++k) {
      source[skip() + k] = s.add(start(l, i, k), offsets[k]);
      place.push_back(source[skip() + k]);
      isElement = s.logicalAnd(isElement, isInside(l, i, offsets[k], k));
    }
    return s.select(isElement, f(l.at(x, source), flatPlace(l, x, place)), outside);
  }
};

AdaptiveWindows adaptiveWindows(Call& c, size_t n) {
  const TensorId x = c.tensor("self");
  c.requireType(x);
  if (c.rank(x) < n + 1 || c.rank(x) > n + 2) c.refuse("self", "has another number of dimensions");
  if (!isFloatingPoint(c.resultType())) c.refuse("self", "has no floating numbers");
  AdaptiveWindows w{.x = x, .sizes = c.resultOfRank(c.rank(x)), .n = n};
  Lowering& l = c.l;
  for (size_t k = 0; k < n; ++k) {
    const ExprId in = c.sizes(x)[w.skip() + k], out = w.sizes[w.skip() + k];
    const auto a = l.findNumber(in);
    const auto b = l.findNumber(out);
    if (l.isOne(out)) {
      w.extents.push_back(in);
      w.isEven.push_back(true);
      continue;
    }
    if (!a || !b || *b == 0) c.refuse("self", "has a size that varies");
    w.isEven.push_back(*a % *b == 0);
    const int64_t longest = w.isEven.back() ? *a / *b : (*a + *b - 1) / *b + 1;
    w.extents.push_back(l.integer(longest));
  }
  if (std::any_of(w.extents.begin(), w.extents.end(), [&](ExprId e) { return l.simplifier.bounds(e).max == 0; }))
    c.refuse("self", "has a size 0");
  for (size_t k = 0; k < n; ++k) c.traits.reducedDims.push_back(static_cast<int64_t>(w.skip() + k));
  if (std::find(w.isEven.begin(), w.isEven.end(), false) != w.isEven.end()) l.repeat(x);
  return w;
}

/// The sum or the greatest of each window; `outside` changes neither. On a CPU, windows of several lengths are combined
/// along one dimension after the other, so that each element is read by few windows, and rows are read in order.
TensorId combinedWindows(Call& c, const AdaptiveWindows& w, ReduceKind kind, double outside) {
  Lowering& l = c.l;
  const DType d = c.resultType(), compute = computeType(d);
  const auto along = [&](TensorId x, DType made, const Sizes& sizes, const std::vector<size_t>& dims) {
    std::vector<ExprId> extents;
    for (const size_t k : dims) extents.push_back(w.extents[k]);
    return c.combined(kind, made, sizes, extents, [&l, w, x, dims, compute, outside](Index i, const Index& offsets) {
      loops::Simplifier& s = l.simplifier;
      const Index at = i;
      ExprId isInside = l.pool().boolean(true);
      for (size_t j = 0; j < dims.size(); ++j) {
        const size_t k = dims[j];
        i[w.skip() + k] = s.add(w.start(l, at, k), offsets[j]);
        isInside = s.logicalAnd(isInside, w.isInside(l, at, offsets[j], k));
      }
      return s.select(isInside, l.at(x, i), l.pool().number(compute, outside));
    });
  };
  std::vector<size_t> dims;
  for (size_t k = 0; k < w.n; ++k) dims.push_back(k);
  // Channels side by side fill vectors anyhow: there it takes windows that are large.
  constexpr int64_t large = 64;
  int64_t elements = 1;
  for (const ExprId e : w.extents) elements *= l.findNumber(e).value_or(1);
  const bool hasVectors = l[w.x].fastest.value_or(w.sizes.size() - 1) < w.skip() && elements < large;
  if (l.machine.isGpu || hasVectors || std::find(w.isEven.begin(), w.isEven.end(), false) == w.isEven.end())
    return along(w.x, d, w.sizes, dims);
  TensorId x = w.x;
  Sizes sizes = w.sizes;
  for (const size_t k : dims) sizes[w.skip() + k] = c.sizes(x)[w.skip() + k];
  for (const size_t k : dims) {
    if (l.isOne(w.extents[k])) continue;
    sizes[w.skip() + k] = w.sizes[w.skip() + k];
    x = along(x, sizes == w.sizes ? d : compute, sizes, {k});
    if (sizes != w.sizes) l.repeat(x);
  }
  return x;
}

void lowerAdaptivePool(Call& c, size_t n) {
  const AdaptiveWindows w = adaptiveWindows(c, n);
  const DType d = c.resultType();
  Lowering& l = c.l;
  const TensorId sum = combinedWindows(c, w, ReduceKind::Sum, 0.0);
  c.result(l.define(c.name(), d, w.sizes, 4, std::span(&sum, 1), [&l, w, sum](const Index& i) {
    const Scalar total = l.scalarAt(sum, i);
    ExprId count = l.integer(1);
    std::optional<Scalar> varying;  // the lengths along rows are the same for all columns
    for (size_t k = 0; k < w.n; ++k) {
      if (w.isEven[k]) {
        count = l.simplifier.multiply(count, w.extents[k]);
        continue;
      }
      const Scalar length = countAs(l, w.length(l, i, k), total);
      varying = varying ? *varying * length : length;
    }
    if (!varying) return (total / countAs(l, count, total)).id;
    return (total / (l.isOne(count) ? *varying : countAs(l, count, total) * *varying)).id;
  }));
}

void lowerAdaptiveMaxPool(Call& c, size_t n) {
  AdaptiveWindows w = adaptiveWindows(c, n);
  const bool wantsPlaces = readsPlaces(c);
  if (wantsPlaces) {
    w.x = roundedOperand(c.l, w.x);
    c.l.repeat(w.x);
  }
  Lowering& l = c.l;
  const TensorId greatest = combinedWindows(c, w, ReduceKind::Maximum, lowest);
  c.result(greatest);
  if (wantsPlaces)
    c.result(placesOfGreatest(c, greatest, w.extents,
                              [&l, w](const Index& i, const Index& offsets, ExprId outside, const auto& f) {
                                return w.at(l, i, offsets, outside, f);
                              }),
             1);
}

/// Columns of windows, as a convolution by a matrix product reads them: (batch, channels * kernel, places).
void lowerColumns(Call& c) {
  const TensorId x = c.tensor("self");
  c.requireType(x);
  if (c.rank(x) != 4) c.refuse("self", "has other than four dimensions");
  const Window w = windowOf(c, 2);
  const auto width = c.l.findNumber(c.sizes(x)[3]);
  if (!width) c.refuse("self", "has a width that varies");
  const int64_t places = (*width + 2 * w.padding[1] - w.dilation[1] * (w.kernel[1] - 1) - 1) / w.stride[1] + 1;
  if (places < 1) c.refuse("self", "is smaller than the window");
  const DType d = c.resultType();
  Lowering& l = c.l;
  c.traits.repeatsReads = true;
  l.repeat(x);
  c.result(l.define(c.name(), d, c.resultOfRank(3), 2, std::span(&x, 1), [&l, x, w, places](const Index& i) {
    loops::Simplifier& s = l.simplifier;
    const ExprId kh = l.integer(w.kernel[0]), kw = l.integer(w.kernel[1]);
    const ExprId channel = s.floorDivide(s.floorDivide(i[1], kw), kh);
    const Index offsets{s.remainder(s.floorDivide(i[1], kw), kh), s.remainder(i[1], kw)};
    const Index at{i[0], channel, s.floorDivide(i[2], l.integer(places)), s.remainder(i[2], l.integer(places))};
    return guarded(l, x, at, windowPlaces(l, w, at, offsets), 0.0);
  }));
}

/// What the columns of windows add up to at each place: the inverse of the above, up to how often a place is read.
void lowerFold(Call& c) {
  const TensorId x = c.tensor("self");
  c.requireType(x);
  const DType d = c.resultType();
  if (c.rank(x) != 3 || !isFloatingPoint(d)) c.refuse("self", "has other than three dimensions, or whole numbers");
  const Window w = windowOf(c, 2);
  if (w.dilation[0] < 1 || w.dilation[1] < 1) c.refuse("dilation", "is less than 1");
  // The model may compute the sizes; the result's type knows them.
  std::array<int64_t, 2> size{};
  for (size_t k = 0; k < 2; ++k) {
    const auto n = c.l.findNumber(c.resultOfRank(4)[2 + k]);
    if (!n) c.refuse("output_size", "varies");
    size[k] = *n;
  }
  std::array<int64_t, 2> places{};
  for (size_t k = 0; k < 2; ++k) {
    places[k] = (size[k] + 2 * w.padding[k] - w.dilation[k] * (w.kernel[k] - 1) - 1) / w.stride[k] + 1;
    if (places[k] < 1) c.refuse("output_size", "is smaller than the window");
  }
  c.traits.repeatsReads = true;
  Lowering& l = c.l;
  l.repeat(x);
  const Sizes sizes = c.resultOfRank(4);
  c.result(c.combined(
      ReduceKind::Sum, d, sizes, c.constants(w.kernel), [&l, x, w, places](const Index& i, const Index& offsets) {
        loops::Simplifier& s = l.simplifier;
        ExprId isInside = l.pool().boolean(true);
        ExprId channel = i[1], place = l.integer(0);
        for (size_t k = 0; k < 2; ++k) {
          const ExprId from =
              s.subtract(s.add(i[2 + k], l.integer(w.padding[k])), s.multiply(offsets[k], l.integer(w.dilation[k])));
          const ExprId stride = l.integer(w.stride[k]), at = s.floorDivide(from, stride);
          const ExprId last = l.integer(places[k] - 1);
          const ExprId isStart = s.compare(Op::Equal, s.remainder(from, stride), l.integer(0));
          isInside = s.logicalAnd(isInside, isStart);
          isInside = s.logicalAnd(isInside, s.compare(Op::LessEqual, l.integer(0), at));
          isInside = s.logicalAnd(isInside, s.compare(Op::LessEqual, at, last));
          channel = s.add(s.multiply(channel, l.integer(w.kernel[k])), offsets[k]);
          // The condition says it already, but not in a form that proves the index.
          const ExprId safe = s.maximum(s.minimum(at, last), l.integer(0));
          place = s.add(s.multiply(place, l.integer(places[k])), safe);
        }
        return s.select(isInside, l.at(x, {i[0], channel, place}), l.constant(l[x].dtype, 0));
      }));
}

/// The differences of neighbours, and of what stands before and behind them.
void lowerDiff(Call& c) {
  TensorId x = c.tensor("self");
  const DType d = c.resultType();
  if (c.integer("n") != 1) c.refuse("n", "is not 1");
  if (d == DType::Bool) c.refuse("self", "is bool");
  const size_t dim = c.dimOf(x, "dim");
  const Sizes sizes = c.resultOfRank(c.rank(x));
  Lowering& l = c.l;
  std::vector<TensorId> pieces{x};
  if (c.has("prepend")) pieces.insert(pieces.begin(), c.tensor("prepend"));
  if (c.has("append")) pieces.push_back(c.tensor("append"));
  if (pieces.size() > 1) x = sideBySide(c, pieces, dim, d);
  c.requireType(x);
  c.result(l.define(c.name(), d, sizes, 1, std::span(&x, 1), [&l, x, dim](Index i) {
    const Scalar here = l.scalarAt(x, i);
    i[dim] = l.simplifier.add(i[dim], l.integer(1));
    return (l.scalarAt(x, i) - here).id;
  }));
}

/// A convolution of as many groups as channels: each channel has windows of its own, and one filter or several
/// (PyTorch's "depthwise with a multiplier"). Others multiply matrices, and are left to libraries. `isOwn`:
/// graft::conv_bias_add_relu.
void lowerDepthwise(Call& c, bool isOwn) {
  Lowering& l = c.l;
  const std::string_view input = isOwn ? "x" : "input";
  const TensorId x = c.tensor(input), weight = c.tensor("weight");
  const size_t rank = c.rank(weight);
  if (rank < 3 || c.rank(x) != rank) c.refuse(input, "has another number of dimensions");
  const auto channels = l.findNumber(c.sizes(x)[1]);
  const auto filters = l.findNumber(c.sizes(weight)[0]);
  if (!channels || !filters || *channels < 1 || c.integer("groups") != *channels || *filters % *channels != 0 ||
      *filters == 0 || !l.isOne(c.sizes(weight)[1]))
    c.refuse("groups", "are not as many as channels");
  const int64_t each = *filters / *channels;
  const DType d = c.floatingType();
  if (c.type(x) != d || c.type(weight) != d) c.refuse("weight", "has another dtype");
  if (isOwn && c.has("residual")) c.refuse("residual", "is added by the operator's own kernels");
  Window w;
  for (size_t k = 2; k < rank; ++k) w.kernel.push_back(c.known(c.sizes(weight)[k], "weight"));
  const size_t n = rank - 2;
  w.stride = perDim(c, "stride", n, 1);
  w.padding = perDim(c, "padding", n, 0);
  w.dilation = perDim(c, "dilation", n, 1);
  c.traits.repeatsReads = true;
  l.repeat(x);
  l.repeat(weight);
  TensorId y = c.combined(
      ReduceKind::Sum, d, c.resultOfRank(rank), c.constants(w.kernel),
      [&l, x, weight, w, each](const Index& i, const Index& offsets) {
        Index tap{i[1], l.integer(0)}, from = i;
        tap.insert(tap.end(), offsets.begin(), offsets.end());
        if (each > 1) from[1] = l.simplifier.floorDivide(i[1], l.integer(each));
        return guarded(l, x, from, windowPlaces(l, w, i, offsets), l.pool().number(computeType(l[x].dtype), 0.0),
                       [&](ExprId element) { return (l.scalar(element) * l.scalarAt(weight, tap)).id; });
      });
  const auto pointwise = [&](std::span<const TensorId> operands, auto f) {
    return c.pointwise(operands, Sizes(c.sizes(y)), d, d, 1, f);
  };
  if (c.has("bias")) {
    Sizes laid(rank - 1, l.integer(1));
    laid[0] = c.sizes(weight)[0];
    y = pointwise(std::array{y, c.reshaped(c.tensor("bias"), laid)},
                  [](std::span<const Scalar> v) { return v[0] + v[1]; });
  }
  if (isOwn && c.flag("relu"))
    y = pointwise(std::array{y}, [](std::span<const Scalar> v) { return maximum(v[0], 0.0); });
  c.result(y);
}

}  // namespace

std::vector<Entry> windowOperators() {
  std::vector<Entry> out;
  const auto window = [&](std::string name, std::function<void(Call&)> build) {
    out.push_back({"aten." + std::move(name), Kind::Window, std::move(build)});
  };
  for (size_t n = 1; n <= 3; ++n) {
    const std::string dims = std::to_string(n) + "d";
    window("conv" + dims + ".default", [](Call& c) { lowerDepthwise(c, false); });
    window("max_pool" + dims + ".default", [n](Call& c) { lowerMaxPool(c, n); });
    window("max_pool" + dims + "_with_indices.default", [n](Call& c) { lowerMaxPool(c, n); });
    if (n > 1)
      window("max_pool" + dims + "_with_indices_backward.default", [n](Call& c) { lowerMaxPoolGradient(c, n); });
    window("avg_pool" + dims + ".default", [n](Call& c) { lowerAveragePool(c, n); });
    window("adaptive_avg_pool" + dims + ".default", [n](Call& c) { lowerAdaptivePool(c, n); });
    if (n > 1) window("_adaptive_avg_pool" + dims + ".default", [n](Call& c) { lowerAdaptivePool(c, n); });
    window("adaptive_max_pool" + dims + ".default", [n](Call& c) { lowerAdaptiveMaxPool(c, n); });
  }
  out.push_back({"graft.conv_bias_add_relu.default", Kind::Window, [](Call& c) { lowerDepthwise(c, true); }});
  window("im2col.default", lowerColumns);
  window("col2im.default", lowerFold);
  window("diff.default", lowerDiff);
  return out;
}

}  // namespace graft::lower
