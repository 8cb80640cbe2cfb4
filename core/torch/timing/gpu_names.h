// What CUDA's driver calls a GPU, asked without CUDA's headers and without LibTorch: one place that opens the driver
// for those who time.
//
// Private to core/torch/timing.
#pragma once

#include <string>

namespace graft {

/// Where CUDA's device sits ("0000:1b:00.0"), which NVML knows it by, too: their indices are not the same as soon as
/// CUDA_VISIBLE_DEVICES or CUDA_DEVICE_ORDER says so. Empty where CUDA has no such device.
std::string gpuBus(int device);

/// 32 digits, which all processes agree on; a part of a GPU has its own. Empty where CUDA has no such device.
std::string gpuUuid(int device);

}  // namespace graft
