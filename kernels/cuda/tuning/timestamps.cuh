#pragma once
// Time stamps inside kernels, to see where a kernel's time goes inside a captured model: how long it waits for the one
// before it, when its first data is there, what its end takes. Only in libraries configured with -DGRAFT_STAMPS=ON,
// otherwise nothing; tests/gpu/timestamps.py reads and prints them.
//
//   stamp(threadIdx.x == 0, Stage::kEntry);
//   ...
//   leaveStamps(threadIdx.x == 0, StampedKernel::kNorm);           // last: the block's stamps leave as one record
//
// Stamps lie in shared memory until then, so they cost a block 5 to 10 %. A block's record has its place by processor
// and time of entry, not by a counter that everybody would wait for; a few overwrite one another.
#include <cuda_runtime.h>

namespace graft::cuda {

enum class Stage { kEntry, kBeforeWait, kAfterWait, kFirstData, kMultiplied, kGathered, kLeaving, kEnd, kCount };
enum class StampedKernel { kTile = 1, kNorm, kAttention };

#ifdef GRAFT_STAMPS

constexpr int kStampsPerProcessor = 8192;  // records; tests/gpu/timestamps.py has these numbers too
constexpr int kStampFields = 10;           // the stages' clock64, %globaltimer in ns, kernel and detail
constexpr int kStampedProcessors = 160;
static_assert(static_cast<int>(Stage::kCount) + 2 == kStampFields);

#ifdef __CUDACC__
// Each source has its own, hence static and not inline.
static __device__ long long* stampRecords = nullptr;
extern "C" void* graft_cuda_stamps();
static void prepareStamps() {
  static bool done = false;
  if (done) return;
  done = true;
  void* records = graft_cuda_stamps();
  cudaMemcpyToSymbol(stampRecords, &records, sizeof records);
}

__device__ __forceinline__ long long& stampOf(int stage) {
  __shared__ long long stamps[static_cast<int>(Stage::kCount)];
  return stamps[stage];
}
__device__ __forceinline__ void stamp(bool here, Stage stage) {
  if (here) stampOf(static_cast<int>(stage)) = clock64();
}
// By a thread that has seen the others' stamps. `detail`: what tells variants apart.
__device__ __forceinline__ void leaveStamps(bool here, StampedKernel kernel, int detail = 0) {
  if (!here || !stampRecords) return;
  stamp(true, Stage::kEnd);
  unsigned processor;
  long long now;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(processor));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  const long long place = stampOf(static_cast<int>(Stage::kEntry)) >> 7 & (kStampsPerProcessor - 1);
  long long* to = stampRecords + (processor * kStampsPerProcessor + place) * kStampFields;
  for (int i = 0; i < static_cast<int>(Stage::kCount); ++i) to[i] = stampOf(i);
  to[kStampFields - 2] = now;
  to[kStampFields - 1] = static_cast<long long>(kernel) << 32 | detail;
}
#endif  // __CUDACC__

#else

inline void prepareStamps() {}
__device__ __forceinline__ void stamp(bool, Stage) {}
__device__ __forceinline__ void leaveStamps(bool, StampedKernel, int = 0) {}

#endif

}  // namespace graft::cuda
