// Where the buffers of a call lie: their strides, and their places in its list of pointers.
#pragma once

#include <vector>

#include "core/compile/codegen/access.h"
#include "core/compile/codegen/cpu_code.h"

namespace graft::codegen {

struct Placement {
  std::vector<Strides> strides;  ///< of each buffer of the program
  std::vector<int> slots;        ///< of each buffer, its pointer: inputs, outputs, temporaries; -1: a local has none
};

/// Puts numbers in the place of sizes where the options give them.
Placement placeBuffers(loops::Program&, const CpuOptions&);

/// The same for code for the CPU, with temporaries turned so that the loops which step through the call's own buffers
/// by ones step through them by ones, too: images whose channels lie side by side, beside those whose columns do.
Placement placeBuffersOnCpu(loops::Program&, const CpuOptions&);

/// Lanes of f32 in a register.
int lanesOf(CpuLevel);

}  // namespace graft::codegen
