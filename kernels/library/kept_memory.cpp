#include "kernels/library/kept_memory.h"

#include <c10/core/CPUAllocator.h>

#include <cstdlib>
#include <map>
#include <mutex>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "kernels/library/c_interface.h"

namespace graft::ops {
namespace {

constexpr size_t leastKept = 32 << 10;  // smaller blocks stay in the heap anyway

thread_local int depth = 0;

// Freed blocks by size, and the order in which they were freed. Locks are only tried: after a fork another thread's
// lock may be held for ever, and without one a block is simply not kept.
class Blocks {
 public:
  explicit Blocks(size_t limit) : limit_(limit) {}

  // The smallest block that fits and is not much too large, or null.
  void* take(size_t bytes) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return nullptr;
    const auto found = bySize_.lower_bound(bytes);
    if (found == bySize_.end() || found->first > bytes + bytes / 4) return nullptr;
    void* block = found->second.memory;
    forget(found);
    return block;
  }

  // Blocks that are no longer kept go to `free`.
  void leave(void* block, size_t bytes, void (*free)(void*)) {
    {
      const std::unique_lock lock(mutex_, std::try_to_lock);
      if (lock && bytes <= limit_) {
        while (bytes_ + bytes > limit_) {
          const auto oldest = byAge_.begin()->second;
          free(oldest->second.memory);
          forget(oldest);
        }
        const auto added = bySize_.emplace(bytes, Block{block, ++age_});
        byAge_.emplace(age_, added);
        bytes_ += bytes;
        return;
      }
    }
    free(block);
  }

  void clear(void (*free)(void*)) {
    const std::lock_guard lock(mutex_);
    for (const auto& [bytes, block] : bySize_) free(block.memory);
    bySize_.clear();
    byAge_.clear();
    bytes_ = 0;
  }

  size_t bytes() {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  struct Block {
    void* memory;
    uint64_t age;
  };
  using BySize = std::multimap<size_t, Block>;

  void forget(BySize::iterator block) {
    bytes_ -= block->first;
    byAge_.erase(block->second.age);
    bySize_.erase(block);
  }

  std::mutex mutex_;
  BySize bySize_;
  std::map<uint64_t, BySize::iterator> byAge_;
  const size_t limit_;
  size_t bytes_ = 0;
  uint64_t age_ = 0;
};

// LibTorch's own allocator, but for large tensors that are made while a KeptMemory exists.
class KeepingAllocator final : public c10::Allocator {
 public:
  KeepingAllocator(c10::Allocator& system, size_t limit) : system_(system), blocks_(limit) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (depth == 0 || bytes < leastKept || c10::memoryProfilingEnabled()) return system_.allocate(bytes);
    void* block = blocks_.take(bytes);
    if (!block) block = system_.raw_allocate(bytes);
    return {block, block, &leave, c10::Device(c10::kCPU)};
  }
  // Right for kept blocks, too: each of them came from there.
  c10::DeleterFnPtr raw_deleter() const override { return system_.raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  void clear() { blocks_.clear(system_.raw_deleter()); }
  size_t bytes() { return blocks_.bytes(); }

  // Null where nothing is kept: the user said so, or the process has an allocator of another kind.
  static KeepingAllocator* installed() {
    static KeepingAllocator* const allocator = install();
    return allocator;
  }

 private:
  static void leave(void* block);

  // Never destroyed: tensors may be freed at exit.
  static KeepingAllocator* install() {
#if defined(__GLIBC__)
    const char* text = std::getenv("GRAFT_OPS_KEEP_MB");
    const long megabytes = text ? std::strtol(text, nullptr, 10) : 256;
    c10::Allocator* system = c10::GetCPUAllocator();
    if (megabytes <= 0 || system != c10::GetDefaultCPUAllocator() || !system->raw_deleter()) return nullptr;
    auto* keeping = new KeepingAllocator(*system, static_cast<size_t>(megabytes) << 20);
    c10::SetCPUAllocator(keeping);
    return keeping;
#else
    return nullptr;
#endif
  }

  c10::Allocator& system_;
  Blocks blocks_;
};

void KeepingAllocator::leave(void* block) {
  KeepingAllocator& self = *installed();
  const c10::DeleterFnPtr free = self.system_.raw_deleter();
#if defined(__GLIBC__)
  if (!c10::memoryProfilingEnabled()) return self.blocks_.leave(block, malloc_usable_size(block), free);
#endif
  free(block);
}

[[maybe_unused]] const KeepingAllocator* const installedAtLoad = KeepingAllocator::installed();

}  // namespace

KeptMemory::KeptMemory() { ++depth; }
KeptMemory::~KeptMemory() { --depth; }

}  // namespace graft::ops

int64_t graft_ops_kept_bytes() {
  auto* allocator = graft::ops::KeepingAllocator::installed();
  return allocator ? static_cast<int64_t>(allocator->bytes()) : 0;
}

void graft_ops_free_kept_memory() {
  if (auto* allocator = graft::ops::KeepingAllocator::installed()) allocator->clear();
}
