// Progress and cancellation for long work. The caller owns both; the worker reports and asks.
//
//   for (size_t i = 0; i < n; ++i) {
//     if (job.cancelled()) return Error{ErrorKind::Cancelled, "stopped"};
//     job.report("tuning", i, n);
//   }
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace graft {

/// Shared between the one who may stop the work and the one who does it. Copies refer to the same flag.
class CancelToken {
 public:
  CancelToken() : flag_(std::make_shared<std::atomic<bool>>(false)) {}
  void cancel() { flag_->store(true, std::memory_order_relaxed); }
  bool cancelled() const { return flag_->load(std::memory_order_relaxed); }

 private:
  std::shared_ptr<std::atomic<bool>> flag_;
};

struct Job {
  CancelToken cancel;
  /// what, done, total (0: unknown). Called on the worker's thread; may be empty.
  std::function<void(std::string_view, size_t, size_t)> onProgress;

  bool cancelled() const { return cancel.cancelled(); }
  void report(std::string_view what, size_t done, size_t total) const {
    if (onProgress) onProgress(what, done, total);
  }
};

}  // namespace graft
