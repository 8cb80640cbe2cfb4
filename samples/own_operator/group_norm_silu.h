#pragma once
// What group_norm_silu.cpp, which knows PyTorch, tells the CUDA kernel in group_norm_silu.cu.
#include <cuda_runtime_api.h>

enum class OwnType { float32, half, bfloat16 };

struct OwnGroupNorm {
  const void *x, *weight, *bias;
  void* y;
  OwnType type;
  int batch, channels, pixels, groups;
  float eps;
  bool channelsLast;  ///< the channels of a pixel lie together
};

cudaError_t launchOwnGroupNormSilu(const OwnGroupNorm&, cudaStream_t);
