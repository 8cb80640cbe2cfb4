// Devices: asking for one, and what it takes to have it. The program links the CPU half of LibTorch alone; the CUDA
// half comes with the operator library that is loaded when somebody asks for "cuda".
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "core/base/result.h"

namespace graft {

/// The device of that name, ready to use; "meta", which has no data, for whoever asks what a model would do elsewhere.
/// NoDevice where this machine or build has none, with what is missing.
Result<c10::Device> requireDevice(const std::string& name);
/// Waits for all work on it; nothing for the CPU.
void synchronize(c10::Device);

}  // namespace graft
