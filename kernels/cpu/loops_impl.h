// The loops themselves; see loops.h for what each does. Included by loops_base.cpp, loops_avx2.cpp and
// loops_avx512.cpp.
#pragma once

#include <type_traits>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/vector.h"

namespace graft::ops {
namespace {

// Rows (queries, tokens) that a product computes at a time. With 2 or 3 vectors of sums for each row, enough registers
// are left for the operands.
#if defined(__AVX512F__)
constexpr int kRows = 8;
#else
constexpr int kRows = 4;
#endif

// Calls body(first column, lanes in use, full) for each vector of a row. `full` lets the compiler drop the tail's code.
template <class Body>
inline void forVectors(int64_t columns, Body body) {
  int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) body(c, kLanes, true);
  if (c < columns) body(c, columns - c, false);
}

template <class T>
inline Floats loadSome(const T* from, int64_t count, bool full) {
  return full ? load(from) : loadPart(from, count);
}

template <class T>
inline void storeSome(T* to, Floats v, int64_t count, bool full) {
  if (full) {
    store(to, v);
  } else {
    storePart(to, v, count);
  }
}

// Calls body with a null pointer of the storage type.
template <class Body>
inline void withType(Scalar scalar, Body body) {
  switch (scalar) {
    case Scalar::F32:
      return body(static_cast<float*>(nullptr));
    case Scalar::BF16:
      return body(static_cast<Bf16*>(nullptr));
    case Scalar::F16:
      return body(static_cast<Fp16*>(nullptr));
  }
}

// Normalises a row in three passes, for mean, variance and result; the row stays in the first-level cache. The second
// pass also sums the differences from the mean, which corrects the rounding error of the first sum (Chan, Golub,
// LeVeque 1983, the corrected two-pass algorithm).
template <class T>
inline void normaliseRow(const NormArgs& a, const float* row, float sum, T* out) {
  const float about = sum / a.columns;
  Floats squares{}, differences{};
  forVectors(a.columns, [&](int64_t c, int64_t count, bool full) {
    Floats d = loadSome(row + c, count, full) - about;
    if (!full) d = laneNumbers() < (int32_t)count ? d : Floats{};
    differences += d;
    squares += d * d;
  });
  const float off = sumOf(differences) / a.columns;
  const float spread = sumOf(squares) / a.columns - off * off;
  const float variance = spread < 0.0f ? 0.0f : spread;
  const float scale = 1.0f / __builtin_sqrtf(variance + a.eps);
  forVectors(a.columns, [&](int64_t c, int64_t count, bool full) {
    Floats y = (loadSome(row + c, count, full) - about - off) * scale;
    if (a.weight) y = y * loadSome(a.weight + c, count, full);
    if (a.bias) y = y + loadSome(a.bias + c, count, full);
    storeSome(out + c, y, count, full);
  });
}

void layerNorm(const NormArgs& a, int64_t begin, int64_t end) {
  withType(a.scalar, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    for (int64_t r = begin; r < end; ++r) {
      const T* x = static_cast<const T*>(a.x) + r * a.columns;
      const T* residual = a.residual ? static_cast<const T*>(a.residual) + r * a.columns : nullptr;
      Floats sum{};
      forVectors(a.columns, [&](int64_t c, int64_t count, bool full) {
        Floats v = loadSome(x + c, count, full);
        if (a.inputBias) v += loadSome(a.inputBias + c, count, full);
        if (residual) v += loadSome(residual + c, count, full);
        sum += v;
        storeSome(a.scratch + c, v, count, full);
      });
      normaliseRow(a, a.scratch, sumOf(sum), static_cast<T*>(a.out) + r * a.columns);
    }
  });
}

void embeddingLayerNorm(const EmbeddingArgs& e, int64_t begin, int64_t end) {
  const NormArgs& a = e.norm;
  withType(e.scalar, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    for (int64_t r = begin; r < end; ++r) {
      const T* rows[EmbeddingArgs::kMaxTables];
      for (int t = 0; t < e.tables; ++t) rows[t] = static_cast<const T*>(e.table[t]) + e.ids[t][r] * a.columns;
      Floats sum{};
      forVectors(a.columns, [&](int64_t c, int64_t count, bool full) {
        Floats v = loadSome(rows[0] + c, count, full);
        for (int t = 1; t < e.tables; ++t) v += loadSome(rows[t] + c, count, full);
        sum += v;
        storeSome(a.scratch + c, v, count, full);
      });
      normaliseRow(a, a.scratch, sumOf(sum), static_cast<T*>(a.out) + r * a.columns);
    }
  });
}

void rmsNorm(const NormArgs& a, int64_t begin, int64_t end) {
  withType(a.scalar, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    for (int64_t r = begin; r < end; ++r) {
      const T* x = static_cast<const T*>(a.x) + r * a.columns;
      const T* residual = a.residual ? static_cast<const T*>(a.residual) + r * a.columns : nullptr;
      T* total = static_cast<T*>(a.sum) + r * a.columns;
      T* out = static_cast<T*>(a.out) + r * a.columns;
      Floats squares{};
      forVectors(a.columns, [&](int64_t c, int64_t count, bool full) {
        Floats v = loadSome(x + c, count, full);
        if (residual) v += loadSome(residual + c, count, full);
        squares += v * v;
        storeSome(a.scratch + c, v, count, full);
        storeSome(total + c, v, count, full);
      });
      const float scale = 1.0f / __builtin_sqrtf(sumOf(squares) / a.columns + a.eps);
      forVectors(a.columns, [&](int64_t c, int64_t count, bool full) {
        Floats y = loadSome(a.scratch + c, count, full) * scale;
        if (a.weight) y = y * loadSome(a.weight + c, count, full);
        storeSome(out + c, y, count, full);
      });
    }
  });
}

void softmaxRow(const SoftmaxArgs& a, int64_t row, const float* mask, const uint8_t* keep) {
  withType(a.scalar, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* x = static_cast<const T*>(a.x) + row * a.columns;
    T* out = static_cast<T*>(a.out) + row * a.columns;
    const float lowest = -__builtin_inff();
    Floats largest = all(lowest);
    forVectors(a.columns, [&](int64_t c, int64_t count, bool full) {
      Floats v = loadSome(x + c, count, full) * a.scale;
      if (mask) v += loadSome(mask + c, count, full);
      if (keep) {
        for (int64_t i = 0; i < count; ++i) v[i] = keep[c + i] ? v[i] : lowest;
      }
      if (!full) v = laneNumbers() < (int32_t)count ? v : all(lowest);
      largest = v > largest ? v : largest;
      storeSome(a.scratch + c, v, count, full);
    });
    const float top = largestOf(largest);
    Floats sum{};
    forVectors(a.columns, [&](int64_t c, int64_t count, bool full) {
      Floats v = exponential(loadSome(a.scratch + c, count, full) - top);
      if (!full) v = laneNumbers() < (int32_t)count ? v : Floats{};
      sum += v;
      storeSome(a.scratch + c, v, count, full);
    });
    const float inverse = 1.0f / sumOf(sum);
    forVectors(a.columns, [&](int64_t c, int64_t count, bool full) {
      storeSome(out + c, loadSome(a.scratch + c, count, full) * inverse, count, full);
    });
  });
}

void rotaryRow(const RotaryArgs& a) {
  withType(a.scalar, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t half = a.headSize / 2;
    const T* low = static_cast<const T*>(a.x);
    const T* high = low + half;
    T* out = static_cast<T*>(a.out);
    forVectors(half, [&](int64_t c, int64_t count, bool full) {
      const Floats l = loadSome(low + c, count, full);
      const Floats h = loadSome(high + c, count, full);
      const Floats first = l * loadSome(a.cos + c, count, full) - h * loadSome(a.sin + c, count, full);
      const Floats second = h * loadSome(a.cos + half + c, count, full) + l * loadSome(a.sin + half + c, count, full);
      storeSome(out + c, first, count, full);
      storeSome(out + half + c, second, count, full);
    });
  });
}

void swiglu(Scalar scalar, const void* gate, const void* up, void* out, int64_t begin, int64_t end) {
  withType(scalar, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* g = static_cast<const T*>(gate) + begin;
    const T* u = static_cast<const T*>(up) + begin;
    T* o = static_cast<T*>(out) + begin;
    forVectors(end - begin, [&](int64_t c, int64_t count, bool full) {
      const Floats x = loadSome(g + c, count, full);
      storeSome(o + c, sigmoidTimes(x, x) * loadSome(u + c, count, full), count, full);
    });
  });
}

template <Activation activation>
inline Floats activate(Floats x, float alpha, float beta) {
  const auto clamped = [](Floats v, float low, float high) {  // NaN stays NaN
    v = v < low ? all(low) : v;
    return v > high ? all(high) : v;
  };
  if constexpr (activation == Activation::Relu) return x < 0.0f ? Floats{} : x;
  if constexpr (activation == Activation::Gelu) return 0.5f * x * (1.0f + errorFunction(x * 0.70710678118654752f));
  if constexpr (activation == Activation::GeluTanh) {
    return sigmoidTimes(x, 1.5957691216057308f * (x + 0.044715f * x * x * x));
  }
  if constexpr (activation == Activation::Silu) return sigmoidTimes(x, x);
  if constexpr (activation == Activation::Sigmoid) return sigmoidTimes(all(1.0f), x);
  if constexpr (activation == Activation::Tanh) return hyperbolicTangent(x);
  if constexpr (activation == Activation::HardSwish) return x * clamped(x + 3.0f, 0.0f, 6.0f) / 6.0f;
  if constexpr (activation == Activation::HardSigmoid) return clamped(x + 3.0f, 0.0f, 6.0f) / 6.0f;
  if constexpr (activation == Activation::HardTanh) return clamped(x, alpha, beta);
  if constexpr (activation == Activation::LeakyRelu) return x > 0.0f ? x : x * alpha;
  return x;
}

// Calls body with the activation as a constant.
template <class Body>
inline void withActivation(Activation activation, Body body) {
  switch (activation) {
    case Activation::None:
      return body(std::integral_constant<Activation, Activation::None>());
    case Activation::Relu:
      return body(std::integral_constant<Activation, Activation::Relu>());
    case Activation::Gelu:
      return body(std::integral_constant<Activation, Activation::Gelu>());
    case Activation::GeluTanh:
      return body(std::integral_constant<Activation, Activation::GeluTanh>());
    case Activation::Silu:
      return body(std::integral_constant<Activation, Activation::Silu>());
    case Activation::Sigmoid:
      return body(std::integral_constant<Activation, Activation::Sigmoid>());
    case Activation::Tanh:
      return body(std::integral_constant<Activation, Activation::Tanh>());
    case Activation::HardSwish:
      return body(std::integral_constant<Activation, Activation::HardSwish>());
    case Activation::HardSigmoid:
      return body(std::integral_constant<Activation, Activation::HardSigmoid>());
    case Activation::HardTanh:
      return body(std::integral_constant<Activation, Activation::HardTanh>());
    case Activation::LeakyRelu:
      return body(std::integral_constant<Activation, Activation::LeakyRelu>());
  }
}

template <Activation activation, class T>
void epilogueRows(const float* x, const float* bias, const T* residual, T* out, int64_t columns, int64_t begin,
                  int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const int64_t at = r * columns;
    forVectors(columns, [&](int64_t c, int64_t count, bool full) {
      Floats v = loadSome(x + at + c, count, full);
      if (bias) v += loadSome(bias + c, count, full);
      v = activate<activation>(v, 0, 0);
      if (residual) v += loadSome(residual + at + c, count, full);
      storeSome(out + at + c, v, count, full);
    });
  }
}

void epilogue(Scalar scalar, Activation activation, const float* x, const float* bias, const void* residual, void* out,
              int64_t columns, int64_t begin, int64_t end) {
  withType(scalar, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    withActivation(activation, [&](auto which) {
      epilogueRows<which.value>(x, bias, static_cast<const T*>(residual), static_cast<T*>(out), columns, begin, end);
    });
  });
}

void addActivate(const ActivationArgs& a, int64_t begin, int64_t end) {
  withType(a.scalar, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const float* from = a.x + begin;
    const T* residual = a.residual ? static_cast<const T*>(a.residual) + begin : nullptr;
    T* out = static_cast<T*>(a.out) + begin;
    withActivation(a.activation, [&](auto which) {
      forVectors(end - begin, [&](int64_t c, int64_t count, bool full) {
        Floats v = loadSome(from + c, count, full);
        if (residual) v += loadSome(residual + c, count, full);
        storeSome(out + c, activate<which.value>(v, a.alpha, a.beta), count, full);
      });
    });
  });
}

}  // namespace
}  // namespace graft::ops

#include "kernels/cpu/attention_impl.h"
#include "kernels/cpu/depthwise_impl.h"
#include "kernels/cpu/linear_impl.h"

namespace graft::ops {
namespace {

Loops makeLoops(const char* name) {
  return {name,     layerNorm,      rmsNorm,          embeddingLayerNorm, softmaxRow,   rotaryRow,        swiglu,
          epilogue, addActivate,    attentionScratch, attention,          kWeightPanel, packedWeightSize, packWeight,
          linear,   takesDepthwise, depthwise};
}

}  // namespace
}  // namespace graft::ops
