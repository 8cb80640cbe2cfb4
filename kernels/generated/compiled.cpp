#include "kernels/generated/compiled.h"

#include "kernels/generated/code_cache.h"
#include "kernels/generated/jit_library.h"

namespace graft::ops {

struct Compiled::Code {};
Compiled::Compiled(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Compiled::~Compiled() = default;
std::vector<at::Tensor> Compiled::run(at::TensorList) const { return {}; }
Result<std::shared_ptr<const Compiled>> Compiled::make(const Graph&, at::TensorList, at::TensorList) {
  if (!jitLibrary()) return badInput("no kernels are generated: " + jitStatus());
  return badInput("not yet");
}

}  // namespace graft::ops
