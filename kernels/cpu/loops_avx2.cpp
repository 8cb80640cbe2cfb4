// The loops for machines with AVX2.
#if defined(__x86_64__)
#include "kernels/cpu/loops_impl.h"

namespace graft::ops {

const Loops& loopsAvx2() {
  static const Loops table = makeLoops("avx2");
  return table;
}

}  // namespace graft::ops
#endif
