#include "core/base/numbers/ratio_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace graft {
namespace {

/// Linear between the two nearest samples.
double percentile(std::vector<double> v, double p) {
  std::sort(v.begin(), v.end());
  const double at = p * static_cast<double>(v.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, v.size() - 1);
  return v[low] + (v[high] - v[low]) * (at - static_cast<double>(low));
}

}  // namespace

RatioRange ratioRange(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr size_t mostBlocks = 24;
  const size_t n = std::min(a.size(), b.size());
  if (n == 0) return {};
  size_t block = (n + mostBlocks - 1) / mostBlocks;
  if (block > 1) block += block % 2;  // an even number holds both orders of the two sides
  std::vector<double> ratios;
  for (size_t i = 0; i + block <= n; i += block) {
    std::vector<double> of;
    for (size_t k = i; k < i + block; ++k) of.push_back(a[k] / b[k]);
    ratios.push_back(percentile(std::move(of), 0.5));
  }
  std::sort(ratios.begin(), ratios.end());
  // How many samples lie below the true median is binomial: this many may be left out on either side, whatever the
  // distribution of the samples.
  constexpr double sigmas = 2.58;
  const auto count = static_cast<double>(ratios.size());
  const auto out = static_cast<size_t>(std::max(0.0, (count - sigmas * std::sqrt(count)) / 2));
  RatioRange range{ratios[out], ratios[ratios.size() - 1 - out]};
  for (const double p : {0.1, 0.5}) {
    const auto end = static_cast<std::ptrdiff_t>(n);
    const double whole = percentile({a.begin(), a.begin() + end}, p) / percentile({b.begin(), b.begin() + end}, p);
    range.low = std::min(range.low, whole);
    range.high = std::max(range.high, whole);
  }
  return range;
}

Speed speedOf(double ratio, const RatioRange& range) {
  constexpr double shown = 0.005;  // what two decimals cannot show is no difference
  constexpr double narrow = 0.1;
  if (range.tellsDifference() && std::abs(ratio - 1) >= shown && (ratio > 1) == (range.low > 1))
    return ratio > 1 ? Speed::Faster : Speed::Slower;
  return range.low > 1 - narrow && range.high < 1 + narrow ? Speed::Same : Speed::Untold;
}

std::string_view speedName(Speed speed) {
  switch (speed) {
    case Speed::Faster:
      return "faster";
    case Speed::Slower:
      return "slower";
    case Speed::Same:
      return "same";
    case Speed::Untold:
      return "untold";
  }
  return "untold";
}

std::string speedText(double ratio, const RatioRange& range) {
  const auto times = [](double r) { return r < 10 ? fmt::format("{:.2f}", r) : fmt::format("{:.1f}", r); };
  switch (speedOf(ratio, range)) {
    case Speed::Faster:
      return times(ratio) + " times faster";
    case Speed::Slower:
      return times(1 / ratio) + " times slower";
    case Speed::Same:
      return fmt::format("the same speed ({:.2f} to {:.2f} times as fast)", range.low, range.high);
    case Speed::Untold:
      break;
  }
  return fmt::format("no difference that these runs can tell ({:.2f} to {:.2f} times as fast)", range.low, range.high);
}

}  // namespace graft
