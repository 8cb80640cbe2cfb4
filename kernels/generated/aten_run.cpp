#include "kernels/generated/aten_run.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/runtime/operator.h>

#include "core/torch/values/operators.h"
#include "core/torch/values/values.h"
#include "kernels/generated/call_kind.h"

namespace graft::ops {
namespace {

constexpr std::string_view itemOperator = "prim.getitem";

/// Inputs of the graph: numbers come in `sizes`, all others are tensors.
bool isNumber(const Type& type) { return type.kind == Type::Kind::Int; }

template <class T>
T given(Result<T> result, const Node& node) {
  TORCH_CHECK(result, "graft::generated: ", node.name, ": ", result.error().message);
  return std::move(*result);
}

/// What runs in place of an operator. A group keeps no strides, so a view may be asked for that its inputs do not allow
/// here, although they did in the model.
std::string_view runnable(std::string_view name) {
  return name == "aten.view.default" || name == "aten._unsafe_view.default" ? "aten.reshape.default" : name;
}

/// The operator as a function of a stack, and its schema. Neither where there is none.
void resolve(const std::string& name, std::function<void(torch::jit::Stack&)>& call,
             const c10::FunctionSchema*& schema) {
  const c10::OperatorName wanted = torchName(name);
  if (const auto handle = c10::Dispatcher::singleton().findSchema(wanted)) {
    call = [handle = *handle](torch::jit::Stack& stack) { handle.callBoxed(stack); };
    schema = &handle->schema();
    return;
  }
  if (const auto op = findScriptOperator(wanted)) {
    call = [operation = op->getOperation()](torch::jit::Stack& stack) mutable { operation(stack); };
    schema = &op->schema();
  }
}

}  // namespace

AtenRun::AtenRun(const Graph& graph) : graph_(graph) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    Step& step = steps_.emplace_back(Step{id, {}});
    if (node.op->name == itemOperator) continue;
    resolve(std::string(runnable(node.op->name)), step.call, step.schema);
    TORCH_CHECK(step.schema, "graft::generated: this PyTorch has no operator ", node.op->name);
    TORCH_CHECK(step.schema->arguments().size() == node.args.size(), "graft::generated: ", node.op->name,
                " takes other arguments in this PyTorch");
  }
}

std::vector<at::Tensor> AtenRun::operator()(at::TensorList inputs, at::IntArrayRef sizes, const See& see) const {
  std::vector<c10::IValue> values(graph_.valueBound());
  size_t tensor = 0, number = 0;
  for (const ValueId input : graph_.inputs()) {
    const bool takesNumber = isNumber(graph_.value(input).type);
    const size_t at = takesNumber ? number++ : tensor++;
    TORCH_CHECK(at < (takesNumber ? sizes.size() : inputs.size()), "graft::generated: the group takes ",
                graph_.inputs().size(), " inputs, ", inputs.size(), " tensors and ", sizes.size(), " sizes were given");
    values[input.index] = takesNumber ? c10::IValue(sizes[at]) : c10::IValue(inputs[at]);
  }
  TORCH_CHECK(tensor == inputs.size() && number == sizes.size(), "graft::generated: more inputs than the group takes");
  const ValueLookup lookup = [&](ValueId v) { return &values[v.index]; };
  const auto device = inputs.empty() ? std::nullopt : std::optional(deviceOf(inputs));
  torch::jit::Stack stack;
  for (const Step& step : steps_) {
    const Node& node = graph_.node(step.node);
    if (!step.call) {
      const c10::List<c10::IValue> list = values[node.args.at(0).valueId().index].toList();
      const int64_t wanted = *node.args.at(1).as<int64_t>();
      const int64_t at = wanted < 0 ? wanted + static_cast<int64_t>(list.size()) : wanted;
      values[node.outputs.front().index] = list.get(at);
    } else {
      stack.clear();
      for (size_t i = 0; i < node.args.size(); ++i) {
        const c10::Argument& parameter = step.schema->arguments()[i];
        const bool isUnsaid = node.args[i].isNone() && parameter.name() == "device";
        if (device && (isUnsaid || node.args[i].as<DeviceName>())) {
          stack.emplace_back(*device);
          continue;
        }
        stack.push_back(given(argumentValue(node, i, *step.schema, lookup), node));
        if (device && !node.args[i].isValue() && stack.back().isTensor())
          stack.back() = broughtTo(*device, stack.back().toTensor());
      }
      step.call(stack);
      TORCH_CHECK(stack.size() == node.outputs.size(), "graft::generated: ", node.name, " has ", node.outputs.size(),
                  " results, ", node.op->name, " gives ", stack.size());
      for (size_t i = 0; i < stack.size(); ++i) values[node.outputs[i].index] = std::move(stack[i]);
    }
    if (see)
      for (const ValueId output : node.outputs) see(output, values[output.index]);
  }
  std::vector<at::Tensor> results;
  for (const Argument& r : graph_.returns()) results.push_back(values[r.valueId().index].toTensor());
  return results;
}

}  // namespace graft::ops
