// What a kernel takes of a GPU's multiprocessor, and how many of its blocks run there at a time. Needs no GPU.
//
//   for (const KernelUsage& u : kernelUsage(nvrtc->compileReadable(source, 90, Nvrtc::Form::Binary)->log))
//     occupancy(90, threads, u.registers, u.sharedBytes + dynamicBytes)->share      // 0.75
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graft {

struct KernelUsage {
  std::string function;
  int registers = 0;        ///< of a thread
  int64_t sharedBytes = 0;  ///< static shared memory of a block
  int64_t stackBytes = 0;   ///< of a thread: arrays that are no registers, and what is spilled
  int64_t spillBytes = 0;   ///< stored and loaded because there are too few registers
};
/// As NVIDIA's assembler says it (ptxas -v). What it says otherwise is left out.
std::vector<KernelUsage> kernelUsage(std::string_view log);

struct Occupancy {
  int blocks = 0;          ///< on a multiprocessor at a time; 0: the kernel cannot be launched
  int warps = 0;           ///< of these
  double share = 0;        ///< of the warps that a multiprocessor holds
  const char* limit = "";  ///< what more of would be of use: "registers", "shared memory", "threads", "blocks"
};
/// By the limits in NVIDIA's table of compute capabilities. Nothing for a capability that is not in it.
std::optional<Occupancy> occupancy(int capability, int threads, int registers, int64_t sharedBytes);

/// Shared memory that one block may have, in bytes, by the same table. Nothing for a capability that is not in it.
std::optional<int64_t> sharedBytesOfBlock(int capability);

/// Of the first GPU of this machine; 0 where there is none.
int gpuCapability();

}  // namespace graft
