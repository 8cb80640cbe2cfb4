// Resampling: elements between those of the operand.

#include <algorithm>
#include <array>
#include <cmath>

#include "core/compile/lower/call.h"

namespace graft::lower {
namespace {

/// The scale that the caller named for dimension k, or none.
std::optional<double> namedScale(Call& c, size_t n, size_t k) {
  if (c.node.findArgument("scale_factors")) {
    if (!c.has("scale_factors")) return std::nullopt;
    const auto* items = c.argument("scale_factors").items();
    if (!items || items->size() != n || !(*items)[k].number()) c.refuse("scale_factors", "is not known");
    return (*items)[k].number();
  }
  static constexpr std::string_view names[3][3] = {
      {"scales"}, {"scales_h", "scales_w"}, {"scales_d", "scales_h", "scales_w"}};
  const std::string_view name = names[n - 1][k];
  return c.node.findArgument(name) && c.has(name) ? std::optional(c.number(name)) : std::nullopt;
}

TensorId resampled(Call& c, size_t n) {
  const TensorId x = c.tensor(c.node.findArgument("input") ? "input" : "self");
  if (c.rank(x) != n + 2) c.refuse("self", "has another number of dimensions");
  (void)c.resultOfRank(c.rank(x));
  c.requireType(x);
  return x;
}

/// Sizes as numbers, which resampling needs.
std::pair<int64_t, int64_t> lengths(Call& c, TensorId x, size_t k) {
  const auto in = c.l.findNumber(c.sizes(x)[k + 2]);
  const auto out = c.l.findNumber(c.resultSizes()[k + 2]);
  if (!in || !out || *in == 0 || *out == 0) c.refuse("self", "has a size that varies or is 0");
  return {*in, *out};
}

/// floor((o + offset) * scale) in f32, as ATen: as an integer expression where that gives the same for each place.
void lowerNearest(Call& c, size_t n, bool isExact) {
  const TensorId x = resampled(c, n);
  struct Axis {
    int64_t in, out;
    float scale;
    bool isInteger;  // (2 o + 1) in // (2 out), or o in // out
  };
  std::vector<Axis> axes;
  for (size_t k = 0; k < n; ++k) {
    const auto [in, out] = lengths(c, x, k);
    const auto named = namedScale(c, n, k);
    constexpr int64_t mostPlaces = 65536;  // that are tried one by one
    Axis a{in, out, static_cast<float>(in) / static_cast<float>(out), out <= mostPlaces};
    if (named && *named > 0) a.scale = static_cast<float>(1.0 / *named);
    for (int64_t o = 0; o < out && a.isInteger; ++o) {
      const float at = isExact ? (static_cast<float>(o) + 0.5F) * a.scale : static_cast<float>(o) * a.scale;
      const int64_t place = std::min<int64_t>(static_cast<int64_t>(std::floor(at)), in - 1);
      const int64_t whole = isExact ? (2 * o + 1) * in / (2 * out) : o * in / out;
      a.isInteger = place == whole;
    }
    axes.push_back(a);
  }
  if (c.l[x].cost > 4 * cheapCost) c.l.repeat(x);
  Lowering& l = c.l;
  const TensorId made = l.view(x, c.resultSizes(), [&l, axes, isExact](Index i) {
    loops::Simplifier& s = l.simplifier;
    for (size_t k = 0; k < axes.size(); ++k) {
      const Axis& a = axes[k];
      ExprId& at = i[k + 2];
      if (a.isInteger && isExact) {
        at = s.floorDivide(s.multiply(s.add(s.multiply(at, l.integer(2)), l.integer(1)), l.integer(a.in)),
                           l.integer(2 * a.out));
      } else if (a.isInteger) {
        const bool isMultiple = a.out % a.in == 0;
        at = isMultiple ? s.floorDivide(at, l.integer(a.out / a.in))
                        : s.floorDivide(s.multiply(at, l.integer(a.in)), l.integer(a.out));
      } else {
        const Scalar place = l.scalar(at).to(DType::Float32);
        const ExprId whole = floor((isExact ? place + 0.5 : place) * a.scale).to(DType::Int64).id;
        at = s.maximum(s.minimum(whole, l.integer(a.in - 1)), l.integer(0));
      }
    }
    return i;
  });
  l.setFastestAs(made, x);
  c.result(made);
}

/// Along one dimension: how long it is, how long the result's is, and how far apart the places are that it reads.
struct Axis {
  int64_t in = 0, out = 0;
  double scale = 1;
  bool alignsCorners = false;

  /// The result's places are the operand's own.
  bool isSame() const { return in == out && (alignsCorners || scale == 1); }
  Scalar place(Scalar at) const { return alignsCorners ? at * scale : (at + 0.5) * scale - 0.5; }
};

std::vector<Axis> axesOf(Call& c, TensorId x, size_t n) {
  const DType d = c.resultType();
  if (!isFloatingPoint(d)) c.refuse("self", "has no floating numbers");
  const bool alignsCorners = c.flag("align_corners");
  std::vector<Axis> axes;
  for (size_t k = 0; k < n; ++k) {
    const auto [in, out] = lengths(c, x, k);
    const auto named = namedScale(c, n, k);
    // In what it is computed in: f32 rounds the quotient.
    const auto divided = [&](double a, double b) {
      return d == DType::Float64 ? a / b : static_cast<double>(static_cast<float>(a) / static_cast<float>(b));
    };
    double scale = divided(static_cast<double>(in), static_cast<double>(out));
    if (alignsCorners)
      scale = out > 1 ? divided(static_cast<double>(in - 1), static_cast<double>(out - 1)) : 0;
    else if (named && *named > 0)
      scale = d == DType::Float64 ? 1.0 / *named : static_cast<double>(static_cast<float>(1.0 / *named));
    axes.push_back({in, out, scale, alignsCorners});
  }
  return axes;
}

/// An element that is read, and its weight.
struct Tap {
  ExprId at;
  Scalar weight;
};

/// The sum over all combinations of one tap along each of the last dimensions.
Scalar joined(Lowering& l, TensorId x, const std::vector<std::vector<Tap>>& taps, Index at, size_t k = 0) {
  if (k == taps.size()) return l.scalarAt(x, at);
  ExprId& place = at[at.size() - taps.size() + k];
  std::optional<Scalar> sum;
  for (const Tap& t : taps[k]) {
    place = t.at;
    const Scalar part = joined(l, x, taps, at, k + 1);
    if (taps[k].size() == 1) return part;
    sum = sum ? *sum + part * t.weight : part * t.weight;
  }
  return *sum;
}

/// A whole number as a place of the operand, the nearest where it is outside.
ExprId clampedPlace(Lowering& l, ExprId place, int64_t size) {
  return l.simplifier.maximum(l.simplifier.minimum(place, l.integer(size - 1)), l.integer(0));
}

/// Between two neighbours along each dimension, weighted by nearness; in f32 at least.
std::vector<Tap> linearTaps(Lowering& l, const Axis& a, Scalar out) {
  const Scalar at = maximum(a.place(out), 0.0);
  const ExprId low = clampedPlace(l, at.to(DType::Int64).id, a.in);
  const ExprId high = l.simplifier.minimum(l.simplifier.add(low, l.integer(1)), l.integer(a.in - 1));
  const Scalar weight = minimum(maximum(at - l.scalar(low).to(out.dtype()), 0.0), 1.0);
  return {{low, 1.0 - weight}, {high, weight}};
}

/// The weights of the four neighbours of a place, of which it is `off` behind the second: Keys' cubic with a = -0.75.
std::array<Scalar, 4> cubicWeights(Scalar off) {
  constexpr double a = -0.75;
  const auto near = [](Scalar x) { return ((a + 2) * x - (a + 3)) * x * x + 1.0; };
  const auto far = [](Scalar x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(off + 1.0), near(off), near(1.0 - off), far(2.0 - off)};
}

std::vector<Tap> cubicTaps(Lowering& l, const Axis& a, Scalar out) {
  const Scalar at = a.place(out), whole = floor(at);
  const ExprId first = l.simplifier.subtract(whole.to(DType::Int64).id, l.integer(1));
  std::vector<Tap> taps;
  for (const Scalar weight : cubicWeights(at - whole)) {
    const ExprId place = l.simplifier.add(first, l.integer(static_cast<int64_t>(taps.size())));
    taps.push_back({clampedPlace(l, place, a.in), weight});
  }
  return taps;
}

using Taps = std::vector<Tap> (*)(Lowering&, const Axis&, Scalar out);

void lowerInterpolation(Call& c, size_t n, Taps tapsOf, double cost) {
  const TensorId x = resampled(c, n);
  const DType d = c.resultType();
  const std::vector<Axis> axes = axesOf(c, x, n);
  c.traits.repeatsReads = true;
  c.l.repeat(x);
  Lowering& l = c.l;
  c.result(l.define(c.name(), d, c.resultSizes(), cost, std::span(&x, 1),
                    [&l, x, axes, tapsOf, compute = computeType(d)](const Index& i) {
                      std::vector<std::vector<Tap>> taps;
                      for (size_t k = 0; k < axes.size(); ++k) {
                        const Scalar out = l.scalar(i[k + 2]).to(compute);
                        if (axes[k].isSame())
                          taps.push_back({{i[k + 2], out}});
                        else
                          taps.push_back(tapsOf(l, axes[k], out));
                      }
                      return joined(l, x, taps, i).id;
                    }));
}

// With antialiasing: a window as wide as the step from one place to the next, so that no element is passed over ------

/// How far a filter reaches, in steps of the coarser side, and its weight at a distance.
struct Filter {
  double reach;
  Scalar (*weight)(Scalar);
};

Scalar triangle(Scalar x) { return maximum(1.0 - abs(x), 0.0); }

/// Keys' cubic with a = -0.5.
Scalar cubic(Scalar x) {
  constexpr double a = -0.5;
  const Scalar d = abs(x);
  const Scalar near = ((a + 2) * d - (a + 3)) * d * d + 1.0, far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return where(d < 1.0, near, where(d < 2.0, far, d.number(0)));
}

/// The elements that place `at` reads: from `first` on, `count` of them.
struct Reach {
  Scalar centre;
  ExprId first, count;
};
Reach reachOf(Lowering& l, const Axis& a, double support, ExprId at, DType compute) {
  loops::Simplifier& s = l.simplifier;
  const Scalar centre = (l.scalar(at).to(compute) + 0.5) * a.scale;
  // Whole numbers towards 0, which is what PyTorch's cast of a negative number gives, too.
  const auto bound = [&](Scalar x) { return x.to(DType::Int64).id; };
  const ExprId first = s.maximum(bound(centre - support + 0.5), l.integer(0));
  const ExprId end = s.minimum(bound(centre + support + 0.5), l.integer(a.in));
  return {centre, first, s.subtract(end, first)};
}

/// x resampled along one dimension: the weighted sum of each window over the sum of its weights.
TensorId filtered(Call& c, TensorId x, size_t dim, const Axis& a, const Filter& filter) {
  Lowering& l = c.l;
  const DType d = c.type(x), compute = computeType(d);
  const double support = a.scale >= 1 ? filter.reach * a.scale : filter.reach;
  const double inverse = a.scale >= 1 ? 1 / a.scale : 1;
  const auto longest = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  Sizes sizes = c.sizes(x);
  sizes[dim] = l.integer(a.out);
  l.repeat(x);
  // What `f` makes of the weight of tap k of place i, and of the place that it reads; 0 behind the window.
  const auto tap = [&l, a, support, inverse, filter, compute](
                       ExprId at, ExprId k, const std::function<Scalar(Scalar weight, ExprId place)>& f) {
    loops::Simplifier& s = l.simplifier;
    const Reach r = reachOf(l, a, support, at, compute);
    const ExprId place = s.add(r.first, k);
    const Scalar weight = filter.weight((l.scalar(place).to(compute) - r.centre + 0.5) * inverse);
    const Scalar value = f(weight, clampedPlace(l, place, a.in));
    return s.select(s.compare(Op::Less, k, r.count), value.id, value.number(0).id);
  };
  const std::vector<ExprId> window{l.integer(longest)};
  const TensorId sum = c.combined(ReduceKind::Sum, d, sizes, window, [&l, x, dim, tap](Index i, const Index& k) {
    return tap(i[dim], k[0], [&](Scalar weight, ExprId place) {
      i[dim] = place;
      return weight * l.scalarAt(x, i);
    });
  });
  const TensorId weights =
      c.combined(ReduceKind::Sum, d, {l.integer(a.out)}, window,
                 [tap](const Index& i, const Index& k) { return tap(i[0], k[0], [](Scalar w, ExprId) { return w; }); });
  const std::array operands{sum, weights};
  return l.define(c.name(), d, sizes, 4, operands, [&l, sum, weights, dim](const Index& i) {
    return (l.scalarAt(sum, i) / l.scalarAt(weights, {i[dim]})).id;
  });
}

/// Along the width first, then along the height.
void lowerAntialiased(Call& c, const Filter& filter) {
  TensorId x = resampled(c, 2);
  const std::vector<Axis> axes = axesOf(c, x, 2);
  c.traits.repeatsReads = true;
  for (size_t k = 2; k-- > 0;)
    if (!axes[k].isSame()) x = filtered(c, x, k + 2, axes[k], filter);
  c.result(x);
}

/// What grid_sample reads where a place is outside.
enum class Outside : int64_t { Zeros, Border, Reflection };

struct Grid {
  int64_t size = 0;
  bool alignsCorners = false;
  Outside outside = Outside::Zeros;

  double last() const { return static_cast<double>(size - 1); }
  /// From -1..1 to places.
  Scalar place(Scalar g) const {
    return alignsCorners ? (g + 1.0) / 2.0 * last() : ((g + 1.0) * static_cast<double>(size) - 1.0) / 2.0;
  }
  /// Inside, or where there is nothing. What is further out than that has no element either.
  Scalar inside(Scalar at) const {
    if (outside == Outside::Zeros) return minimum(maximum(at, -4.0), last() + 4);
    if (outside == Outside::Reflection) {
      const double low = alignsCorners ? 0 : -0.5, span = alignsCorners ? last() : last() + 1;
      if (span == 0) return at.number(0);
      const Scalar off = abs(at - low), extra = binary(Op::Fmod, off, off.number(span));
      const Scalar flips = floor(off / span), isEven = flips == 2.0 * floor(flips / 2.0);
      at = where(isEven, extra + low, span - extra + low);
    }
    return minimum(where(at > 0.0, at, at.number(0)), last());  // NaN reads the first element
  }
};

/// Elements at places that the last dimension of `grid` says, between -1 and 1.
void lowerGridSampler(Call& c) {
  const TensorId x = c.tensor("input"), grid = c.tensor("grid");
  c.requireType(x);
  const DType d = c.resultType();
  const int64_t mode = c.integer("interpolation_mode"), padding = c.integer("padding_mode");
  if (c.rank(x) != 4 || c.rank(grid) != 4) c.refuse("input", "has other than four dimensions");
  if (!isFloatingPoint(d) || c.type(grid) != d) c.refuse("grid", "has another dtype");
  if (mode < 0 || mode > 2) c.refuse("interpolation_mode", "is none that PyTorch has");
  if (padding < 0 || padding > 2) c.refuse("padding_mode", "is none that PyTorch has");
  std::array<Grid, 2> axes;  // width, height
  for (size_t k = 0; k < 2; ++k) {
    const auto n = c.l.findNumber(c.sizes(x)[3 - k]);
    if (!n || *n < 1) c.refuse("input", "has a size that varies or is 0");
    axes[k] = {*n, c.flag("align_corners"), static_cast<Outside>(padding)};
  }
  c.traits.repeatsReads = true;
  c.l.repeat(x);
  Lowering& l = c.l;
  const std::array operands{x, grid};
  const double cost = mode == 2 ? 250 : 40;
  c.result(l.define(c.name(), d, c.resultOfRank(4), cost, operands, [&l, x, grid, axes, mode](const Index& i) {
    loops::Simplifier& s = l.simplifier;
    const auto coordinate = [&](size_t k) {
      return axes[k].place(l.scalarAt(grid, {i[0], i[2], i[3], l.integer(static_cast<int64_t>(k))}));
    };
    // At whole numbers
    const auto element = [&](Scalar column, Scalar row) {
      ExprId isInside = l.pool().boolean(true);
      Index at{i[0], i[1], ExprId(), ExprId()};
      for (size_t k = 0; k < 2; ++k) {
        const ExprId place = (k == 0 ? column : row).to(DType::Int64).id, last = l.integer(axes[k].size - 1);
        isInside = s.logicalAnd(isInside, s.compare(Op::LessEqual, l.integer(0), place));
        isInside = s.logicalAnd(isInside, s.compare(Op::LessEqual, place, last));
        at[3 - k] = clampedPlace(l, place, axes[k].size);
      }
      return l.scalar(s.select(isInside, l.at(x, at), l.constant(l[x].dtype, 0)));
    };
    if (mode == 2) {  // each neighbour is brought inside by itself
      const Scalar column = coordinate(0), row = coordinate(1), left = floor(column), top = floor(row);
      const std::array across = cubicWeights(column - left), down = cubicWeights(row - top);
      std::optional<Scalar> sum;
      for (size_t r = 0; r < 4; ++r) {
        std::optional<Scalar> line;
        for (size_t k = 0; k < 4; ++k) {
          const Scalar part = element(axes[0].inside(left + (static_cast<double>(k) - 1)),
                                      axes[1].inside(top + (static_cast<double>(r) - 1))) *
                              across[k];
          line = line ? *line + part : part;
        }
        sum = sum ? *sum + *line * down[r] : *line * down[r];
      }
      return sum->id;
    }
    const Scalar column = axes[0].inside(coordinate(0)), row = axes[1].inside(coordinate(1));
    if (mode == 1) return element(unary(Op::Round, column), unary(Op::Round, row)).id;
    const Scalar left = floor(column), top = floor(row), right = left + 1.0, bottom = top + 1.0;
    return (element(left, top) * ((right - column) * (bottom - row)) +
            element(right, top) * ((column - left) * (bottom - row)) +
            element(left, bottom) * ((right - column) * (row - top)) +
            element(right, bottom) * ((column - left) * (row - top)))
        .id;
  }));
}

/// The places of a regular grid between -1 and 1, each multiplied by its batch's matrix.
void lowerAffineGrid(Call& c) {
  const TensorId theta = c.tensor("theta");
  c.requireType(theta);
  const DType d = c.resultType();
  const Sizes sizes = c.resultSizes();
  if (!isFloatingPoint(d) || c.rank(theta) != 3 || sizes.size() < 4) c.refuse("theta", "is no list of matrices");
  const size_t n = sizes.size() - 2;
  const bool alignsCorners = c.flag("align_corners");
  std::vector<int64_t> lengths;
  for (size_t k = 0; k < n; ++k) {
    const auto length = c.l.findNumber(sizes[k + 1]);
    if (!length) c.refuse("size", "varies");
    lengths.push_back(*length);
  }
  Lowering& l = c.l;
  l.repeat(theta);
  c.result(l.define(c.name(), d, sizes, 6 * static_cast<double>(n), std::span(&theta, 1),
                    [&l, theta, n, lengths, alignsCorners, d](const Index& i) {
                      const auto entry = [&](size_t k) {
                        return l.scalarAt(theta, {i[0], i[n + 1], l.integer(static_cast<int64_t>(k))});
                      };
                      Scalar sum = entry(n);
                      for (size_t k = 0; k < n; ++k) {
                        // The matrix counts from the last dimension on.
                        const size_t dim = n - 1 - k;
                        const auto length = static_cast<double>(lengths[dim]);
                        const Scalar at = l.scalar(i[dim + 1]).to(computeType(d));
                        if (lengths[dim] <= 1) continue;
                        const Scalar place = at * (2 / (length - 1)) - 1.0;
                        sum = sum + entry(k) * (alignsCorners ? place : place * ((length - 1) / length));
                      }
                      return sum.id;
                    }));
}

}  // namespace

std::vector<Entry> resamplingOperators() {
  std::vector<Entry> out;
  const auto window = [&](std::string name, std::function<void(Call&)> build) {
    out.push_back({"aten." + std::move(name), Kind::Window, std::move(build)});
  };
  const char* linear[] = {"upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"};
  for (size_t n = 1; n <= 3; ++n) {
    const std::string dims = std::to_string(n) + "d";
    for (const char* overload : {".default", ".vec"}) {
      window("upsample_nearest" + dims + overload, [n](Call& c) { lowerNearest(c, n, false); });
      window("_upsample_nearest_exact" + dims + overload, [n](Call& c) { lowerNearest(c, n, true); });
      window(std::string(linear[n - 1]) + overload,
             [n](Call& c) { lowerInterpolation(c, n, linearTaps, 12 * static_cast<double>(n)); });
    }
  }
  for (const char* name : {"upsample_bicubic2d.default", "upsample_bicubic2d.vec"})
    window(name, [](Call& c) { lowerInterpolation(c, 2, cubicTaps, 90); });
  for (const char* overload : {".default", ".vec"}) {
    window(std::string("_upsample_bilinear2d_aa") + overload, [](Call& c) { lowerAntialiased(c, {1, triangle}); });
    window(std::string("_upsample_bicubic2d_aa") + overload, [](Call& c) { lowerAntialiased(c, {2, cubic}); });
  }
  out.push_back({"aten.affine_grid_generator.default", Kind::Pointwise, lowerAffineGrid});
  window("grid_sampler.default", lowerGridSampler);
  window("grid_sampler_2d.default", lowerGridSampler);
  return out;
}

}  // namespace graft::lower
