// A vector of floats as wide as the instruction set that this file is compiled for, with converting loads and stores,
// and the few functions that the loops need. Only the loops_*.cpp include it, each compiled with its own flags.
// Everything is in an unnamed namespace, and no header with inline functions is included: otherwise the linker could
// replace another file's copy of an inline function by one with AVX code.
#pragma once

#include <cstdint>
#include <cstring>
#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace graft::ops {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Floats __attribute__((vector_size(kLanes * 4)));
typedef int32_t Ints __attribute__((vector_size(kLanes * 4)));
typedef uint32_t Words __attribute__((vector_size(kLanes * 4)));
typedef uint16_t Halves __attribute__((vector_size(kLanes * 2)));

struct Bf16 {
  uint16_t bits;
};
struct Fp16 {
  uint16_t bits;
};

inline Floats all(float value) {
#if defined(__AVX512F__)
  return (Floats)_mm512_set1_ps(value);
#elif defined(__AVX2__)
  return (Floats)_mm256_set1_ps(value);
#else
  return Floats{value, value, value, value};
#endif
}

inline Floats load(const float* from) {
  Floats v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

inline void store(float* to, Floats v) { std::memcpy(to, &v, sizeof v); }

inline Floats load(const Bf16* from) {
  Halves bits;
  std::memcpy(&bits, from, sizeof bits);
  return (Floats)(__builtin_convertvector(bits, Words) << 16);
}

inline void store(Bf16* to, Floats v) {
  const Words bits = (Words)v;
  const Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  // to nearest even
  const Words safe = v == v ? rounded : Words{} + 0x7fc0;
  const Halves halves = __builtin_convertvector(safe, Halves);
  std::memcpy(to, &halves, sizeof halves);
}

#if defined(__AVX512F__)
inline Floats load(const Fp16* from) { return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)from)); }
inline void store(Fp16* to, Floats v) {
  _mm256_storeu_si256((__m256i*)to, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#elif defined(__AVX2__)
inline Floats load(const Fp16* from) { return (Floats)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)from)); }
inline void store(Fp16* to, Floats v) {
  _mm_storeu_si128((__m128i*)to, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#else
inline Floats load(const Fp16* from) {
  // A multiplication rebiases the exponent, which is right for subnormals too; Inf and NaN are restored after it.
  Halves bits;
  std::memcpy(&bits, from, sizeof bits);
  const Words wide = __builtin_convertvector(bits, Words);
  const Words magnitude = wide & 0x7fff;
  const Floats scaled = (Floats)(magnitude << 13) * 0x1p112f;
  const Words special = (magnitude << 13) | 0x7f800000;
  return (Floats)((magnitude >= 0x7c00 ? special : (Words)scaled) | ((wide & 0x8000) << 16));
}
inline void store(Fp16* to, Floats v) {
  const Words bits = (Words)v;
  const Words sign = (bits >> 16) & 0x8000;
  const Words magnitude = bits & 0x7fffffff;
  // Normal results: rebias, and round to nearest even. Subnormal results: adding 0.5 shifts the value into the mantissa
  // and rounds it.
  const Words normal = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  const Words subnormal = (Words)((Floats)magnitude + 0.5f) - 0x3f000000;
  Words half = magnitude < 0x38800000 ? subnormal : normal;
  half = magnitude >= 0x477ff000 ? Words{} + 0x7c00 : half;
  half = magnitude > 0x7f800000 ? Words{} + 0x7e00 : half;
  const Halves halves = __builtin_convertvector(half | sign, Halves);
  std::memcpy(to, &halves, sizeof halves);
}
#endif

// Loads the first `count` lanes, fewer than kLanes; the others are zero.
template <class T>
inline Floats loadPart(const T* from, int64_t count) {
  T buffer[kLanes] = {};
  std::memcpy(buffer, from, count * sizeof(T));
  return load(buffer);
}

template <class T>
inline void storePart(T* to, Floats v, int64_t count) {
  T buffer[kLanes];
  store(buffer, v);
  std::memcpy(to, buffer, count * sizeof(T));
}

inline Ints laneNumbers() {
  Ints lanes;
  for (int i = 0; i < kLanes; ++i) lanes[i] = i;
  return lanes;
}

#if defined(__AVX512F__)
inline float sumOf(Floats v) { return _mm512_reduce_add_ps((__m512)v); }
inline float largestOf(Floats v) { return _mm512_reduce_max_ps((__m512)v); }
#else
inline float sumOf(Floats v) {
  float parts[kLanes];
  store(parts, v);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) parts[i] += parts[i + width];
  }
  return parts[0];
}

inline float largestOf(Floats v) {
  float parts[kLanes];
  store(parts, v);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) parts[i] = parts[i] > parts[i + width] ? parts[i] : parts[i + width];
  }
  return parts[0];
}
#endif

// e^x: x = n ln2 + r with |r| <= ln2/2, then a polynomial fitted to (e^r - 1 - r) / r^2 at Chebyshev points (relative
// error 1e-8 before rounding). Below -87.3 the result is 0, above 88.37 it is Inf; NaN stays NaN.
inline Floats exponential(Floats x) {
  const Floats magic = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer, in the low bits
  const Floats shifted = x * 1.44269504088896341f + magic;
  const Floats n = shifted - magic;
  const Floats r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  Floats p = all(1.3933643e-3f);
  p = p * r + 8.363175565e-3f;
  p = p * r + 4.166646498e-2f;
  p = p * r + 1.666657700e-1f;
  p = p * r + 0.5000000013f;
  p = p * (r * r) + r + 1.0f;
  const Floats scaled = (Floats)((Ints)p + ((Ints)shifted << 23));
  Floats result = x < -87.3f ? Floats{} : scaled;
  result = x > 88.37f ? all(__builtin_inff()) : result;
  return x == x ? result : x;
}

// erf(x) for |x| < 4 as x * P(x^2 / 8 - 1), P fitted at Chebyshev points (absolute error 2e-7 in fp32); +-1 beyond.
inline Floats errorFunction(Floats x) {
  const Floats t = x * x * 0.125f - 1.0f;
  constexpr float kP[] = {3.535309782e-01f, -1.765761719e-01f, 1.316773312e-01f, -1.077133612e-01f,
                          9.016311718e-02f, -7.468753070e-02f, 6.024739754e-02f, -4.601432136e-02f,
                          3.167934270e-02f, -2.166253226e-02f, 1.718848412e-02f, -1.008590698e-02f,
                          1.700600697e-03f, -1.076942101e-03f, 3.002311011e-03f, -1.372815091e-03f};
  Floats p = all(kP[15]);
  for (int i = 14; i >= 0; --i) p = p * t + kP[i];
  Floats result = x * p;
  result = x >= 4.0f ? all(1.0f) : result;
  return x <= -4.0f ? all(-1.0f) : result;
}

inline Floats sigmoidTimes(Floats value, Floats x) { return value / (1.0f + exponential(-x)); }

// tanh(x): its series near 0, where the exponential's form loses digits (both within 1e-6 of the value).
inline Floats hyperbolicTangent(Floats x) {
  const Floats square = x * x;
  Floats p = all(-17.0f / 315.0f);
  p = p * square + 2.0f / 15.0f;
  p = p * square - 1.0f / 3.0f;
  const Floats near = x + x * (square * p);
  const Floats far = 1.0f - 2.0f / (1.0f + exponential(2.0f * x));
  return square < 0.04f ? near : far;
}

}  // namespace
}  // namespace graft::ops
