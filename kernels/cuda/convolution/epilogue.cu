// What follows a convolution whose kernel does not do it: bias, residual and activation in one pass, in place, in fp32
// between a load and a store.
#include "kernels/cuda/common.cuh"

namespace graft::cuda {
namespace {

// NaN stays NaN in all of them.
__device__ __forceinline__ float clampTo(float v, float low, float high) { return v < low ? low : v > high ? high : v; }

__device__ __forceinline__ float activatedBy(ConvActivation a, float v, float alpha, float beta) {
  switch (a) {
    case ConvActivation::kNone:
      return v;
    case ConvActivation::kRelu:
      return v < 0.f ? 0.f : v;
    case ConvActivation::kGelu:
      return 0.5f * v * (1.f + erff(v * 0.70710678118654752f));
    case ConvActivation::kGeluTanh:
      return 0.5f * v * (1.f + tanhf(0.79788456080286536f * (v + 0.044715f * v * v * v)));
    case ConvActivation::kSilu:
      return v / (1.f + __expf(-v));
    case ConvActivation::kSigmoid:
      return 1.f / (1.f + __expf(-v));
    case ConvActivation::kTanh:
      return tanhf(v);
    case ConvActivation::kHardSwish:
      return v * clampTo(v + 3.f, 0.f, 6.f) * (1.f / 6);
    case ConvActivation::kHardSigmoid:
      return clampTo(v + 3.f, 0.f, 6.f) * (1.f / 6);
    case ConvActivation::kHardTanh:
      return clampTo(v, alpha, beta);
    case ConvActivation::kLeakyRelu:
      return v < 0.f ? v * alpha : v;
  }
  return v;
}

template <class T, int V>
__global__ void __launch_bounds__(256) convEpilogue(const ConvEpilogueArgs a) {
  pdlTrigger();
  pdlWait();
  for (int64_t c = blockIdx.x * int64_t{256} + threadIdx.x; c < a.count / V; c += gridDim.x * int64_t{256}) {
    const int64_t e = c * V;
    float v[V], o[V];
    loadVec<T, V>(static_cast<T*>(a.y) + e, v);
    if (a.other) loadVec<T, V>(static_cast<const T*>(a.other) + e, o);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if (a.bias) v[i] += toFloat(static_cast<const T*>(a.bias)[(e + i) / a.channelStride % a.channels]);
      if (a.other) v[i] += o[i];
      v[i] = activatedBy(a.activation, v[i], a.alpha, a.beta);
    }
    storeVec<T, V>(static_cast<T*>(a.y) + e, v);
  }
}

template <class T>
cudaError_t runConvEpilogue(const ConvEpilogueArgs& a, cudaStream_t stream) {
  constexpr int V = 16 / sizeof(T);
  if (a.count == 0) return cudaSuccess;
  if (a.count % V == 0 && aligned(a.y, 16) && aligned(a.other, 16)) {
    return launch(convEpilogue<T, V>, blocksFor(a.count / V), 256, 0, stream, a.pdl, a);
  }
  return launch(convEpilogue<T, 1>, blocksFor(a.count), 256, 0, stream, a.pdl, a);
}

}  // namespace

cudaError_t launchConvEpilogue(const ConvEpilogueArgs& a, cudaStream_t stream) {
  switch (a.dtype) {
    case Dtype::kFloat:
      return runConvEpilogue<float>(a, stream);
    case Dtype::kHalf:
      return runConvEpilogue<__half>(a, stream);
    case Dtype::kBfloat16:
      return runConvEpilogue<__nv_bfloat16>(a, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace graft::cuda
