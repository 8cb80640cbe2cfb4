// The CUDA kernel of own::group_norm_silu. It includes no PyTorch, so it compiles in seconds.
#include "group_norm_silu.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

constexpr int threads = 1024;

/// The sum over all threads of the block, in each of them. `parts` is shared memory for 32 values.
__device__ float sumOfBlock(float value, float* parts) {
  for (int to = 16; to > 0; to /= 2) value += __shfl_xor_sync(~0u, value, to);
  __syncthreads();  // nobody still reads what was summed before
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = parts[threadIdx.x % 32];
  for (int to = 16; to > 0; to /= 2) value += __shfl_xor_sync(~0u, value, to);
  return value;
}

/// A block for each group of each picture. It reads its values three times: for the mean, for the variance, and for the
/// result; all but the first time they come from the cache.
template <class T>
__global__ void __launch_bounds__(threads) groupNormSilu(const OwnGroupNorm a) {
  __shared__ float parts[threads / 32];
  const int inGroup = a.channels / a.groups, group = blockIdx.x % a.groups;
  const long long image = static_cast<long long>(blockIdx.x / a.groups) * a.channels * a.pixels;
  const int n = inGroup * a.pixels;
  const T *x = static_cast<const T*>(a.x) + image, *w = static_cast<const T*>(a.weight),
          *b = static_cast<const T*>(a.bias);
  T* y = static_cast<T*>(a.y) + image;
  // Where value i of the group lies, and which channel it belongs to.
  const auto channelOf = [&](int i) { return group * inGroup + (a.channelsLast ? i % inGroup : i / a.pixels); };
  const auto placeOf = [&](int i) {
    return a.channelsLast ? static_cast<long long>(i / inGroup) * a.channels + group * inGroup + i % inGroup
                          : static_cast<long long>(group) * n + i;
  };
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < n; i += threads) sum += static_cast<float>(x[placeOf(i)]);
  const float mean = sumOfBlock(sum, parts) / n;
  for (int i = threadIdx.x; i < n; i += threads) {
    const float off = static_cast<float>(x[placeOf(i)]) - mean;
    squares += off * off;
  }
  const float scale = rsqrtf(sumOfBlock(squares, parts) / n + a.eps);
  for (int i = threadIdx.x; i < n; i += threads) {
    const int channel = channelOf(i);
    const float value = (static_cast<float>(x[placeOf(i)]) - mean) * scale * static_cast<float>(w[channel]) +
                        static_cast<float>(b[channel]);
    y[placeOf(i)] = static_cast<T>(value / (1 + __expf(-value)));
  }
}

}  // namespace

cudaError_t launchOwnGroupNormSilu(const OwnGroupNorm& a, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(a.batch * a.groups);
  if (a.type == OwnType::half)
    groupNormSilu<__half><<<blocks, threads, 0, stream>>>(a);
  else if (a.type == OwnType::bfloat16)
    groupNormSilu<__nv_bfloat16><<<blocks, threads, 0, stream>>>(a);
  else
    groupNormSilu<float><<<blocks, threads, 0, stream>>>(a);
  return cudaGetLastError();
}
