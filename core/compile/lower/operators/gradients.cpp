// What autograd calls in a backward pass, as ATen defines it: gradients of activations, softmax, norms and losses.

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/compile/lower/call.h"
#include "core/compile/lower/operators/statistics.h"

namespace graft::lower {
namespace {

using Values = std::span<const Scalar>;

DType gradientType(Call& c) {
  const DType d = c.resultType();
  if (!isFloatingPoint(d)) c.refuse("the result is no floating number");
  return d;
}

// Element by element ----------------------------------------------------------------------------------------------

/// `make` reads the arguments and gives the formula of one element: of the gradient of the result, and of what the
/// operator took or gave, which `of` names.
Entry gradient(std::string name, std::string of, double cost,
               std::function<std::function<Scalar(Scalar, Scalar)>(Call&)> make) {
  return {
      "aten." + std::move(name), Kind::Pointwise, [of = std::move(of), cost, make = std::move(make)](Call& c) {
        const DType d = gradientType(c);
        c.result(c.pointwise(
            {c.tensor("grad_output"), c.tensor(of)}, d, d, cost, [f = make(c)](Values v) { return f(v[0], v[1]); }, 1));
      }};
}
Entry gradient(std::string name, std::string of, double cost, Scalar (*f)(Scalar, Scalar)) {
  return gradient(std::move(name), std::move(of), cost, [f](Call&) { return f; });
}

std::function<Scalar(Scalar, Scalar)> geluGradient(Call& c) {
  if (c.text("approximate") == "none")
    return [](Scalar g, Scalar x) {
      const Scalar cdf = 0.5 * (1.0 + erf(x * (1 / std::numbers::sqrt2)));
      const Scalar pdf = exp(x * x * -0.5) * (0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2);
      return g * (cdf + x * pdf);
    };
  if (c.text("approximate") != "tanh") c.refuse("approximate", "is neither none nor tanh");
  return [](Scalar g, Scalar x) {
    const double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    const Scalar t = tanh((x + x * x * x * 0.044715) * beta);
    const Scalar slope = (1.0 - t * t) * ((1.0 + x * x * (3 * 0.044715)) * beta);
    return g * (0.5 * (1.0 + t) + 0.5 * x * slope);
  };
}

std::function<Scalar(Scalar, Scalar)> eluGradient(Call& c) {
  const double alpha = c.number("alpha"), scale = c.number("scale"), input = c.number("input_scale");
  if (c.flag("is_result"))
    return [=](Scalar g, Scalar y) { return where(y <= 0.0, g * input * (y + alpha * scale), g * scale); };
  return [=](Scalar g, Scalar x) { return where(x <= 0.0, g * (input * alpha * scale) * exp(x * input), g * scale); };
}

void lowerDropoutGradient(Call& c) {
  const DType d = gradientType(c);
  const TensorId mask = c.widened(c.tensor("mask"), d);
  c.result(c.pointwise({c.tensor("grad_output"), mask}, d, d, 2,
                       [scale = c.number("scale")](Values v) { return v[0] * (v[1] * scale); }));
}

// Rows ------------------------------------------------------------------------------------------------------------

void lowerSoftmaxGradient(Call& c, bool isLog) {
  const DType d = gradientType(c);
  const TensorId g = c.widened(c.tensor("grad_output"), d), y = c.widened(c.tensor("output"), d);
  const std::vector<size_t> dims = c.rank(y) == 0 ? std::vector<size_t>() : std::vector{c.dim("dim", c.rank(y))};
  for (const size_t k : dims) c.traits.reducedDims.push_back(static_cast<int64_t>(k));
  Lowering& l = c.l;
  l.share(g);
  const TensorId summed = isLog ? g : c.pointwise({g, y}, d, d, 1, [](Values v) { return v[0] * v[1]; });
  const TensorId sum = l.reduce(ReduceKind::Sum, summed, dims, true);
  l.keep(sum);
  if (isLog)
    c.result(c.pointwise({g, y, sum}, d, d, 14, [](Values v) { return v[0] - exp(v[1]) * v[2]; }));
  else
    c.result(c.pointwise({g, y, sum}, d, d, 2, [](Values v) { return (v[0] - v[2]) * v[1]; }));
}

/// Which of the results somebody reads.
bool isWanted(Call& c, size_t output) {
  return output < c.node.outputs.size() && !c.l.graph.isUnused(c.node.outputs[output]);
}

/// The gradients of a norm: of x over `dims`, in which the statistics were taken, those of weight and bias over the
/// others. `mean` and `rstd` broadcast to x, and so does `weight`.
void lowerNormGradient(Call& c, TensorId g, TensorId x, TensorId mean, TensorId rstd, std::optional<TensorId> weight,
                       std::span<const size_t> dims, std::span<const size_t> others, const Sizes& parameter, DType d) {
  Lowering& l = c.l;
  const Sizes sizes = l[x].sizes;
  l.share(g);
  l.share(x);
  for (const TensorId t : {mean, rstd}) l.keep(t);
  const std::array centring{x, mean, rstd};
  const TensorId y = c.pointwise(centring, sizes, d, d, 2, [](Values v) { return (v[0] - v[1]) * v[2]; });
  const auto times = [&](TensorId a, TensorId b) {
    return c.pointwise(std::array{a, b}, sizes, d, d, 1, [](Values v) { return v[0] * v[1]; });
  };
  // Where one weight stands for all that a sum combines, the gradients of x, weight and bias need the same two sums.
  if (std::ranges::equal(dims, others)) {
    const TensorId sum = l.reduce(ReduceKind::Sum, g, dims, true),
                   dot = l.reduce(ReduceKind::Sum, times(g, y), dims, true);
    for (const TensorId t : {sum, dot}) l.keep(t);
    if (isWanted(c, 0)) {
      const auto divided = [&l, n = countOf(l, x, dims)](Scalar s) { return s / countAs(l, n, s); };
      const auto parts = l.findEvenParts(x, dims);
      const bool isInParts = parts && parts->isColumns;
      const auto meanOfSum = [&](TensorId s) {
        const TensorId mean = mapped(l, s, 1, d, divided, "mean");
        return isInParts ? l.stored(mean) : mean;
      };
      std::vector<TensorId> operands{g, y, meanOfSum(sum), meanOfSum(dot), rstd};
      if (weight) operands.push_back(*weight);
      c.result(c.pointwise(operands, sizes, d, d, 6,
                           [](Values v) {
                             const Scalar apart = v[0] - v[2] - v[1] * v[3];
                             return apart * (v.size() > 5 ? v[4] * v[5] : v[4]);
                           }),
               0);
    }
    if (isWanted(c, 1)) c.result(c.widened(c.reshaped(dot, parameter), c.resultType(1)), 1);
    if (isWanted(c, 2)) c.result(c.widened(c.reshaped(sum, parameter), c.resultType(2)), 2);
    return;
  }
  if (isWanted(c, 0)) {
    const TensorId scaled = weight ? times(g, *weight) : g;
    const TensorId product = times(scaled, y);
    const TensorId m1 = meanOf(l, scaled, dims), m2 = meanOf(l, product, dims);
    for (const TensorId t : {m1, m2}) l.keep(t);
    c.result(c.pointwise(std::array{scaled, y, m1, m2, rstd}, sizes, d, d, 4,
                         [](Values v) { return (v[0] - v[2] - v[1] * v[3]) * v[4]; }),
             0);
  }
  if (isWanted(c, 1)) {
    const TensorId product = times(g, y);
    c.result(c.widened(c.reshaped(l.reduce(ReduceKind::Sum, product, others, true), parameter), c.resultType(1)), 1);
  }
  if (isWanted(c, 2))
    c.result(c.widened(c.reshaped(l.reduce(ReduceKind::Sum, g, others, true), parameter), c.resultType(2)), 2);
}

void lowerLayerNormGradient(Call& c) {
  const DType d = c.type(c.tensor("input"));
  if (!isFloatingPoint(d)) c.refuse("input", "has no floating numbers");
  const TensorId g = c.widened(c.tensor("grad_out"), d), x = c.widened(c.tensor("input"), d);
  const TensorId mean = c.widened(c.tensor("mean"), d), rstd = c.widened(c.tensor("rstd"), d);
  const Sizes sizes = c.sizes(x);
  const size_t n = c.sizeList("normalized_shape").size(), rank = c.rank(x);
  if (n == 0 || n > rank || c.rank(mean) != rank) c.refuse("normalized_shape", "does not fit the tensor's dimensions");
  std::vector<size_t> dims, others;
  for (size_t k = 0; k < rank; ++k) (k < rank - n ? others : dims).push_back(k);
  for (const size_t k : dims) c.traits.reducedDims.push_back(static_cast<int64_t>(k));
  std::optional<TensorId> weight;
  if (c.has("weight")) weight = c.widened(c.tensor("weight"), d);
  lowerNormGradient(c, g, x, mean, rstd, weight, dims, others,
                    Sizes(sizes.begin() + static_cast<std::ptrdiff_t>(rank - n), sizes.end()), d);
}

void lowerBatchNormGradient(Call& c) {
  const DType d = c.type(c.tensor("input"));
  if (!isFloatingPoint(d)) c.refuse("input", "has no floating numbers");
  if (!c.flag("train")) c.refuse("train", "is false");
  const TensorId g = c.widened(c.tensor("grad_out"), d), x = c.widened(c.tensor("input"), d);
  const size_t rank = c.rank(x);
  if (rank < 2) c.refuse("input", "has no channels");
  const auto byChannel = [&](std::string_view parameter) {
    const TensorId t = c.widened(c.tensor(parameter), d);
    if (c.rank(t) != 1) c.refuse(parameter, "has other than one dimension");
    Sizes sizes(rank, c.l.integer(1));
    sizes[1] = c.sizes(x)[1];
    return c.reshaped(t, sizes);
  };
  std::vector<size_t> dims;
  for (size_t k = 0; k < rank; ++k)
    if (k != 1) dims.push_back(k);
  for (const size_t k : dims) c.traits.reducedDims.push_back(static_cast<int64_t>(k));
  if (!c.has("save_mean") || !c.has("save_invstd")) c.refuse("save_mean", "is None");
  std::optional<TensorId> weight;
  if (c.has("weight")) weight = byChannel("weight");
  lowerNormGradient(c, g, x, byChannel("save_mean"), byChannel("save_invstd"), weight, dims, dims, Sizes{c.sizes(x)[1]},
                    d);
}

// Losses ----------------------------------------------------------------------------------------------------------

enum class LossReduction : int64_t { None, Mean, Sum };

/// Of the log probability of the class that each row's target names, and of no other.
void lowerNllGradient(Call& c) {
  const DType d = gradientType(c);
  const TensorId g = c.widened(c.tensor("grad_output"), d), target = c.tensor("target");
  const Sizes sizes = c.sizes(c.tensor("self"));
  if (sizes.size() != 2) c.refuse("self", "has other than two dimensions");
  if (c.has("weight")) c.refuse("weight", "is given");
  const auto reduction = static_cast<LossReduction>(c.integer("reduction"));
  const TensorId total = c.widened(c.tensor("total_weight"), d);
  const int64_t ignored = c.integer("ignore_index");
  Lowering& l = c.l;
  const DType wide = l[target].dtype;
  if (isFloatingPoint(wide)) c.refuse("target", "has floating numbers");
  const bool perRow = reduction == LossReduction::None;
  // What it reads is one for each row at most: each reader asks again whether an element is its row's target.
  c.result(l.define(c.name(), d, sizes, 2, {}, [&l, g, target, total, ignored, reduction, perRow](const Index& i) {
    const Scalar t = l.convert(l.scalarAt(target, {i[0]}), l[target].dtype, DType::Int64);
    Scalar one = -(perRow ? l.scalarAt(g, {i[0]}) : l.scalarAt(g, {}));
    if (reduction == LossReduction::Mean) one = one / l.scalarAt(total, {});
    const Scalar ignore = l.scalar(l.integer(ignored));
    return where((t == l.scalar(i[1])) & (t != ignore), one, one.number(0)).id;
  }));
}

void lowerMseGradient(Call& c) {
  const DType d = gradientType(c);
  const TensorId g = c.tensor("grad_output"), x = c.tensor("self"), y = c.tensor("target");
  const bool isMean = static_cast<LossReduction>(c.integer("reduction")) == LossReduction::Mean;
  Lowering& l = c.l;
  ExprId count = l.integer(1);
  if (isMean) count = l.product(c.sizes(x));
  c.result(c.pointwise({g, x, y}, d, d, 4, [&l, count, isMean](Values v) {
    const Scalar twice = (v[1] - v[2]) * 2.0 * v[0];
    return isMean ? twice / countAs(l, count, twice) : twice;
  }));
}

}  // namespace

std::vector<Entry> gradientOperators() {
  const auto entry = [](std::string name, Kind kind, std::function<void(Call&)> build) {
    return Entry{"aten." + std::move(name), kind, std::move(build)};
  };
  return {
      gradient("gelu_backward.default", "self", 36, geluGradient),
      gradient("threshold_backward.default", "self", 1,
               [](Call& c) -> std::function<Scalar(Scalar, Scalar)> {
                 return [t = c.number("threshold")](Scalar g, Scalar x) { return where(x <= t, g.number(0), g); };
               }),
      gradient("tanh_backward.default", "output", 3, [](Scalar g, Scalar y) { return g * (1.0 - y * y); }),
      gradient("sigmoid_backward.default", "output", 3, [](Scalar g, Scalar y) { return g * (1.0 - y) * y; }),
      gradient("silu_backward.default", "self", 18,
               [](Scalar g, Scalar x) {
                 const Scalar s = sigmoid(x);
                 return g * s * (1.0 + x * (1.0 - s));
               }),
      gradient("hardswish_backward.default", "self", 5,
               [](Scalar g, Scalar x) { return where(x <= -3.0, g * 0.0, where(x < 3.0, g * (x / 3.0 + 0.5), g)); }),
      gradient("hardsigmoid_backward.default", "self", 3,
               [](Scalar g, Scalar x) { return where((x > -3.0) & (x < 3.0), g * (1.0 / 6.0), g.number(0)); }),
      gradient("leaky_relu_backward.default", "self", 2,
               [](Call& c) -> std::function<Scalar(Scalar, Scalar)> {
                 return [s = c.number("negative_slope")](Scalar g, Scalar x) { return where(x > 0.0, g, g * s); };
               }),
      gradient("hardtanh_backward.default", "self", 3,
               [](Call& c) -> std::function<Scalar(Scalar, Scalar)> {
                 return [a = c.number("min_val"), b = c.number("max_val")](Scalar g, Scalar x) {
                   return where((x <= a) | (x >= b), g.number(0), g);
                 };
               }),
      gradient("elu_backward.default", "self_or_result", 16, eluGradient),
      entry("native_dropout_backward.default", Kind::Pointwise, lowerDropoutGradient),
      entry("mse_loss_backward.default", Kind::Pointwise, lowerMseGradient),
      entry("nll_loss_backward.default", Kind::Pointwise, lowerNllGradient),
      entry("_softmax_backward_data.default", Kind::Reduction, [](Call& c) { lowerSoftmaxGradient(c, false); }),
      entry("_log_softmax_backward_data.default", Kind::Reduction, [](Call& c) { lowerSoftmaxGradient(c, true); }),
      entry("native_layer_norm_backward.default", Kind::Reduction, lowerLayerNormGradient),
      entry("native_batch_norm_backward.default", Kind::Reduction, lowerBatchNormGradient),
  };
}

}  // namespace graft::lower
