#pragma once
// Products with few rows, out[m,n] = x[m,k] w[n,k]^T with m <= 32: what gemm_rows.cu and attention_rows.cu share.
//
// With so few rows, reading the weights is nearly all the work, and latency decides the time. Each lane therefore loads
// its weights from global memory straight into the registers that the matrix instruction reads, before the wait for the
// previous kernel. There is no shared memory and no pipeline for them. A cluster of blocks owns some columns of the
// output. Its blocks and their warps split K, so each reads only a part of x; at the end each block finishes a share of
// the cluster's columns. The matrix instruction's rows are rows of the weight, its columns are tokens:
// D[16 columns, 8 tokens] += W[16, 16] x^T[16, 8] (mma.sync.m16n8k16).
//
// Each instruction runs only once, so instruction fetches take much of such a kernel's time. While the weights arrive,
// a dry pass therefore executes the code that follows the wait, on zeros, and reads, sends and writes nothing.
//
// The order in which K is summed is free as long as both operands use the same one. Of each 32 elements along K, lane t
// of a quad takes eight consecutive ones (16 bytes) for two instructions: words 0 and 1 are K = 2t, 2t+1 and 2t+8, 2t+9
// of the first, words 2 and 3 those of the second.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma.cuh"

namespace graft::cuda {

constexpr int kRowsColumns = 16;  // columns of the output per matrix instruction

struct RowsParams {
  const void *x, *w, *bias, *residual;
  void* out;
  int m, n, k;
  int64_t ldx, ldw, ldr, ldo;
  Activation activation;
  bool constantWeights;  // with PDL: weights may be loaded before the wait
};

// Whether these kernels accept a product as far as w, bias, residual and out are concerned; x is not looked at.
inline bool rowsTake(const GemmArgs& a) {
  return a.dtype != Dtype::kFloat && a.n % 2 == 0 && a.ldw % 8 == 0 && a.ldo % 2 == 0 && aligned(a.w, 16) &&
         aligned(a.out, 4) && (!a.residual || (a.ldr % 2 == 0 && aligned(a.residual, 4)));
}

inline RowsParams rowsParams(const GemmArgs& a, const void* x, int64_t ldx) {
  return {x,
          a.w,
          a.bias,
          a.residual,
          a.out,
          static_cast<int>(a.m),
          static_cast<int>(a.n),
          static_cast<int>(a.k),
          ldx,
          a.ldw,
          a.ldr,
          a.ldo,
          a.activation,
          a.constantWeights && a.pdl};
}

__device__ __forceinline__ uint32_t wordOf(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// Loads 16 bytes without allocating in the L1 cache: weights are read once.
__device__ __forceinline__ uint4 loadStreamed(const void* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

template <class T>
__device__ __forceinline__ uint32_t mul2(uint32_t a, uint32_t b);
template <>
__device__ __forceinline__ uint32_t mul2<__half>(uint32_t a, uint32_t b) {
  const __half2 y = __hmul2(*reinterpret_cast<__half2*>(&a), *reinterpret_cast<__half2*>(&b));
  return *reinterpret_cast<const uint32_t*>(&y);
}
template <>
__device__ __forceinline__ uint32_t mul2<__nv_bfloat16>(uint32_t a, uint32_t b) {
  const __nv_bfloat162 y = __hmul2(*reinterpret_cast<__nv_bfloat162*>(&a), *reinterpret_cast<__nv_bfloat162*>(&b));
  return *reinterpret_cast<const uint32_t*>(&y);
}

// This lane's share of the weights: rows n0 + lane / 4 and eight below, and C * 32 elements of K from k0 on.
template <class T, int C>
struct RowsWeights {
  uint4 v[C][2];

  __device__ __forceinline__ void load(const RowsParams& p, int n0, int k0, int lane) {
    const T* w = static_cast<const T*>(p.w);
#pragma unroll
    for (int c = 0; c < C; ++c) {
      const int k = k0 + c * 32 + lane % 4 * 8;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int n = n0 + lane / 4 + half * 8;
        v[c][half] = n < p.n && k < p.k ? loadStreamed(w + n * p.ldw + k) : make_uint4(0, 0, 0, 0);
      }
    }
  }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int c = 0; c < C; ++c) v[c][0] = v[c][1] = make_uint4(0, 0, 0, 0);
  }
  // even + odd += w x^T for eight tokens. `x` is this lane's part of their 32 elements of K in chunk c. Two sums keep
  // the instructions independent of one another.
  __device__ __forceinline__ void multiply(int c, const uint4& x, float (&even)[4], float (&odd)[4]) const {
    const uint32_t first[4] = {v[c][0].x, v[c][1].x, v[c][0].y, v[c][1].y};
    const uint32_t second[4] = {v[c][0].z, v[c][1].z, v[c][0].w, v[c][1].w};
    mma<T>(even, first, x.x, x.y);
    mma<T>(odd, second, x.z, x.w);
  }
};

// Two neighbouring values of the bias, packed; zeros where there is no bias.
template <class T>
__device__ __forceinline__ uint32_t rowsBias(const RowsParams& p, int n) {
  uint32_t v = 0;
  if (p.bias && n < p.n) asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(static_cast<const T*>(p.bias) + n));
  return v;
}

// Applies bias, activation and residual to two columns, and writes them if `there`.
template <class T>
__device__ __forceinline__ void finish(const RowsParams& p, bool there, int row, int n, float2 sum, uint32_t bias,
                                       uint32_t residual) {
  const float2 shift = unpack2<T>(bias);
  float y[2] = {sum.x + shift.x, sum.y + shift.y};
  activate<T, 2>(y, p.activation);
  if (p.residual) {
    const float2 more = unpack2<T>(residual);
    y[0] += more.x, y[1] += more.y;
  }
  if (there) *reinterpret_cast<uint32_t*>(static_cast<T*>(p.out) + row * p.ldo + n) = pack2<T>(y[0], y[1]);
}

// Reduces the partial sums of a cluster of Split blocks with Warps warps each, for Tokens tokens and Tiles * 16
// columns.
//
//   exchange.open();                      // at the start, by all threads
//   exchange.put(...); __syncthreads();   // each warp leaves its sums
//   exchange.sendSums(rank, true);        // adds them up in the block, sends each pair of columns to its owner
//   exchange.receive(true);               // waits for the other blocks
//   exchange.sumOf(pair, rank, true)      // the total, added in a fixed order, so that results repeat
//
// With `Norm` the blocks also exchange two sums of each token (to every block) and two of each column (to its owner).
template <int Warps, int Tokens, int Tiles, int Split, bool Norm>
struct RowsExchange {
  static constexpr int kColumns = Tiles * kRowsColumns,
                       kOwn = kColumns / Split;  // columns of the cluster, columns that a block owns
  static constexpr int kPitch = kColumns + 4;    // floats from token to token; avoids bank conflicts of writes
  static constexpr int kPairs = Tokens * kOwn / 2, kThreads = Warps * 32, kTimes = (kPairs + kThreads - 1) / kThreads;
  static constexpr int kBytes =
      (kPairs + (Norm ? Tokens + kOwn : 0)) * 8;  // that a block receives from each of the others
  static_assert(kColumns % (2 * Split) == 0);

  float part[Warps][Tokens][kPitch];
  float2 sums[Split][kPairs];
  float2 moments[Norm ? Split : 1][Norm ? Tokens : 1];  // sum of x, sum of x^2
  float2 slopes[Norm ? Split : 1][Norm ? kOwn : 1];     // u and v of a column
  uint64_t there;

  // At the start, by all threads.
  __device__ __forceinline__ void open() {
#ifdef GRAFT_HOPPER
    if constexpr (Split > 1) {
      if (threadIdx.x == 0) {
        barrierInit(&there, 1);
        barrierInitFence();
      }
      clusterArriveRelaxed();
    }
#endif
  }
  // Before the first send: waits until all blocks of the cluster have called open().
  __device__ __forceinline__ void ready() {
#ifdef GRAFT_HOPPER
    if constexpr (Split > 1) clusterWait();
#endif
  }
  // Stores a warp's sums of eight tokens and sixteen columns.
  __device__ __forceinline__ void put(int warp, int tokens, int tile, int lane, const float (&even)[4],
                                      const float (&odd)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      part[warp][tokens * 8 + lane % 4 * 2 + (i & 1)][tile * kRowsColumns + lane / 4 + (i >> 1) * 8] = even[i] + odd[i];
  }
  __device__ __forceinline__ float2 total(int token, int column) const {
    float2 sum = make_float2(0.f, 0.f);
#pragma unroll
    for (int from = 0; from < Warps; ++from) {
      const float2 f = *reinterpret_cast<const float2*>(&part[from][token][column]);
      sum.x += f.x, sum.y += f.y;
    }
    return sum;
  }
  // Writes `value` to `place` in block `owner` of the cluster. `place` is the address in this block, whose rank is
  // `rank`.
  __device__ __forceinline__ void send(float2* place, int rank, int owner, float2 value) {
#ifdef GRAFT_HOPPER
    if (owner != rank) {
      storeAsync(remoteAddress(sharedAddress(place), owner), value.x, value.y,
                 remoteAddress(sharedAddress(&there), owner));
      return;
    }
#endif
    *place = value;
  }
  // Call after put() by all warps and a __syncthreads(). In a dry pass (`real` false) a block sends to itself only.
  __device__ __forceinline__ void sendSums(int rank, bool real) {
#ifdef GRAFT_HOPPER
    // Other blocks may have sent already: an mbarrier may count bytes before it is told how many to expect.
    if constexpr (Split > 1) {
      if (real && threadIdx.x == 0) barrierExpect(&there, (Split - 1) * kBytes);
    }
#endif
#pragma unroll
    for (int i = threadIdx.x; i < kPairs * Split; i += kThreads) {
      const int owner = i / kPairs, pair = i % kPairs;
      const float2 sum = total(tokenOf(pair), owner * kOwn + columnOf(pair));
      if (real || owner == rank) send(&sums[rank][pair], rank, owner, sum);
    }
    if constexpr (Norm) {
      for (int i = threadIdx.x; i < Tokens * Split; i += kThreads) {
        const int owner = i / Tokens, token = i % Tokens;
        const float2 sum = total(token, kColumns);
        if (real || owner == rank) send(&moments[rank][token], rank, owner, sum);
      }
    }
  }
  __device__ __forceinline__ void receive(bool real) {
    __syncthreads();
#ifdef GRAFT_HOPPER
    if constexpr (Split > 1) {
      if (real) barrierWait(&there, 0);
    }
#endif
  }
  static __device__ __forceinline__ int tokenOf(int pair) { return pair / (kOwn / 2); }
  static __device__ __forceinline__ int columnOf(int pair) { return pair % (kOwn / 2) * 2; }
  // The sum of what all blocks sent to one place, added in order of their ranks.
  template <int N>
  static __device__ __forceinline__ float2 add(const float2 (&from)[Split][N], int at) {
    float2 sum = from[0][at];
#pragma unroll
    for (int i = 1; i < Split; ++i) sum.x += from[i][at].x, sum.y += from[i][at].y;
    return sum;
  }
  // The total of a pair of columns. In a dry pass it is this block's part alone.
  __device__ __forceinline__ float2 sumOf(int pair, int rank, bool real) const {
    return real ? add(sums, pair) : sums[rank][pair];
  }
};

}  // namespace graft::cuda
