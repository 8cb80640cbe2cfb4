#include "kernels/capture/captures.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

namespace graft {
namespace {

/// A use of the pool: what the current stream does while this lives is ordered after all earlier uses, and before all
/// later ones. The use ends even if an exception leaves it.
class PoolUse {
 public:
  PoolUse(const GraftCudaGraphs& cuda, void* pool) : cuda_(cuda), pool_(pool) {
    checkCuda("", [&](char* e, size_t n) { return cuda_.beginUse(pool_, e, n); });
  }
  ~PoolUse() {
    std::array<char, 1024> error{};
    if (pool_) cuda_.endUse(pool_, error.data(), error.size());
  }
  PoolUse(const PoolUse&) = delete;
  PoolUse& operator=(const PoolUse&) = delete;
  /// Throws CaptureError, which the destructor cannot.
  void end() {
    checkCuda("", [&](char* e, size_t n) { return cuda_.endUse(std::exchange(pool_, nullptr), e, n); });
  }

 private:
  const GraftCudaGraphs& cuda_;
  void* pool_;
};

}  // namespace

Captures::Captures(const GraftCudaGraphs& cuda, int device, size_t limit, BodyFacts facts)
    : cuda_(cuda), device_(device), limit_(std::max<size_t>(limit, 1)), facts_(std::move(facts)) {}

Captures::~Captures() { clear(); }

void Captures::shrinkTo(size_t count) {
  while (entries_.size() > count) {
    byKey_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

void Captures::freeAll() {
  shrinkTo(0);
  if (pool_) cuda_.freePool(std::exchange(pool_, nullptr));
}

/// Calls f under the lock. When it runs out of memory, all captures are freed: the model itself may need what they
/// hold.
template <class F>
auto Captures::withLock(const F& f) -> decltype(f()) {
  const std::scoped_lock lock(mutex_);
  try {
    return f();
  } catch (const std::exception& e) {
    const bool outOfMemory = isOutOfMemory(e);
    if (outOfMemory || entries_.empty()) freeAll();  // a pool without graphs accepts no more captures
    if (outOfMemory) cuda_.emptyCache();
    throw;
  }
}

CapturedRun& Captures::findOrCapture(const Values& inputs, const CaptureKey& key, const Body& body) {
  if (const auto it = byKey_.find(key); it != byKey_.end()) {
    entries_.splice(entries_.begin(), entries_, it->second);
    return entries_.front().run;
  }
  if (!pool_) pool_ = cuda_.makePool(device_);
  entries_.emplace_front(key, cuda_, pool_, inputs, body, facts_);
  byKey_[key] = entries_.begin();
  shrinkTo(limit_);
  return entries_.front().run;
}

Captures::Values Captures::run(const Values& inputs, const CaptureKey& key, const Body& body) {
  return withLock([&] {
    CapturedRun& captured = findOrCapture(inputs, key, body);
    PoolUse use(cuda_, pool_);
    Values outputs = captured.replay(inputs);
    use.end();
    return outputs;
  });
}

Captures::Timing Captures::time(const Values& inputs, const Body& body, bool flushed) {
  return withLock([&] {
    CapturedRun& captured = findOrCapture(inputs, captureKey(inputs, device_), body);
    PoolUse use(cuda_, pool_);
    const Timing timing = captured.time(flushed);
    use.end();
    return timing;
  });
}

bool Captures::has(const CaptureKey& key) {
  const std::scoped_lock lock(mutex_);
  return byKey_.contains(key);
}

size_t Captures::size() {
  const std::scoped_lock lock(mutex_);
  return entries_.size();
}

size_t Captures::maxStreams() {
  const std::scoped_lock lock(mutex_);
  size_t most = 1;
  for (const Entry& e : entries_) most = std::max(most, e.run.streams());
  return most;
}

void Captures::setLimit(size_t limit) {
  const std::scoped_lock lock(mutex_);
  limit_ = std::max<size_t>(limit, 1);
  shrinkTo(limit_);
}

void Captures::clear() {
  const std::scoped_lock lock(mutex_);
  freeAll();
}

std::vector<CaptureKey> Captures::releaseMemory() {
  const std::scoped_lock lock(mutex_);
  std::vector<CaptureKey> keys;
  for (const auto& [key, entry] : byKey_) keys.push_back(key);
  freeAll();
  cuda_.emptyCache();
  return keys;
}

}  // namespace graft
