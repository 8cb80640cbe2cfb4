#include "app/workbench/compile/roofline.h"

#include <algorithm>
#include <vector>

#include "app/workbench/compile/memory_bandwidth.h"
#include "core/compile/fusion/fusion_nodes.h"
#include "core/compile/fusion/group_text.h"
#include "core/compile/fusion/kernel_choice.h"
#include "core/compile/fusion/work.h"
#include "core/compile/loops/text.h"
#include "core/compile/lower/lower.h"
#include "core/torch/cuda_runner.h"
#include "core/torch/machine_speed.h"

namespace graft::workbench {
namespace {

/// Tensors that a node reads, each once, and those that it makes; of a list of results its items.
struct Tensors {
  std::vector<ValueId> read, made;
};

Tensors tensorsOf(const Graph& g, const Node& n) {
  Tensors out;
  const auto add = [&](std::vector<ValueId>& into, ValueId v) {
    if (g.value(v).type.isTensor() && std::find(into.begin(), into.end(), v) == into.end()) into.push_back(v);
  };
  for (const Argument& a : n.args) a.forEachValue([&](ValueId v) { add(out.read, v); });
  for (const auto& [name, a] : n.kwargs) a.forEachValue([&](ValueId v) { add(out.read, v); });
  for (const ValueId v : n.outputs) {
    add(out.made, v);
    if (g.value(v).type.isTensor()) continue;
    for (const NodeId user : g.value(v).users)
      for (const ValueId item : g.node(user).outputs) add(out.made, item);
  }
  return out;
}

std::optional<KernelCall::Tensor> knownTensor(const Graph& g, ValueId v) {
  const TensorInfo& info = g.value(v).type.tensorInfo;
  if (!info.dtype || !info.shape) return std::nullopt;
  KernelCall::Tensor out{*info.dtype, {}};
  for (const Dim& d : *info.shape) {
    if (!d.isStatic()) return std::nullopt;
    out.sizes.push_back(d.size);
  }
  return out;
}

/// Of a kernel that the model calls: from the loops that its program becomes, with the sizes of this call.
std::optional<double> operationsOfProgram(const Graph& g, const Node& n, const Tensors& tensors,
                                          const OperatorSet& operators) {
  const auto* program = n.args.size() > 1 ? n.args[1].as<std::string>() : nullptr;
  if (!program) return std::nullopt;
  const auto group = parseGroup(*program, operators);
  if (!group) return std::nullopt;
  const auto loops = lower::lower(*group);
  if (!loops) return std::nullopt;
  KernelCall call;
  const auto know = [&](const std::vector<ValueId>& values, std::vector<KernelCall::Tensor>& into) {
    return std::all_of(values.begin(), values.end(), [&](ValueId v) {
      auto tensor = knownTensor(g, v);
      if (tensor) into.push_back(std::move(*tensor));
      return tensor.has_value();
    });
  };
  if (!know(tensors.read, call.inputs) || !know(tensors.made, call.outputs)) return std::nullopt;
  const auto fitted = fittedLoops(loops::printProgram(*loops), call);
  return fitted ? std::optional(floatingOperations(fitted->program, fitted->sizes)) : std::nullopt;
}

}  // namespace

Roofline::Roofline(std::string device, int threads) : device_(std::move(device)), threads_(threads) {
  bandwidth_ = device_ == "cpu" ? memoryBandwidth(threads) : gpuBandwidth(device_);
}

std::optional<double> Roofline::least(const KernelWork& work) {
  if (bandwidth_ <= 0 || work.bytes() <= 0) return std::nullopt;
  double us = work.bytes() / bandwidth_;
  if (!work.operations || *work.operations <= 0) return us;
  if (!speeds_.contains(work.type)) speeds_.emplace(work.type, productSpeed(device_, work.type, threads_));
  if (const double speed = speeds_.at(work.type); speed > 0) us = std::max(us, *work.operations / speed);
  return us;
}

KernelWork workOf(const Graph& g, NodeId id, const OperatorSet* operators) {
  const Node& n = g.node(id);
  const Tensors tensors = tensorsOf(g, n);
  KernelWork out;
  const auto count = [&](const std::vector<ValueId>& values, double& bytes) {
    for (const ValueId v : values) {
      bytes += bytesOf(g.value(v).type);
      if (const auto dtype = g.value(v).type.tensorInfo.dtype; dtype && isFloatingPoint(*dtype)) out.type = *dtype;
    }
  };
  count(tensors.read, out.bytesRead);
  count(tensors.made, out.bytesWritten);
  const bool isGenerated = n.op->name == kGeneratedOperator;
  if (!isGenerated) out.operations = floatingOperations(g, id);
  if (isGenerated && operators) out.operations = operationsOfProgram(g, n, tensors, *operators);
  return out;
}

}  // namespace graft::workbench
