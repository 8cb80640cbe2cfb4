// What cpu_code_bench.py calls: machine code of a program's text, run in parallel as LibTorch runs its own loops.
#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/compile/codegen/access.h"
#include "core/compile/codegen/cpu_code.h"
#include "core/compile/loops/text.h"
#include "kernels/jit/jit.h"

namespace {

using namespace graft;
using namespace graft::codegen;

struct Compiled {
  CpuCode code;
  std::vector<NestFunction> nests;
  double emitted = 0, compiled = 0;
  size_t bytes = 0;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

const GraftJit* jitAt(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return library ? reinterpret_cast<GraftJitFunction>(dlsym(library, "graft_jit"))() : nullptr;
}

Compiled* fail(const std::string& message, char* error, size_t size) {
  std::strncpy(error, message.c_str(), size - 1);
  return nullptr;
}

}  // namespace

extern "C" {

/// `strides`: of each input and output, one after another; null: dense.
void* bench_make(const char* text, const char* library, int level, const int64_t* strides, char* error, size_t size) {
  const GraftJit* jit = jitAt(library);
  if (!jit) return fail(dlerror(), error, size);
  Result<loops::Program> program = loops::parseProgram(text);
  if (!program) return fail(program.error().format(), error, size);
  const double start = now();
  CpuOptions options{static_cast<CpuLevel>(level < 0 ? jit->host_level() : level), {}, {}};
  if (strides) {
    std::vector<loops::BufferId> buffers = program->inputs();
    for (const loops::BufferId b : program->outputs()) buffers.push_back(b);
    for (const loops::BufferId b : buffers) {
      const size_t rank = program->buffer(b).sizes.size();
      options.layouts.push_back(constantLayout(*program, std::vector<int64_t>(strides, strides + rank)));
      strides += rank;
    }
  }
  Result<CpuCode> code = makeCpuCode(std::move(*program), options);
  if (!code) return fail(code.error().format(), error, size);
  auto result = std::make_unique<Compiled>(Compiled{std::move(*code), {}});
  const double middle = now();
  if (const char* path = std::getenv("GRAFT_BENCH_IR")) {
    FILE* f = fopen(path, "w");
    fputs(result->code.ir.c_str(), f);
    fclose(f);
  }
  GraftJitBytes object{}, message{};
  if (jit->compile(result->code.ir.data(), result->code.ir.size(), static_cast<int>(options.level), &object, &message))
    return fail(reinterpret_cast<const char*>(message.data), error, size);
  result->bytes = object.size;
  GraftJitModule* module = jit->load(object.data, object.size, &message);
  jit->release(&object);
  if (!module) return fail(reinterpret_cast<const char*>(message.data), error, size);
  for (const CpuNest& nest : result->code.nests)
    result->nests.push_back(reinterpret_cast<NestFunction>(jit->find(module, nest.function.c_str())));
  result->emitted = middle - start;
  result->compiled = now() - middle;
  return result.release();
}

/// Seconds for emitting and for compiling; bytes of IR and of the object.
void bench_cost(const void* made, double* costs) {
  const auto* c = static_cast<const Compiled*>(made);
  costs[0] = c->emitted;
  costs[1] = c->compiled;
  costs[2] = static_cast<double>(c->code.ir.size());
  costs[3] = static_cast<double>(c->bytes);
}

/// `buffers`: inputs and outputs. Returns 1 where a check failed.
int bench_run(const void* made, void* const* buffers, int64_t count, const int64_t* sizes) {
  const auto* c = static_cast<const Compiled*>(made);
  std::vector<void*> all(buffers, buffers + count);
  std::vector<std::unique_ptr<char[]>> temporaries;
  for (const loops::ExprId bytes : c->code.temporaryBytes) {
    temporaries.emplace_back(new char[static_cast<size_t>(evaluateSize(c->code.program, bytes, sizes)) + 64]);
    all.push_back(temporaries.back().get());
  }
  std::atomic<int> failed = 0;
  for (size_t i = 0; i < c->nests.size(); ++i) {
    const CpuNest& nest = c->code.nests[i];
    const int64_t iterations = evaluateSize(c->code.program, nest.iterations, sizes);
    const auto scratchBytes = static_cast<size_t>(evaluateSize(c->code.program, nest.scratchBytes, sizes));
    const auto grain = std::max<int64_t>(1, static_cast<int64_t>(10000 / std::max(nest.nanoseconds, 0.1)));
    at::parallel_for(0, iterations, grain, [&](int64_t begin, int64_t end) {
      thread_local std::vector<char> scratch;
      if (scratch.size() < scratchBytes + 64) scratch.resize(scratchBytes + 64);
      void* aligned = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) & ~uintptr_t{63});
      failed |= c->nests[i](all.data(), sizes, aligned, begin, end);
    });
  }
  return failed;
}
}
