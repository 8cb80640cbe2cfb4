// Chooses the loops for this machine's instruction set, or a lower one that GRAFT_OPS_CPU names.
#include "kernels/cpu/loops.h"

#include <cstdlib>
#include <cstring>

namespace graft::ops {

const Loops& loopsBase();
#if defined(__x86_64__)
const Loops& loopsAvx2();
const Loops& loopsAvx512();
#endif

namespace {

const Loops& choose() {
#if defined(__x86_64__)
  const char* wanted = std::getenv("GRAFT_OPS_CPU");
  const bool mayAvx512 = !wanted || std::strcmp(wanted, "avx512") == 0;
  const bool mayAvx2 = mayAvx512 || std::strcmp(wanted, "avx2") == 0;
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && mayAvx512) return loopsAvx512();
  if (avx2 && mayAvx2) return loopsAvx2();
#endif
  return loopsBase();
}

}  // namespace

const Loops& loops() {
  static const Loops& chosen = choose();
  return chosen;
}

}  // namespace graft::ops
