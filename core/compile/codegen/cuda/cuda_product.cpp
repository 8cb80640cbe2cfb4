#include "core/compile/codegen/cuda/cuda_product.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace graft::codegen {

namespace {

constexpr int64_t kDeep = 64;   // of a slice
constexpr int64_t kPadding = 8;  // columns between the rows of sums, against bank conflicts

constexpr std::array<ProductTile, 9> allTiles{{
    {128, 256, 3, 2, 4, 1},
    {256, 128, 3, 4, 2, 1},
    {128, 128, 3, 2, 2, 1},
    {128, 64, 4, 2, 2, 1},
    {64, 128, 4, 2, 2, 1},
    {64, 64, 4, 2, 2, 1},
    {32, 64, 5, 1, 2, 2},
    {16, 128, 5, 1, 4, 1},
    {16, 64, 6, 1, 2, 2},
}};

int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Microseconds, roughly: waves of blocks, each as long as its arithmetic or its slices take to come.
double predicted(const ProductTile& t, const ProductSize& p, const ProductLimits& gpu) {
  const double blocks = static_cast<double>(p.batches) * static_cast<double>(divideUp(p.rows, t.rows)) *
                        static_cast<double>(divideUp(p.columns, t.columns));
  const int64_t resident = std::clamp<int64_t>(gpu.sharedBytes / t.sharedBytes(), 1, 2048 / t.threads());
  const double waves = blocks / (static_cast<double>(gpu.multiprocessors) * static_cast<double>(resident));
  // A multiprocessor multiplies 4096 pairs of halves a cycle at most, and loads about 64 bytes.
  const auto pairs = static_cast<double>(t.rows) * t.columns, halves = 2.0 * (t.rows + t.columns);
  const double perDepth = std::max(pairs / 2048, halves / 48);
  constexpr double start = 1500, mostWaiting = 12;
  const double slices = static_cast<double>(divideUp(p.inner, kDeep));
  const double cycles = slices * std::max(perDepth * kDeep * static_cast<double>(std::min<double>(resident, std::max(1.0, waves * static_cast<double>(resident)))), 700.0 / t.stages + mostWaiting) + start;
  return std::max(1.0, std::ceil(waves)) * cycles / 1700;
}

}  // namespace

int64_t ProductTile::sharedBytes() const {
  const auto lines = [](int64_t n) { return std::max<int64_t>(n, kDeep); };
  const int64_t ring = stages * (lines(rows) + lines(columns)) * kDeep * 2;
  return std::max(ring, rows * (columns + kPadding) * 4);
}

std::string ProductTile::describe() const {
  return fmt::format("tiles of {} by {}, {} stages, {} warps", rows, columns, stages, threads() / 32);
}

std::vector<ProductTile> productTiles(const ProductSize& p, const ProductLimits& gpu) {
  std::vector<std::pair<double, ProductTile>> found;
  for (ProductTile t : allTiles) {
    while (t.stages > 2 && t.sharedBytes() > gpu.sharedBytes) --t.stages;
    if (t.sharedBytes() <= gpu.sharedBytes) found.emplace_back(predicted(t, p, gpu), t);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ProductTile> out;
  for (const auto& [microseconds, tile] : found) out.push_back(tile);
  return out;
}

}  // namespace graft::codegen
