// LayerNorm and RMSNorm of x + input bias + residual that keep each row's mean and reciprocal deviation for the
// backward pass. As in norm/norm.cu, statistics are fp32 and take two passes over registers, and where x + residual is
// returned too, the norm is of that sum after rounding.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/gradients/gradient_launchers.h"

namespace graft::cuda {
namespace {

template <int Warps>
__device__ __forceinline__ float rowSum(float x, float* parts) {
  x = warpSum(x);
  if constexpr (Warps > 1) {
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0.f;
#pragma unroll
    for (int i = 0; i < Warps; ++i) x += parts[i];
  }
  return x;
}

// A warp (four rows per block) or a block per row, which holds it in registers.
template <class T, int Warps, int Vecs, int V>
__global__ void __launch_bounds__(Warps == 1 ? 128 : Warps * 32) normTraining(const NormTrainingArgs args) {
  const NormArgs& a = args.norm;
  using Chunk = Vec<T, V>;
  pdlTrigger();
  __shared__ float parts[2][Warps];
  const int64_t row = Warps == 1 ? int64_t{blockIdx.x} * 4 + threadIdx.x / 32 : blockIdx.x;
  const int lane = Warps == 1 ? threadIdx.x % 32 : threadIdx.x;
  const auto column = [&](int c) { return int64_t{c * Warps * 32 + lane} * V; };
  pdlWait();
  if (row >= a.rows) return;
  Chunk x[Vecs], r[Vecs], inputBias[Vecs], weight[Vecs], bias[Vecs];
  const auto load = [&](const void* from, Chunk(&to)[Vecs]) {
#pragma unroll
    for (int c = 0; c < Vecs; ++c) {
      if (from && column(c) < a.n) to[c] = *reinterpret_cast<const Chunk*>(static_cast<const T*>(from) + column(c));
    }
  };
  load(static_cast<const T*>(a.x) + row * a.ldx, x);
  load(a.residual ? static_cast<const T*>(a.residual) + row * a.ldr : nullptr, r);
  load(a.inputBias, inputBias);
  load(a.weight, weight);
  load(a.bias, bias);
  float v[Vecs][V], mean = 0.f, q = 0.f;
#pragma unroll
  for (int c = 0; c < Vecs; ++c) {
    const bool there = column(c) < a.n;
#pragma unroll
    for (int i = 0; i < V; ++i) {
      v[c][i] = 0.f;
      if (!there) continue;
      v[c][i] = toFloat(x[c].v[i]);
      if (a.inputBias) v[c][i] += toFloat(inputBias[c].v[i]);
      if (a.residual) v[c][i] += toFloat(r[c].v[i]);
      if (a.sum) v[c][i] = toFloat(fromFloat<T>(v[c][i]));
      mean += v[c][i];
    }
    if (a.sum && there) storeVec<T, V>(static_cast<T*>(a.sum) + row * a.n + column(c), v[c]);
  }
  const float inverse = 1.f / static_cast<float>(a.n);
  mean = a.rms ? 0.f : rowSum<Warps>(mean, parts[0]) * inverse;
#pragma unroll
  for (int c = 0; c < Vecs; ++c) {
    if (column(c) >= a.n) continue;
#pragma unroll
    for (int i = 0; i < V; ++i) q += (v[c][i] - mean) * (v[c][i] - mean);
  }
  const float rstd = rsqrtf(rowSum<Warps>(q, parts[1]) * inverse + a.eps);
  if (lane == 0) {
    if (args.mean) args.mean[row] = mean;
    args.rstd[row] = rstd;
  }
#pragma unroll
  for (int c = 0; c < Vecs; ++c) {
    if (column(c) >= a.n) continue;
    float y[V];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      y[i] = (v[c][i] - mean) * rstd;
      if (a.weight) y[i] *= toFloat(weight[c].v[i]);
      if (a.bias) y[i] += toFloat(bias[c].v[i]);
    }
    storeVec<T, V>(static_cast<T*>(a.out) + row * a.n + column(c), y);
  }
}

// Any n, stride and alignment: a block per row, which reads it three times.
template <class T>
__global__ void __launch_bounds__(256) normTrainingAny(const NormTrainingArgs args) {
  const NormArgs& a = args.norm;
  pdlTrigger();
  pdlWait();
  __shared__ float parts[2][8];
  const int64_t row = blockIdx.x;
  const auto value = [&](int64_t i) {
    float v = toFloat(static_cast<const T*>(a.x)[row * a.ldx + i]);
    if (a.inputBias) v += toFloat(static_cast<const T*>(a.inputBias)[i]);
    if (a.residual) v += toFloat(static_cast<const T*>(a.residual)[row * a.ldr + i]);
    return a.sum ? toFloat(fromFloat<T>(v)) : v;
  };
  float mean = 0.f, q = 0.f;
  for (int64_t i = threadIdx.x; i < a.n; i += 256) mean += value(i);
  mean = a.rms ? 0.f : rowSum<8>(mean, parts[0]) / a.n;
  for (int64_t i = threadIdx.x; i < a.n; i += 256) q += (value(i) - mean) * (value(i) - mean);
  const float rstd = rsqrtf(rowSum<8>(q, parts[1]) / a.n + a.eps);
  if (threadIdx.x == 0) {
    if (args.mean) args.mean[row] = mean;
    args.rstd[row] = rstd;
  }
  for (int64_t i = threadIdx.x; i < a.n; i += 256) {
    const float v = value(i);
    float y = (v - mean) * rstd;
    if (a.weight) y *= toFloat(static_cast<const T*>(a.weight)[i]);
    if (a.bias) y += toFloat(static_cast<const T*>(a.bias)[i]);
    if (a.sum) static_cast<T*>(a.sum)[row * a.n + i] = fromFloat<T>(v);
    static_cast<T*>(a.out)[row * a.n + i] = fromFloat<T>(y);
  }
}

template <class T, int Warps, int Vecs, int V>
cudaError_t launchRows(const NormTrainingArgs& args, unsigned rows, cudaStream_t stream) {
  const unsigned blocks = Warps == 1 ? (rows + 3) / 4 : rows, threads = Warps == 1 ? 128 : Warps * 32;
  return launch(normTraining<T, Warps, Vecs, V>, blocks, threads, 0, stream, args.norm.pdl, args);
}

template <class T>
cudaError_t run(const NormTrainingArgs& args, cudaStream_t stream) {
  constexpr int V = 16 / sizeof(T);
  const NormArgs& a = args.norm;
  if (a.rows == 0 || a.n == 0) return cudaSuccess;
  if (a.rows > INT32_MAX) return cudaErrorNotSupported;
  const unsigned rows = static_cast<unsigned>(a.rows);
  const bool vectors = a.n % V == 0 && a.ldx % V == 0 && (!a.residual || a.ldr % V == 0) && aligned(a.x, 16) &&
                       aligned(a.residual, 16) && aligned(a.inputBias, 16) && aligned(a.weight, 16) &&
                       aligned(a.bias, 16) && aligned(a.out, 16) && aligned(a.sum, 16);
  if (vectors && a.n <= 32 * V) return launchRows<T, 1, 1, V>(args, rows, stream);
  if (vectors && a.n <= 96 * V) return launchRows<T, 1, 3, V>(args, rows, stream);
  if (vectors && a.n <= 128 * V) return launchRows<T, 4, 1, V>(args, rows, stream);
  if (vectors && a.n <= 256 * V) return launchRows<T, 4, 2, V>(args, rows, stream);
  if (vectors && a.n <= 512 * V) return launchRows<T, 8, 2, V>(args, rows, stream);
  if (vectors && a.n <= 1024 * V) return launchRows<T, 16, 2, V>(args, rows, stream);
  return launch(normTrainingAny<T>, rows, 256, 0, stream, a.pdl, args);
}

}  // namespace

cudaError_t launchNormTraining(const NormTrainingArgs& args, cudaStream_t stream) {
  switch (args.norm.dtype) {
    case Dtype::kFloat:
      return run<float>(args, stream);
    case Dtype::kHalf:
      return run<__half>(args, stream);
    case Dtype::kBfloat16:
      return run<__nv_bfloat16>(args, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace graft::cuda
