// Calls without the dispatcher. For ordinary tensors of the CPU the dispatcher always chooses the same kernel, and
// asking it each time is a good part of what a small operator costs. The plan asks once. Before each call the executor
// checks that the tensors are ordinary. Everything else (quantized, sparse, meta, conjugated …) goes through the
// dispatcher.
//
//   if (plain.holds(instruction, stack)) instruction.kernel->callBoxed(*handle, plain.keys(), &stack);
//
// Private to core/torch: includes LibTorch.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <bit>
#include <optional>

#include "core/torch/run/plan.h"

namespace graft {

/// The instruction's kernel and tensor operands, where they can be told beforehand: it is left alone where not.
void resolveKernel(ProgramPlan&, Instruction&);

/// What this thread's state lets be called directly, for one run. Made inside of the run's inference mode.
class PlainCalls {
 public:
  explicit PlainCalls(bool onCpu);

  /// The operands lie on top of the stack.
  bool holds(const Instruction& i, const torch::jit::Stack& stack) const {
    if (!i.kernel) return false;
    uint64_t seen = refused_;
    for (uint32_t left = i.tensors; left; left &= left - 1) {
      const c10::IValue& v = stack[stack.size() - 1 - static_cast<size_t>(std::countr_zero(left))];
      if (v.isTensor()) seen |= v.unsafeToTensorImpl()->key_set().raw_repr();
    }
    return (seen & ~(i.keepsViews ? forgetful : ordinary).raw_repr()) == 0 && seen != 0;
  }
  c10::DispatchKeySet keys() const { return c10::DispatchKeySet(c10::DispatchKey::CPU); }

 private:
  /// What a tensor that was made in inference mode is, and one that was not: it counts writes and knows its views.
  static constexpr c10::DispatchKeySet forgetful{c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU,
                                                 c10::DispatchKey::AutocastCPU};
  static constexpr c10::DispatchKeySet ordinary = forgetful.add(c10::DispatchKey::ADInplaceOrView);
  uint64_t refused_ = ~uint64_t{0};  ///< 0 where ordinary tensors come to the kernel of the CPU
};

}  // namespace graft
