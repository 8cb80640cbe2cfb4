#include "core/compile/loops/algebra/bounds.h"

#include <algorithm>
#include <limits>

namespace graft::loops {
namespace {

std::optional<int64_t> checkedAdd(std::optional<int64_t> a, std::optional<int64_t> b, bool& overflows) {
  int64_t out = 0;
  if (!a || !b) return std::nullopt;
  if (!__builtin_add_overflow(*a, *b, &out)) return out;
  overflows = true;
  return std::nullopt;
}

std::optional<int64_t> checkedMultiply(int64_t a, int64_t b, bool& overflows) {
  int64_t out = 0;
  if (!__builtin_mul_overflow(a, b, &out)) return out;
  overflows = true;
  return std::nullopt;
}

const auto kLesser = [](int64_t a, int64_t b) { return std::min(a, b); };
const auto kGreater = [](int64_t a, int64_t b) { return std::max(a, b); };

template <class Pick>
std::optional<int64_t> pickBoth(std::optional<int64_t> a, std::optional<int64_t> b, Pick pick) {
  return a && b ? std::optional(pick(*a, *b)) : std::nullopt;
}
template <class Pick>
std::optional<int64_t> pickEither(std::optional<int64_t> a, std::optional<int64_t> b, Pick pick) {
  return a && b ? std::optional(pick(*a, *b)) : a ? a : b;
}

}  // namespace

int64_t floorDivided(int64_t a, int64_t b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }

Bounds addBounds(Bounds a, Bounds b, bool& overflows) {
  return {checkedAdd(a.min, b.min, overflows), checkedAdd(a.max, b.max, overflows)};
}

Bounds multiplyBounds(Bounds a, Bounds b, bool& overflows) {
  if (a.min && a.max && b.min && b.max) {
    Bounds out;
    bool isKnown = true;
    for (const int64_t x : {*a.min, *a.max})
      for (const int64_t y : {*b.min, *b.max}) {
        const auto product = checkedMultiply(x, y, overflows);
        if (!product) {
          isKnown = false;
          continue;
        }
        out.min = std::min(out.min.value_or(*product), *product);
        out.max = std::max(out.max.value_or(*product), *product);
      }
    if (isKnown) return out;
  }
  // Of numbers that are not negative, what is known of one end stays known.
  if (a.min && b.min && *a.min >= 0 && *b.min >= 0) {
    Bounds out{checkedMultiply(*a.min, *b.min, overflows), std::nullopt};
    if (a.max && b.max) out.max = checkedMultiply(*a.max, *b.max, overflows);
    return out;
  }
  return {};
}

Bounds scaleBounds(Bounds a, int64_t n, bool& overflows) {
  const auto scaled = [&](std::optional<int64_t> v) { return v ? checkedMultiply(*v, n, overflows) : v; };
  return n >= 0 ? Bounds{scaled(a.min), scaled(a.max)} : Bounds{scaled(a.max), scaled(a.min)};
}

Bounds dtypeBounds(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return {0, 1};
    case DType::UInt8:
      return {0, 255};
    case DType::Int8:
      return {-128, 127};
    case DType::Int16:
      return {INT16_MIN, INT16_MAX};
    case DType::Int32:
      return {INT32_MIN, INT32_MAX};
    default:
      return {};
  }
}

Bounds quotientBounds(Bounds a, Bounds b) {
  if (!b.min || *b.min <= 0) return {};
  Bounds out;
  if (a.min) out.min = *a.min >= 0 ? (b.max ? *a.min / *b.max : 0) : floorDivided(*a.min, *b.min);
  if (a.max) out.max = *a.max >= 0 ? *a.max / *b.min : b.max ? floorDivided(*a.max, *b.max) : int64_t{-1};
  return out;
}

Bounds remainderBounds(Bounds a, Bounds b) {
  Bounds out;
  if (b.min && *b.min > 0) {
    out.min = 0;
    if (b.max) out.max = *b.max - 1;
    if (a.min && *a.min >= 0 && a.max && (!out.max || *a.max < *out.max)) out.max = a.max;
  } else if (b.max && *b.max < 0) {
    if (b.min) out.min = *b.min + 1;
    out.max = 0;
  }
  return out;
}

Bounds minimumBounds(Bounds a, Bounds b) {
  return {pickBoth(a.min, b.min, kLesser), pickEither(a.max, b.max, kLesser)};
}
Bounds maximumBounds(Bounds a, Bounds b) {
  return {pickEither(a.min, b.min, kGreater), pickBoth(a.max, b.max, kGreater)};
}
Bounds absoluteBounds(Bounds a) {
  if (!a.min || !a.max || *a.min == std::numeric_limits<int64_t>::min()) return {};
  return {std::max({int64_t{0}, *a.min, -*a.max}), std::max(-*a.min, *a.max)};
}

Bounds eitherBounds(Bounds a, Bounds b) { return {pickBoth(a.min, b.min, kLesser), pickBoth(a.max, b.max, kGreater)}; }

Bounds rangeBounds(Bounds extent) {
  return {0, extent.max ? std::optional(std::max<int64_t>(*extent.max - 1, 0)) : std::nullopt};
}

}  // namespace graft::loops
