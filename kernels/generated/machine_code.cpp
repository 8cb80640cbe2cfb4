#include "kernels/generated/machine_code.h"

#include <optional>

#include "core/compile/codegen/access.h"
#include "kernels/generated/code_cache.h"
#include "kernels/generated/jit_library.h"

namespace graft::ops {
namespace {

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

}  // namespace

MachineCode::~MachineCode() {
  if (module_) jit_->unload(module_);
}

Status MachineCode::available() {
  if (!jitLibrary()) return badInput("no kernels are generated: " + jitStatus());
  return done();
}

Result<std::shared_ptr<const MachineCode>> MachineCode::make(loops::Program program, codegen::CpuOptions options) {
  if (const Status s = available(); !s) return s.error();
  const GraftJit* jit = jitLibrary();
  options.level = static_cast<codegen::CpuLevel>(jit->host_level());
  Result<codegen::CpuCode> made = codegen::makeCpuCode(std::move(program), options);
  if (!made) return made.error();
  Result<std::string> object = objectOf(*jit, made->ir);
  if (!object) return object.error();
  std::shared_ptr<MachineCode> code(new MachineCode);
  code->jit_ = jit;
  GraftJitBytes error{};
  code->module_ = jit->load(reinterpret_cast<const unsigned char*>(object->data()), object->size(), &error);
  if (!code->module_) return internalError(textOf(*jit, error));
  for (const codegen::CpuNest& n : made->nests) {
    const auto run = reinterpret_cast<codegen::NestFunction>(jit->find(code->module_, n.function.c_str()));
    if (!run) return internalError("the generated code has no function " + n.function);
    const int64_t planned =
        options.guesses.empty() ? 0 : codegen::evaluateSize(made->program, n.iterations, options.guesses.data());
    code->nests_.push_back({run, n.iterations, n.scratchBytes, n.nanoseconds, planned});
  }
  code->program_ = std::move(made->program);
  code->temporaryBytes_ = std::move(made->temporaryBytes);
  return std::shared_ptr<const MachineCode>(std::move(code));
}

}  // namespace graft::ops
