#include "kernels/runner/frozen_method.h"

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/ir/scope.h>

#include <unordered_set>

namespace graft::ops {
namespace {

/// Calls `f` with each node of a block and of the blocks in it.
template <class F>
void forEachNode(torch::jit::Block& block, const F& f) {
  for (torch::jit::Node* node : block.nodes()) {
    f(*node);
    for (torch::jit::Block* inner : node->blocks()) forEachNode(*inner, f);
  }
}

}  // namespace

std::shared_ptr<torch::jit::GraphExecutor> executorOfFrozen(const torch::jit::Method& method) {
  const torch::jit::GraphFunction* function = torch::jit::tryToGraphFunction(method.function());
  if (!function) return nullptr;
  const std::vector<torch::jit::Function*> all = method.owner()._ivalue()->compilation_unit()->get_functions();
  const std::unordered_set<const torch::jit::Function*> living(all.begin(), all.end());
  // The pointers are compared, never followed.
  const auto isFreed = [&](const torch::jit::Node& node) {
    const auto calls = node.callstack();
    if (!calls) return false;
    for (const torch::jit::InlinedCallStackEntry& call : (*calls)->vec())
      if (!living.contains(std::get<0>(call))) return true;
    return false;
  };
  bool anyFreed = false;
  const auto look = [&](const torch::jit::Node& node) { anyFreed = anyFreed || isFreed(node); };
  forEachNode(*function->graph()->block(), look);
  if (!anyFreed) return nullptr;
  const std::shared_ptr<torch::jit::Graph> graph = function->graph()->copy();
  forEachNode(*graph->block(), [&](torch::jit::Node& node) {
    if (!isFreed(node)) return;
    node.setCallStack(c10::make_intrusive<torch::jit::InlinedCallStack>(&method.function(), node.sourceRange()));
  });
  return std::make_shared<torch::jit::GraphExecutor>(graph, function->name());
}

c10::IValue runExecutor(torch::jit::GraphExecutor& executor, const c10::IValue& module,
                        const std::vector<c10::IValue>& inputs) {
  std::vector<c10::IValue> stack{module};
  stack.insert(stack.end(), inputs.begin(), inputs.end());
  executor.run(stack);
  TORCH_CHECK(stack.size() == 1, "a method returns one value");
  return stack[0];
}

}  // namespace graft::ops
