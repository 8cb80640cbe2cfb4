#include "core/base/ratio_range.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace graft {

RatioRange ratioRange(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  const size_t n = std::min(a.size(), b.size());
  for (size_t i = 0; i < n; ++i) ratios.push_back(a[i] / b[i]);
  if (ratios.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  // How many samples lie below the true median is binomial: this many may be left out on either side, whatever the
  // distribution of the samples.
  const double count = static_cast<double>(n);
  const auto out = static_cast<size_t>(std::max(0.0, (count - 1.96 * std::sqrt(count)) / 2));
  return {ratios[out], ratios[n - 1 - out]};
}

}  // namespace graft
