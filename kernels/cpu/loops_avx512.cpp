// The loops for machines with AVX512.
#if defined(__x86_64__)
#include "kernels/cpu/loops_impl.h"

namespace graft::ops {

const Loops& loopsAvx512() {
  static const Loops table = makeLoops("avx512");
  return table;
}

}  // namespace graft::ops
#endif
