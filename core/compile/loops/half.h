// f16 and bf16 as bits: to f32 exactly, from f32 to the nearest, halves to even.
#pragma once

#include <cstdint>

namespace graft::loops {

float halfToFloat(uint16_t bits);
uint16_t floatToHalf(float);
float bfloatToFloat(uint16_t bits);
uint16_t floatToBFloat(float);

}  // namespace graft::loops
