// Random numbers that depend on nothing but their place: Philox4x32-10 (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", 2011).
#include <array>

#include "core/compile/codegen/ir/ir_math.h"

namespace graft::codegen {

Value emitUniform(IrBuilder& b, std::span<const Value> operands) {
  // 32 bits each, in numbers of 64: so a product is whole.
  const auto number = [&](int64_t n) { return b.integer(DType::Int64, n); };
  const auto low = [&](const Value& v) { return b.binary("and", v, number(0xFFFFFFFF)); };
  const auto high = [&](const Value& v) { return b.binary("lshr", v, number(32)); };
  const auto mixed = [&](const Value& x, const Value& y, const Value& z) {
    return b.binary("xor", b.binary("xor", x, y), z);
  };
  const Value &seed = operands[0], &subsequence = operands[1], &block = operands[2], &place = operands[3];
  std::array<Value, 4> c{low(block), high(block), low(subsequence), high(subsequence)};
  std::array<Value, 2> key{low(seed), high(seed)};
  for (int round = 0; round < 10; ++round) {
    const Value p0 = b.binary("mul", c[0], number(0xD2511F53)), p1 = b.binary("mul", c[2], number(0xCD9E8D57));
    c = {mixed(high(p1), c[1], key[0]), low(p1), mixed(high(p0), c[3], key[1]), low(p0)};
    key = {low(b.binary("add", key[0], number(0x9E3779B9))), low(b.binary("add", key[1], number(0xBB67AE85)))};
  }
  const Value isUpper = b.compare("icmp ne", b.binary("and", place, number(2)), number(0));
  const Value isOdd = b.compare("icmp ne", b.binary("and", place, number(1)), number(0));
  const Value drawn = b.select(isUpper, b.select(isOdd, c[3], c[2]), b.select(isOdd, c[1], c[0]));
  const Value wide = b.convert("sitofp", drawn, DType::Float32);
  return b.binary("fadd", b.binary("fmul", wide, b.number(DType::Float32, 0x1p-32)), b.number(DType::Float32, 0x1p-33));
}

}  // namespace graft::codegen
