// Pooling: elements from a window of the operand. Loads outside of it are guarded.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/compile/lower/call.h"

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

/// The combination of what `element` gives at each place of a window with these extents: `offsets` are its ranges.
TensorId windowed(Call& c, ReduceKind kind, DType d, Sizes sizes, const std::vector<ExprId>& extents,
                  std::function<ExprId(const Index& i, const Index& offsets)> element) {
  Lowering& l = c.l;
  Tensor t;
  t.name = c.name();
  t.dtype = d;
  t.sizes = std::move(sizes);
  t.form = Tensor::Form::Reduction;
  t.cost = 1;
  t.element = [&l, kind, extents, element = std::move(element)](const Index& i) {
    std::vector<RangeId> ranges;
    Index offsets;
    for (const ExprId extent : extents) {
      if (l.isOne(extent)) {
        offsets.push_back(l.integer(0));
        continue;
      }
      ranges.push_back(l.program.addRange("r" + std::to_string(l.program.ranges.size()), extent));
      offsets.push_back(l.pool().range(ranges.back()));
    }
    const ExprId body = element(i, offsets);
    return ranges.empty() ? body : l.pool().reduce(kind, std::move(ranges), body);
  };
  return l.add(std::move(t));
}

std::vector<ExprId> constants(Lowering& l, const std::vector<int64_t>& numbers) {
  std::vector<ExprId> out;
  for (const int64_t n : numbers) out.push_back(l.integer(n));
  return out;
}

/// The operand at `at` along the last dimensions, or `outside` where that is not in it.
ExprId guarded(Lowering& l, TensorId x, Index i, const Index& at, double outside) {
  loops::Simplifier& s = l.simplifier;
  const size_t skip = i.size() - at.size();
  ExprId isInside = l.pool().boolean(true);
  for (size_t k = 0; k < at.size(); ++k) {
    isInside = s.logicalAnd(isInside, s.compare(Op::LessEqual, l.integer(0), at[k]));
    isInside = s.logicalAnd(isInside, s.compare(Op::Less, at[k], l[x].sizes[skip + k]));
    i[skip + k] = at[k];
  }
  return s.select(isInside, l.at(x, i), l.pool().number(computeType(l[x].dtype), outside));
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

TensorId windowOperand(Call& c, std::string_view parameter, size_t n) {
  const TensorId x = c.tensor(parameter);
  if (c.rank(x) < n + 1 || c.rank(x) > n + 2) c.refuse(parameter, "has another number of dimensions");
  (void)c.resultOfRank(c.rank(x));
  c.requireType(x);
  c.traits.repeatsReads = true;
  c.l.repeat(x);
  return x;
}

void lowerMaxPool(Call& c, size_t n) {
  const TensorId x = windowOperand(c, "self", n);
  const DType d = c.resultType();
  if (!isFloatingPoint(d)) c.refuse("self", "has no floating numbers");
  const Window w = windowOf(c, n);
  Lowering& l = c.l;
  c.result(windowed(c, ReduceKind::Maximum, d, c.resultSizes(), constants(l, w.kernel),
                    [&l, x, w](const Index& i, const Index& offsets) {
                      const double least = -std::numeric_limits<double>::infinity();
                      return guarded(l, x, i, windowPlaces(l, w, i, offsets), least);
                    }));
  if (c.node.outputs.size() > 1 && !c.l.graph.isUnused(c.node.outputs[1])) c.refuse("its indices are read");
}

void lowerAveragePool(Call& c, size_t n) {
  const TensorId x = windowOperand(c, "self", n);
  const DType d = c.resultType();
  if (!isFloatingPoint(d)) c.refuse("self", "has no floating numbers");
  const Window w = windowOf(c, n);
  const Sizes sizes = c.resultSizes();
  Lowering& l = c.l;
  const TensorId sum = windowed(
      c, ReduceKind::Sum, d, sizes, constants(l, w.kernel),
      [&l, x, w](const Index& i, const Index& offsets) { return guarded(l, x, i, windowPlaces(l, w, i, offsets), 0); });
  const bool counts = c.flag("count_include_pad");
  const bool hasDivisor = c.has("divisor_override");
  const int64_t divisor = hasDivisor ? c.integer("divisor_override") : 0;
  if (hasDivisor && divisor == 0) c.refuse("divisor_override", "is 0");
  c.result(l.define(c.name(), d, sizes, 4, std::span(&sum, 1), [=, &l](const Index& i) {
    loops::Simplifier& s = l.simplifier;
    ExprId count = l.integer(hasDivisor ? divisor : 1);
    for (size_t k = 0; k < n && !hasDivisor; ++k) {
      // The padding belongs to the window where it counts; what lies behind it never does.
      const ExprId size = l[x].sizes[i.size() - n + k], pad = l.integer(w.padding[k]);
      const ExprId start = s.subtract(s.multiply(i[i.size() - n + k], l.integer(w.stride[k])), pad);
      const ExprId end = s.minimum(s.add(start, l.integer(w.kernel[k])), counts ? s.add(size, pad) : size);
      count = s.multiply(count, s.subtract(end, counts ? start : s.maximum(start, l.integer(0))));
    }
    const Scalar total = l.scalarAt(sum, i);
    return (total / l.convert(l.scalar(count), DType::Int64, total.dtype())).id;
  }));
}

/// As many windows as the result has places: from floor(o * in / out) to ceil((o + 1) * in / out).
void lowerAdaptivePool(Call& c, size_t n) {
  const TensorId x = c.tensor("self");
  c.requireType(x);
  if (c.rank(x) < n + 1 || c.rank(x) > n + 2) c.refuse("self", "has another number of dimensions");
  const DType d = c.resultType();
  if (!isFloatingPoint(d)) c.refuse("self", "has no floating numbers");
  const Sizes sizes = c.resultOfRank(c.rank(x));
  Lowering& l = c.l;
  const size_t skip = c.rank(x) - n;
  loops::Simplifier& simplify = l.simplifier;
  std::vector<ExprId> extents;
  std::vector<bool> isEven;  // all windows are of one length
  for (size_t k = 0; k < n; ++k) {
    const ExprId in = c.sizes(x)[skip + k], out = sizes[skip + k];
    const auto a = l.findNumber(in);
    const auto b = l.findNumber(out);
    if (l.isOne(out)) {
      extents.push_back(in);
      isEven.push_back(true);
      continue;
    }
    if (!a || !b || *b == 0) c.refuse("self", "has a size that varies");
    isEven.push_back(*a % *b == 0);
    const int64_t longest = isEven.back() ? *a / *b : (*a + *b - 1) / *b + 1;
    extents.push_back(l.integer(longest));
  }
  if (std::any_of(extents.begin(), extents.end(), [&](ExprId e) { return simplify.bounds(e).max == 0; }))
    c.refuse("self", "has a size 0");
  for (size_t k = 0; k < n; ++k) c.traits.reducedDims.push_back(static_cast<int64_t>(skip + k));
  if (std::find(isEven.begin(), isEven.end(), false) != isEven.end()) l.repeat(x);
  const auto startOf = [&l, x, sizes, skip, isEven, extents](const Index& i, size_t k) {
    loops::Simplifier& s = l.simplifier;
    if (isEven[k]) return s.multiply(i[skip + k], extents[k]);
    return s.floorDivide(s.multiply(i[skip + k], l[x].sizes[skip + k]), sizes[skip + k]);
  };
  const auto lengthOf = [&l, x, sizes, skip, isEven, extents, startOf](const Index& i, size_t k) {
    loops::Simplifier& s = l.simplifier;
    if (isEven[k]) return extents[k];
    const ExprId next = s.multiply(s.add(i[skip + k], l.integer(1)), l[x].sizes[skip + k]);
    const ExprId last = s.subtract(sizes[skip + k], l.integer(1));
    return s.subtract(s.floorDivide(s.add(next, last), sizes[skip + k]), startOf(i, k));
  };
  const TensorId sum = windowed(c, ReduceKind::Sum, d, sizes, extents,
                                [&l, x, n, skip, isEven, startOf, lengthOf](const Index& i, const Index& offsets) {
                                  loops::Simplifier& s = l.simplifier;
                                  ExprId isInside = l.pool().boolean(true);
                                  Index source = i;
                                  for (size_t k = 0; k < n; ++k) {
                                    source[skip + k] = s.add(startOf(i, k), offsets[k]);
                                    if (isEven[k]) continue;
                                    const ExprId size = l[x].sizes[skip + k];
                                    isInside = s.logicalAnd(isInside, s.compare(Op::Less, offsets[k], lengthOf(i, k)));
                                    isInside = s.logicalAnd(isInside, s.compare(Op::Less, source[skip + k], size));
                                  }
                                  const ExprId zero = l.pool().number(computeType(l[x].dtype), 0.0);
                                  return s.select(isInside, l.at(x, source), zero);
                                });
  c.result(l.define(c.name(), d, sizes, 4, std::span(&sum, 1), [&l, n, sum, lengthOf](const Index& i) {
    ExprId count = l.integer(1);
    for (size_t k = 0; k < n; ++k) count = l.simplifier.multiply(count, lengthOf(i, k));
    const Scalar total = l.scalarAt(sum, i);
    return (total / l.convert(l.scalar(count), DType::Int64, total.dtype())).id;
  }));
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
    return guarded(l, x, at, windowPlaces(l, w, at, offsets), 0);
  }));
}

/// What the columns of windows add up to at each place: the inverse of the above, up to how often a place is read.
void lowerFold(Call& c) {
  const TensorId x = c.tensor("self");
  c.requireType(x);
  const DType d = c.resultType();
  if (c.rank(x) != 3 || !isFloatingPoint(d)) c.refuse("self", "has other than three dimensions, or whole numbers");
  const Window w = windowOf(c, 2);
  const std::vector<int64_t> size = c.integers("output_size");
  if (size.size() != 2 || w.dilation[0] < 1 || w.dilation[1] < 1) c.refuse("output_size", "has other than two numbers");
  std::array<int64_t, 2> places{};
  for (size_t k = 0; k < 2; ++k) {
    places[k] = (size[k] + 2 * w.padding[k] - w.dilation[k] * (w.kernel[k] - 1) - 1) / w.stride[k] + 1;
    if (places[k] < 1) c.refuse("output_size", "is smaller than the window");
  }
  c.traits.repeatsReads = true;
  Lowering& l = c.l;
  l.repeat(x);
  const Sizes sizes = c.resultOfRank(4);
  c.result(windowed(
      c, ReduceKind::Sum, d, sizes, constants(l, w.kernel), [&l, x, w, places](const Index& i, const Index& offsets) {
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

/// The differences of neighbours.
void lowerDiff(Call& c) {
  const TensorId x = c.tensor("self");
  c.requireType(x);
  const DType d = c.resultType();
  if (c.integer("n") != 1) c.refuse("n", "is not 1");
  if (c.has("prepend") || c.has("append")) c.refuse("prepend", "is given");
  if (d == DType::Bool) c.refuse("self", "is bool");
  const size_t dim = c.dimOf(x, "dim");
  const Sizes sizes = c.resultOfRank(c.rank(x));
  Lowering& l = c.l;
  c.result(l.define(c.name(), d, sizes, 1, std::span(&x, 1), [&l, x, dim](Index i) {
    const Scalar here = l.scalarAt(x, i);
    i[dim] = l.simplifier.add(i[dim], l.integer(1));
    return (l.scalarAt(x, i) - here).id;
  }));
}

}  // namespace

std::vector<Entry> windowOperators() {
  std::vector<Entry> out;
  const auto window = [&](std::string name, std::function<void(Call&)> build) {
    out.push_back({"aten." + std::move(name), Kind::Window, std::move(build)});
  };
  for (size_t n = 1; n <= 3; ++n) {
    const std::string dims = std::to_string(n) + "d";
    window("max_pool" + dims + ".default", [n](Call& c) { lowerMaxPool(c, n); });
    if (n > 1) window("max_pool" + dims + "_with_indices.default", [n](Call& c) { lowerMaxPool(c, n); });
    window("avg_pool" + dims + ".default", [n](Call& c) { lowerAveragePool(c, n); });
    window("adaptive_avg_pool" + dims + ".default", [n](Call& c) { lowerAdaptivePool(c, n); });
    if (n > 1) window("_adaptive_avg_pool" + dims + ".default", [n](Call& c) { lowerAdaptivePool(c, n); });
  }
  window("im2col.default", lowerColumns);
  window("col2im.default", lowerFold);
  window("diff.default", lowerDiff);
  return out;
}

}  // namespace graft::lower
