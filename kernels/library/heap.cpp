// Memory between calls. A model frees the tensors of one call and asks for the same sizes in the next. glibc gives
// freed memory at the end of its heap back to the system, above a limit that follows the largest tensor; the next call
// then takes a page fault for every 4 KB. In convolutional networks that was a fifth to a quarter of a call. Where the
// user sets GRAFT_OPS_KEEP_MB, this library asks glibc to keep so many megabytes. glibc's limits are the whole
// process's, so the library leaves them alone unless it is asked.
#include <cstdlib>
#if defined(__GLIBC__)
#include <malloc.h>

namespace graft::ops {
namespace {

constexpr int kLargestThreshold = 32 << 20;  // glibc takes no larger one: above it, memory is mapped for each tensor

[[maybe_unused]] const bool keepsMemory = [] {
  const char* text = std::getenv("GRAFT_OPS_KEEP_MB");
  const long megabytes = text ? std::strtol(text, nullptr, 10) : 0;
  constexpr long most = 2047;  // mallopt takes an int
  if (megabytes <= 0) return false;
  const int bytes = static_cast<int>((megabytes < most ? megabytes : most) << 20);
  return mallopt(M_TRIM_THRESHOLD, bytes) == 1 && mallopt(M_MMAP_THRESHOLD, kLargestThreshold) == 1;
}();

}  // namespace
}  // namespace graft::ops
#endif
