#include "kernels/cuda/gemm/tensor_map.h"

#include <cuda_runtime_api.h>

namespace graft::cuda {
namespace {

// The driver's function, looked up through the runtime: so the library does not link libcuda and loads without a
// driver.
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

// Encodes a map of `dims` dimensions, the innermost first. `stride` is in bytes and omits the first dimension.
bool encode(CUtensorMap& map, const void* data, Dtype dtype, int dims, const cuuint64_t* size, const cuuint64_t* stride,
            int boxRows, int boxColumns = 64, CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B) {
  if (dtype == Dtype::kFloat || reinterpret_cast<uintptr_t>(data) % 16 || !encoder()) return false;
  const cuuint32_t box[4] = {static_cast<cuuint32_t>(boxColumns), static_cast<cuuint32_t>(boxRows), 1, 1},
                   step[4] = {1, 1, 1, 1};
  return encoder()(&map, dtype == Dtype::kHalf ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                   static_cast<cuuint32_t>(dims), const_cast<void*>(data), size, stride, box, step,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace

bool makeTensorMap(CUtensorMap& map, const void* data, Dtype dtype, int64_t rows, int64_t columns, int64_t rowStride,
                   int boxRows) {
  if (rowStride % 8 || rowStride < columns) return false;
  const cuuint64_t size[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t stride[1] = {static_cast<cuuint64_t>(rowStride) * 2};
  return encode(map, data, dtype, 2, size, stride, boxRows);
}

bool makeBoxMap(CUtensorMap& map, const void* data, Dtype dtype, int64_t rows, int64_t columns, int64_t rowStride,
                int boxRows, int boxColumns) {
  if (rowStride % 8 || rowStride < columns) return false;
  const cuuint64_t size[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t stride[1] = {static_cast<cuuint64_t>(rowStride) * 2};
  return encode(map, data, dtype, 2, size, stride, boxRows, boxColumns,
                boxColumns == 32   ? CU_TENSOR_MAP_SWIZZLE_64B
                : boxColumns == 16 ? CU_TENSOR_MAP_SWIZZLE_32B
                                   : CU_TENSOR_MAP_SWIZZLE_NONE);
}

bool makeHeadMap(CUtensorMap& map, const void* data, Dtype dtype, int batch, int heads, int positions, int columns,
                 const int64_t (&strides)[3], int boxRows) {
  const int counts[3] = {batch, heads, positions};
  cuuint64_t size[4] = {static_cast<cuuint64_t>(columns)}, stride[3];
  for (int d = 0; d < 3; ++d) {
    // The stride of a dimension of size one has no meaning and may be any number.
    const int64_t s = counts[d] == 1 ? (columns + 7) / 8 * 8 : strides[d];
    if (s % 8 || s < 0) return false;
    size[3 - d] = static_cast<cuuint64_t>(counts[d]);
    stride[2 - d] = static_cast<cuuint64_t>(s) * 2;
  }
  return encode(map, data, dtype, 4, size, stride, boxRows);
}

}  // namespace graft::cuda
