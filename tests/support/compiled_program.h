// CompiledProgram: a program of loops as machine code in this process, for tests.
//
//   CompiledProgram c = CompiledProgram::make(text, CpuLevel::Avx2);
//   int failed = c.run({x.data(), y.data()}, {});
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/compile/codegen/access.h"
#include "core/compile/codegen/cpu_code.h"
#include "core/compile/loops/text.h"
#include "kernels/jit/jit.h"

namespace graft::test {

/// The library that was built beside the tests. Throws where it is not there.
inline const GraftJit& jit() {
  static const GraftJit* table = [] {
    void* library = dlopen(GRAFT_BINARY_DIR "/lib/libgraft_ops_llvm.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) throw std::runtime_error(dlerror());
    return reinterpret_cast<GraftJitFunction>(dlsym(library, "graft_jit"))();
  }();
  return *table;
}

/// The levels that this machine has.
inline std::vector<codegen::CpuLevel> levels() {
  std::vector<codegen::CpuLevel> all;
  for (int i = 0; i <= jit().host_level(); ++i) all.push_back(static_cast<codegen::CpuLevel>(i));
  return all;
}

class CompiledProgram {
 public:
  CompiledProgram(loops::Program program, const codegen::CpuOptions& options) {
    Result<codegen::CpuCode> made = codegen::makeCpuCode(std::move(program), options);
    if (!made) throw std::runtime_error(made.error().format());
    code_ = std::move(*made);
    GraftJitBytes object{}, error{};
    if (jit().compile(code_.ir.data(), code_.ir.size(), static_cast<int>(options.level), &object, &error))
      throw std::runtime_error(std::string(reinterpret_cast<char*>(error.data)) + "\n" + code_.ir);
    module_ = jit().load(object.data, object.size, &error);
    jit().release(&object);
    if (!module_) throw std::runtime_error(reinterpret_cast<char*>(error.data));
  }
  static CompiledProgram make(std::string_view text, codegen::CpuLevel level) {
    Result<loops::Program> program = loops::parseProgram(text);
    if (!program) throw std::runtime_error(program.error().format());
    codegen::CpuOptions options;
    options.level = level;
    return {std::move(*program), options};
  }
  CompiledProgram(CompiledProgram&& other) noexcept : code_(std::move(other.code_)), module_(other.module_) {
    other.module_ = nullptr;
  }
  ~CompiledProgram() {
    if (module_) jit().unload(module_);
  }

  const codegen::CpuCode& code() const { return code_; }

  /// Runs every nest, its iterations in slices of `slice`, and returns whether a check failed. Temporaries and locals
  /// hold rubbish at first.
  int run(std::vector<void*> buffers, const std::vector<int64_t>& sizes, int64_t slice = INT64_MAX) const {
    const auto size = [&](loops::ExprId e) {
      return static_cast<size_t>(codegen::evaluateSize(code_.program, e, sizes.data()));
    };
    std::vector<std::vector<char>> memory;
    for (const loops::ExprId bytes : code_.temporaryBytes) {
      memory.emplace_back(size(bytes) + 64, '\xee');
      buffers.push_back(memory.back().data());
    }
    int failed = 0;
    for (const codegen::CpuNest& nest : code_.nests) {
      const auto function = reinterpret_cast<codegen::NestFunction>(jit().find(module_, nest.function.c_str()));
      if (!function) throw std::runtime_error("there is no " + nest.function);
      std::vector<char> scratch(size(nest.scratchBytes) + 64, '\xee');
      void* aligned = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) & ~uintptr_t{63});
      const auto iterations = static_cast<int64_t>(size(nest.iterations));
      for (int64_t begin = 0; begin < iterations; begin += std::min(slice, iterations - begin))
        failed |= function(buffers.data(), sizes.data(), aligned, begin, std::min(slice, iterations - begin) + begin);
    }
    return failed;
  }

 private:
  codegen::CpuCode code_;
  GraftJitModule* module_ = nullptr;
};

}  // namespace graft::test
