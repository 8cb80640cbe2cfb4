#include "core/torch/types/zeros_run.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/runtime/operator.h>

#include "core/torch/values/values.h"

namespace graft {
namespace {

constexpr int64_t mostElements = int64_t{1} << 22;  // of all arguments together

/// Whether the operator has a kernel of its own for the CPU, and its schema says all of what comes out.
bool isPlain(const Operator& op) {
  if (!op.pure()) return false;
  const auto handle = c10::Dispatcher::singleton().findOp(torchName(op.name));
  return handle && handle->hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
         !handle->hasTag(at::Tag::dynamic_output_shape) && !handle->hasTag(at::Tag::data_dependent_output) &&
         !handle->hasTag(at::Tag::nondeterministic_seeded);
}

at::Tensor onMeta(const at::Tensor& t) {
  return t.defined() ? at::empty_strided(t.sizes(), t.strides(), t.options().device(c10::kMeta)) : t;
}

/// Runs the operator with `number` as each element of its tensors.
ZerosRun runOn(double number, const torch::jit::Operator& operation, const std::vector<c10::IValue>& arguments,
               std::vector<c10::IValue>& results, std::string& why) {
  int64_t elements = 0;
  const auto filled = [&](const at::Tensor& t) {
    if (!t.defined() || !t.is_meta()) return t;
    if ((elements += t.numel()) > mostElements) return t;
    return at::full(t.sizes(), number, t.options().device(c10::kCPU));
  };
  torch::jit::Stack stack;
  for (const c10::IValue& v : arguments) {
    if (v.isDevice()) return ZerosRun::None;
    if (v.isTensor()) {
      stack.emplace_back(filled(v.toTensor()));
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : v.toTensorVector()) list.push_back(filled(t));
      stack.emplace_back(std::move(list));
    } else {
      stack.push_back(v);
    }
  }
  if (elements > mostElements) return ZerosRun::None;
  try {
    const c10::NoGradGuard noGrad;
    operation.getOperation()(stack);
  } catch (const c10::NotImplementedError&) {
    return ZerosRun::None;
  } catch (const std::exception& e) {
    why = shortMessage(e);
    return ZerosRun::Refused;
  }
  try {
    for (c10::IValue& v : stack) {
      if (v.isTensor()) {
        v = onMeta(v.toTensor());
      } else if (v.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& t : v.toTensorVector()) list.push_back(onMeta(t));
        v = std::move(list);
      }
    }
  } catch (const std::exception&) {  // quantized and sparse tensors, which the meta device does not have
    return ZerosRun::None;
  }
  results = std::move(stack);
  return ZerosRun::Done;
}

}  // namespace

ZerosRun runOnZeros(const Operator& op, const torch::jit::Operator& operation,
                    const std::vector<c10::IValue>& arguments, std::vector<c10::IValue>& results, std::string& why) {
  if (!isPlain(op)) return ZerosRun::None;
  const ZerosRun run = runOn(0, operation, arguments, results, why);
  if (run != ZerosRun::Refused) return run;
  // Whole numbers cannot be divided by zeros.
  std::string whyNotOnes;
  return runOn(1, operation, arguments, results, whyNotOnes) == ZerosRun::Done ? ZerosRun::Done : run;
}

}  // namespace graft
