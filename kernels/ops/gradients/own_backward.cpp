// The switch between the operators' trained versions and their composites, for comparisons.
#include <torch/library.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "kernels/ops/operator.h"

namespace graft::ops {
namespace {

std::atomic<bool>& isOn() {
  static std::atomic<bool> on = [] {
    const char* value = std::getenv("GRAFT_OPS_BACKWARD");
    return !(value && std::string_view(value) == "0");
  }();
  return on;
}

}  // namespace

bool usesOwnBackward() { return isOn().load(std::memory_order_relaxed); }

TORCH_LIBRARY_FRAGMENT(graft, m) {
  m.def("own_backward(bool on) -> bool", [](bool on) { return isOn().exchange(on); });
}

}  // namespace graft::ops
