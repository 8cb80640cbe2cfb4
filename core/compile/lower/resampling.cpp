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
  c.result(l.view(x, c.resultSizes(), [&l, axes, isExact](Index i) {
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
  }));
}

/// Between two neighbours along each dimension, weighted by nearness; in f32 at least.
void lowerLinear(Call& c, size_t n) {
  const TensorId x = resampled(c, n);
  const DType d = c.resultType();
  if (!isFloatingPoint(d)) c.refuse("self", "has no floating numbers");
  const bool alignsCorners = c.flag("align_corners");
  struct Axis {
    int64_t in, out;
    double scale;
  };
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
    axes.push_back({in, out, scale});
  }
  c.traits.repeatsReads = true;
  c.l.repeat(x);
  Lowering& l = c.l;
  const DType compute = computeType(d);
  c.result(l.define(c.name(), d, c.resultSizes(), 12 * static_cast<double>(n), std::span(&x, 1),
                    [&l, x, axes, alignsCorners, compute](const Index& i) {
                      loops::Simplifier& s = l.simplifier;
                      struct Sides {
                        ExprId low, high;
                        Scalar weight;  // of high
                      };
                      std::vector<Sides> sides;
                      for (size_t k = 0; k < axes.size(); ++k) {
                        const Axis& a = axes[k];
                        const Scalar place = l.scalar(i[k + 2]).to(compute);
                        if (a.in == a.out && (alignsCorners || a.scale == 1)) {
                          sides.push_back({i[k + 2], i[k + 2], place.number(0)});
                          continue;
                        }
                        const Scalar at = alignsCorners ? place * a.scale : maximum((place + 0.5) * a.scale - 0.5, 0.0);
                        const ExprId last = l.integer(a.in - 1);
                        const ExprId low = s.maximum(s.minimum(at.to(DType::Int64).id, last), l.integer(0));
                        const ExprId high = s.minimum(s.add(low, l.integer(1)), last);
                        const Scalar off = at - l.scalar(low).to(compute);
                        sides.push_back({low, high, minimum(maximum(off, 0.0), 1.0)});
                      }
                      // The corners of the cell, joined along one dimension after the other.
                      const auto joined = [&](auto&& self, Index at, size_t k) -> Scalar {
                        if (k == sides.size()) return l.scalarAt(x, at);
                        at[k + 2] = sides[k].low;
                        const Scalar low = self(self, at, k + 1);
                        if (sides[k].low == sides[k].high) return low;
                        at[k + 2] = sides[k].high;
                        const Scalar high = self(self, at, k + 1);
                        return low * (1.0 - sides[k].weight) + high * sides[k].weight;
                      };
                      return joined(joined, i, 0).id;
                    }));
}

/// Elements at places that the last dimension of `grid` says, between -1 and 1.
void lowerGridSampler(Call& c) {
  const TensorId x = c.tensor("input"), grid = c.tensor("grid");
  c.requireType(x);
  const DType d = c.resultType();
  const int64_t mode = c.integer("interpolation_mode"), padding = c.integer("padding_mode");
  if (c.rank(x) != 4 || c.rank(grid) != 4) c.refuse("input", "has other than four dimensions");
  if (!isFloatingPoint(d) || c.type(grid) != d) c.refuse("grid", "has another dtype");
  if (mode != 0 && mode != 1) c.refuse("interpolation_mode", "is neither bilinear nor nearest");
  if (padding != 0 && padding != 1) c.refuse("padding_mode", "is neither zeros nor border");
  const bool alignsCorners = c.flag("align_corners"), isNearest = mode == 1, isBorder = padding == 1;
  std::array<int64_t, 2> size{};  // width, height
  for (size_t k = 0; k < 2; ++k) {
    const auto n = c.l.findNumber(c.sizes(x)[3 - k]);
    if (!n || *n < 1) c.refuse("input", "has a size that varies or is 0");
    size[k] = *n;
  }
  c.traits.repeatsReads = true;
  c.l.repeat(x);
  Lowering& l = c.l;
  const std::array operands{x, grid};
  c.result(l.define(c.name(), d, c.resultOfRank(4), 40, operands,
                    [&l, x, grid, size, alignsCorners, isNearest, isBorder](const Index& i) {
                      loops::Simplifier& s = l.simplifier;
                      const auto coordinate = [&](size_t k) {
                        const Scalar g = l.scalarAt(grid, {i[0], i[2], i[3], l.integer(static_cast<int64_t>(k))});
                        const auto n = static_cast<double>(size[k]);
                        const Scalar at = alignsCorners ? (g + 1.0) / 2.0 * (n - 1) : ((g + 1.0) * n - 1.0) / 2.0;
                        // Further outside there is nothing either, and what is there fits into an integer.
                        return isBorder ? minimum(maximum(at, 0.0), n - 1) : minimum(maximum(at, -2.0), n + 1);
                      };
                      const auto element = [&](Scalar column, Scalar row) {
                        ExprId isInside = l.pool().boolean(true);
                        Index at{i[0], i[1], ExprId(), ExprId()};
                        for (size_t k = 0; k < 2; ++k) {
                          const ExprId place = (k == 0 ? column : row).to(DType::Int64).id,
                                       last = l.integer(size[k] - 1);
                          isInside = s.logicalAnd(isInside, s.compare(Op::LessEqual, l.integer(0), place));
                          isInside = s.logicalAnd(isInside, s.compare(Op::LessEqual, place, last));
                          at[3 - k] = s.maximum(s.minimum(place, last), l.integer(0));
                        }
                        return l.scalar(s.select(isInside, l.at(x, at), l.constant(l[x].dtype, 0)));
                      };
                      const Scalar column = coordinate(0), row = coordinate(1);
                      if (isNearest) return element(unary(Op::Round, column), unary(Op::Round, row)).id;
                      const Scalar left = floor(column), top = floor(row), right = left + 1.0, bottom = top + 1.0;
                      return (element(left, top) * ((right - column) * (bottom - row)) +
                              element(right, top) * ((column - left) * (bottom - row)) +
                              element(left, bottom) * ((right - column) * (row - top)) +
                              element(right, bottom) * ((column - left) * (row - top)))
                          .id;
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
      window(std::string(linear[n - 1]) + overload, [n](Call& c) { lowerLinear(c, n); });
    }
  }
  window("grid_sampler.default", lowerGridSampler);
  window("grid_sampler_2d.default", lowerGridSampler);
  return out;
}

}  // namespace graft::lower
