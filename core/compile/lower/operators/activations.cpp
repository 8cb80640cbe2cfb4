// What networks have between layers, element by element, as ATen defines it.

#include <cmath>
#include <numbers>

#include "core/compile/lower/call.h"

namespace graft::lower {
namespace {

using Values = std::span<const Scalar>;

/// `make` reads the arguments and gives the formula of one element.
Entry activation(std::string name, double cost, std::function<std::function<Scalar(Scalar)>(Call&)> make,
                 std::string self = "self") {
  return {"aten." + std::move(name), Kind::Pointwise, [cost, make = std::move(make), self = std::move(self)](Call& c) {
            const DType d = c.resultType();
            c.result(c.pointwise({c.tensor(self)}, d, d, cost, [f = make(c)](Values v) { return f(v[0]); }));
          }};
}
Entry activation(std::string name, double cost, Scalar (*f)(Scalar)) {
  return activation(std::move(name), cost, [f](Call&) { return f; });
}

Scalar clamped(Scalar x, double least, double greatest) { return minimum(maximum(x, least), greatest); }
Scalar elu(Scalar x, double alpha, double scale, double inputScale) {
  return where(x < 0.0, expm1(x * inputScale) * (alpha * scale), x * scale);
}

void requireFloating(Call& c) {
  if (!isFloatingPoint(c.resultType())) c.refuse("the result is no floating number");
}

void lowerPrelu(Call& c) {
  const TensorId x = c.tensor("self"), weight = c.tensor("weight");
  requireFloating(c);
  const DType d = c.resultType();
  TensorId spread = weight;
  if (c.rank(weight) == 1 && !c.l.isOne(c.sizes(weight)[0])) {
    if (c.rank(x) < 2) c.refuse("weight", "has several elements, and the tensor no channels");
    Sizes sizes(c.rank(x) - 1, c.l.integer(1));
    sizes[0] = c.sizes(weight)[0];
    spread = c.reshaped(weight, sizes);
  }
  c.result(c.pointwise({x, spread}, d, d, 2, [](Values v) { return where(v[0] > 0.0, v[0], v[1] * v[0]); }));
}

void lowerGlu(Call& c) {
  const TensorId x = c.tensor("self");
  requireFloating(c);
  const DType d = c.resultType();
  const size_t dim = c.dimOf(x, "dim");
  const Sizes sizes = c.resultOfRank(c.rank(x));
  Lowering& l = c.l;
  const TensorId gate = l.view(x, sizes, [&l, dim, sizes](Index i) {
    i[dim] = l.simplifier.add(i[dim], sizes[dim]);
    return i;
  });
  const TensorId value = l.view(x, sizes, [](const Index& i) { return i; });
  c.result(c.pointwise({value, gate}, d, d, 14, [](Values v) { return v[0] * sigmoid(v[1]); }));
}

void lowerDropout(Call& c, std::string_view self) {
  if (c.flag("train") && c.number("p") != 0) c.refuse("train", "is true");
  const TensorId x = c.tensor(self);
  const DType d = c.resultType();
  c.result(c.pointwise({x}, d, d, 0, [](Values v) { return v[0]; }));
}

}  // namespace

std::vector<Entry> activationOperators() {
  const auto entry = [](std::string name, std::function<void(Call&)> build) {
    return Entry{"aten." + std::move(name), Kind::Pointwise, std::move(build)};
  };
  return {
      activation("relu.default", 1, [](Scalar x) { return maximum(x, 0.0); }),
      activation("relu6.default", 2, [](Scalar x) { return clamped(x, 0, 6); }),
      activation("hardtanh.default", 2,
                 [](Call& c) {
                   return [a = c.number("min_val"), b = c.number("max_val")](Scalar x) { return clamped(x, a, b); };
                 }),
      activation(
          "leaky_relu.default", 2,
          [](Call& c) { return [s = c.number("negative_slope")](Scalar x) { return where(x > 0.0, x, x * s); }; }),
      activation("elu.default", 14,
                 [](Call& c) {
                   return [a = c.number("alpha"), s = c.number("scale"), i = c.number("input_scale")](Scalar x) {
                     return elu(x, a, s, i);
                   };
                 }),
      activation("selu.default", 14, [](Scalar x) { return elu(x, 1.6732632423543772848, 1.0507009873554804934, 1); }),
      activation("celu.default", 14,
                 [](Call& c) { return [a = c.number("alpha")](Scalar x) { return elu(x, a, 1, 1 / a); }; }),
      activation("gelu.default", 18,
                 [](Call& c) -> std::function<Scalar(Scalar)> {
                   requireFloating(c);
                   if (c.text("approximate") == "none")
                     return [](Scalar x) { return x * 0.5 * (1.0 + erf(x * (1 / std::numbers::sqrt2))); };
                   if (c.text("approximate") != "tanh") c.refuse("approximate", "is neither none nor tanh");
                   return [](Scalar x) {
                     const double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
                     return 0.5 * x * (1.0 + tanh((x + x * x * x * 0.044715) * beta));
                   };
                 }),
      activation("silu.default", 14, [](Scalar x) { return x * sigmoid(x); }),
      activation("mish.default", 38, [](Scalar x) { return x * tanh(log1p(exp(x))); }),
      activation("hardswish.default", 5, [](Scalar x) { return x * clamped(x + 3.0, 0, 6) / 6.0; }),
      activation("hardsigmoid.default", 4, [](Scalar x) { return clamped(x + 3.0, 0, 6) / 6.0; }),
      activation("softplus.default", 28,
                 [](Call& c) {
                   return [beta = c.number("beta"), threshold = c.number("threshold")](Scalar x) {
                     const Scalar y = x * beta;
                     return where(y > threshold, x, log1p(exp(y)) / beta);
                   };
                 }),
      activation("softshrink.default", 4,
                 [](Call& c) {
                   return
                       [a = c.number("lambd")](Scalar x) { return where(x > a, x - a, where(x < -a, x + a, x * 0.0)); };
                 }),
      activation("hardshrink.default", 3,
                 [](Call& c) {
                   return [a = c.number("lambd")](Scalar x) { return where((x >= -a) & (x <= a), x.number(0), x); };
                 }),
      activation("threshold.default", 1,
                 [](Call& c) {
                   return [t = c.number("threshold"), to = c.number("value")](Scalar x) {
                     return where(x <= t, x.number(to), x);
                   };
                 }),
      activation("log_sigmoid.default", 26, logSigmoid),
      entry("prelu.default", lowerPrelu),
      entry("glu.default", lowerGlu),
      entry("dropout.default", [](Call& c) { lowerDropout(c, "input"); }),
      entry("alpha_dropout.default", [](Call& c) { lowerDropout(c, "input"); }),
      entry("feature_dropout.default", [](Call& c) { lowerDropout(c, "input"); }),
  };
}

}  // namespace graft::lower
