// What a GPU is doing: its name, clocks in MHz, power in W, from the driver's NVML. Without LibTorch's or CUDA's
// headers; where there is no driver, nothing is known.
//
//   std::vector<GpuState> seen;                                 // in each round of a measurement:
//   if (auto s = gpuState("cuda:0")) seen.push_back(*s);
//   gpuStatesText(seen)                                         // "NVIDIA H200, SM clock 1755 to 1980 MHz, 312 to 540
//   W"
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace graft {

struct GpuState {
  std::string name;
  unsigned smClockMHz = 0, memoryClockMHz = 0;
  double powerWatts = 0;
};
/// By CUDA's index, which counts what CUDA_VISIBLE_DEVICES leaves, in its order. Starts CUDA's driver. Nothing where
/// there is no such GPU.
std::optional<GpuState> gpuState(int device);
/// By the name that --device takes; nothing for the CPU.
std::optional<GpuState> gpuState(const std::string& device);
/// By NVML's index, which counts all GPUs of the machine whatever a process may use. Leaves CUDA alone.
std::optional<GpuState> gpuOfMachine(int index);

/// One GPU seen several times, as ranges; empty where it was not seen.
std::string gpuStatesText(const std::vector<GpuState>& seen);
/// "NVIDIA H200, SM clock 1980 MHz, 312 W" of the device of that name as it is now; empty where there is no GPU.
std::string gpuStateText(const std::string& device);

}  // namespace graft
