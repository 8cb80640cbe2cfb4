#include "core/compile/codegen/cpp/cpp_code.h"

#include <fmt/format.h>

#include "core/compile/codegen/cpp/c_text.h"
#include "core/compile/codegen/cpp/cpp_printer.h"
#include "core/compile/codegen/placement.h"
#include "core/compile/codegen/prepare.h"

namespace graft::codegen {

using loops::Buffer;

namespace {

// What C++ lacks of the loops' operations. Integers wrap around: -fwrapv.
constexpr const char* kPrelude = R"(#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>

struct bf16 {
  uint16_t bits;
};
template <class To, class From>
To cast(From x) {
  if constexpr (std::is_same_v<From, bf16>) {
    return cast<To>(std::bit_cast<float>(uint32_t(x.bits) << 16));
  } else if constexpr (std::is_same_v<To, bf16>) {
    const float f = static_cast<float>(x);
    const uint32_t u = std::bit_cast<uint32_t>(f);
    return {std::isnan(f) ? uint16_t(0x7fc0) : uint16_t((u + 0x7fff + (u >> 16 & 1)) >> 16)};
  } else if constexpr (std::is_same_v<To, _Float16>) {
    return static_cast<_Float16>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < 4) {
    return static_cast<To>(static_cast<int32_t>(x));
  } else {
    return static_cast<To>(x);
  }
}
template <class T>
T minimum(T a, T b) {
  return b != b || b < a ? b : a;
}
template <class T>
T maximum(T a, T b) {
  return b != b || b > a ? b : a;
}
// NaN is greater and less than everything else.
template <class T>
bool is_greater(T a, T b) {
  return a > b || (a != a && b == b);
}
template <class T>
bool is_less(T a, T b) {
  return a < b || (a != a && b == b);
}
template <class T>
T sign(T x) {
  return T((x > T(0)) - (x < T(0)));
}
template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}
// Philox4x32-10 with cuRAND's conversion: number 0 to 3 of a block of a subsequence.
inline float uniform(int64_t seed, int64_t subsequence, int64_t block, int64_t number) {
  uint32_t c[4] = {uint32_t(block), uint32_t(uint64_t(block) >> 32), uint32_t(subsequence),
                   uint32_t(uint64_t(subsequence) >> 32)};
  uint32_t key0 = uint32_t(seed), key1 = uint32_t(uint64_t(seed) >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
    c[0] = uint32_t(p1 >> 32) ^ c[1] ^ key0;
    c[1] = uint32_t(p1);
    c[2] = uint32_t(p0 >> 32) ^ c[3] ^ key1;
    c[3] = uint32_t(p0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return float(c[number & 3]) * 0x1p-32f + 0x1p-33f;
}
template <class T>
T truncate_divide(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::trunc(a / b);
  else return T(-1) < T(0) && b == T(-1) ? T(-a) : T(a / b);
}
template <class T>
T remainder_of(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const T r = std::fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  } else {
    const T r = T(-1) < T(0) && b == T(-1) ? T(0) : T(a % b);
    return r != 0 && (r < 0) != (b < 0) ? T(r + b) : r;
  }
}
template <class T>
T fmod_of(T a, T b) {
  return T(-1) < T(0) && b == T(-1) ? T(0) : T(a % b);
}
template <class T>
T floor_divide(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (b == 0) return a / b;
    const T r = std::fmod(a, b);
    T q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    if (q == 0) return std::copysign(T(0), a / b);
    const T f = std::floor(q);
    return q - f > T(0.5) ? f + 1 : f;
  } else {
    const T q = truncate_divide(a, b);
    return remainder_of(a, b) != T(a - q * b) ? T(q - 1) : q;
  }
}
template <class T>
T power(T x, T n) {
  if (n < 0) return x == T(1) ? T(1) : x == T(-1) ? T(n % 2 ? -1 : 1) : T(0);
  T result = 1;
  for (; n > 0; n /= 2, x *= x)
    if (n % 2) result *= x;
  return result;
}
// The least number is its own absolute value.
template <class T>
T gcd(T a, T b) {
  if (a < 0) a = T(-a);
  if (b < 0) b = T(-b);
  for (T rest; a != 0; b = a, a = rest) rest = T(b % a);
  return b;
}
template <class T>
T shift_left(T a, T b) {
  return b >= 0 && b < T(8 * sizeof(T)) ? T(a << b) : T(0);
}
template <class T>
T shift_right(T a, T b) {
  return b >= 0 && b < T(8 * sizeof(T)) ? T(a >> b) : T(a < 0 ? -1 : 0);
}
inline int64_t checked_index(int64_t i, int64_t size, int& failed) {
  if (i >= 0 && i < size) return i;
  failed = 1;
  return 0;
}
template <class T>
T checked_divisor(T d, int& failed) {
  if (d != 0) return d;
  failed = 1;
  return 1;
}
)";

}  // namespace

std::string makeCppCode(loops::Program program, const CpuOptions& options, bool hasMarks) {
  avoidReservedNames(program);
  Placement placement = placeBuffersOnCpu(program, options);
  Accesses accesses(program, std::move(placement.strides));
  NestRewriter rewriter(accesses, program);
  std::vector<loops::Nest> nests;
  for (const loops::Nest& nest : std::vector<loops::Nest>(program.nests)) nests.push_back(rewriter.prepare(nest));
  LoopPlanner planner(accesses, lanesOf(options.level), options.schedule);
  CppPrinter printer(accesses, planner, hasMarks);
  std::string parameters;
  const auto add = [&](const std::string& p) { parameters += (parameters.empty() ? "" : ", ") + p; };
  for (const loops::BufferId b : program.inputs())
    add("const " + CppPrinter::typeName(program.buffer(b).dtype) + "* " + program.buffer(b).name);
  for (const loops::BufferId b : program.outputs())
    add(CppPrinter::typeName(program.buffer(b).dtype) + "* " + program.buffer(b).name);
  for (const loops::Size& s : program.sizes) add("int64_t " + s.name);
  std::string text = std::string(kPrelude) + "\nint run(" + parameters + ") {\n  int failed = 0;\n";
  for (const Buffer& b : program.buffers) {
    if (b.role != Buffer::Role::Temporary) continue;
    std::string count = "1";
    for (const loops::ExprId e : b.sizes) count += " * " + printer.size(e);
    text += fmt::format("  auto {} = std::make_unique<{}[]>({});\n", b.name, CppPrinter::typeName(b.dtype), count);
  }
  for (const loops::Nest& nest : nests) text += "\n" + printer.nest(nest, 1);
  return text + "  return failed;\n}\n";
}

}  // namespace graft::codegen
