#include "kernels/cuda/tensor_map.h"

#include <cuda_runtime_api.h>

namespace graft::cuda {
namespace {

// Through the runtime, so that the library does not link libcuda and loads where there is no driver.
auto encoder() {
  static auto* function = [] {
    void* f = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &found) !=
            cudaSuccess ||
        found != cudaDriverEntryPointSuccess) {
      f = nullptr;
    }
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(f);
  }();
  return function;
}

}  // namespace

bool makeTensorMap(CUtensorMap& map, const void* data, Dtype dtype, int64_t rows, int64_t columns, int64_t rowStride,
                   int boxRows) {
  if (dtype == Dtype::kFloat || reinterpret_cast<uintptr_t>(data) % 16 || rowStride % 8 || rowStride < columns)
    return false;
  if (!encoder()) return false;
  cuuint64_t size[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  cuuint64_t stride[1] = {static_cast<cuuint64_t>(rowStride) * 2};
  cuuint32_t box[2] = {64, static_cast<cuuint32_t>(boxRows)};
  cuuint32_t step[2] = {1, 1};
  return encoder()(&map, dtype == Dtype::kHalf ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                   const_cast<void*>(data), size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                   CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace graft::cuda
