#pragma once
// The interface between the kernels (.cu, without ATen) and the operators (.cpp, without device code): a struct of
// arguments and a launch function for each kernel.
//
//   GemmArgs a; a.x = ...; if (launchGemmTile(a, variant, stream) == cudaErrorNotSupported) ...  // take another kernel
//
// The caller has checked shapes and dtypes. A launcher returns cudaErrorNotSupported for a shape, stride or alignment
// that its kernel cannot handle. Pointers are device pointers that the caller owns. Strides are in elements.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

namespace graft::cuda {

enum class Dtype : int { kFloat, kHalf, kBfloat16 };
enum class Activation : int { kNone, kRelu, kGelu, kGeluTanh, kSilu };

inline int bytesOf(Dtype t) { return t == Dtype::kFloat ? 4 : 2; }
inline bool aligned(const void* p, int bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }

// True while the calling thread's next kernel depends on work of several streams. That kernel is launched without PDL,
// so that it starts when all of that work is complete, and its own completion implies theirs (the PDL rule in
// common.cuh).
inline thread_local bool afterJoin = false;
// Whether to launch a kernel that supports PDL with it (`pdl`). Resets afterJoin, so call it once per launch.
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
  bool constantWeights = false;  // no kernel in flight writes w or bias: they may be loaded before the PDL wait
  bool pdl = true;
};

// dropout.cu: out[count, 2] = of each draw the seed, and its first block of Philox. While a CUDA graph is captured,
// seed and offset lie in memory of PyTorch's generator, and `offset` comes on top.
constexpr int kMaxRandomStates = 64;
struct RandomStatesArgs {
  int64_t* out = nullptr;
  const int64_t *seedAt = nullptr, *offsetAt = nullptr;
  uint64_t seed = 0, offset = 0;
  int64_t blocksBefore[kMaxRandomStates] = {};
  int count = 0;
  bool isCaptured = false;
};
cudaError_t launchRandomStates(const RandomStatesArgs& a, cudaStream_t stream);

// dropout.cu: out[e] = whether element e is kept, as PyTorch's dropout draws it with `threads` threads that take
// `vector` elements each. `state`: a row of the above.
struct DropoutMaskArgs {
  const int64_t* state = nullptr;
  bool* out = nullptr;
  int64_t count = 0, vector = 4, threads = 1;
  float kept = 1;
};
cudaError_t launchDropoutMask(const DropoutMaskArgs& a, cudaStream_t stream);

// copy.cu: copies up to kMaxCopies blocks of memory in one kernel. Source and target are the same or do not overlap.
constexpr int kMaxCopies = 16;
struct CopyArgs {
  void* to[kMaxCopies] = {};
  const void* from[kMaxCopies] = {};
  int64_t bytes[kMaxCopies] = {};
  int count = 0;
};
// The copy as a node of a CUDA graph. The caller sets kernelParams to point to `a`.
cudaKernelNodeParams copyNode(const CopyArgs& a);

// gemm_tile.cu: one output tile per block, split-K over a cluster. Variants are numbered from 0.
struct TileVariant {
  int bm, bn, clusterM, clusterN, split, stages, deep;  // deep: 64-wide slices of K per stage
  bool registerGelu;                                    // applies GELU in registers; serves no other activation
};
int tileVariantCount();
TileVariant tileVariant(int i);
cudaError_t launchGemmTile(const GemmArgs& a, int variant, cudaStream_t stream);

// gemm_persistent.cu: ping-pong warpgroups, 128x192 tiles, clusters of `rows` x 1 tiles (rows 1 or 2). It takes a
// residual or an activation, not both.
cudaError_t launchGemmPersistent(const GemmArgs& a, int rows, cudaStream_t stream);

struct NormArgs;
// gemm_rows.cu: at most 32 rows, half types, weights in registers. With `norm` (not null) the product's x is the norm's
// output: the kernel reads norm's x, weight and bias and writes norm's out; residual, inputBias and sum must be null.
// Variants are numbered from 0.
struct RowsVariant {
  int warps;    // of a block
  int chunks;   // of 32 elements of K, per warp
  int columns;  // groups of 16 columns, per cluster
  int split;    // blocks of a cluster, which split K
};
int rowsVariantCount();
RowsVariant rowsVariant(int i);
cudaError_t launchGemmRows(const GemmArgs& a, const NormArgs* norm, int variant, cudaStream_t stream);

// pointwise.cu: out[m,n] = residual + act(in[m,n] + bias), with row strides ldo, ldr, ldi. `in` may be a.out. a.x and
// a.w are not read.
cudaError_t launchEpilogue(const GemmArgs& a, const void* in, int64_t ldi, cudaStream_t stream);

// norm.cu: out[rows,n] = norm(x + inputBias + residual) * weight + bias over n, LayerNorm or RMSNorm
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

// norm.cu: out[outer * inner, n] = layer_norm(sum of table[t][ids[t]]) * weight + bias
constexpr int kMaxTables = 8;
struct EmbeddingArgs {
  const int64_t* ids[kMaxTables] = {};
  int64_t idStride[kMaxTables][2] = {};  // of (outer, inner) positions
  const void* table[kMaxTables] = {};    // [tableRows, n]
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

// out[b,h,s,:] = softmax(q k^T * scale + mask) v with q [b,h,s,dim], k [b,kvHeads,t,dim], v [b,kvHeads,t,dimV]
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
// attention.cu: half types, dim = dimV <= 128 and a multiple of 8, pointers and strides multiples of 16 bytes
cudaError_t launchAttention(const AttentionArgs& a, cudaStream_t stream);
// attention_hopper.cu: half types, dim = dimV <= 128, a mask by key, or by query and key in the type of q, scale > 0,
// no q, k or v of one sample for all. There are attentionHopperVariants() variants; attentionHopperChoice() is the one
// for a shape, -1 where launchAttention is faster.
int attentionHopperVariants();
int attentionHopperChoice(const AttentionArgs& a);
cudaError_t launchAttentionHopper(const AttentionArgs& a, int variant, cudaStream_t stream);
// mask_rows.cu: out [batch, heads, queries, rowStride] in a half type from a mask by query and key, as it is added to
// the scores: a bool gives 0 or -infinity. rowStride is a multiple of 8, at least `keys`; what lies behind the keys is
// 0.
struct MaskRowsArgs {
  MaskArg mask;
  void* out = nullptr;  // aligned to 16 bytes
  int batch = 0, heads = 0, queries = 0, keys = 0;
  int64_t rowStride = 0;
  bool pdl = true;
  Dtype dtype = Dtype::kHalf;
};
cudaError_t launchMaskRows(const MaskRowsArgs& a, cudaStream_t stream);
// attention_rows.cu: attention of up to 16 queries and 32 keys per batch, and the product that follows. The product's x
// is the attention's output, batch * queries rows; p.x and p.m are not read. Half types; 4, 8, 12 or 16 heads of size
// 32 or 64.
cudaError_t launchAttentionRows(const AttentionArgs& a, const GemmArgs& p, cudaStream_t stream);
// attention_plain.cu: any dtype and stride, dim and dimV <= 256
cudaError_t launchAttentionPlain(const AttentionArgs& a, cudaStream_t stream);

// pointwise.cu: out = softmax(x * scale + mask) over the last dimension of x [d0, d1, d2, n], any strides xs
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

// pointwise.cu: out = x * cos + rotate(x) * sin for x [batch, head, position, dim]; strides of x, out, cos and sin
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

// pointwise.cu: out[r,i] = silu(gate[r,i]) * up[r,i], out contiguous
struct SwigluArgs {
  const void *gate = nullptr, *up = nullptr;
  void* out = nullptr;
  int64_t rows = 0, n = 0, ldg = 0, ldu = 0;
  bool pdl = true;
  Dtype dtype = Dtype::kHalf;
};
cudaError_t launchSwiglu(const SwigluArgs& a, cudaStream_t stream);

// pointwise.cu: y = y + bias[channel] + other, then ReLU if `relu`, in place. channelStride is 1 for channels-last,
// else the number of elements of a plane.
enum class ConvActivation : int {
  kNone,
  kRelu,
  kGelu,
  kGeluTanh,
  kSilu,
  kSigmoid,
  kTanh,
  kHardSwish,
  kHardSigmoid,
  kHardTanh,   // clamps to [alpha, beta]
  kLeakyRelu,  // slope alpha
};

struct ConvEpilogueArgs {
  void* y = nullptr;
  const void* bias = nullptr;
  const void* other = nullptr;  // same layout as y
  int64_t count = 0, channels = 0, channelStride = 1;
  ConvActivation activation = ConvActivation::kNone;
  float alpha = 0, beta = 0;
  bool pdl = true;
  Dtype dtype = Dtype::kHalf;
};
cudaError_t launchConvEpilogue(const ConvEpilogueArgs& a, cudaStream_t stream);

}  // namespace graft::cuda
