// Products with few rows, for graft::linear. loops_impl.h includes it, so it is compiled for each instruction set.
//
// With few rows, reading the weights takes longer than multiplying. They are packed into panels of kWeightPanel
// outputs, [depth, kWeightPanel] each, one after the other. A product reads them once and in order, and prefetches
// across panels. Bias, activation and residual are applied to each tile while it is in the first-level cache.
#pragma once

#include "kernels/cpu/loops.h"
#include "kernels/cpu/vector.h"

namespace graft::ops {
namespace {

constexpr int kWeightPanel = 3 * kLanes;

int64_t packedWeightSize(int64_t outputs, int64_t depth) {
  return (outputs + kWeightPanel - 1) / kWeightPanel * kWeightPanel * depth;
}

// weight is [outputs, depth], contiguous. The last panel is filled up with zeros.
void packWeight(const float* weight, int64_t outputs, int64_t depth, float* packed) {
  for (int64_t first = 0; first < outputs; first += kWeightPanel) {
    float* panel = packed + first * depth;
    for (int64_t j = 0; j < kWeightPanel; ++j) {
      const bool there = first + j < outputs;
      const float* row = weight + (first + j) * depth;
      for (int64_t k = 0; k < depth; ++k) panel[k * kWeightPanel + j] = there ? row[k] : 0.0f;
    }
  }
}

// So many products are added up in registers, and then the sums of these blocks. One long chain of additions would
// round off twice as much as LibTorch's products do.
constexpr int64_t kDepthBlock = 128;

// tile[R][kWeightPanel] = R rows of x times a panel. `fetch`: the panel is read from memory, so prefetch 24 KB ahead.
template <int R, bool fetch>
inline void linearTile(const float* x, int64_t depth, const float* panel, float* tile) {
  for (int64_t first = 0; first < depth || first == 0; first += kDepthBlock) {
    const int64_t last = first + kDepthBlock < depth ? first + kDepthBlock : depth;
    Floats sums[R][3] = {};
    for (int64_t k = first; k < last; ++k) {
      const float* from = panel + k * kWeightPanel;
      if constexpr (fetch) {
        for (int line = 0; line < kWeightPanel * 4; line += 64) {
          __builtin_prefetch(reinterpret_cast<const char*>(from) + line + 24576, 0, 2);
        }
      }
      const Floats b[3] = {load(from), load(from + kLanes), load(from + 2 * kLanes)};
      for (int r = 0; r < R; ++r) {
        const Floats a = all(x[r * depth + k]);
        for (int n = 0; n < 3; ++n) sums[r][n] += a * b[n];
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int n = 0; n < 3; ++n) {
        float* to = tile + r * kWeightPanel + n * kLanes;
        store(to, first == 0 ? sums[r][n] : load(to) + sums[r][n]);
      }
    }
  }
}

template <int R, bool fetch>
inline void tileOfRows(int64_t rows, const float* x, int64_t depth, const float* panel, float* tile) {
  if constexpr (R > 1) {
    if (rows < R) return tileOfRows<R - 1, fetch>(rows, x, depth, panel, tile);
  }
  linearTile<R, fetch>(x, depth, panel, tile);
}

template <Activation activation, class T>
void finishTile(const LinearArgs& a, const float* tile, int64_t row, int64_t rows, int64_t column) {
  const int64_t width = a.outputs - column < kWeightPanel ? a.outputs - column : kWeightPanel;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = (row + r) * a.outputs + column;
    const T* residual = a.residual ? static_cast<const T*>(a.residual) + at : nullptr;
    T* out = static_cast<T*>(a.out) + at;
    forVectors(width, [&](int64_t c, int64_t count, bool full) {
      Floats v = load(tile + r * kWeightPanel + c);
      if (a.bias) v += loadSome(a.bias + column + c, count, full);
      v = activate<activation>(v, 0, 0);
      if (residual) v += loadSome(residual + c, count, full);
      storeSome(out + c, v, count, full);
    });
  }
}

template <class T>
void linearPanels(const LinearArgs& a, int64_t begin, int64_t end,
                  void (*finish)(const LinearArgs&, const float*, int64_t, int64_t, int64_t)) {
  alignas(64) float tile[kRows * kWeightPanel];
  for (int64_t p = begin; p < end; ++p) {
    const float* panel = a.packed + p * kWeightPanel * a.depth;
    for (int64_t row = 0; row < a.rows; row += kRows) {
      const int64_t rows = a.rows - row < kRows ? a.rows - row : kRows;
      const float* x = a.x + row * a.depth;
      if (row == 0) {
        tileOfRows<kRows, true>(rows, x, a.depth, panel, tile);
      } else {
        tileOfRows<kRows, false>(rows, x, a.depth, panel, tile);
      }
      finish(a, tile, row, rows, p * kWeightPanel);
    }
  }
}

void linear(const LinearArgs& a, int64_t begin, int64_t end) {
  withType(a.scalar, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    withActivation(a.activation, [&](auto which) { linearPanels<T>(a, begin, end, finishTile<which.value, T>); });
  });
}

}  // namespace
}  // namespace graft::ops
