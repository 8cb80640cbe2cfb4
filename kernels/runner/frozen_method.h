// A method of a module that torch.jit.freeze has made, run so that an error inside it is an error.
//
// Freezing inlines the other methods of a module into its forward, and frees them. The operators that came from them
// still point to them, and the interpreter follows the pointers when it describes where an error was thrown
// (InterpreterStateImpl::callstack, LibTorch 2.11): it reads freed memory, and the process may end. A capture throws
// wherever the GPU has to be waited for, so this is no rare case. A copy of the graph that names the method itself is
// safe.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <memory>
#include <vector>

namespace graft::ops {

/// What runs a copy of the method's graph that points to `method` alone. Null where each function that the graph names
/// belongs to the module's own compilation unit, so that the method itself can run. The copy holds what the graph
/// holds, a frozen module's weights and runner too: it is made for one run, and kept by nobody.
std::shared_ptr<torch::jit::GraphExecutor> executorOfFrozen(const torch::jit::Method& method);

/// What the executor returns for the module and the inputs.
c10::IValue runExecutor(torch::jit::GraphExecutor& executor, const c10::IValue& module,
                        const std::vector<c10::IValue>& inputs);

}  // namespace graft::ops
