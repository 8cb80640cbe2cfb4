// Copies a mask by query and key into rows of the scores' type that begin at multiples of 16 bytes, as tensor maps need
// them. Each thread writes 16 bytes.
#include "kernels/cuda/attention/mask.cuh"

namespace graft::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(256) maskRows(const MaskRowsArgs a) {
  pdlTrigger();
  pdlWait();
  const int perRow = static_cast<int>(a.rowStride / 8);
  const int64_t count = int64_t{a.batch} * a.heads * a.queries * perRow;
  for (int64_t c = blockIdx.x * int64_t{256} + threadIdx.x; c < count; c += gridDim.x * int64_t{256}) {
    const int64_t row = c / perRow;
    const int first = static_cast<int>(c % perRow) * 8, query = static_cast<int>(row % a.queries);
    const int64_t pair = row / a.queries;
    const int64_t from = pair / a.heads * a.mask.stride[0] + pair % a.heads * a.mask.stride[1] +
                         query * a.mask.stride[2] + first * a.mask.stride[3];
    uint32_t bits[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) bits[i] = first + i < a.keys ? loadMaskBits(a.mask, from + i * a.mask.stride[3]) : 0u;
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = first + i < a.keys ? maskOfBits(a.mask.kind, bits[i]) : 0.f;
    storeVec<T, 8>(static_cast<T*>(a.out) + row * a.rowStride + first, v);
  }
}

}  // namespace

cudaError_t launchMaskRows(const MaskRowsArgs& a, cudaStream_t stream) {
  if (a.dtype == Dtype::kFloat || a.rowStride % 8 || a.rowStride < a.keys || !aligned(a.out, 16))
    return cudaErrorNotSupported;
  const int64_t threads = int64_t{a.batch} * a.heads * a.queries * (a.rowStride / 8);
  if (threads == 0) return cudaSuccess;
  return a.dtype == Dtype::kHalf ? launch(maskRows<__half>, blocksFor(threads), 256, 0, stream, a.pdl, a)
                                 : launch(maskRows<__nv_bfloat16>, blocksFor(threads), 256, 0, stream, a.pdl, a);
}

}  // namespace graft::cuda
