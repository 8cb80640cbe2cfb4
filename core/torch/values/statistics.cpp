#include "core/torch/statistics.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/torch/values/weight.h"

namespace graft {

Result<WeightStatistics> weightStatistics(const Graph& g, ValueId weight, size_t bins) {
  const at::Tensor t = weightTensor(g.value(weight));
  if (!t.defined())
    return badInput(fmt::format("{} has no data here: the graph was read without its weights", g.value(weight).path));
  WeightStatistics out;
  try {
    const at::Tensor flat = t.detach().to(c10::kCPU, c10::kDouble).contiguous().view({-1});
    const double* p = flat.const_data_ptr<double>();
    const size_t n = static_cast<size_t>(flat.numel());
    out.first.assign(p, p + std::min<size_t>(n, 16));
    double sum = 0, squares = 0;
    size_t finite = 0;
    for (size_t i = 0; i < n; ++i) {
      if (!std::isfinite(p[i])) {
        ++out.nonFinite;
        continue;
      }
      out.min = finite == 0 ? p[i] : std::min(out.min, p[i]);
      out.max = finite == 0 ? p[i] : std::max(out.max, p[i]);
      out.zeros += p[i] == 0;
      sum += p[i];
      ++finite;
    }
    if (finite == 0) return out;
    out.mean = sum / static_cast<double>(finite);
    out.counts.assign(bins, 0);
    const double width = (out.max - out.min) / static_cast<double>(bins);
    for (size_t i = 0; i <= bins; ++i) out.edges.push_back(out.min + width * static_cast<double>(i));
    for (size_t i = 0; i < n; ++i) {
      if (!std::isfinite(p[i])) continue;
      squares += (p[i] - out.mean) * (p[i] - out.mean);
      const size_t bin = width > 0 ? static_cast<size_t>((p[i] - out.min) / width) : 0;
      ++out.counts[std::min(bin, bins - 1)];
    }
    out.std = std::sqrt(squares / static_cast<double>(finite));
  } catch (const std::exception& e) {
    return internalError(fmt::format("statistics of {}: {}", g.value(weight).path, e.what()));
  }
  return out;
}

}  // namespace graft
