#include "kernels/generated/compiled.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <atomic>

#include "core/compile/codegen/access.h"
#include "core/compile/loops/verify.h"
#include "core/compile/lower/lower.h"
#include "core/torch/values/values.h"
#include "kernels/generated/machine_code.h"
#include "kernels/generated/source_kernel.h"

namespace graft::ops {
namespace {

/// What one slice of work should take at least, in nanoseconds, for another thread to be worth waking.
constexpr double sliceNanoseconds = 20'000;

KernelCall callOf(const Graph& graph, at::TensorList inputs, at::IntArrayRef sizes, at::TensorList outputs) {
  KernelCall call;
  for (const at::Tensor& t : inputs) call.inputs.push_back({*graftDType(t.scalar_type()), t.sizes().vec()});
  for (const at::Tensor& t : outputs) call.outputs.push_back({*graftDType(t.scalar_type()), t.sizes().vec()});
  size_t next = 0;
  for (const ValueId input : graph.inputs())
    if (!graph.value(input).type.isTensor() && next < sizes.size())
      call.numbers.emplace_back(graph.value(input).name, sizes[next++]);
  return call;
}

/// This thread's memory for locals; contents do not last.
void* scratch(size_t bytes) {
  thread_local std::vector<char> memory;
  constexpr size_t alignment = 64;
  if (memory.size() < bytes + alignment) memory.resize(bytes + alignment);
  const auto at = reinterpret_cast<uintptr_t>(memory.data());
  return reinterpret_cast<void*>((at + alignment - 1) / alignment * alignment);
}

}  // namespace

Result<FittedLoops> loopsFor(const Graph& graph, const KernelChoice& choice, at::TensorList inputs,
                             at::IntArrayRef sizes, at::TensorList outputs, const lower::Machine& machine) {
  if (!choice.loops.empty())
    if (auto edited = fittedLoops(choice.loops, callOf(graph, inputs, sizes, outputs))) return edited;
  std::vector<std::vector<int64_t>> strides;
  for (const at::Tensor& t : inputs) strides.push_back(t.strides().vec());
  for (const at::Tensor& t : outputs) strides.push_back(OutputKind(t).strides);
  Result<loops::Program> lowered = lower::lower(graph, strides, machine);
  if (!lowered) return lowered.error();
  return FittedLoops{std::move(*lowered), sizes.vec()};
}

OutputKind::OutputKind(const at::Tensor& t)
    : dtype(t.scalar_type()),
      sizes(t.sizes().vec()),
      strides(t.is_non_overlapping_and_dense() ? t.strides().vec()
                                               : at::empty(t.sizes(), t.options().device(at::kMeta)).strides().vec()) {}

Result<std::shared_ptr<const Compiled>> Compiled::make(const Graph& graph, at::TensorList inputs, at::IntArrayRef sizes,
                                                       at::TensorList outputs, const KernelChoice& choice) {
  if (const Status s = MachineCode::available(); !s) return s.error();
  Result<FittedLoops> fitted = loopsFor(graph, choice, inputs, sizes, outputs, {});
  if (!fitted) return fitted.error();
  loops::Program* const program = &fitted->program;
  if (const Status s = loops::verify(*program); !s)
    return internalError("the loops of a group are refused: " + s.error().message);
  if (const Status s = loops::checkSizes(*program, fitted->sizes); !s) return s.error();
  codegen::CpuOptions options;
  options.sizes = fitted->sizes;
  options.schedule = choice.schedule;
  for (const at::Tensor& t : inputs) options.layouts.push_back(codegen::constantLayout(*program, t.strides().vec()));
  std::vector<OutputKind> kinds;
  for (const at::Tensor& t : outputs)
    options.layouts.push_back(codegen::constantLayout(*program, kinds.emplace_back(t).strides));
  if (std::shared_ptr<const SourceKernel> source = SourceKernel::make(choice.source, *program))
    return std::make_shared<const Compiled>(std::move(source), fitted->sizes, std::move(kinds));
  auto code = MachineCode::make(std::move(*program), std::move(options));
  if (!code) return code.error();
  return std::make_shared<const Compiled>(std::move(*code), fitted->sizes, std::move(kinds), choice.schedule.threads);
}

Compiled::Compiled(std::shared_ptr<const MachineCode> code, std::vector<int64_t> sizes, std::vector<OutputKind> outputs,
                   int64_t threads, double work)
    : code_(std::move(code)), sizes_(std::move(sizes)), outputs_(std::move(outputs)) {
  const auto valueOf = [&](loops::ExprId e) { return codegen::evaluateSize(code_->program(), e, sizes_.data()); };
  for (const loops::ExprId bytes : code_->temporaryBytes()) temporaryBytes_.push_back(valueOf(bytes));
  for (const MachineCode::Nest& n : code_->nests()) {
    Nest& nest = nests_.emplace_back();
    nest.run = n.run;
    nest.iterations = valueOf(n.iterations);
    nest.scratchBytes = static_cast<size_t>(valueOf(n.scratchBytes));
    const double each =
        n.plannedIterations > 0 && nest.iterations > 0
            ? n.nanoseconds * work * static_cast<double>(n.plannedIterations) / static_cast<double>(nest.iterations)
            : n.nanoseconds;
    nest.grain = std::max<int64_t>(1, static_cast<int64_t>(sliceNanoseconds / std::max(each, 0.01)));
    if (threads > 0) nest.grain = std::max<int64_t>(1, (nest.iterations + threads - 1) / threads);
  }
}

Compiled::Compiled(std::shared_ptr<const SourceKernel> source, std::vector<int64_t> sizes,
                   std::vector<OutputKind> outputs)
    : source_(std::move(source)), sizes_(std::move(sizes)), outputs_(std::move(outputs)) {}

std::vector<at::Tensor> Compiled::run(at::TensorList inputs) const {
  std::vector<at::Tensor> outputs;
  std::vector<void*> buffers;
  buffers.reserve(inputs.size() + outputs_.size() + temporaryBytes_.size());
  for (const at::Tensor& t : inputs) buffers.push_back(const_cast<void*>(t.const_data_ptr()));
  outputs.reserve(outputs_.size());
  for (const OutputKind& kind : outputs_) {
    outputs.push_back(at::empty_strided(kind.sizes, kind.strides, at::TensorOptions(kind.dtype)));
    buffers.push_back(outputs.back().mutable_data_ptr());
  }
  if (source_) return source_->run(inputs, outputs, sizes_) ? outputs : std::vector<at::Tensor>();
  std::vector<at::Tensor> temporaries;
  for (const int64_t bytes : temporaryBytes_) {
    temporaries.push_back(at::empty({bytes}, at::TensorOptions(at::kByte)));
    buffers.push_back(temporaries.back().mutable_data_ptr());
  }
  std::atomic<bool> failed = false;
  for (const Nest& nest : nests_) {
    if (nest.iterations == 0) continue;
    const auto slice = [&](int64_t begin, int64_t end) {
      void* memory = nest.scratchBytes > 0 ? scratch(nest.scratchBytes) : nullptr;
      if (nest.run(buffers.data(), sizes_.data(), memory, begin, end) != 0) failed = true;
    };
    if (nest.iterations <= nest.grain)
      slice(0, nest.iterations);
    else
      at::parallel_for(0, nest.iterations, nest.grain, slice);
    if (failed) return {};
  }
  return outputs;
}

}  // namespace graft::ops
