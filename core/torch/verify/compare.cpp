#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <utility>

#include "core/torch/tensors.h"
#include "core/torch/values/values.h"
#include "core/torch/verify/elements.h"
#include "core/torch/verify/within.h"
#include "core/torch/written_state.h"

namespace graft {
namespace {

struct Leaf {
  std::string name;
  c10::IValue value;
};

void flatten(const std::string& name, const c10::IValue& v, std::vector<Leaf>& out) {
  auto child = [&](const std::string& key) { return name.empty() ? key : name + '.' + key; };
  if (v.isTuple()) {
    const auto& elements = v.toTupleRef().elements();
    for (size_t i = 0; i < elements.size(); ++i) flatten(child(std::to_string(i)), elements[i], out);
  } else if (v.isList()) {
    const auto list = v.toList();
    for (size_t i = 0; i < list.size(); ++i) flatten(child(std::to_string(i)), list.get(i), out);
  } else if (v.isGenericDict()) {
    for (const auto& e : v.toGenericDict())
      flatten(child(e.key().isString() ? e.key().toStringRef() : describe(e.key())), e.value(), out);
  } else {
    out.push_back({name, v});
  }
}

std::vector<Leaf> flatten(const TensorSet& set) {
  std::vector<Leaf> out;
  const auto& values = valuesOf(set);
  for (size_t i = 0; i < values.size(); ++i) flatten(std::to_string(i), values[i], out);
  return out;
}

Tolerance toleranceFor(c10::ScalarType t) {
  switch (t) {
    case c10::ScalarType::Half:
      return {1e-3, 1e-5, 1e-3, 3};
    case c10::ScalarType::BFloat16:
      return {1.6e-2, 1e-5, 1e-2, 3};
    case c10::ScalarType::Float:
    case c10::ScalarType::ComplexFloat:
      return {1.3e-6, 1e-5, 1e-4, 2};
    case c10::ScalarType::Double:
    case c10::ScalarType::ComplexDouble:
      return {1e-7, 1e-7, 1e-8, 2};
    default:
      return {};
  }
}

std::string placeOf(const at::Tensor& t, int64_t flat) {
  std::vector<int64_t> index(static_cast<size_t>(t.dim()));
  for (size_t d = index.size(); d-- > 0;) {
    index[d] = flat % t.size(static_cast<int64_t>(d));
    flat /= t.size(static_cast<int64_t>(d));
  }
  return fmt::format("[{}]", fmt::join(index, ","));
}

/// One element for a message; NaN without its sign, which says nothing.
std::string elementText(const at::Tensor& t, int64_t flat) {
  const double x = t.reshape({-1})[flat].to(at::kDouble).item<double>();
  return std::isnan(x) ? "nan" : fmt::format("{:.9g}", x);
}

at::Tensor plain(const at::Tensor& t) {
  at::Tensor out = t.detach();
  if (out.is_quantized()) out = out.dequantize();
  if (out.layout() != at::kStrided) out = out.to_dense();
  if (out.is_complex()) out = at::view_as_real(out.resolve_conj());
  return out.cpu().contiguous();
}

/// One element may be this much further off than RMSE may: the largest error of a few elements says little.
constexpr double elementFactor = 4;

/// How far apart neighbouring numbers of a dtype are: of their size, and near zero. Zeros where it is no such dtype.
Tolerance spacingOf(c10::ScalarType t) {
  const auto of = [](auto epsilon, auto least) {
    return Tolerance{static_cast<double>(epsilon), static_cast<double>(least)};
  };
  switch (t) {
    case c10::ScalarType::Half:
      return of(std::numeric_limits<c10::Half>::epsilon(), std::numeric_limits<c10::Half>::denorm_min());
    case c10::ScalarType::BFloat16:
      return of(std::numeric_limits<c10::BFloat16>::epsilon(), std::numeric_limits<c10::BFloat16>::denorm_min());
    case c10::ScalarType::Float:
      return of(std::numeric_limits<float>::epsilon(), std::numeric_limits<float>::denorm_min());
    case c10::ScalarType::Double:
      return of(std::numeric_limits<double>::epsilon(), std::numeric_limits<double>::denorm_min());
    default:
      return {};
  }
}

/// Whether each element is one of the two numbers of its dtype next to what fp64 computes. The original may happen to
/// be exact, so that its own error allows nothing; no calculation in that dtype can be asked for more.
bool areWithinOneRounding(const at::Tensor& expected, const at::Tensor& actual, const at::Tensor& reference) {
  const Tolerance spacing = spacingOf(actual.scalar_type());
  return spacing.relative > 0 && firstBeyond(expected, actual, reference, 0, spacing) < 0;
}

/// An infinity that fp64 computes, too, is a result like a number.
bool isInfinity(const Sums& s, bool hasReference) { return hasReference && s.nan == 0 && s.overflowed == 0; }

/// What is said of elements that are NaN or infinite on both sides; "" where there are few of them, as masks leave
/// them.
std::string nonFiniteText(const Sums& s, int64_t elements, bool hasReference) {
  if (s.nonFinite == 0 || (s.overflowed == 0 && 2 * s.nonFinite < elements)) return "";
  const char* what = s.nan == s.nonFinite ? "NaN" : s.nan == 0 ? "infinite" : "NaN or infinite";
  const std::string beside = s.overflowed > 0 && s.overflowed < s.nonFinite && s.nonFinite == elements
                                 ? fmt::format(", where fp64 computes {} numbers", s.overflowed)
                             : s.overflowed > 0 ? ", where fp64 computes numbers"
                             : hasReference     ? ", and in fp64"
                                                : "";
  if (s.nonFinite < elements)
    return fmt::format("{} of {} elements are {}, as in the original{}", s.overflowed > 0 ? s.overflowed : s.nonFinite,
                       elements, what, beside);
  const std::string which = elements == 1 ? "its element is" : fmt::format("all {} elements are", elements);
  if (isInfinity(s, hasReference)) return fmt::format("{} {}, as in the original{}", which, what, beside);
  return fmt::format("nothing was compared: {} {}, as in the original{}", which, what, beside);
}

/// What the numbers of two tensors of one shape say, in a sentence that holds whether they pass or not.
std::string compareNumbers(const at::Tensor& expected, const at::Tensor& actual, const at::Tensor& reference,
                           const Tolerance& tol, Judge judge, Difference& d) {
  const at::Tensor e = plain(expected), a = plain(actual);
  const at::Tensor r = reference.defined() && reference.sizes() == expected.sizes() ? plain(reference) : at::Tensor();
  const Sums s = sumsOf(e, a, r, tol, judge);
  const auto n = static_cast<double>(std::max<int64_t>(s.finite, 1));
  d.measured = s.nonFinite == 0 || s.nonFinite < e.numel();
  d.maxAbs = s.maxAbs;
  d.maxRel = s.maxRel;
  d.rmse = std::sqrt(s.squares / n);
  const double norms = std::sqrt(s.normE) * std::sqrt(s.normA);
  d.cosine = s.squares == 0 ? 1.0 : norms > 0 ? std::clamp(s.dot / norms, -1.0, 1.0) : 0.0;
  d.sameNonFinite = s.firstNonFinite < 0;
  d.nonFinite = static_cast<size_t>(s.nonFinite);
  d.overflowed = static_cast<size_t>(s.overflowed);
  d.nothingCompared = !d.measured && !isInfinity(s, r.defined());
  // Of two dtypes there is no common unit in the last place.
  // Nobody looks at those of a rewrite's values, and counting takes as long as the rest.
  if (judge == Judge::Model && e.scalar_type() == a.scalar_type()) d.ulpHistogram = ulpHistogram(e, a);
  const auto showElement = [&](int64_t at) {
    if (at < 0) return;
    d.element = placeOf(e, at);
    d.expected = elementText(e, at);
    d.actual = elementText(a, at);
  };
  if (!d.sameNonFinite) {
    showElement(s.firstNonFinite);
    return fmt::format("at {} it is {}, expected {}", placeOf(e, s.firstNonFinite), elementText(a, s.firstNonFinite),
                       elementText(e, s.firstNonFinite));
  }
  if (r.defined() && at::isFloatingType(e.scalar_type())) {
    const auto m = static_cast<double>(std::max<int64_t>(s.referenced, 1));
    const double rmseE = std::sqrt(s.referenceE / m), rmseA = std::sqrt(s.referenceA / m);
    if (rmseE > 0)
      d.rmseRatio = rmseA / rmseE;
    else if (rmseA == 0)
      d.rmseRatio = 1;
    const double allowed = tol.factor * std::max(rmseE, tol.assumed * std::sqrt(s.normE / n)) + tol.rmse / 10;
    d.passed = rmseA <= allowed;
    const std::string figures =
        fmt::format("RMSE to the fp64 reference is {:.3g}, the original's is {:.3g}; at most {:.3g} is allowed", rmseA,
                    rmseE, allowed);
    if (d.passed && s.repaired > 0) {
      const auto k = static_cast<double>(s.repaired);
      const double there = std::sqrt(s.repairedError / k),
                   allowedThere = std::max(allowed, tol.factor * tol.relative * std::sqrt(s.repairedSquares / k));
      d.passed = there <= allowedThere;
      if (!d.passed)
        return fmt::format(
            "{} elements are not finite in the original; the RMSE to the fp64 reference is {:.3g} there, at most "
            "{:.3g} "
            "is allowed",
            s.repaired, there, allowedThere);
      d.why =
          fmt::format("{} of {} elements, not finite in the original, are what fp64 computes", s.repaired, d.elements);
    }
    const auto noteNonFinite = [&] {
      if (std::string text = nonFiniteText(s, e.numel(), true); !text.empty()) d.why = std::move(text);
    };
    if (d.passed) noteNonFinite();
    if (!d.passed && s.repaired == 0 && areWithinOneRounding(e, a, r)) {
      d.passed = true;
      noteNonFinite();
      return "each is within one rounding of the fp64 reference";
    }
    if (!d.passed) {
      showElement(s.firstTooFar);
      if (d.element.empty()) return figures;
      return fmt::format("{}; the first that differs, at {}, is {}, expected {}", figures, d.element, d.actual,
                         d.expected);
    }
    if (judge == Judge::Model || s.tooFar == 0) return figures;
    const int64_t beyond = firstBeyond(e, a, r, elementFactor * tol.factor * s.worstE, tol);
    if (beyond < 0) return figures;
    d.passed = false;
    showElement(beyond);
    return fmt::format("at {} it is {}, expected {}; the original is off from fp64 by {:.3g} at most", d.element,
                       d.actual, d.expected, s.worstE);
  }
  d.passed = s.tooFar == 0;
  if (d.passed) d.why = nonFiniteText(s, e.numel(), false);
  if (d.passed) return fmt::format("each is within {:.2g} + {:.2g} of the expected", tol.absolute, tol.relative);
  showElement(s.firstTooFar);
  return fmt::format(
      "{} of {} elements are off by more than {:.2g} + {:.2g} of the expected; the worst at {}: {}, expected {}",
      s.tooFar, e.numel(), tol.absolute, tol.relative, placeOf(e, s.worst), elementText(a, s.worst),
      elementText(e, s.worst));
}

/// Whether the original's float64 lies as far from the reference as rounding to float32 takes it: what it was computed
/// from was float32 on the way, and rounding decides there.
bool isRoundedToFloat(const at::Tensor& expected, const at::Tensor& reference) {
  constexpr double kFloatRounding = 0x1p-28;  // an eighth of half a unit in the last place
  if (!reference.defined() || reference.scalar_type() != at::kDouble || reference.sizes() != expected.sizes())
    return false;
  const at::Tensor e = plain(expected), r = plain(reference);
  const double size = e.norm().item<double>(), off = (e - r).norm().item<double>();
  return std::isfinite(size) && std::isfinite(off) && off > kFloatRounding * size;
}

void compareTwo(const at::Tensor& expected, const at::Tensor& actual, const at::Tensor& reference, Judge judge,
                Difference& d) {
  d.elements = static_cast<size_t>(expected.numel());
  const c10::ScalarType e = expected.scalar_type(), a = actual.scalar_type();
  if (e != a || expected.sizes() != actual.sizes()) d.actualType = describe(actual);
  if (expected.sizes() != actual.sizes() || (e != a && !(at::isFloatingType(e) && at::isFloatingType(a)))) {
    d.why = fmt::format("got {}, expected {}", d.actualType, d.type);
    return;
  }
  if (e == a) {
    const c10::ScalarType computedIn = e == at::kDouble && isRoundedToFloat(expected, reference) ? at::kFloat : e;
    std::string why = compareNumbers(expected, actual, reference, toleranceFor(computedIn), judge, d);
    if (!d.passed) d.why = std::move(why);
    return;
  }
  const c10::ScalarType coarse = toleranceFor(a).rmse > toleranceFor(e).rmse ? a : e;
  Tolerance tol = toleranceFor(coarse);
  tol.assumed = tol.relative;
  const std::string figures = compareNumbers(expected, actual, reference, tol, judge, d);
  d.dtypeAlone = std::exchange(d.passed, false);
  d.element = d.expected = d.actual = "";  // what differs is the type
  d.why = fmt::format("got {}, expected {}; as numbers they {} by {}'s tolerance: {}", d.actualType, d.type,
                      d.dtypeAlone ? "agree" : "differ too", dtypeShort(*graftDType(coarse)), figures);
}

Difference compareLeaf(const std::string& name, const c10::IValue& e, const c10::IValue& a, const c10::IValue* r,
                       Judge judge) {
  Difference d;
  d.name = name;
  d.type = describe(e);
  if (e.isTensor() && a.isTensor() && e.toTensor().defined() && a.toTensor().defined()) {
    try {
      compareTwo(e.toTensor(), a.toTensor(), r && r->isTensor() ? r->toTensor() : at::Tensor(), judge, d);
    } catch (const std::exception& x) {
      d.why = shortMessage(x);
    }
    return d;
  }
  d.elements = 1;
  d.passed = d.measured = describe(e) == describe(a);
  if (d.passed) return d;
  // A number that was read out of a tensor, nearly always one of float32. One of float64 is no number of float32, and
  // is what fp64 computes.
  if (e.isDouble() && a.isDouble()) {
    const auto asTensor = [](const c10::IValue& v) { return at::scalar_tensor(v.toDouble(), at::kDouble); };
    const c10::IValue* exact = r && r->isDouble() ? r : nullptr;
    const double n = e.toDouble();
    const bool isOfFloat64 = static_cast<double>(static_cast<float>(n)) != n && (!exact || exact->toDouble() == n);
    std::string why = compareNumbers(asTensor(e), asTensor(a), exact ? asTensor(*exact) : at::Tensor(),
                                     toleranceFor(isOfFloat64 ? at::kDouble : at::kFloat), judge, d);
    if (!d.passed) d.why = std::move(why);
    return d;
  }
  d.actualType = describe(a);
  d.why = fmt::format("got {}, expected {}", d.actualType, d.type);
  return d;
}

std::vector<Difference> compareAll(const TensorSet& expected, const TensorSet& actual, const TensorSet* reference,
                                   Judge judge) {
  const std::vector<Leaf> e = flatten(expected), a = flatten(actual);
  std::vector<Leaf> r;
  if (reference) r = flatten(*reference);
  std::vector<Difference> out;
  for (size_t i = 0; i < e.size(); ++i) {
    if (i < a.size()) {
      out.push_back(
          compareLeaf(e[i].name, e[i].value, a[i].value, r.size() == e.size() ? &r[i].value : nullptr, judge));
      continue;
    }
    Difference missing;
    missing.name = e[i].name;
    missing.type = describe(e[i].value);
    missing.why = "it is missing";
    out.push_back(std::move(missing));
  }
  for (size_t i = e.size(); i < a.size(); ++i) {
    Difference more;
    more.name = a[i].name;
    more.type = describe(a[i].value);
    more.why = fmt::format("{} values where {} are expected", a.size(), e.size());
    out.push_back(std::move(more));
  }
  return out;
}

}  // namespace

std::vector<Difference> compareTensors(const TensorSet& expected, const TensorSet& actual, const TensorSet* reference) {
  return compareAll(expected, actual, reference, Judge::Model);
}

std::vector<Difference> compareElements(const TensorSet& expected, const TensorSet& actual,
                                        const TensorSet* reference) {
  return compareAll(expected, actual, reference, Judge::Elements);
}

bool nothingCompared(const std::vector<Difference>& outputs) {
  const auto isOutput = [](const Difference& d) {
    return !d.name.empty() && std::isdigit(static_cast<unsigned char>(d.name[0])) != 0 && d.elements > 0;
  };
  return std::ranges::any_of(outputs, [](const Difference& d) { return d.nothingCompared; }) &&
         std::ranges::none_of(outputs, [&](const Difference& d) { return isOutput(d) && !d.nothingCompared; });
}

std::vector<std::string> notCompared(const std::vector<Difference>& outputs) {
  std::vector<std::string> out;
  for (const Difference& d : outputs) {
    if (!d.passed || !(d.nothingCompared || d.overflowed > 0)) continue;
    const char* help = d.overflowed > 0
                           ? d.type.starts_with("f16") ? "; bfloat16 and float32 (--dtype) have a wider range" : ""
                       : d.nothingCompared ? "; other inputs (--inputs) may give numbers"
                                           : "";
    out.push_back(fmt::format("{} ({}): {}{}", titleOf(d), d.type, d.why, help));
  }
  return out;
}

bool isAmong(const std::vector<TensorSet>& runs, const TensorSet& actual) {
  const std::vector<Leaf> results = flatten(actual);
  std::vector<std::vector<Leaf>> all;
  for (const TensorSet& r : runs) {
    all.push_back(flatten(r));
    if (all.back().size() != results.size()) return false;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].value.isTensor()) continue;
    const at::Tensor a = plain(results[i].value.toTensor());
    if (!a.is_floating_point()) {
      if (!all[0][i].value.isTensor() || !at::equal(plain(all[0][i].value.toTensor()), a)) return false;
      continue;
    }
    const Tolerance tol = toleranceFor(a.scalar_type());
    const at::Tensor y = a.to(at::kDouble);
    at::Tensor low, high, isKind, isOpen, isNumber;
    for (const std::vector<Leaf>& run : all) {
      if (!run[i].value.isTensor()) return false;
      const at::Tensor x = plain(run[i].value.toTensor()).to(at::kDouble);
      if (x.sizes() != y.sizes()) return false;
      const at::Tensor number = x.isfinite(), same = (x == y).logical_or(x.isnan().logical_and(y.isnan()));
      constexpr double inf = std::numeric_limits<double>::infinity();
      const at::Tensor least = x.masked_fill(number.logical_not(), inf),
                       most = x.masked_fill(number.logical_not(), -inf);
      low = low.defined() ? at::minimum(low, least) : least;
      high = high.defined() ? at::maximum(high, most) : most;
      isKind = isKind.defined() ? isKind.logical_or(same) : same;
      isOpen = isOpen.defined() ? isOpen.logical_or(number.ne(isNumber)) : at::zeros_like(number);
      isNumber = isNumber.defined() ? isNumber : number;
    }
    const at::Tensor room = (high - low) + tol.absolute + tol.relative * at::maximum(low.abs(), high.abs());
    const at::Tensor isInside = (y >= low - room).logical_and(y <= high + room);
    if (!isKind.logical_or(y.isfinite().logical_and(isInside.logical_or(isOpen))).all().item<bool>()) return false;
  }
  return true;
}

WithinTolerance compareWithin(const TensorSet& expected, const TensorSet& actual, const RewriteTolerance& tolerance) {
  WithinTolerance result;
  std::vector<Difference>& out = result.differences;
  out = compareAll(expected, actual, nullptr, Judge::Elements);
  const std::vector<Leaf> e = flatten(expected), a = flatten(actual);
  for (size_t i = 0; i < std::min({out.size(), e.size(), a.size()}); ++i) {
    Difference& d = out[i];
    if (!d.measured || !e[i].value.isTensor() || !a[i].value.isTensor() || !d.sameNonFinite) continue;
    const at::Tensor x = plain(e[i].value.toTensor()), y = plain(a[i].value.toTensor());
    const Tolerance each{tolerance.rtol.value_or(0), tolerance.atol.value_or(0), 0, 1};
    const Sums s = sumsOf(x, y, at::Tensor(), each, Judge::Elements);
    const double rms = std::sqrt(s.normE / static_cast<double>(std::max<int64_t>(s.finite, 1)));
    const double relative = rms > 0 ? d.rmse / rms : d.rmse > 0 ? std::numeric_limits<double>::infinity() : 0;
    result.relativeRmse = std::max(result.relativeRmse, relative);
    d.passed = true;
    d.why = d.element = d.expected = d.actual = "";
    if (tolerance.rmse && !(relative <= *tolerance.rmse)) {
      d.passed = false;
      d.why = fmt::format("its RMSE is {:.3g} % of the result's, at most {:.3g} % is allowed", 100 * relative,
                          100 * *tolerance.rmse);
    }
    if (!d.passed || !(tolerance.rtol || tolerance.atol) || s.tooFar == 0) continue;
    d.passed = false;
    d.element = placeOf(x, s.firstTooFar);
    d.expected = elementText(x, s.firstTooFar);
    d.actual = elementText(y, s.firstTooFar);
    d.why = fmt::format(
        "{} of {} elements are off by more than {:.2g} + {:.2g} of the expected; the first at {}: {}, "
        "expected {}",
        s.tooFar, x.numel(), each.absolute, each.relative, d.element, d.actual, d.expected);
  }
  return result;
}

}  // namespace graft
