#pragma once
// The seam between the kernels (.cu, no ATen) and the operators (.cpp, no device code). A launcher checks nothing but
// what only it can know; it returns cudaErrorNotSupported for a shape or alignment it has no kernel for, and the caller
// then takes another way. Pointers are device pointers owned by the caller. Strides are in elements.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

namespace graft::cuda {

enum class Dtype : int { kFloat, kHalf, kBfloat16 };
enum class Activation : int { kNone, kRelu, kGelu, kGeluTanh, kSilu };

inline int bytesOf(Dtype t) { return t == Dtype::kFloat ? 4 : 2; }
inline bool aligned(const void* p, int bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }

// Set where the next kernel of the calling thread comes after work of several streams. It is launched when all of that
// is over: then its end implies theirs, as the end of a kernel that waits for the one before it does (common.cuh).
inline thread_local bool afterJoin = false;
// Whether a kernel that can begin before its predecessor's end (PDL) shall. To be asked once for each launch.
inline bool launchesAhead(bool pdl) { return !std::exchange(afterJoin, false) && pdl; }

// out[m,n] = residual[m,n] + act(sum_k x[m,k] w[n,k] + bias[n])
struct GemmArgs {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* bias = nullptr;
  const void* residual = nullptr;
  void* out = nullptr;
  int64_t m = 0, n = 0, k = 0;
  int64_t ldx = 0, ldw = 0, ldr = 0, ldo = 0;
  Dtype dtype = Dtype::kHalf;
  Activation activation = Activation::kNone;
  bool constantWeights = false;  // w and bias are written by no kernel still in flight: they may be fetched ahead
  bool pdl = true;
};

// copy.cu: blocks of memory that do not overlap, or are the same, one kernel for all
constexpr int kMaxCopies = 16;
struct CopyArgs {
  void* to[kMaxCopies] = {};
  const void* from[kMaxCopies] = {};
  int64_t bytes[kMaxCopies] = {};
  int count = 0;
};
// As a node of a graph, but for its argument, which is `a`.
cudaKernelNodeParams copyNode(const CopyArgs& a);

// gemm_tile.cu: one output tile per block, split-K over a cluster. Its variants, by number:
struct TileVariant {
  int bm, bn, clusterM, clusterN, split, stages, deep;  // deep: 64-wide slices of K to a stage
  bool straight;                                        // GELU without a way through shared memory, and nothing else
};
int tileVariantCount();
TileVariant tileVariant(int i);
cudaError_t launchGemmTile(const GemmArgs& a, int variant, cudaStream_t stream);

// gemm_persistent.cu: ping-pong warpgroups, 128x192 tiles, clusters of `rows` x 1 tiles (rows 1 or 2). A residual
// only without an activation.
cudaError_t launchGemmPersistent(const GemmArgs& a, int rows, cudaStream_t stream);

struct NormArgs;
// gemm_rows.cu: at most 32 rows, half types, weights through registers. With `norm`, x is norm's output and made on the
// way: its x, weight and bias are read and its out written, without residual or input bias. Its variants, by number:
struct RowsVariant {
  int warps, chunks, columns,
      split;  // of a block; 32s of K to a warp; 16s of columns to a cluster; blocks of a cluster, which share K
};
int rowsVariantCount();
RowsVariant rowsVariant(int i);
cudaError_t launchGemmRows(const GemmArgs& a, const NormArgs* norm, int variant, cudaStream_t stream);

// pointwise.cu: out = residual + act(in + bias), in place allowed; rows x n, row strides ldi, ldr, ldo
cudaError_t launchEpilogue(const GemmArgs& a, const void* in, int64_t ldi, cudaStream_t stream);

struct NormArgs {
  const void* x = nullptr;          // [rows, n]
  const void* residual = nullptr;   // [rows, n] or null
  const void* inputBias = nullptr;  // [n] or null, added to x
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* out = nullptr;
  void* sum = nullptr;  // x + residual, or null
  int64_t rows = 0, n = 0, ldx = 0, ldr = 0;
  float eps = 0;
  bool rms = false;
  bool constantWeights = false;  // as in GemmArgs
  bool pdl = true;
  Dtype dtype = Dtype::kHalf;
};
cudaError_t launchNorm(const NormArgs& a, cudaStream_t stream);

constexpr int kMaxTables = 8;
struct EmbeddingArgs {
  const int64_t* ids[kMaxTables] = {};
  int64_t idStride[kMaxTables][2] = {};  // over (outer, inner) positions
  const void* table[kMaxTables] = {};
  int64_t tableRows[kMaxTables] = {};
  int tables = 0;
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* out = nullptr;
  int64_t outer = 0, inner = 0, n = 0;
  float eps = 0;
  bool pdl = true;
  Dtype dtype = Dtype::kHalf;
};
cudaError_t launchEmbeddingNorm(const EmbeddingArgs& a, cudaStream_t stream);

enum class MaskKind : int { kNone, kBool, kFloat, kHalf, kBfloat16 };
struct MaskArg {
  const void* data = nullptr;
  MaskKind kind = MaskKind::kNone;
  int64_t stride[4] = {0, 0, 0, 0};  // batch, head, query, key; 0 where broadcast
};

struct AttentionArgs {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* out = nullptr;
  int64_t qs[3] = {}, ks[3] = {}, vs[3] = {}, os[3] = {};  // strides of batch, head, position; the last one is 1
  int batch = 0, heads = 0, kvHeads = 0, queries = 0, keys = 0, dim = 0, dimV = 0;
  MaskArg mask;
  float scale = 1;
  bool causal = false;  // query i sees keys j <= i
  bool pdl = true;
  Dtype dtype = Dtype::kHalf;
};
cudaError_t launchAttention(const AttentionArgs& a,
                            cudaStream_t stream);  // half types, dim = dimV <= 128, 16-byte rows
// attention_hopper.cu: half types, dim = dimV <= 128, masks by key, or by query and key in the type of q, scale > 0.
// Its variants, and the one for a shape; -1 where launchAttention is faster.
int attentionHopperVariants();
int attentionHopperChoice(const AttentionArgs& a);
cudaError_t launchAttentionHopper(const AttentionArgs& a, int variant, cudaStream_t stream);
// attention_rows.cu: attention of up to 16 queries and 32 keys each, and the product that follows, whose x is the
// attention's output (p.x and p.m are not looked at; the rows are batch * queries). At most 16 heads of 32 or 64,
// half types.
cudaError_t launchAttentionRows(const AttentionArgs& a, const GemmArgs& p, cudaStream_t stream);
cudaError_t launchAttentionPlain(const AttentionArgs& a, cudaStream_t stream);  // any dtype and stride, dims <= 256

// Rows of a [d0, d1, d2, n] tensor with a contiguous last dimension
struct SoftmaxArgs {
  const void* x = nullptr;
  void* out = nullptr;  // contiguous
  MaskArg mask;
  int64_t size[4] = {1, 1, 1, 0};
  int64_t xs[4] = {};
  float scale = 1;
  bool pdl = true;
  Dtype dtype = Dtype::kHalf;
};
cudaError_t launchSoftmax(const SoftmaxArgs& a, cudaStream_t stream);

struct RotaryArgs {
  const void* x = nullptr;
  const void *cos = nullptr, *sin = nullptr;  // float
  void* out = nullptr;
  int64_t size[4] = {};  // batch, head, position, dim
  int64_t xs[4] = {}, os[4] = {}, cs[4] = {}, ss[4] = {};
  bool interleaved = false;
  bool pdl = true;
  Dtype dtype = Dtype::kHalf;
};
cudaError_t launchRotary(const RotaryArgs& a, cudaStream_t stream);

// out[r,i] = silu(gate[r,i]) * up[r,i]
struct SwigluArgs {
  const void *gate = nullptr, *up = nullptr;
  void* out = nullptr;
  int64_t rows = 0, n = 0, ldg = 0, ldu = 0;
  bool pdl = true;
  Dtype dtype = Dtype::kHalf;
};
cudaError_t launchSwiglu(const SwigluArgs& a, cudaStream_t stream);

// y = relu?(y + bias[channel] + other), in place; `channelStride` 1 for channels-last, else the plane's size
struct ConvEpilogueArgs {
  void* y = nullptr;
  const void* bias = nullptr;
  const void* other = nullptr;  // same layout as y
  int64_t count = 0, channels = 0, channelStride = 1;
  bool relu = true;
  bool pdl = true;
  Dtype dtype = Dtype::kHalf;
};
cudaError_t launchConvEpilogue(const ConvEpilogueArgs& a, cudaStream_t stream);

}  // namespace graft::cuda
