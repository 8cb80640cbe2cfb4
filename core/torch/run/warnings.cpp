#include "core/torch/warnings.h"

#include <c10/util/Exception.h>

#include <mutex>
#include <string>
#include <unordered_set>

namespace graft {
namespace {

class OnceOnly : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    {
      const std::lock_guard lock(mutex_);
      if (!printed_.insert(warning.msg()).second) return;
    }
    c10::WarningHandler::process(warning);
  }

 private:
  std::mutex mutex_;
  std::unordered_set<std::string> printed_;
};

}  // namespace

void printWarningsOnce() {
  static OnceOnly handler;
  c10::WarningUtils::set_warning_handler(&handler);
}

}  // namespace graft
