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

/// Where the channel of an element is found, from the fastest: `V` neighbours are neighbours in channels, too; they are
/// all of one channel; each asks on its own.
enum class Channels { kNeighbours, kShared, kEach };

/// `Index` holds `count`: a division of 64 bits costs more than all else here.
template <class T, int V, Channels C, class Index>
__global__ void __launch_bounds__(256) convEpilogue(const ConvEpilogueArgs a) {
  pdlTrigger();
  pdlWait();
  const T* const bias = static_cast<const T*>(a.bias);
  const auto stride = static_cast<Index>(a.channelStride), channels = static_cast<Index>(a.channels);
  const auto vectors = static_cast<Index>(a.count / V);
  for (Index c = blockIdx.x * Index{256} + threadIdx.x; c < vectors; c += gridDim.x * Index{256}) {
    const Index e = c * V;
    float v[V], o[V], b[V];
    loadVec<T, V>(static_cast<T*>(a.y) + e, v);
    if (a.other) loadVec<T, V>(static_cast<const T*>(a.other) + e, o);
    if (bias) {
      if constexpr (C == Channels::kNeighbours) {
        loadVec<T, V>(bias + e % channels, b);
      } else if constexpr (C == Channels::kShared) {
        const float shared = toFloat(bias[e / stride % channels]);
#pragma unroll
        for (int i = 0; i < V; ++i) b[i] = shared;
      } else {
#pragma unroll
        for (int i = 0; i < V; ++i) b[i] = toFloat(bias[(e + i) / stride % channels]);
      }
    }
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if (bias) v[i] += b[i];
      if (a.other) v[i] += o[i];
      v[i] = activatedBy(a.activation, v[i], a.alpha, a.beta);
    }
    storeVec<T, V>(static_cast<T*>(a.y) + e, v);
  }
}

template <class T, int V, Channels C>
cudaError_t runConvEpilogue(const ConvEpilogueArgs& a, cudaStream_t stream) {
  const unsigned blocks = blocksFor(a.count / V);
  constexpr int64_t room = int64_t{1} << 31;  // a step beyond the last element stays below 2^32
  if (a.count < room) return launch(convEpilogue<T, V, C, uint32_t>, blocks, 256, 0, stream, a.pdl, a);
  return launch(convEpilogue<T, V, C, int64_t>, blocks, 256, 0, stream, a.pdl, a);
}

template <class T>
cudaError_t runConvEpilogue(const ConvEpilogueArgs& a, cudaStream_t stream) {
  constexpr int V = 16 / sizeof(T);
  if (a.count == 0) return cudaSuccess;
  if (a.count % V != 0 || !aligned(a.y, 16) || !aligned(a.other, 16))
    return runConvEpilogue<T, 1, Channels::kShared>(a, stream);
  if (!a.bias || a.channelStride % V == 0) return runConvEpilogue<T, V, Channels::kShared>(a, stream);
  if (a.channelStride == 1 && a.channels % V == 0 && aligned(a.bias, 16))
    return runConvEpilogue<T, V, Channels::kNeighbours>(a, stream);
  return runConvEpilogue<T, V, Channels::kEach>(a, stream);
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
