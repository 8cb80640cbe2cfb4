#include "kernels/generated/compiled.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>

#include "core/compile/codegen/access.h"
#include "core/compile/codegen/cpu_code.h"
#include "core/compile/loops/verify.h"
#include "core/compile/lower/lower.h"
#include "kernels/generated/code_cache.h"
#include "kernels/generated/jit_library.h"
#include "kernels/generated/source_kernel.h"

namespace graft::ops {
namespace {

using codegen::NestFunction;

/// What one slice of work should take at least, in nanoseconds, for another thread to be worth waking.
constexpr double sliceNanoseconds = 20'000;

struct OutputKind {
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> sizes, strides;
};

struct Nest {
  NestFunction run = nullptr;
  int64_t iterations = 0, grain = 1;
  size_t scratchBytes = 0;
};

std::string textOf(const GraftJit& jit, GraftJitBytes& bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data), bytes.size);
  jit.release(&bytes);
  return text;
}

/// The object of that IR, from the disk or compiled now.
Result<std::string> objectOf(const GraftJit& jit, const std::string& ir) {
  const int level = jit.host_level();
  const std::string key = std::string(jit.compiler) + "\n" + std::to_string(level) + "\n" + ir;
  if (std::optional<std::string> known = codeCache().find(key)) return std::move(*known);
  GraftJitBytes object{}, error{};
  if (jit.compile(ir.data(), ir.size(), level, &object, &error) != 0) return internalError(textOf(jit, error));
  std::string bytes = textOf(jit, object);
  codeCache().store(key, bytes);
  return bytes;
}

/// The loops: those that lowering makes, or edited ones that fit this call.
Result<loops::Program> loopsFor(const Graph& graph, const KernelChoice& choice) {
  Result<loops::Program> program = lower::lower(graph);
  if (!program || choice.loops.empty()) return program;
  Result<loops::Program> edited = editedLoops(choice.loops, *program);
  return edited ? std::move(edited) : std::move(program);
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

struct Compiled::Code {
  const GraftJit* jit = nullptr;
  GraftJitModule* module = nullptr;
  std::vector<Nest> nests;
  std::vector<OutputKind> outputs;
  std::vector<int64_t> temporaryBytes, sizes;
  std::unique_ptr<const SourceKernel> source;  // runs in place of the nests

  ~Code() {
    if (module) jit->unload(module);
  }
};

Compiled::Compiled(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Compiled::~Compiled() = default;

Result<std::shared_ptr<const Compiled>> Compiled::make(const Graph& graph, at::TensorList inputs, at::IntArrayRef sizes,
                                                       at::TensorList outputs, const KernelChoice& choice) {
  const GraftJit* jit = jitLibrary();
  if (!jit) return badInput("no kernels are generated: " + jitStatus());
  Result<loops::Program> program = loopsFor(graph, choice);
  if (!program) return program.error();
  if (const Status s = loops::verify(*program); !s)
    return internalError("the loops of a group are refused: " + s.error().message);
  if (const Status s = loops::checkSizes(*program, sizes.vec()); !s) return s.error();

  auto code = std::make_unique<Code>();
  code->jit = jit;
  code->sizes = sizes.vec();
  codegen::CpuOptions options;
  options.level = static_cast<codegen::CpuLevel>(jit->host_level());
  options.sizes = code->sizes;
  options.schedule = choice.schedule;
  for (const at::Tensor& t : inputs) options.layouts.push_back(codegen::constantLayout(*program, t.strides().vec()));
  for (const at::Tensor& t : outputs) {
    // What a kernel writes may not overlap.
    const at::Tensor like = t.is_non_overlapping_and_dense() ? t : at::empty(t.sizes(), t.options().device(at::kMeta));
    options.layouts.push_back(codegen::constantLayout(*program, like.strides().vec()));
    code->outputs.push_back({t.scalar_type(), t.sizes().vec(), like.strides().vec()});
  }
  code->source = SourceKernel::make(choice.source, *program);
  if (code->source) return std::shared_ptr<const Compiled>(new Compiled(std::move(code)));
  Result<codegen::CpuCode> made = codegen::makeCpuCode(std::move(*program), options);
  if (!made) return made.error();
  Result<std::string> object = objectOf(*jit, made->ir);
  if (!object) return object.error();
  GraftJitBytes error{};
  code->module = jit->load(reinterpret_cast<const unsigned char*>(object->data()), object->size(), &error);
  if (!code->module) return internalError(textOf(*jit, error));

  const auto valueOf = [&](loops::ExprId e) { return codegen::evaluateSize(made->program, e, code->sizes.data()); };
  for (const loops::ExprId bytes : made->temporaryBytes) code->temporaryBytes.push_back(valueOf(bytes));
  for (const codegen::CpuNest& n : made->nests) {
    Nest& nest = code->nests.emplace_back();
    nest.run = reinterpret_cast<NestFunction>(jit->find(code->module, n.function.c_str()));
    if (!nest.run) return internalError("the generated code has no function " + n.function);
    nest.iterations = valueOf(n.iterations);
    nest.scratchBytes = static_cast<size_t>(valueOf(n.scratchBytes));
    nest.grain = std::max<int64_t>(1, static_cast<int64_t>(sliceNanoseconds / std::max(n.nanoseconds, 0.01)));
    if (const int64_t threads = choice.schedule.threads; threads > 0)
      nest.grain = std::max<int64_t>(1, (nest.iterations + threads - 1) / threads);
  }
  return std::shared_ptr<const Compiled>(new Compiled(std::move(code)));
}

std::vector<at::Tensor> Compiled::run(at::TensorList inputs) const {
  std::vector<at::Tensor> outputs;
  std::vector<void*> buffers;
  buffers.reserve(inputs.size() + code_->outputs.size() + code_->temporaryBytes.size());
  for (const at::Tensor& t : inputs) buffers.push_back(const_cast<void*>(t.const_data_ptr()));
  outputs.reserve(code_->outputs.size());
  for (const OutputKind& kind : code_->outputs) {
    outputs.push_back(at::empty_strided(kind.sizes, kind.strides, at::TensorOptions(kind.dtype)));
    buffers.push_back(outputs.back().mutable_data_ptr());
  }
  if (code_->source) return code_->source->run(inputs, outputs, code_->sizes) ? outputs : std::vector<at::Tensor>();
  std::vector<at::Tensor> temporaries;
  for (const int64_t bytes : code_->temporaryBytes) {
    temporaries.push_back(at::empty({bytes}, at::TensorOptions(at::kByte)));
    buffers.push_back(temporaries.back().mutable_data_ptr());
  }
  std::atomic<bool> failed = false;
  for (const Nest& nest : code_->nests) {
    const auto slice = [&](int64_t begin, int64_t end) {
      void* memory = nest.scratchBytes > 0 ? scratch(nest.scratchBytes) : nullptr;
      if (nest.run(buffers.data(), code_->sizes.data(), memory, begin, end) != 0) failed = true;
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
