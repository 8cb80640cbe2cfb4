#include "core/compile/codegen/cuda/cuda_code.h"
#include "core/compile/codegen/cuda/cuda_spelling.h"

namespace graft::codegen {

// No includes: NVRTC has none on a user's machine. Halves are bits, since their types come with headers.
std::string_view cudaMachinePrelude() {
  return R"(typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
struct f16 {
  unsigned short bits;
};
struct bf16 {
  unsigned short bits;
};
#define DEVICE __device__ __forceinline__

DEVICE f32 to_f32(f16 x) {
  f32 y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
DEVICE f32 to_f32(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
DEVICE f16 to_f16(f32 x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
DEVICE bf16 to_bf16(f32 x) {
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
DEVICE f32 inf_f32() { return __int_as_float(0x7f800000); }
DEVICE f32 nan_f32() { return __int_as_float(0x7fffffff); }
DEVICE f64 inf_f64() { return __longlong_as_double(0x7ff0000000000000ll); }
DEVICE f64 nan_f64() { return __longlong_as_double(0x7fffffffffffffffll); }
// NaN where one is NaN.
DEVICE f32 minimum_f32(f32 a, f32 b) {
  f32 y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
DEVICE f32 maximum_f32(f32 a, f32 b) {
  f32 y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
DEVICE f32 quotient(f32 a, f32 b) { return __fdividef(a, b); }
template <class T>
DEVICE T exchange(T x, i32 mask, u32 members) {
  return __shfl_xor_sync(members, x, mask);
}
DEVICE void join_warp() { __syncwarp(); }
DEVICE void join_block() { __syncthreads(); }
// Blocks of a cluster, on GPUs from 9.0 on: all have begun; what each wrote is there for all; a place in another's memory.
DEVICE void arrive_blocks() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
DEVICE void await_blocks() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
DEVICE void meet_blocks() {
  arrive_blocks();
  await_blocks();
}
template <class T>
DEVICE T* in_block(T* here, u32 block) {
  u64 there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"((u64)here), "r"(block));
  return (T*)there;
}
DEVICE void fail(const char* what) { __assertfail(what, "a kernel that Graft generated", 0, "", 1); }
// Programmatic dependent launch: the next kernel may start; wait for the one before.
DEVICE void overlap() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
)";
}

std::string_view cudaHelpers() {
  return R"(
template <class T>
struct unsigned_of {
  typedef T type;
};
template <>
struct unsigned_of<i32> {
  typedef u32 type;
};
template <>
struct unsigned_of<i64> {
  typedef u64 type;
};
// Integers wrap around.
template <class T>
DEVICE T plus(T a, T b) {
  typedef typename unsigned_of<T>::type U;
  return (T)((U)a + (U)b);
}
template <class T>
DEVICE T minus(T a, T b) {
  typedef typename unsigned_of<T>::type U;
  return (T)((U)a - (U)b);
}
template <class T>
DEVICE T times(T a, T b) {
  typedef typename unsigned_of<T>::type U;
  return (T)((U)a * (U)b);
}
template <class T>
DEVICE T minimum(T a, T b) {
  return b != b || b < a ? b : a;
}
template <class T>
DEVICE T maximum(T a, T b) {
  return b != b || b > a ? b : a;
}
template <>
DEVICE f32 minimum<f32>(f32 a, f32 b) {
  return minimum_f32(a, b);
}
template <>
DEVICE f32 maximum<f32>(f32 a, f32 b) {
  return maximum_f32(a, b);
}
template <class T>
DEVICE T absolute(T x) {
  return x < T(0) ? minus<T>(0, x) : x;
}
template <class T>
DEVICE T sign(T x) {
  return T((x > T(0)) - (x < T(0)));
}
template <class T>
DEVICE T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}
template <>
DEVICE f32 sigmoid<f32>(f32 x) {
  return quotient(1.0f, 1.0f + expf(-x));
}
// Philox4x32-10 with cuRAND's conversion: number 0 to 3 of a block of a subsequence.
DEVICE f32 uniform(i64 seed, i64 subsequence, i64 block, i64 number) {
  u32 a = (u32)block, b = (u32)((u64)block >> 32), c = (u32)subsequence, d = (u32)((u64)subsequence >> 32);
  u32 key0 = (u32)seed, key1 = (u32)((u64)seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = (u64)0xD2511F53u * a, p1 = (u64)0xCD9E8D57u * c;
    a = (u32)(p1 >> 32) ^ b ^ key0;
    b = (u32)p1;
    c = (u32)(p0 >> 32) ^ d ^ key1;
    d = (u32)p0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  const u32 n = (u32)number & 3u, drawn = n < 2u ? (n == 0u ? a : b) : (n == 2u ? c : d);
  return (f32)drawn * 2.3283064365386963e-10f + 1.16415321826934814453125e-10f;
}
template <class T>
DEVICE T truncate_divide(T a, T b) {
  return T(-1) < T(0) && b == T(-1) ? minus<T>(0, a) : T(a / b);
}
template <class T>
DEVICE T fmod_of(T a, T b) {
  return T(-1) < T(0) && b == T(-1) ? T(0) : T(a % b);
}
template <class T>
DEVICE T remainder_of(T a, T b) {
  const T r = fmod_of<T>(a, b);
  return r != 0 && (r < 0) != (b < 0) ? T(r + b) : r;
}
template <class T>
DEVICE T floor_divide(T a, T b) {
  const T q = truncate_divide<T>(a, b), r = fmod_of<T>(a, b);
  return r != 0 && (r < 0) != (b < 0) ? T(q - 1) : q;
}
DEVICE f32 fmod_floating(f32 a, f32 b) { return fmodf(a, b); }
DEVICE f64 fmod_floating(f64 a, f64 b) { return fmod(a, b); }
DEVICE f32 floor_floating(f32 x) { return floorf(x); }
DEVICE f64 floor_floating(f64 x) { return floor(x); }
DEVICE f32 copysign_floating(f32 a, f32 b) { return copysignf(a, b); }
DEVICE f64 copysign_floating(f64 a, f64 b) { return copysign(a, b); }
template <class T>
DEVICE T remainder_floating(T a, T b) {
  const T r = fmod_floating(a, b);
  return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
}
template <class T>
DEVICE T floor_divide_floating(T a, T b) {
  if (b == T(0)) return a / b;
  const T r = fmod_floating(a, b);
  T q = (a - r) / b;
  if (r != T(0) && (r < T(0)) != (b < T(0))) q -= T(1);
  if (q == T(0)) return copysign_floating(T(0), a / b);
  const T f = floor_floating(q);
  return q - f > T(0.5) ? f + T(1) : f;
}
template <class T>
DEVICE T power(T x, T n) {
  if (n < T(0)) return x == T(1) ? T(1) : x == T(-1) ? T(n % T(2) ? -1 : 1) : T(0);
  T result = 1;
  for (; n > T(0); n = T(n / 2), x = times<T>(x, x))
    if (n % T(2)) result = times<T>(result, x);
  return result;
}
// The least number is its own absolute value.
template <class T>
DEVICE T gcd(T a, T b) {
  a = absolute<T>(a);
  b = absolute<T>(b);
  while (a != T(0)) {
    const T rest = T(b % a);
    b = a;
    a = rest;
  }
  return b;
}
template <class T>
DEVICE T shift_left(T a, T b) {
  typedef typename unsigned_of<T>::type U;
  return b >= T(0) && (u64)b < 8 * sizeof(T) ? T((U)a << b) : T(0);
}
template <class T>
DEVICE T shift_right(T a, T b) {
  return b >= T(0) && (u64)b < 8 * sizeof(T) ? T(a >> b) : T(a < T(0) ? -1 : 0);
}
// As PyTorch's kernels do, an index outside stops the program. An integer divisor of 0 goes unreported there too.
DEVICE i64 checked_index(i64 i, i64 size) {
  if (i >= 0 && i < size) return i;
  fail("index out of range");
  return 0;
}
template <class T>
DEVICE T checked_divisor(T d) {
  return d != T(0) ? d : T(1);
}

// What reductions combine, and the place of the best.
template <class T>
struct best {
  T value;
  i64 place;
};
// NaN is greater and less than everything else.
template <class T>
DEVICE bool is_greater(T a, T b) {
  return a > b || (a != a && b == b);
}
template <class T>
DEVICE bool is_less(T a, T b) {
  return a < b || (a != a && b == b);
}
struct sum_of {
  template <class T>
  static DEVICE T of(T a, T b) {
    return plus<T>(a, b);
  }
};
struct product_of {
  template <class T>
  static DEVICE T of(T a, T b) {
    return times<T>(a, b);
  }
};
struct minimum_of {
  template <class T>
  static DEVICE T of(T a, T b) {
    return minimum<T>(a, b);
  }
};
struct maximum_of {
  template <class T>
  static DEVICE T of(T a, T b) {
    return maximum<T>(a, b);
  }
};
struct any_of {
  template <class T>
  static DEVICE T of(T a, T b) {
    return T(a | b);
  }
};
struct all_of {
  template <class T>
  static DEVICE T of(T a, T b) {
    return T(a & b);
  }
};
struct greatest_of {
  template <class B>
  static DEVICE B of(B a, B b) {
    return is_greater(b.value, a.value) || (!is_greater(a.value, b.value) && b.place < a.place) ? b : a;
  }
};
struct least_of {
  template <class B>
  static DEVICE B of(B a, B b) {
    return is_less(b.value, a.value) || (!is_less(a.value, b.value) && b.place < a.place) ? b : a;
  }
};
// Where b comes behind a.
struct first_greatest_of {
  template <class B>
  static DEVICE B of(B a, B b) {
    return is_greater(b.value, a.value) ? b : a;
  }
};
struct first_least_of {
  template <class B>
  static DEVICE B of(B a, B b) {
    return is_less(b.value, a.value) ? b : a;
  }
};

// Elements that follow each other, N of them in accesses of W each.
template <int bytes>
struct raw;
template <>
struct raw<16> {
  typedef uint4 type;
};
template <>
struct raw<8> {
  typedef uint2 type;
};
template <>
struct raw<4> {
  typedef unsigned int type;
};
template <>
struct raw<2> {
  typedef unsigned short type;
};
template <class T, int W>
union pack {
  typename raw<W * sizeof(T)>::type all;
  T each[W];
};
template <int N, int W, class T>
DEVICE void load(T* to, const T* from) {
#pragma unroll
  for (i32 i = 0; i < N; i += W) {
    pack<T, W> p;
    p.all = *(const typename raw<W * sizeof(T)>::type*)(from + i);
#pragma unroll
    for (i32 k = 0; k < W; ++k) to[i + k] = p.each[k];
  }
}
template <int N, int W, class T>
DEVICE void store(T* to, const T* from) {
#pragma unroll
  for (i32 i = 0; i < N; i += W) {
    pack<T, W> p;
#pragma unroll
    for (i32 k = 0; k < W; ++k) p.each[k] = from[i + k];
    *(typename raw<W * sizeof(T)>::type*)(to + i) = p.all;
  }
}
template <int N, class T>
DEVICE void fill(T* to, T value) {
#pragma unroll
  for (i32 i = 0; i < N; ++i) to[i] = value;
}

// A value of each lane, then of each thread of a team, combined by halves: an order that is always the same.
template <class Op, int N, class T>
DEVICE T fold(T* x) {
#pragma unroll
  for (i32 n = N / 2; n > 0; n /= 2)
#pragma unroll
    for (i32 i = 0; i < n; ++i) x[i] = Op::template of<T>(x[i], x[i + n]);
  return x[0];
}
DEVICE bool exchange(bool x, i32 mask, u32 members) { return exchange<i32>(x, mask, members) != 0; }
DEVICE i8 exchange(i8 x, i32 mask, u32 members) { return (i8)exchange<i32>(x, mask, members); }
DEVICE u8 exchange(u8 x, i32 mask, u32 members) { return (u8)exchange<i32>(x, mask, members); }
DEVICE i16 exchange(i16 x, i32 mask, u32 members) { return (i16)exchange<i32>(x, mask, members); }
template <class T>
DEVICE best<T> exchange(best<T> x, i32 mask, u32 members) {
  return best<T>{exchange(x.value, mask, members), exchange(x.place, mask, members)};
}
// Teams of neighbouring threads; `memory` holds an element for each of its warps.
template <class Op, class T, int team>
DEVICE T join_row(T x, i32 t, T* memory) {
  constexpr i32 near = team < 32 ? team : 32;
  const u32 members = team < 32 ? ((1u << (team % 32)) - 1) << (threadIdx.x & 31 & ~(near - 1)) : 0xffffffffu;
#pragma unroll
  for (i32 m = near / 2; m > 0; m /= 2) x = Op::template of<T>(x, exchange(x, m, members));
  if constexpr (team > 32) {
    constexpr i32 warps = team / 32;
    if (t % 32 == 0) memory[t / 32] = x;
    join_block();
    x = memory[t % warps];
#pragma unroll
    for (i32 m = warps / 2; m > 0; m /= 2) x = Op::template of<T>(x, exchange(x, m, 0xffffffffu));
  }
  return x;
}
// Teams that are columns of a block, `width` of them side by side, each of `lanes` columns: all are combined in place,
// first those of a warp, then warps, for which `memory` holds an element of each column.
template <class Op, class T, int width, int lanes, int count>
DEVICE void join_below(T* x) {
#pragma unroll
  for (i32 n = count / 2; n > 0; n /= 2)
#pragma unroll
    for (i32 v = 0; v < lanes; ++v) x[v] = Op::template of<T>(x[v], exchange(x[v], n * width, 0xffffffffu));
}
template <class Op, class T, int team, int width, int lanes>
DEVICE void join_columns(T* x, i32 column, T* memory) {
  constexpr i32 near = width >= 32 ? 1 : team < 32 / width ? team : 32 / width;  // of the team, in a warp
  join_below<Op, T, width, lanes, near>(x);
  if constexpr (team > near) {
    constexpr i32 parts = team / near, each = near < parts ? near : parts;
    const i32 t = threadIdx.x / width, first = t % each;
    if (t % near == 0)
#pragma unroll
      for (i32 v = 0; v < lanes; ++v) memory[(v * parts + t / near) * width + column] = x[v];
    join_block();
#pragma unroll
    for (i32 v = 0; v < lanes; ++v) {
      const T* part = memory + (v * parts + first) * width + column;
      x[v] = part[0];
#pragma unroll
      for (i32 k = each; k < parts; k += each) x[v] = Op::template of<T>(x[v], part[k * width]);
    }
    join_below<Op, T, width, lanes, each>(x);
  }
}
// Blocks of a cluster: each gives what it has to all of them. The first time, they wait until all have begun.
template <class Op, class T, int threads, int blocks, bool isFirst>
DEVICE T join_row_blocks(T x, T* memory) {
  x = join_row<Op, T, threads>(x, threadIdx.x, memory + blocks);
  if constexpr (isFirst) await_blocks();
  if (threadIdx.x < blocks) in_block(memory, threadIdx.x)[blockIdx.x % blocks] = x;
  meet_blocks();
  x = memory[0];
#pragma unroll
  for (i32 k = 1; k < blocks; ++k) x = Op::template of<T>(x, memory[k]);
  return x;
}
template <class Op, class T, int team, int width, int lanes, int blocks, bool isFirst>
DEVICE void join_column_blocks(T* x, i32 column, T* memory) {
  constexpr i32 row = width * lanes;
  if constexpr (isFirst) await_blocks();
  for (i32 b = threadIdx.x / width; b < blocks; b += team) {
    T* to = in_block(memory, b) + blockIdx.x % blocks * row + column;
#pragma unroll
    for (i32 v = 0; v < lanes; ++v) to[v * width] = x[v];
  }
  meet_blocks();
#pragma unroll
  for (i32 v = 0; v < lanes; ++v) {
    x[v] = memory[v * width + column];
#pragma unroll
    for (i32 k = 1; k < blocks; ++k) x[v] = Op::template of<T>(x[v], memory[k * row + v * width + column]);
  }
}
)";
}

}  // namespace graft::codegen
