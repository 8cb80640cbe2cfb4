#pragma once
// Timestamps inside kernels, which show where a kernel's time goes inside a captured model: how long a block waits for
// the previous kernel, when its first data arrives, how long its epilogue takes. They exist only in a library
// configured with -DGRAFT_TIMESTAMPS=ON; otherwise these functions do nothing. tests/gpu/timestamps.py reads and prints
// them.
//
//   recordTimestamp(threadIdx.x == 0, Stage::kEntry);
//   ...
//   writeTimestamps(threadIdx.x == 0, TimedKernel::kNorm);     // last: writes the block's timestamps as one record
//
// Until then the timestamps lie in shared memory. They make a block 5 to 10 % slower. A record's index comes from the
// SM and the time of entry, not from an atomic counter, on which blocks would wait; so a few records overwrite others.
#include <cuda_runtime.h>

namespace graft::cuda {

enum class Stage { kEntry, kBeforeWait, kAfterWait, kFirstData, kMultiplied, kGathered, kLeaving, kEnd, kCount };
enum class TimedKernel { kTile = 1, kNorm, kAttention };

#ifdef GRAFT_TIMESTAMPS

// tests/gpu/timestamps.py has these three numbers too.
constexpr int kTimestampRecordsPerSm = 8192;
constexpr int kTimestampFields = 10;  // 64-bit: clock64 at each stage, %globaltimer in ns, kernel and detail
constexpr int kTimestampSms = 160;
static_assert(static_cast<int>(Stage::kCount) + 2 == kTimestampFields);

#ifdef __CUDACC__
// Where the records go: [kTimestampSms][kTimestampRecordsPerSm][kTimestampFields]. Each .cu file has a pointer of its
// own, hence static.
static __device__ long long* timestampRecords = nullptr;
extern "C" void* graft_cuda_timestamps();
static void prepareTimestamps() {
  static bool done = false;
  if (done) return;
  done = true;
  void* records = graft_cuda_timestamps();
  cudaMemcpyToSymbol(timestampRecords, &records, sizeof records);
}

__device__ __forceinline__ long long& timestampOf(int stage) {
  __shared__ long long timestamps[static_cast<int>(Stage::kCount)];
  return timestamps[stage];
}
// Records the time of a stage, in the thread where `here` is true.
__device__ __forceinline__ void recordTimestamp(bool here, Stage stage) {
  if (here) timestampOf(static_cast<int>(stage)) = clock64();
}
// Writes the block's record, in the thread where `here` is true; that thread must be able to see what the others
// recorded. `detail` distinguishes a kernel's variants.
__device__ __forceinline__ void writeTimestamps(bool here, TimedKernel kernel, int detail = 0) {
  if (!here || !timestampRecords) return;
  recordTimestamp(true, Stage::kEnd);
  unsigned sm;
  long long now;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  const long long index = timestampOf(static_cast<int>(Stage::kEntry)) >> 7 & (kTimestampRecordsPerSm - 1);
  long long* to = timestampRecords + (sm * kTimestampRecordsPerSm + index) * kTimestampFields;
  for (int i = 0; i < static_cast<int>(Stage::kCount); ++i) to[i] = timestampOf(i);
  to[kTimestampFields - 2] = now;
  to[kTimestampFields - 1] = static_cast<long long>(kernel) << 32 | detail;
}
#endif  // __CUDACC__

#else

inline void prepareTimestamps() {}
__device__ __forceinline__ void recordTimestamp(bool, Stage) {}
__device__ __forceinline__ void writeTimestamps(bool, TimedKernel, int = 0) {}

#endif

}  // namespace graft::cuda
