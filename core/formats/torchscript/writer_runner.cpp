// The module's graft.Runner: forward asks it whether a CUDA graph stands in, and otherwise runs as it is written.
#include <torch/csrc/jit/api/module.h>
#include <torch/custom_class.h>

#include <utility>

#include "core/formats/torchscript/writer.h"

namespace graft {

namespace jit = torch::jit;

TorchScriptWriter::JitValue* TorchScriptWriter::callRunner(const char* method, std::vector<JitValue*> arguments,
                                                           const c10::TypePtr& type) {
  arguments.insert(arguments.begin(), runner_);
  JitValue* out = call("prim::CallMethod", std::move(arguments), type);
  out->node()->s_(jit::attr::name, method);
  return out;
}

/// Writes the question whether a captured run stands in. What is written next is the branch for "no".
jit::Node* TorchScriptWriter::beginCapture(jit::Module& root) {
  const auto type = torch::getCustomClass("__torch__.torch.classes.graft.Runner");
  if (!type) throw WriterRefusal("libgraft_ops.so, which the model needs, is not loaded");
  const c10::IValue runner = c10::ivalue::Object::create(c10::StrongTypePtr({}, type), 1);
  constexpr int64_t usualLimit = 0;
  jit::Stack stack{runner, facts_.constantWeights, usualLimit};
  type->getMethod("__init__").run(stack);
  root.register_attribute(runnerAttribute, type, runner);
  const auto inputs = at_.graph->inputs();
  runner_ = append(at_.graph->createGetAttr(inputs[0], runnerAttribute))->output();
  arguments_ = append(at_.graph->createTuple(inputs.slice(1)))->output();
  JitValue* captures = callRunner("captures", {arguments_}, c10::BoolType::get());
  jit::Node* branch = append(at_.graph->create(c10::prim::If, {captures}, 1));
  branch->addBlock();
  at_.block = branch->addBlock();
  return branch;
}

TorchScriptWriter::JitValue* TorchScriptWriter::endCapture(jit::Node* branch, const std::vector<JitValue*>& results) {
  JitValue* result = results.size() == 1 ? results[0]
                     : results.empty()   ? constant(c10::IValue())
                                         : append(at_.graph->createTuple(results))->output();
  const c10::TypePtr type = c10::unshapedType(result->type());
  at_.block->registerOutput(result);
  at_.block = branch->blocks()[0];
  std::vector<JitValue*> given{at_.graph->inputs()[0], arguments_};
  if (facts_.writes()) {
    // What the other branch has read is not seen in this one.
    const auto values = std::exchange(at_.values, {});
    const auto modules = std::exchange(at_.modules, {{"", at_.graph->inputs()[0]}});
    std::vector<JitValue*> buffers;
    for (ValueId w : facts_.writtenWeights) buffers.push_back(weight(w));
    given.push_back(append(at_.graph->createList(c10::TensorType::get(), buffers))->output());
    c10::List<int64_t> places;
    for (size_t i : facts_.writtenInputs) places.push_back(static_cast<int64_t>(i));
    given.push_back(constant(places));
    at_.values = values;
    at_.modules = modules;
  }
  JitValue* replayed = callRunner(facts_.writes() ? "run_writing" : "run", given, c10::AnyType::get());
  at_.block->registerOutput(call("prim::unchecked_cast", {replayed}, type));
  at_.block = at_.graph->block();
  branch->output()->setType(type);
  return branch->output();
}

}  // namespace graft
