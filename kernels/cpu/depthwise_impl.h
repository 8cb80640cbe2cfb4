// Depthwise convolutions of images whose channels are innermost. loops_impl.h includes it, so it is compiled for each
// instruction set.
//
// Each output channel is a sum over one input channel, so the lanes run along the channels. A tile is a few
// neighbouring outputs of a row: its sums and the weights of one kernel row stay in registers, and each input is loaded
// once for all outputs of the tile that it reaches. oneDNN's kernels for this layout take 2 to 8 times as long where
// the channels are no multiple of 16 or the image is small.
#pragma once

#include "kernels/cpu/loops.h"
#include "kernels/cpu/vector.h"

namespace graft::ops {
namespace {

#if defined(__AVX512F__)
constexpr int kPixels = 8;  // of a tile, at most
#else
constexpr int kPixels = 4;
#endif

/// One output row, and which rows of the kernel lie inside the image there.
struct DepthwiseRow {
  int64_t first;       // where in x the input row begins that kernel row 0 meets; it may lie before the image
  int64_t rowStep;     // between the input rows that two kernel rows meet
  int64_t begin, end;  // the kernel rows inside
  float* out;
};

/// T outputs from `pixel` on, in the channels from c on. `clipped`: some inputs of a kernel row may lie outside.
template <int K, int S, int T, bool clipped>
inline void depthwiseTile(const DepthwiseArgs& a, const DepthwiseRow& row, int64_t pixel, int64_t c) {
  const int64_t left = pixel * S - a.padding[1];
  Floats sums[T];
  for (int t = 0; t < T; ++t) sums[t] = a.bias ? load(a.bias + c) : Floats{};
  for (int64_t k = row.begin; k < row.end; ++k) {
    const int64_t x = row.first + k * row.rowStep + left * a.channels + c;
    const float* packed = a.packed + k * K * a.channels + c;
    Floats weights[K];
#pragma GCC unroll 8
    for (int j = 0; j < K; ++j) weights[j] = load(packed + j * a.channels);
#pragma GCC unroll 32
    for (int i = 0; i < (T - 1) * S + K; ++i) {
      if constexpr (clipped) {
        if (left + i < 0 || left + i >= a.width) continue;
      }
      const Floats v = load(a.x + x + i * a.channels);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t)
        if (i - t * S >= 0 && i - t * S < K) sums[t] += weights[i - t * S] * v;
    }
  }
  for (int t = 0; t < T; ++t) store(row.out + (pixel + t) * a.channels + c, sums[t]);
}

/// Outputs from `pixel` on, as many tiles of T as fit, then smaller ones.
template <int K, int S, int T>
inline void depthwiseTiles(const DepthwiseArgs& a, const DepthwiseRow& row, int64_t pixel, int64_t c) {
  for (; pixel + T <= a.outWidth; pixel += T) {
    const int64_t left = pixel * S - a.padding[1];
    const bool isInside = left >= 0 && left + (T - 1) * S + K <= a.width;
    if (isInside)
      depthwiseTile<K, S, T, false>(a, row, pixel, c);
    else
      depthwiseTile<K, S, T, true>(a, row, pixel, c);
  }
  if constexpr (T > 1) {
    if (pixel < a.outWidth) depthwiseTiles<K, S, T / 2>(a, row, pixel, c);
  }
}

template <int K, int S>
void depthwiseRows(const DepthwiseArgs& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const int64_t top = r % a.outHeight * a.stride[0] - a.padding[0];
    const int64_t step = a.dilation[0];
    DepthwiseRow row;
    row.begin = top < 0 ? (-top + step - 1) / step : 0;
    row.end = a.height > top ? (a.height - top + step - 1) / step : 0;
    if (row.end > a.kernel[0]) row.end = a.kernel[0];
    row.first = (r / a.outHeight * a.height + top) * a.width * a.channels;
    row.rowStep = step * a.width * a.channels;
    row.out = a.out + r * a.outWidth * a.channels;
    for (int64_t c = 0; c < a.channels; c += kLanes) {
      // The last vector computes some channels a second time.
      depthwiseTiles<K, S, kPixels>(a, row, 0, c + kLanes <= a.channels ? c : a.channels - kLanes);
    }
  }
}

using DepthwiseLoop = void (*)(const DepthwiseArgs&, int64_t, int64_t);

DepthwiseLoop depthwiseLoop(const DepthwiseArgs& a) {
  if (a.channels < kLanes || a.dilation[1] != 1) return nullptr;
  const bool isOne = a.stride[1] == 1;
  if (!isOne && a.stride[1] != 2) return nullptr;
  switch (a.kernel[1]) {
    case 3:
      return isOne ? depthwiseRows<3, 1> : depthwiseRows<3, 2>;
    case 5:
      return isOne ? depthwiseRows<5, 1> : depthwiseRows<5, 2>;
    case 7:
      return isOne ? depthwiseRows<7, 1> : depthwiseRows<7, 2>;
    default:
      return nullptr;
  }
}

bool takesDepthwise(const DepthwiseArgs& a) { return depthwiseLoop(a) != nullptr; }

void depthwise(const DepthwiseArgs& a, int64_t begin, int64_t end) { depthwiseLoop(a)(a, begin, end); }

}  // namespace
}  // namespace graft::ops
