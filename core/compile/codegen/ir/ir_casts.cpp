// Casts between dtypes. f16 and bf16 are bits in registers; where the processor has no instruction for f16, the bits
// are moved by hand.
#include "core/compile/codegen/ir/ir_operations.h"

namespace graft::codegen {

Value IrOperations::halfToFloat(const Value& h) {
  if (level_ != CpuLevel::Base) {
    const std::string half = h.lanes == 1 ? "half" : "<" + std::to_string(h.lanes) + " x half>";
    const Value bits = b_.instruction(h.dtype, h.lanes, h.scope, "bitcast " + b_.typed(h) + " to " + half);
    return b_.instruction(DType::Float32, h.lanes, h.scope,
                          "fpext " + half + " " + bits.name + " to " + IrBuilder::type(DType::Float32, h.lanes));
  }
  // The exponent moves by a multiplication, which is right for subnormal numbers too.
  const Value wide = b_.convert("zext", h, DType::Int32);
  const auto whole = [&](int64_t v) { return b_.integer(DType::Int32, v); };
  const Value size = b_.binary("and", wide, whole(0x7fff));
  const Value sign = b_.binary("shl", b_.binary("and", wide, whole(0x8000)), whole(16));
  const Value scaled = b_.binary("fmul", b_.convert("bitcast", b_.binary("shl", size, whole(13)), DType::Float32),
                                 b_.number(DType::Float32, 0x1p112));
  const Value special = b_.binary("or", b_.binary("shl", size, whole(13)), whole(0x7f800000));
  const Value isSpecial = b_.compare("icmp uge", size, whole(0x7c00));
  const Value bits = b_.select(isSpecial, special, b_.convert("bitcast", scaled, DType::Int32));
  return b_.convert("bitcast", b_.binary("or", bits, sign), DType::Float32);
}

Value IrOperations::floatToHalf(const Value& v) {
  if (level_ != CpuLevel::Base) {
    const std::string half = v.lanes == 1 ? "half" : "<" + std::to_string(v.lanes) + " x half>";
    const Value rounded = b_.instruction(DType::Float16, v.lanes, v.scope, "fptrunc " + b_.typed(v) + " to " + half);
    return b_.instruction(DType::Float16, v.lanes, v.scope,
                          "bitcast " + half + " " + rounded.name + " to " + IrBuilder::type(DType::Float16, v.lanes));
  }
  // After F. Giesen's float_to_half_fast3_rtne: an addition rounds subnormal numbers.
  const auto whole = [&](int64_t i) { return b_.integer(DType::Int32, i); };
  const Value all = b_.convert("bitcast", v, DType::Int32);
  const Value u = b_.binary("and", all, whole(0x7fffffff));
  const Value sign = b_.binary("and", b_.binary("lshr", all, whole(16)), whole(0x8000));
  const Value special = b_.select(b_.compare("icmp ugt", u, whole(0x7f800000)), whole(0x7e00), whole(0x7c00));
  const Value magic = b_.number(DType::Float32, 0.5);
  const Value small = b_.binary(
      "sub", b_.convert("bitcast", b_.binary("fadd", b_.convert("bitcast", u, DType::Float32), magic), DType::Int32),
      b_.convert("bitcast", magic, DType::Int32));
  const Value odd = b_.binary("and", b_.binary("lshr", u, whole(13)), whole(1));
  const Value usual = b_.binary(
      "lshr", b_.binary("add", b_.binary("add", u, whole(((15 - 127) * (int64_t{1} << 23)) + 0xfff)), odd), whole(13));
  Value bits = b_.select(b_.compare("icmp ult", u, whole(113 << 23)), small, usual);
  bits = b_.select(b_.compare("icmp uge", u, whole(143 << 23)), special, bits);
  return b_.convert("trunc", b_.binary("or", bits, sign), DType::Float16);
}

Value IrOperations::floatToBFloat(const Value& v) {
  const auto whole = [&](int64_t i) { return b_.integer(DType::Int32, i); };
  const Value u = b_.convert("bitcast", v, DType::Int32);
  const Value odd = b_.binary("and", b_.binary("lshr", u, whole(16)), whole(1));
  const Value rounded = b_.binary("lshr", b_.binary("add", b_.binary("add", u, whole(0x7fff)), odd), whole(16));
  const Value bits = b_.select(b_.compare("fcmp uno", v, v), whole(0x7fc0), rounded);
  return b_.convert("trunc", bits, DType::BFloat16);
}

Value IrOperations::cast(const Value& v, DType to) {
  const DType from = v.dtype;
  if (from == to) return v;
  if (from == DType::Float16) return cast(halfToFloat(v), to);
  if (from == DType::BFloat16) {
    const Value wide = b_.binary("shl", b_.convert("zext", v, DType::Int32), b_.integer(DType::Int32, 16));
    return cast(b_.convert("bitcast", wide, DType::Float32), to);
  }
  if (to == DType::Float16 || to == DType::BFloat16) {
    const Value single = cast(v, DType::Float32);
    return to == DType::Float16 ? floatToHalf(single) : floatToBFloat(single);
  }
  const bool isFromFloat = isFloatingPoint(from), isToFloat = isFloatingPoint(to);
  if (to == DType::Bool) return b_.compare(isFromFloat ? "fcmp une" : "icmp ne", v, b_.number(from, 0.0));
  if (isFromFloat && isToFloat) return b_.convert(to == DType::Float64 ? "fpext" : "fptrunc", v, to);
  if (isToFloat) return b_.convert(isUnsigned(from) ? "uitofp" : "sitofp", v, to);
  if (isFromFloat) {
    // A number that does not fit gives what the processor gives, instead of anything.
    const DType wide = bitsOf(to) < 32 ? DType::Int32 : to;
    const Value whole = b_.unary("freeze", b_.convert("fptosi", v, wide));
    return wide == to ? whole : b_.convert("trunc", whole, to);
  }
  if (from != DType::Bool && bitsOf(to) < bitsOf(from)) return b_.convert("trunc", v, to);
  if (from != DType::Bool && bitsOf(to) == bitsOf(from)) return b_.convert("bitcast", v, to);
  return b_.convert(isUnsigned(from) ? "zext" : "sext", v, to);
}

}  // namespace graft::codegen
