#include "kernels/jit/symbols.h"

#include <cmath>
#include <cstring>
#include <unordered_map>

namespace graft::jit {
namespace {

using Unary32 = float (*)(float);
using Unary64 = double (*)(double);
using Binary32 = float (*)(float, float);
using Binary64 = double (*)(double, double);

// Both functions of a name: f for float.
#define GRAFT_UNARY(name)                                                  \
  {#name, reinterpret_cast<void*>(static_cast<Unary64>(::name))}, {        \
#name "f", reinterpret_cast < void*>(static_cast <Unary32>(::name##f)) \
  }
#define GRAFT_BINARY(name)                                                  \
  {#name, reinterpret_cast<void*>(static_cast<Binary64>(::name))}, {        \
#name "f", reinterpret_cast < void*>(static_cast <Binary32>(::name##f)) \
  }

const std::unordered_map<std::string, void*>& functions() {
  static const std::unordered_map<std::string, void*> table = {
      GRAFT_UNARY(exp),
      GRAFT_UNARY(exp2),
      GRAFT_UNARY(expm1),
      GRAFT_UNARY(log),
      GRAFT_UNARY(log2),
      GRAFT_UNARY(log10),
      GRAFT_UNARY(log1p),
      GRAFT_UNARY(sin),
      GRAFT_UNARY(cos),
      GRAFT_UNARY(tan),
      GRAFT_UNARY(asin),
      GRAFT_UNARY(acos),
      GRAFT_UNARY(atan),
      GRAFT_UNARY(sinh),
      GRAFT_UNARY(cosh),
      GRAFT_UNARY(tanh),
      GRAFT_UNARY(asinh),
      GRAFT_UNARY(acosh),
      GRAFT_UNARY(atanh),
      GRAFT_UNARY(erf),
      GRAFT_UNARY(erfc),
      GRAFT_UNARY(lgamma),
      GRAFT_UNARY(floor),
      GRAFT_UNARY(ceil),
      GRAFT_UNARY(trunc),
      GRAFT_UNARY(rint),
      GRAFT_UNARY(nearbyint),
      GRAFT_UNARY(roundeven),
      GRAFT_UNARY(sqrt),
      GRAFT_BINARY(pow),
      GRAFT_BINARY(atan2),
      GRAFT_BINARY(hypot),
      GRAFT_BINARY(fmod),
      // LLVM calls these in place of others: sincos where code takes sin and cos of one number, ldexp for a power of 2,
      // exp10 for one of 10.
      {"sincos", reinterpret_cast<void*>(static_cast<void (*)(double, double*, double*)>(::sincos))},
      {"sincosf", reinterpret_cast<void*>(static_cast<void (*)(float, float*, float*)>(::sincosf))},
      {"ldexp", reinterpret_cast<void*>(static_cast<double (*)(double, int)>(::ldexp))},
      {"ldexpf", reinterpret_cast<void*>(static_cast<float (*)(float, int)>(::ldexpf))},
      {"exp10", reinterpret_cast<void*>(static_cast<Unary64>(::exp10))},
      {"exp10f", reinterpret_cast<void*>(static_cast<Unary32>(::exp10f))},
      {"memcpy", reinterpret_cast<void*>(::memcpy)},
      {"memmove", reinterpret_cast<void*>(::memmove)},
      {"memset", reinterpret_cast<void*>(::memset)},
  };
  return table;
}

}  // namespace

void* findFunction(const std::string& name) {
  const auto at = functions().find(name);
  return at == functions().end() ? nullptr : at->second;
}

}  // namespace graft::jit
