#include "core/compile/loops/half.h"

#include <bit>
#include <cmath>

namespace graft::loops {

float halfToFloat(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fU;
  const uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | fraction << 13);
  if (exponent == 0) {
    const float tiny = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -tiny : tiny;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t floatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000U);
  const uint32_t rest = bits & 0x7fffffffU;
  if (rest > 0x7f800000U) return sign | 0x7e00U;   // NaN
  if (rest >= 0x477ff000U) return sign | 0x7c00U;  // 65520 and more
  if (rest < 0x38800000U) {                        // below the least normal number: in units of 2^-24
    const float units = std::ldexp(std::bit_cast<float>(rest), 24);
    return sign | static_cast<uint16_t>(std::nearbyint(units));
  }
  const uint32_t isOdd = rest >> 13 & 1U;
  return sign | static_cast<uint16_t>((rest + 0xfffU + isOdd - 0x38000000U) >> 13);
}

float bfloatToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t floatToBFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40U);
  const uint32_t isOdd = bits >> 16 & 1U;
  return static_cast<uint16_t>((bits + 0x7fffU + isOdd) >> 16);
}

}  // namespace graft::loops
