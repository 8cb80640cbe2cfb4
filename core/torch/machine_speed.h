// How fast this machine computes: what kernels with much arithmetic are measured by.
#pragma once

#include <string>

#include "core/ir/type.h"

namespace graft {

/// Floating-point operations in a microsecond while a large matrix product of that type runs, on "cpu" with `threads`
/// threads (0: PyTorch's own number) or on a GPU. 0 where the machine has no such product. Takes up to half a second,
/// once for each device, type and number of threads.
double productSpeed(const std::string& device, DType, int threads = 0);

}  // namespace graft
