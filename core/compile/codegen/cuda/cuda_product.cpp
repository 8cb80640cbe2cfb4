#include "core/compile/codegen/cuda/cuda_product.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace graft::codegen {

namespace {

constexpr int64_t kDeep = 64;    // of a slice
constexpr int64_t kPadding = 8;  // columns between the rows of sums, against bank conflicts

constexpr std::array<ProductTile, 19> allTiles{{
    {256, 192, 3, 16, 1, 1, true}, {128, 256, 4, 8, 1, 1, true}, {256, 128, 4, 16, 1, 1, true},
    {128, 128, 4, 8, 1, 1, true},  {128, 128, 3, 8, 1, 1, true}, {64, 32, 8, 4, 1, 1, true},
    {128, 64, 5, 8, 1, 1, true},   {64, 128, 5, 4, 1, 1, true},  {64, 64, 6, 4, 1, 1, true},
    {128, 256, 3, 2, 4, 1},        {256, 128, 3, 4, 2, 1},       {128, 128, 3, 2, 2, 1},
    {128, 64, 4, 2, 2, 1},         {64, 128, 4, 2, 2, 1},        {64, 64, 4, 2, 2, 1},
    {32, 64, 5, 1, 2, 2},          {16, 128, 5, 1, 4, 1},        {16, 64, 6, 1, 2, 2},
    {16, 32, 12, 1, 1, 4},
}};

/// Cycles, roughly, as measured on an H200 (docs/measurements/cuda-code.md): the blocks of one multiprocessor one after
/// another, each slice as long as its arithmetic, its way from the L2 cache or the wait for it.
double predicted(const ProductTile& t, const ProductSize& p, const ProductLimits& gpu) {
  constexpr double arithmeticAlone = 1050, arithmeticGrouped = 2100;  // pairs of halves in a cycle
  constexpr double bytesOfAll = 25, bytesOfOne = 64;                  // in a cycle: where all load, and at most
  constexpr double latency = 1200, start = 2500, behind = 0.16;       // cycles; the last of one element
  const auto blocks = static_cast<double>(p.batches * divideUp(p.rows, t.rows) * divideUp(p.columns, t.columns));
  const double busy = std::min(blocks, static_cast<double>(gpu.multiprocessors));
  const double each = std::ceil(blocks / static_cast<double>(gpu.multiprocessors));
  const auto resident =
      static_cast<double>(std::clamp<int64_t>(gpu.sharedBytes / t.sharedBytes(), 1, 1024 / t.threads()));
  const double together = std::min(each, resident);
  const double elements = static_cast<double>(t.rows) * t.columns;
  const double bytes = static_cast<double>(t.rows + t.columns) * kDeep * 2;
  const double rate = std::min(bytesOfOne, bytesOfAll * gpu.multiprocessors / busy);
  const double arithmetic = elements * kDeep / (t.isGrouped ? arithmeticGrouped : arithmeticAlone);
  const double waiting = latency / ((t.isGrouped ? t.stages - 2 : t.stages - 1) * together);
  const double slice = std::max({arithmetic, bytes / rate, waiting});
  const double ends = std::ceil(each / together) * start + each * elements * behind / (together > 1 ? 2 : 1);
  return each * static_cast<double>(divideUp(p.inner, kDeep)) * slice + ends;
}

}  // namespace

int64_t ProductTile::sharedBytes() const {
  const auto lines = [](int64_t n) { return std::max<int64_t>(n, kDeep); };
  const int64_t ring = stages * (lines(rows) + lines(columns)) * kDeep * 2;
  return std::max(ring, rows * (columns + kPadding) * 4);
}

std::string ProductTile::describe() const {
  return fmt::format("tiles of {} by {}, {} stages, {} warps{}", rows, columns, stages, threads() / 32,
                     isGrouped ? " in groups" : "");
}

std::vector<ProductTile> productTiles(const ProductSize& p, const ProductLimits& gpu) {
  std::vector<std::pair<double, ProductTile>> found;
  for (ProductTile t : allTiles) {
    if (t.isGrouped && gpu.capability != 90) continue;
    while (t.stages > (t.isGrouped ? 3 : 2) && t.sharedBytes() > gpu.sharedBytes) --t.stages;
    if (t.sharedBytes() <= gpu.sharedBytes) found.emplace_back(predicted(t, p, gpu), t);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ProductTile> out;
  for (const auto& [cycles, tile] : found) out.push_back(tile);
  return out;
}

}  // namespace graft::codegen
