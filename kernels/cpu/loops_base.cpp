// The loops for any machine.
#include "kernels/cpu/loops_impl.h"

namespace graft::ops {

const Loops& loopsBase() {
  static const Loops table = makeLoops("base");
  return table;
}

}  // namespace graft::ops
