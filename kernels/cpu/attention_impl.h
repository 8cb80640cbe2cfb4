// The loop of graft::attention. loops_impl.h includes it, so it is compiled for each instruction set.
//
// A work item is a block of queries of one head. The head's keys are packed once into panels of kPanel keys, [head
// size, kPanel] each, so that the product of a few queries with a panel reads them in order. The scores of those
// queries for all keys stay in the cache through softmax and the product with the values. The values are packed too,
// unless there are few queries: the rows of a head in a projection's output lie thousands of bytes apart, and so fall
// on few sets of the first-level cache. For the same reason the next head's rows are prefetched.
#pragma once

#include "kernels/cpu/loops.h"
#include "kernels/cpu/vector.h"

namespace graft::ops {
namespace {

constexpr int kPanel = 2 * kLanes;

inline int64_t roundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

inline bool valuesInPlace(const AttentionArgs& a) {
  return a.scalar == Scalar::F32 && a.valueSize % kLanes == 0 && a.block <= 2 * kRows;
}

struct AttentionScratch {
  float* keys;    // panels
  float* values;  // [keys, valueSize rounded up], where they are not read in place
  float* query;   // [head size, kRows]
  float* scores;  // [kRows, keys rounded up]
};

int64_t attentionScratch(const AttentionArgs& a) {
  const int64_t keys = roundUp(a.keys, kPanel);
  const int64_t values = valuesInPlace(a) ? 0 : a.keys * roundUp(a.valueSize, kLanes);
  return keys * a.headSize + values + a.headSize * kRows + kRows * keys;
}

inline AttentionScratch divide(const AttentionArgs& a, float* memory) {
  const int64_t keys = roundUp(a.keys, kPanel);
  AttentionScratch s;
  s.keys = memory;
  s.values = s.keys + keys * a.headSize;
  s.query = s.values + (valuesInPlace(a) ? 0 : a.keys * roundUp(a.valueSize, kLanes));
  s.scores = s.query + a.headSize * kRows;
  return s;
}

inline float toFloat(float value) { return value; }
inline float toFloat(Bf16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}
inline float toFloat(Fp16 value) { return loadPart(&value, 1)[0]; }

template <class T>
void packKeys(const AttentionArgs& a, const T* from, float* to) {
  for (int64_t first = 0; first < a.keys; first += kPanel) {
    float* panel = to + first * a.headSize;
    const int64_t count = a.keys - first < kPanel ? a.keys - first : kPanel;
    for (int64_t j = 0; j < count; ++j) {
      const T* key = from + (first + j) * a.kStrides[2];
      for (int64_t d = 0; d < a.headSize; ++d) panel[d * kPanel + j] = toFloat(key[d]);
    }
    if (count == kPanel) continue;
    for (int64_t d = 0; d < a.headSize; ++d) {
      for (int64_t j = count; j < kPanel; ++j) panel[d * kPanel + j] = 0;
    }
  }
}

template <class T>
void packValues(const AttentionArgs& a, const T* from, float* to) {
  const int64_t width = roundUp(a.valueSize, kLanes);
  for (int64_t t = 0; t < a.keys; ++t) {
    forVectors(a.valueSize, [&](int64_t c, int64_t count, bool full) {
      store(to + t * width + c, loadSome(from + t * a.vStrides[2] + c, count, full));
    });
  }
}

// sums[r][n] = sum over `steps` of left[step * leftStep + r * leftRow] * right[step * stride + n * kLanes ...]
template <int N>
inline void multiply(const float* left, int64_t leftStep, int64_t leftRow, const float* right, int64_t stride,
                     int64_t steps, Floats (&sums)[kRows][N]) {
  for (int r = 0; r < kRows; ++r) {
    for (int n = 0; n < N; ++n) sums[r][n] = Floats{};
  }
  for (int64_t i = 0; i < steps; ++i) {
    Floats b[N];
    for (int n = 0; n < N; ++n) b[n] = load(right + i * stride + n * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const Floats x = all(left[i * leftStep + r * leftRow]);
      for (int n = 0; n < N; ++n) sums[r][n] += x * b[n];
    }
  }
}

// Adds the mask to a row of scores and turns it into e^(score - largest); returns the sum.
inline float exponentials(const AttentionArgs& a, float* row, int64_t keys, int64_t batch, int64_t head,
                          int64_t query) {
  const int64_t offset = batch * a.maskStrides[0] + head * a.maskStrides[1] + query * a.maskStrides[2];
  const float* added = a.mask ? a.mask + offset : nullptr;
  const uint8_t* keep = a.keep ? a.keep + offset : nullptr;
  const float lowest = -__builtin_inff();
  const Ints lanes = laneNumbers();
  const int64_t seen = a.causal && query + 1 < keys ? query + 1 : keys;
  Floats largest = all(lowest);
  for (int64_t c = 0; c < keys; c += kLanes) {
    const int64_t count = keys - c < kLanes ? keys - c : kLanes;
    const bool full = count == kLanes;
    Floats v = load(row + c);
    if (added) v += loadSome(added + c, count, full);
    if (keep) {
      uint8_t bytes[kLanes] = {};
      std::memcpy(bytes, keep + c, full ? kLanes : count);
      typedef uint8_t Bytes __attribute__((vector_size(kLanes)));
      Bytes kept;
      std::memcpy(&kept, bytes, sizeof kept);
      v = __builtin_convertvector(kept, Ints) != 0 ? v : all(lowest);
    }
    if (c + kLanes > seen) v = lanes < (int32_t)(seen - c) ? v : all(lowest);
    largest = v > largest ? v : largest;
    store(row + c, v);
  }
  float top = largestOf(largest);
  if (top == lowest) top = 0;  // the row sees no key (or all are NaN): e^-Inf = 0 makes the sum 0 (or NaN)
  Floats sum{};
  for (int64_t c = 0; c < keys; c += kLanes) {
    const Floats v = exponential(load(row + c) - top);
    store(row + c, v);
    sum += v;
  }
  return sumOf(sum);
}

template <int N, class T>
inline void weighValues(const float* scores, int64_t scoresRow, const float* values, int64_t valuesRow, int64_t keys,
                        const float* inverse, T* const* out, int64_t rows, int64_t column, int64_t valueSize) {
  Floats sums[kRows][N];
  multiply<N>(scores, 1, scoresRow, values + column, valuesRow, keys, sums);
  for (int64_t r = 0; r < rows; ++r) {
    for (int n = 0; n < N; ++n) {
      const int64_t c = column + n * kLanes;
      if (c >= valueSize) break;
      const int64_t count = valueSize - c;
      storeSome(out[r] + c, sums[r][n] * inverse[r], count, count >= kLanes);
    }
  }
}

// Prefetches rows [first, first + kRows) of another head into the second-level cache.
template <class T>
inline void fetchRows(const void* from, int64_t batch, int64_t head, const int64_t (&strides)[3], int64_t first,
                      int64_t rows, int64_t size) {
  const T* start = static_cast<const T*>(from) + batch * strides[0] + head * strides[1];
  const int64_t last = first + kRows < rows ? first + kRows : rows;
  const int64_t bytes = size * static_cast<int64_t>(sizeof(T));
  for (int64_t r = first; r < last; ++r) {
    const char* row = reinterpret_cast<const char*>(start + r * strides[2]);
    for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(row + b, 0, 2);
  }
}

template <class T>
void attentionItem(const AttentionArgs& a, const AttentionScratch& s, const float* values, int64_t valuesRow,
                   int64_t batch, int64_t head, int64_t first, int64_t last, int64_t nextBatch, int64_t nextHead) {
  const int64_t nextKv = nextHead * a.kvHeads / a.heads;
  const int64_t width = roundUp(a.keys, kPanel);
  for (int64_t q0 = first; q0 < last; q0 += kRows) {
    const int64_t rows = last - q0 < kRows ? last - q0 : kRows;
    const int64_t keys = a.causal && q0 + rows < a.keys ? q0 + rows : a.keys;
    if (nextHead != head || nextBatch != batch) {
      fetchRows<T>(a.q, nextBatch, nextHead, a.qStrides, q0, a.queries, a.headSize);
      fetchRows<T>(a.k, nextBatch, nextKv, a.kStrides, q0, a.keys, a.headSize);
      fetchRows<T>(a.v, nextBatch, nextKv, a.vStrides, q0, a.keys, a.valueSize);
    }
    T* out[kRows];
    for (int64_t r = 0; r < kRows; ++r) {
      const int64_t query = q0 + (r < rows ? r : 0);  // rows beyond the last repeat the first
      const T* from = static_cast<const T*>(a.q) + batch * a.qStrides[0] + head * a.qStrides[1] + query * a.qStrides[2];
      for (int64_t d = 0; d < a.headSize; ++d) s.query[d * kRows + r] = toFloat(from[d]) * a.scale;
      out[r] = static_cast<T*>(a.out) + ((batch * a.queries + query) * a.heads + head) * a.valueSize;
    }
    for (int64_t c = 0; c < keys; c += kPanel) {
      if (keys - c <= kLanes) {
        Floats sums[kRows][1];
        multiply<1>(s.query, kRows, 1, s.keys + c * a.headSize, kPanel, a.headSize, sums);
        for (int r = 0; r < kRows; ++r) store(s.scores + r * width + c, sums[r][0]);
        break;
      }
      Floats sums[kRows][2];
      multiply<2>(s.query, kRows, 1, s.keys + c * a.headSize, kPanel, a.headSize, sums);
      for (int r = 0; r < kRows; ++r) {
        store(s.scores + r * width + c, sums[r][0]);
        store(s.scores + r * width + c + kLanes, sums[r][1]);
      }
    }
    float inverse[kRows] = {};
    for (int64_t r = 0; r < rows; ++r) {
      const float sum = exponentials(a, s.scores + r * width, keys, batch, head, q0 + r);
      inverse[r] = sum == 0.0f ? 0.0f : 1.0f / sum;
    }
    int64_t column = 0;
    for (; column + kLanes < a.valueSize; column += 2 * kLanes) {
      weighValues<2>(s.scores, width, values, valuesRow, keys, inverse, out, rows, column, a.valueSize);
    }
    if (column < a.valueSize) {
      weighValues<1>(s.scores, width, values, valuesRow, keys, inverse, out, rows, column, a.valueSize);
    }
  }
}

// One query alone: it reads keys and values once, in place, because packing them would cost more than it saves.
template <class T>
void attendAlone(const AttentionArgs& a, const AttentionScratch& s, const T* k, const T* v, int64_t batch, int64_t head,
                 int64_t query) {
  const T* q = static_cast<const T*>(a.q) + batch * a.qStrides[0] + head * a.qStrides[1] + query * a.qStrides[2];
  T* out = static_cast<T*>(a.out) + ((batch * a.queries + query) * a.heads + head) * a.valueSize;
  const int64_t keys = a.causal && query + 1 < a.keys ? query + 1 : a.keys;
  forVectors(a.headSize, [&](int64_t c, int64_t count, bool full) {
    storeSome(s.query + c, loadSome(q + c, count, full) * a.scale, count, full);
  });
  for (int64_t t = 0; t < keys; ++t) {
    Floats sum{};
    forVectors(a.headSize, [&](int64_t c, int64_t count, bool full) {
      sum += loadSome(s.query + c, count, full) * loadSome(k + t * a.kStrides[2] + c, count, full);
    });
    s.scores[t] = sumOf(sum);
  }
  const float sum = exponentials(a, s.scores, keys, batch, head, query);
  const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
  constexpr int64_t kWide = 4 * kLanes;
  int64_t column = 0;
  for (; column + kWide <= a.valueSize; column += kWide) {
    Floats sums[4] = {};
    for (int64_t t = 0; t < keys; ++t) {
      const Floats weight = all(s.scores[t]);
      for (int n = 0; n < 4; ++n) sums[n] += weight * load(v + t * a.vStrides[2] + column + n * kLanes);
    }
    for (int n = 0; n < 4; ++n) store(out + column + n * kLanes, sums[n] * inverse);
  }
  forVectors(a.valueSize - column, [&](int64_t c, int64_t count, bool full) {
    Floats rest{};
    for (int64_t t = 0; t < keys; ++t) {
      rest += s.scores[t] * loadSome(v + t * a.vStrides[2] + column + c, count, full);
    }
    storeSome(out + column + c, rest * inverse, count, full);
  });
}

void attention(const AttentionArgs& a, int64_t begin, int64_t end, float* memory) {
  const AttentionScratch s = divide(a, memory);
  const int64_t group = a.heads / a.kvHeads;
  withType(a.scalar, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T *packed = nullptr, *packedValues = nullptr;  // what s.keys and s.values hold; samples may share either
    for (int64_t item = begin; item < end; ++item) {
      const int64_t head = item / a.blocks % a.heads, batch = item / (a.blocks * a.heads);
      const int64_t first = item % a.blocks * a.block;
      const int64_t last = first + a.block < a.queries ? first + a.block : a.queries;
      const T* k = static_cast<const T*>(a.k) + batch * a.kStrides[0] + head / group * a.kStrides[1];
      const T* v = static_cast<const T*>(a.v) + batch * a.vStrides[0] + head / group * a.vStrides[1];
      if (a.queries <= 2) {
        for (int64_t query = first; query < last; ++query) attendAlone<T>(a, s, k, v, batch, head, query);
        continue;
      }
      const bool inPlace = valuesInPlace(a);
      if (packed != k) packKeys(a, k, s.keys);
      if (packedValues != v && !inPlace) packValues(a, v, s.values);
      packed = k;
      packedValues = v;
      const int64_t next = a.blocks == 1 && item + 1 < end ? item + 1 : item;
      const float* values = inPlace ? reinterpret_cast<const float*>(v) : s.values;
      attentionItem<T>(a, s, values, inPlace ? a.vStrides[2] : roundUp(a.valueSize, kLanes), batch, head, first, last,
                       next / a.blocks / a.heads, next / a.blocks % a.heads);
    }
  });
}

}  // namespace
}  // namespace graft::ops
