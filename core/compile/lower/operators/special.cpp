// Special functions, element by element: those around the gamma function, the inverse of the error function and the
// normal distribution's, and modified Bessel functions. Formulas by number are those of Abramowitz and Stegun, Handbook
// of Mathematical Functions, 1964.
//
// Tables are Chebyshev series of the functions that their comments name, interpolated with 50 digits by mpmath: as
// polynomials they are off by less than a rounding of f64, and cut off for f32.

#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/compile/lower/call.h"

namespace graft::lower {
namespace {

using Values = std::span<const Scalar>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double pi = std::numbers::pi;

bool isSingle(Scalar x) { return x.dtype() == DType::Float32; }

/// The coefficients from the highest power down.
Scalar polynomial(Scalar x, std::span<const double> coefficients) {
  Scalar sum = x.number(coefficients.front());
  for (const double c : coefficients.subspan(1)) sum = sum * x + c;
  return sum;
}

/// A Chebyshev series on an interval.
struct Series {
  std::span<const double> terms;
  double least, greatest;
};

/// As a polynomial.
Scalar sumOf(const Series& series, Scalar x) {
  size_t count = series.terms.size();
  const double least = isSingle(x) ? 0x1p-27 : 0;
  while (std::abs(series.terms[count - 1]) < least * std::abs(series.terms[0])) --count;
  // By powers: the series fall so fast that nothing large cancels. `before` and `now` are T(n - 1) and T(n).
  std::vector<double> powers(count), before(count), now(count);
  before[1] = now[0] = 1;
  for (size_t n = 0; n < count; ++n) {
    std::vector<double> next(count);
    for (size_t k = 0; k < count; ++k) {
      powers[k] += series.terms[n] * now[k];
      next[k] = (k > 0 ? 2 * now[k - 1] : 0) - before[k];
    }
    before = std::exchange(now, std::move(next));
  }
  const double middle = (series.least + series.greatest) / 2, half = (series.greatest - series.least) / 2;
  return polynomial((x - middle) * (1 / half), std::vector<double>(powers.rbegin(), powers.rend()));
}

/// The root of digamma, and what its double is less.
constexpr double kDigammaRoot = 1.4616321449683622, kDigammaRootRest = 9.549995429965698e-17;

/// digamma(x) / (x - kDigammaRoot), x from 1 to 2
constexpr double kDigamma[] = {
    0.983570260441567,     -0.2270640863346444,     0.03336889902393011,    -0.005320077271596548,
    0.0008788656937820505, -0.00014773492650606044, 2.5060543468359146e-05, -4.2721034029993324e-06,
    7.302769272465923e-07, -1.2502886813559594e-07, 2.1425009322359472e-08, -3.673295918565179e-09,
    6.299717236108931e-10, -1.080593028883266e-10,  1.853735192053638e-11,  -3.18023536582553e-12,
    5.456147570322795e-13, -9.360993131036438e-14,  1.606064636295075e-14,  -2.7555431377438815e-15,
    4.727736178601912e-16, -8.11148420346509e-17,   1.391707769474154e-17};
/// lgamma(x) / ((x - 1) (x - 2)), x from 1 to 3, for f32
constexpr double kLogGamma[] = {0.4414890254550142,     -0.11119580321752522,   0.01951044826068884,
                                -0.003922461463025264,  0.0008478989895953857,  -0.00019153855341365592,
                                4.454470184975606e-05,  -1.05728743735943e-05,  2.5474336873408415e-06,
                                -6.208535880776316e-07, 1.5268677399071547e-07, -3.7826376602913262e-08,
                                9.428100823624284e-09};
/// erfinv(y) / y of w = -log(1 - y^2) from 0 to 6.25
constexpr double kErfinvCentre[] = {
    1.6304220989459326,     0.7315674456742257,      -0.021235032142504585,   -0.0065808875424494635,
    0.0019488711426908524,  -0.00014158343386374536, -4.9292864636180004e-05, 1.4752887929042498e-05,
    -6.111918603258194e-07, -5.106997335480761e-07,  1.159027723297735e-07,   1.4907998843194937e-09,
    -5.244776785530681e-09, 8.51790549109762e-10,    7.917020592973908e-11,   -5.0994281737154326e-11,
    5.436227530231317e-12,  1.292282189751795e-12,   -4.656064719044143e-13,  2.4256976317675218e-14,
    1.6403697972051414e-14, -3.94956069090147e-15,   -3.9036001761416307e-17, 1.83129083527959e-16,
    -3.03580260263594e-17};
/// The same of sqrt(w) from 2.5 to 6: as far as there are numbers y next to 1
constexpr double kErfinvTail[] = {
    4.0944958688416415,      1.7637599366597598,      0.0027681543397052614,  -0.0015265474928459046,
    0.0005701487836522605,   -0.00021525553954159047, 8.449286974660365e-05,  -3.184434289100198e-05,
    1.0422208367697155e-05,  -2.5733839510093133e-06, 2.743365469699955e-07,  1.3937452965851068e-07,
    -1.0192958715912104e-07, 3.5677606777180486e-08,  -6.498243078120082e-09, -5.668547826619065e-10,
    8.755379961794073e-10,   -3.242719869926647e-10,  5.778714529285623e-11,  4.075295557516657e-12,
    -6.318690861076238e-12,  2.139835053432383e-12,   -3.504918242926639e-13, -1.806181521309577e-14,
    3.024463705726392e-14,   -1.0340053452956035e-14, 2.1576070278527807e-15, -2.3279106133977093e-16};
/// The same of sqrt(w) from 6 to 28: as far as there are probabilities next to 0
constexpr double kErfinvFarTail[] = {
    16.911181506436595,     11.039029712939806,      -0.009428530491238487,  0.002252846797519775,
    -0.00049359700150952,   8.349521416780999e-05,   -9.625213831682716e-07, -8.877921588602015e-06,
    6.171753588287706e-06,  -3.192796093823323e-06,  1.468498969569679e-06,  -6.339283589892212e-07,
    2.629834027770469e-07,  -1.0614512788990312e-07, 4.198459788944523e-08,  -1.634842155253541e-08,
    6.28602089492495e-09,   -2.3916928086799425e-09, 9.018204723777451e-10,  -3.3736504915736395e-10,
    1.2531488700787033e-10, -4.6248317080396385e-11, 1.696606776008621e-11,  -6.188823874605857e-12,
    2.2453557610284493e-12, -8.103763777096501e-13,  2.909768832894046e-13,  -1.0394906172470588e-13,
    3.6946313207910695e-14, -1.3064404954542039e-14, 4.595615211655665e-15,  -1.6080619270927618e-15,
    5.597200197006674e-16};
/// (1 + 2 x) erfcx(x) of x / (x + 3.75) from 0 to 1
constexpr double kErfcx[] = {
    1.1775789345674017,     -0.004590054580646478,  -0.08424913336651792,    0.05920993999819189,
    -0.026658668435305753,  0.009074997670705265,   -0.002413163540417608,   0.0004907758365258086,
    -6.916973302501207e-05, 4.13902798607301e-06,   7.74038306619849e-07,    -2.1886401049234397e-07,
    1.076499946567091e-08,  4.521959811218287e-09,  -7.754400208831351e-10,  -6.318088340886684e-11,
    2.86879501093067e-11,   1.9455868545777347e-13, -9.65469674843344e-13,   3.25254814814874e-14,
    3.3478119482868056e-14, -1.864562880419313e-15, -1.2507950530688648e-15, 7.418235256624044e-17,
    5.068148904796111e-17};
/// sqrt(x) exp(-x) I0(x) of 1 / x from 0 to 1/8
constexpr double kBessel0[] = {
    0.4022452055070544,      0.0033691164782556943,   6.889758346916825e-05,   2.8913705208347567e-06,
    2.0489185894690638e-07,  2.266668990498178e-08,   3.3962320257083865e-09,  4.94060238822497e-10,
    1.1889147107846439e-11,  -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12,
    7.180124451383666e-13,   3.8527783827421426e-13,  1.54008621752141e-14,    -4.150569347287222e-14,
    -9.554846698828307e-15,  3.8116806693526224e-15,  1.7725601330565263e-15,  -3.425485619677219e-16,
    -2.8276239805165836e-16, 3.461222867697461e-17,   4.46562142029676e-17,    -4.830504485944182e-18,
    -7.233180487874754e-18};
/// sqrt(x) exp(-x) I1(x) of the same
constexpr double kBessel1[] = {
    0.38928811750914005,     -0.009761097491361469,   -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07,  -2.6314688468895196e-08, -3.835380385964237e-09,  -5.589743462196584e-10,
    -1.8974958123505413e-11, 3.2526035830154884e-11,  1.4125807436613782e-11,  2.0356285441470896e-12,
    -7.198551776245908e-13,  -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14,  -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16,
    2.96262899764595e-16,    -3.209525921993424e-17,  -4.6503053684893586e-17, 4.414348323071708e-18,
    7.517296310842105e-18};

// The gamma function ------------------------------------------------------------------------------------------------

/// The argument of an asymptotic series, which is far enough from 0, and what the steps there add up to.
struct Shifted {
  Scalar x, sum;
};
Shifted shifted(Scalar x, Scalar (*step)(Scalar)) {
  const int steps = isSingle(x) ? 5 : 10;
  Scalar sum = step(x);
  for (int k = 1; k < steps; ++k) sum = sum + step(x + k);
  const Scalar isNear = x < steps;
  return {where(isNear, x + steps, x), where(isNear, sum, x.number(0))};
}

/// 6.3.5 and 6.3.18 of x > 0; around its root the series of that interval, which keeps the root's digits.
Scalar digammaOfPositive(Scalar x) {
  const auto [far, sum] = shifted(x, [](Scalar v) { return 1.0 / v; });
  const Scalar t = 1.0 / (far * far);
  constexpr double bernoulli[] = {1.0 / 12, -691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12};
  const Scalar tail = t * polynomial(t, std::span(bernoulli).subspan(isSingle(x) ? 3 : 0));
  const double root = isSingle(x) ? static_cast<float>(kDigammaRoot) : kDigammaRoot;
  const Scalar apart = (x - root) - ((kDigammaRoot - root) + kDigammaRootRest);
  return where((x >= 1.0) & (x <= 2.0), apart * sumOf({kDigamma, 1, 2}, x), log(far) - 0.5 / far - tail - sum);
}

/// Below 0 by 6.3.7. Whole numbers have no value there; 0 has the infinity of its sign.
Scalar digamma(Scalar x) {
  const Scalar isNegative = x < 0.0;
  const Scalar rest = x - unary(Op::Round, x), size = abs(rest);
  // pi cot(pi rest), whose tangent stays small
  const Scalar tangent = unary(Op::Tan, minimum(size, 0.5 - size) * pi);
  const Scalar cotangent = binary(Op::CopySign, where(size <= 0.25, 1.0 / tangent, tangent), rest);
  const Scalar positive = digammaOfPositive(where(isNegative, 1.0 - x, x));
  return where(isNegative, where(rest == 0.0, x.number(kNaN), positive - cotangent * pi), positive);
}

/// 6.4.6 and 6.4.12, below 1/2 by 6.4.7.
Scalar trigamma(Scalar x) {
  const Scalar isLow = x < 0.5;
  const auto [far, sum] = shifted(where(isLow, 1.0 - x, x), [](Scalar v) { return 1.0 / (v * v); });
  const Scalar t = 1.0 / (far * far);
  constexpr double bernoulli[] = {7.0 / 6, -691.0 / 2730, 5.0 / 66, -1.0 / 30, 1.0 / 42, -1.0 / 30, 1.0 / 6};
  const Scalar tail = t * polynomial(t, std::span(bernoulli).subspan(isSingle(x) ? 2 : 0));
  const Scalar high = sum + (1.0 + 0.5 / far + tail) / far;
  // At a pole, PyTorch's large number: what a rounded multiple of pi leaves.
  const Scalar rest = x - unary(Op::Round, x);
  const Scalar sine = sin(where(rest == 0.0, x, rest) * pi);
  return where(isLow, (pi * pi) / (sine * sine) - high, high);
}

/// Of x >= 0: 6.1.41, and below 3 the series between the roots, which keeps their digits.
Scalar logGammaOfPositive(Scalar x) {
  const Scalar logarithm = log(x), isSmall = x < 1.0;  // by 6.1.15
  const Scalar product = where(isSmall, x * (x - 1.0), (x - 1.0) * (x - 2.0));
  const Scalar near = product * sumOf({kLogGamma, 1, 3}, where(isSmall, x + 1.0, x));
  const Scalar inverse = 1.0 / x;
  constexpr double stirling[] = {1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12};
  const Scalar tail = inverse * polynomial(inverse * inverse, stirling);
  const Scalar far = (x - 0.5) * (logarithm - 1.0) + (std::log(2 * pi) - 1) / 2 + tail;
  // At the roots, 0 with PyTorch's sign
  return where(x <= 3.0, near + where(isSmall, -logarithm, x.number(0)), far);
}

/// Below 0 by 6.1.17. The C library computes f64: vectors gain nothing over it.
Scalar logGamma(Scalar x) {
  if (!isSingle(x)) return unary(Op::LogGamma, x);
  const Scalar isNegative = x < 0.0;
  const Scalar positive = logGammaOfPositive(where(isNegative, 1.0 - x, x));
  const Scalar rest = abs(x - unary(Op::Round, x));
  // sin(pi x) / pi, which keeps the digits of the smallest numbers
  const Scalar sine = where(rest < 1e-4, rest, sin(rest * pi) * (1 / pi));
  const Scalar reflected = -log(sine) - positive;
  return where(isNegative, where(floor(x) == x, x.number(kInfinity), reflected), positive);
}

void lowerPolygamma(Call& c) {
  const int64_t n = c.integer("n");
  if (n != 0 && n != 1) c.refuse("n", "is neither 0 nor 1");
  const DType d = c.resultType();
  c.result(c.pointwise({c.tensor("self")}, d, d, n == 0 ? 80 : 60,
                       [n](Values v) { return n == 0 ? digamma(v[0]) : trigamma(v[0]); }));
}

void lowerMultivariateLogGamma(Call& c) {
  constexpr int64_t kMost = 16;  // each is a call for each element
  const int64_t p = c.integer("p");
  if (p < 1 || p > kMost) c.refuse("p", "is less than 1 or more than 16");
  const TensorId x = c.tensor("self");
  if (c.type(x) == DType::Bool) c.refuse("self", "is bool");
  const DType d = c.resultType();
  const auto count = static_cast<double>(p);
  c.result(c.pointwise({x}, d, d, 50 * count, [count](Values v) {
    Scalar sum = v[0].number(count * (count - 1) / 4 * std::log(pi));
    for (double j = 0; j < count; ++j) sum = sum + logGamma(v[0] - j / 2);
    return sum;
  }));
}

// The error function ------------------------------------------------------------------------------------------------

/// erfinv(y) / y, of 1 - y^2: as M. Giles, Approximating the erfinv function, GPU Computing Gems, 2012.
Scalar erfinvRatio(Scalar remainder, bool isFar) {
  const Scalar w = -log(remainder), root = sqrt(w);
  Scalar tail = sumOf({kErfinvTail, 2.5, 6}, root);
  if (isFar) tail = where(root > 6.0, sumOf({kErfinvFarTail, 6, 28}, root), tail);
  return where(w <= 6.25, sumOf({kErfinvCentre, 0, 6.25}, w), tail);
}

Scalar erfinv(Scalar y) { return where(abs(y) == 1.0, y * kInfinity, y * erfinvRatio((1.0 - y) * (1.0 + y), false)); }

/// The inverse of the normal distribution: sqrt(2) erfinv(2 p - 1), whose 1 - y^2 is exact next to 0.
Scalar inverseNormal(Scalar p) {
  const Scalar y = 2.0 * p - 1.0;
  return where((p == 0.0) | (p == 1.0), y * kInfinity,
               y * erfinvRatio(4.0 * p * (1.0 - p), true) * std::numbers::sqrt2);
}

/// exp(factor * x^2) of 0 <= x: the square of the first digits is exact. Beyond 40, it is 0 or infinite in any case.
Scalar exponentialOfSquare(Scalar x, double factor) {
  const Scalar near = minimum(x, 40.0), high = unary(Op::Round, near * 16.0) / 16.0;
  return exp(high * high * factor) * exp((near - high) * (near + high) * factor);
}

/// exp(x^2) erfc(x) of 0 <= x: M. Shepherd and J. Laframboise, Chebyshev Approximation of (1 + 2x) exp(x^2) erfc x in
/// 0 <= x < infinity, Mathematics of Computation 36, 1981.
Scalar erfcxOfPositive(Scalar x) {
  const Scalar finite = minimum(x, 1e18);
  return sumOf({kErfcx, 0, 1}, finite / (finite + 3.75)) / (1.0 + 2.0 * x);
}

Scalar erfcx(Scalar x) {
  const Scalar size = abs(x), positive = erfcxOfPositive(size);
  return where(x < 0.0, 2.0 * exponentialOfSquare(size, 1) - positive, positive);
}

/// Of the upper tail, 1 - exp(-x^2 / 2) erfcx(x / sqrt(2)) / 2; of the lower one what is left without cancellation.
Scalar logNormal(Scalar x) {
  const Scalar size = abs(x), half = 0.5 * erfcxOfPositive(size * (1 / std::numbers::sqrt2));
  return where(x < 0.0, log(half) - x * x * 0.5, log1p(-(half * exponentialOfSquare(size, -0.5))));
}

// Modified Bessel functions -----------------------------------------------------------------------------------------

/// I0 or I1 of |x|, times exp(-|x|) where it is `scaled`: 9.6.10 up to 8, whose terms are all positive, then a series
/// of 1 / x after 9.7.1.
Scalar besselOfSize(Scalar size, int order, bool scaled) {
  std::vector<double> powers(isSingle(size) ? 16 : 24);  // 1 / (k! (k + order)!)
  double term = 1;
  for (size_t k = 0; k < powers.size(); ++k) {
    powers[powers.size() - 1 - k] = term;
    term /= static_cast<double>((k + 1) * (k + 1 + static_cast<size_t>(order)));
  }
  const Scalar half = size * 0.5, sum = polynomial(half * half, powers);
  const Scalar series = sumOf({order == 0 ? kBessel0 : kBessel1, 0, 0.125}, 1.0 / size);
  const Scalar near = order == 0 ? sum : half * sum;
  // In PyTorch's order: infinite as soon as exp is, and NaN of infinity.
  if (!scaled) return where(size <= 8.0, near, exp(size) * series / sqrt(size));
  return where(size <= 8.0, near * exp(-size), series / sqrt(size));
}

Scalar bessel0(Scalar x) { return besselOfSize(abs(x), 0, false); }
Scalar scaledBessel0(Scalar x) { return besselOfSize(abs(x), 0, true); }
/// Odd. -0 gives 0, as in PyTorch.
Scalar withSignOf(Scalar x, Scalar y) { return where(x < 0.0, -y, y); }
Scalar bessel1(Scalar x) { return withSignOf(x, besselOfSize(abs(x), 1, false)); }
Scalar scaledBessel1(Scalar x) { return withSignOf(x, besselOfSize(abs(x), 1, true)); }

}  // namespace

std::vector<Entry> specialOperators() {
  const auto entry = [](std::string_view name, double cost, Scalar (*f)(Scalar)) {
    return Entry{"aten." + std::string(name) + ".default", Kind::Pointwise, [cost, f](Call& c) {
                   const DType d = c.resultType();
                   c.result(c.pointwise({c.tensor("self")}, d, d, cost, [f](Values v) { return f(v[0]); }));
                 }};
  };
  return {
      entry("digamma", 80, digamma),
      entry("lgamma", 50, logGamma),
      {"aten.polygamma.default", Kind::Pointwise, lowerPolygamma},
      {"aten.mvlgamma.default", Kind::Pointwise, lowerMultivariateLogGamma},
      entry("erfinv", 12, erfinv),  // as ATen's, which computes vectors
      entry("special_erfcx", 60, erfcx),
      entry("special_ndtri", 80, inverseNormal),
      entry("special_log_ndtr", 80, logNormal),
      entry("i0", 60, bessel0),
      entry("special_i0e", 60, scaledBessel0),
      entry("special_i1", 60, bessel1),
      entry("special_i1e", 60, scaledBessel1),
  };
}

}  // namespace graft::lower
