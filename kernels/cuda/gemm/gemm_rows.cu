// out[m,n] = residual + act(x w^T + bias) for m <= 32, fp16 and bf16, with an optional LayerNorm or RMSNorm of x.
//
// gemm_rows.cuh explains the method. A block of Warps warps works on Columns * 16 columns and Warps * C * 32 elements
// of K. After the wait for the previous kernel only this is left: one load of x, a few matrix instructions, one
// exchange between the warps and one between the blocks.
//
// A norm before the product does not make the product wait for the normalised rows. With weights w' = w * gamma,
//
//   norm(x) w^T + bias = (x w'^T - mean * u) / deviation + v,   u = sum_k w',   v = sum_k w beta + bias,
//
// where w', u and v are computed before the wait. The tensor cores also compute the sums of x and of x^2 (x times ones,
// and the diagonal of x x^T), so a norm adds only a few matrix instructions and two columns of the exchange between
// the warps. w' is rounded once, as the normalised rows would have been.
//
// The variance is E[x^2] - mean^2 in fp32. A row whose mean is a hundred times its deviation loses about a thousandth
// of the variance, as much as rounding the row to fp16 already lost. A result below the rounding error of the
// subtraction is replaced by that error. Some blocks also write the normalised rows to norm.out, for the other readers.
#include "kernels/cuda/gemm/gemm_rows.cuh"

namespace graft::cuda {
namespace {

struct NormParams {
  const void *weight, *bias;
  void* out;  // [m, k]: the normalised rows
  float eps;
  bool rms;
};

// The norm's weight and bias at this lane's elements of K.
template <class T, int C>
struct NormWeights {
  uint4 weight[C], bias[C];

  __device__ __forceinline__ void load(const NormParams& p, int k, int k0, int lane) {
    const uint32_t one = pack2<T>(1.f, 1.f);
#pragma unroll
    for (int c = 0; c < C; ++c) {
      const int at = k0 + c * 32 + lane % 4 * 8;
      weight[c] =
          p.weight && at < k ? loadStreamed(static_cast<const T*>(p.weight) + at) : make_uint4(one, one, one, one);
      bias[c] = p.bias && at < k ? loadStreamed(static_cast<const T*>(p.bias) + at) : make_uint4(0, 0, 0, 0);
    }
  }
};

// Before the wait: scales the weights of sixteen columns by gamma, and stores this warp's part of u and v in `slopes`,
// where the block adds the parts up.
template <class T, int C>
__device__ __forceinline__ void foldNorm(RowsWeights<T, C>& w, const NormWeights<T, C>& norm, bool rms, float2* slopes,
                                         int lane) {
  const uint32_t one = pack2<T>(1.f, 1.f);
  float u[4] = {}, v[4] = {};
#pragma unroll
  for (int c = 0; c < C; ++c) {
    w.multiply(c, norm.bias[c], v, v);
    const uint4& gamma = norm.weight[c];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint4& x = w.v[c][half];
      x = make_uint4(mul2<T>(x.x, gamma.x), mul2<T>(x.y, gamma.y), mul2<T>(x.z, gamma.z), mul2<T>(x.w, gamma.w));
    }
    if (!rms) w.multiply(c, make_uint4(one, one, one, one), u, u);
  }
  if (lane % 4 == 0) slopes[lane / 4] = make_float2(u[0], v[0]), slopes[lane / 4 + 8] = make_float2(u[2], v[2]);
}

// The sums of x and of x^2 over this warp's K, sixteen tokens at a time.
template <class T, int C, int Tiles, class Exchange>
__device__ __forceinline__ void putMoments(Exchange& exchange, int warp, const uint4 (&x)[Tiles][C], int lane) {
  const uint32_t one = pack2<T>(1.f, 1.f);
#pragma unroll
  for (int m = 0; m < Tiles; m += 2) {
    float sum[4] = {}, low[4] = {}, high[4] = {};
#pragma unroll
    for (int c = 0; c < C; ++c) {
      const uint4 &a = x[m][c], &b = x[m + 1][c];
      const uint32_t first[4] = {a.x, b.x, a.y, b.y}, second[4] = {a.z, b.z, a.w, b.w};
      mma<T>(sum, first, one, one);
      mma<T>(low, first, a.x, a.y);
      mma<T>(high, first, b.x, b.y);
      mma<T>(sum, second, one, one);
      mma<T>(low, second, a.z, a.w);
      mma<T>(high, second, b.z, b.w);
    }
    // The diagonal: row lane / 4 and the column of the same number.
    const int g = lane / 4;
    if (lane % 4 == g / 2) {
      const auto to = [&](int token) {
        return reinterpret_cast<float2*>(&exchange.part[warp][token][Exchange::kColumns]);
      };
      *to(m * 8 + g) = make_float2(sum[0], g & 1 ? low[1] : low[0]);
      *to(m * 8 + g + 8) = make_float2(sum[2], g & 1 ? high[3] : high[2]);
    }
  }
}

template <class T, int Warps, int C, int Columns, int Split, int Tiles, bool Norm>
__global__ void __launch_bounds__(Warps * 32) gemmRows(const RowsParams p, const NormParams norm) {
  using Exchange = RowsExchange<Warps, Tiles * 8, Columns, Split, Norm>;
  constexpr int kThreads = Exchange::kThreads, kOwn = Exchange::kOwn, kTimes = Exchange::kTimes;
  __shared__ __align__(16) Exchange exchange;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int rank = Split > 1 ? blockIdx.x % Split : 0, cluster = blockIdx.x / Split;
  const int n0 = cluster * Exchange::kColumns, k0 = (rank * Warps + warp) * C * 32;
  exchange.open();
  pdlTrigger();
  if (!p.constantWeights) pdlWait();

  RowsWeights<T, C> w[Columns];
#pragma unroll
  for (int i = 0; i < Columns; ++i) w[i].load(p, n0 + i * kRowsColumns, k0, lane);
  // This thread finishes kTimes pairs of columns; pair i is of these columns and this token.
  const auto columnOf = [&](int i) { return n0 + rank * kOwn + Exchange::columnOf(threadIdx.x + i * kThreads); };
  const auto tokenOf = [&](int i) { return Exchange::tokenOf(threadIdx.x + i * kThreads); };
  uint32_t bias[kTimes];
#pragma unroll
  for (int i = 0; i < kTimes; ++i) bias[i] = rowsBias<T>(p, columnOf(i));
  NormWeights<T, Norm ? C : 1> scales;
  if constexpr (Norm) {
    scales.load(norm, p.k, k0, lane);
    float2* slopes = reinterpret_cast<float2*>(exchange.part[warp]);
#pragma unroll
    for (int i = 0; i < Columns; ++i) foldNorm<T, C>(w[i], scales, norm.rms, slopes + i * kRowsColumns, lane);
    exchange.ready();
    __syncthreads();
    for (int c = threadIdx.x; c < Exchange::kColumns; c += kThreads) {
      float2 sum = make_float2(0.f, 0.f);
#pragma unroll
      for (int from = 0; from < Warps; ++from) {
        const float2 f = reinterpret_cast<const float2*>(exchange.part[from])[c];
        sum.x += f.x, sum.y += f.y;
      }
      exchange.send(&exchange.slopes[rank][c % kOwn], rank, c / kOwn, sum);
    }
    __syncthreads();
  } else {
    exchange.ready();
  }

  // Pass 0 is the dry one. With a norm there is enough other work before the wait, so it is left out.
#pragma unroll 1
  for (int pass = p.constantWeights && !Norm ? 0 : 1; pass < 2; ++pass) {
    const bool real = pass == 1;
    if (real && p.constantWeights) pdlWait();
    const int rows = real ? p.m : 0;
    uint4 x[Tiles][C];
#pragma unroll
    for (int m = 0; m < Tiles; ++m) {
      const int token = m * 8 + lane / 4;
      const T* from = static_cast<const T*>(p.x) + token * p.ldx + k0 + lane % 4 * 8;
#pragma unroll
      for (int c = 0; c < C; ++c) {
        const int k = k0 + c * 32 + lane % 4 * 8;
        x[m][c] = token < rows && k < p.k ? *reinterpret_cast<const uint4*>(from + c * 32) : make_uint4(0, 0, 0, 0);
      }
    }
    uint32_t residual[kTimes];
#pragma unroll
    for (int i = 0; i < kTimes; ++i) {
      residual[i] =
          p.residual && tokenOf(i) < rows && columnOf(i) < p.n
              ? *reinterpret_cast<const uint32_t*>(static_cast<const T*>(p.residual) + tokenOf(i) * p.ldr + columnOf(i))
              : 0u;
    }
#pragma unroll
    for (int m = 0; m < Tiles; ++m) {
#pragma unroll
      for (int i = 0; i < Columns; ++i) {
        float even[4] = {}, odd[4] = {};
#pragma unroll
        for (int c = 0; c < C; ++c) w[i].multiply(c, x[m][c], even, odd);
        exchange.put(warp, m, i, lane, even, odd);
      }
    }
    if constexpr (Norm) putMoments<T, C, Tiles>(exchange, warp, x, lane);
    __syncthreads();
    exchange.sendSums(rank, real);
    exchange.receive(real);
    // (1 / deviation, mean) of a token's row.
    const auto moments = [&](int token) {
      float2 sums = make_float2(0.f, 0.f);
      if constexpr (Norm) sums = Exchange::add(exchange.moments, token);
      const float inverse = 1.f / static_cast<float>(p.k), mean = norm.rms ? 0.f : sums.x * inverse;
      const float noise = 4.8e-7f * mean * mean;  // 4 ulp of fp32
      return make_float2(rsqrtf(fmaxf(sums.y * inverse - mean * mean, noise) + norm.eps), mean);
    };
#pragma unroll
    for (int i = 0; i < kTimes; ++i) {
      const int pair = threadIdx.x + i * kThreads, token = tokenOf(i);
      if (pair >= Exchange::kPairs) break;
      float2 sum = exchange.sumOf(pair, rank, real);
      if constexpr (Norm) {
        const float2 s = moments(token);
        const float2 left = Exchange::add(exchange.slopes, Exchange::columnOf(pair)),
                     right = Exchange::add(exchange.slopes, Exchange::columnOf(pair) + 1);
        sum.x = (sum.x - s.y * left.x) * s.x + left.y, sum.y = (sum.y - s.y * right.x) * s.x + right.y;
      }
      finish<T>(p, token < rows && columnOf(i) < p.n, token, columnOf(i), sum, bias[i], residual[i]);
    }
    if constexpr (Norm) {
      // A unit is eight tokens by 32 elements of this block's K; one warp of one cluster writes it.
      for (int unit = cluster; unit < Warps * C * Tiles; unit += gridDim.x / Split) {
        if (unit % Warps != warp) continue;
#pragma unroll
        for (int i = 0; i < C * Tiles; ++i) {
          const int m = i % Tiles, c = i / Tiles, token = m * 8 + lane / 4, k = k0 + c * 32 + lane % 4 * 8;
          if (i != unit / Warps || token >= p.m || k >= p.k) continue;
          const float2 s = moments(token);
          uint32_t y[4];
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float2 v = unpack2<T>(wordOf(x[m][c], e)), weight = unpack2<T>(wordOf(scales.weight[c], e)),
                         shift = unpack2<T>(wordOf(scales.bias[c], e));
            y[e] = pack2<T>((v.x - s.y) * s.x * weight.x + shift.x, (v.y - s.y) * s.x * weight.y + shift.y);
          }
          *reinterpret_cast<uint4*>(static_cast<T*>(norm.out) + int64_t{token} * p.k + k) =
              make_uint4(y[0], y[1], y[2], y[3]);
        }
      }
    }
    __syncthreads();
  }
}

// Whether a variant fits into the registers and 48 KB of shared memory. Those that do not are not compiled.
template <int Warps, int C, int Columns, int Split, int Tiles, bool Norm>
constexpr bool fits() {
  const int perThread = (Columns * 8 + Tiles * 4 + (Norm ? 8 : 0)) * C + 56;
  return sizeof(RowsExchange<Warps, Tiles * 8, Columns, Split, Norm>) <= 48 * 1024 && perThread * Warps * 32 <= 65536 &&
         perThread <= 240;
}

template <class T, int Warps, int C, int Columns, int Split, int Tiles, bool Norm>
cudaError_t run(const RowsParams& p, const NormParams& norm, bool pdl, cudaStream_t stream) {
  if constexpr (fits<Warps, C, Columns, Split, Tiles, Norm>()) {
    const unsigned clusters = static_cast<unsigned>((p.n + Columns * kRowsColumns - 1) / (Columns * kRowsColumns));
    return launchCluster(gemmRows<T, Warps, C, Columns, Split, Tiles, Norm>, clusters * Split, Warps * 32, Split, 0,
                         stream, pdl, p, norm);
  }
  return cudaErrorNotSupported;
}

template <class T, int Warps, int C, int Columns, int Split>
cudaError_t run(const RowsParams& p, const NormParams* norm, bool pdl, cudaStream_t stream) {
  if (p.m <= 16)
    return norm ? run<T, Warps, C, Columns, Split, 2, true>(p, *norm, pdl, stream)
                : run<T, Warps, C, Columns, Split, 2, false>(p, {}, pdl, stream);
  return norm ? run<T, Warps, C, Columns, Split, 4, true>(p, *norm, pdl, stream)
              : run<T, Warps, C, Columns, Split, 4, false>(p, {}, pdl, stream);
}

// The variants that the tuner may choose from, as RowsVariant in launchers.h describes them:
// warps of a block, chunks of 32 elements of K per warp, groups of 16 columns per cluster, blocks of a cluster.
#define GRAFT_ROWS_VARIANTS(V) \
  V(4, 3, 1, 1)                \
  V(8, 3, 1, 1)                \
  V(8, 4, 1, 1)                \
  V(3, 2, 2, 2)                \
  V(4, 2, 2, 2)                \
  V(4, 3, 2, 2)                \
  V(4, 4, 2, 2)                \
  V(6, 1, 4, 4)                \
  V(8, 1, 4, 4)                \
  V(4, 4, 2, 4)                \
  V(8, 3, 1, 4)                \
  V(8, 3, 2, 4)                \
  V(8, 4, 2, 4)                \
  V(4, 3, 2, 8)                \
  V(4, 3, 4, 8)                \
  V(4, 4, 2, 8)

}  // namespace

#define GRAFT_V(warps, c, columns, split) RowsVariant{warps, c, columns, split},
static const RowsVariant kVariants[] = {GRAFT_ROWS_VARIANTS(GRAFT_V)};
#undef GRAFT_V

int rowsVariantCount() { return static_cast<int>(sizeof(kVariants) / sizeof(kVariants[0])); }
RowsVariant rowsVariant(int i) { return kVariants[i]; }

cudaError_t launchGemmRows(const GemmArgs& a, const NormArgs* norm, int variant, cudaStream_t stream) {
  const RowsVariant v = kVariants[variant];
  const int64_t reach = int64_t{v.warps} * v.chunks * 32 * v.split;
  if (!rowsTake(a) || a.m > 32 || a.k % 8 || a.k > reach || a.k * 2 <= reach) return cudaErrorNotSupported;
  const void* x = norm ? norm->x : a.x;
  const int64_t ldx = norm ? norm->ldx : a.ldx;
  if (ldx % 8 || !aligned(x, 16)) return cudaErrorNotSupported;
  if (norm && (norm->residual || norm->inputBias || norm->sum || !aligned(norm->weight, 16) ||
               !aligned(norm->bias, 16) || !aligned(norm->out, 16)))
    return cudaErrorNotSupported;
  const RowsParams p = rowsParams(a, x, ldx);
  NormParams n{};
  if (norm) n = {norm->weight, norm->bias, norm->out, norm->eps, norm->rms};
  int i = 0;
#define GRAFT_V(warps, c, columns, split)                                                             \
  if (variant == i++) {                                                                               \
    return a.dtype == Dtype::kHalf                                                                    \
               ? run<__half, warps, c, columns, split>(p, norm ? &n : nullptr, a.pdl, stream)         \
               : run<__nv_bfloat16, warps, c, columns, split>(p, norm ? &n : nullptr, a.pdl, stream); \
  }
  GRAFT_ROWS_VARIANTS(GRAFT_V)
#undef GRAFT_V
  return cudaErrorInvalidValue;
}

}  // namespace graft::cuda
