// The model's graft.Runner: forward asks it whether a CUDA graph stands in, and otherwise runs as it is written. So do
// the pieces of a model that waits for the GPU.
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <utility>

#include "core/formats/torchscript/writer.h"

namespace graft {

namespace jit = torch::jit;

/// Whether no module of the model has the runner's name. Weights of that name get another one.
bool TorchScriptWriter::hasRoomForRunner() const {
  return std::none_of(children_.begin(), children_.end(), [](const auto& entry) {
    return std::find(entry.second.begin(), entry.second.end(), runnerAttribute) != entry.second.end();
  });
}

/// `pieces`: how many methods it may run as CUDA graphs of their own.
void TorchScriptWriter::makeRunner(size_t pieces) {
  const auto type = torch::getCustomClass(runnerClass);
  if (!type) throw WriterRefusal("libgraft_ops.so, which the model needs, is not loaded");
  runner_ = c10::ivalue::Object::create(c10::StrongTypePtr({}, type), 1);
  constexpr int64_t usualLimit = 0;
  jit::Stack stack{runner_, facts_.constantWeights, usualLimit, static_cast<int64_t>(pieces)};
  type->getMethod("__init__").run(stack);
}

/// The runner, which all modules share that ask it.
TorchScriptWriter::JitValue* TorchScriptWriter::readRunner() {
  if (at_.runner) return at_.runner;
  jit::Module& module = modules_.at(at_.path);
  if (!module.hasattr(runnerAttribute)) module.register_attribute(runnerAttribute, runner_.type(), runner_);
  return at_.runner = appendOutside(at_.graph->createGetAttr(at_.graph->inputs()[0], runnerAttribute))->output();
}

TorchScriptWriter::JitValue* TorchScriptWriter::callRunner(const char* method, std::vector<JitValue*> arguments,
                                                           const c10::TypePtr& type) {
  arguments.insert(arguments.begin(), readRunner());
  return callMethod(method, arguments, type);
}

/// A piece of a model that waits for the GPU: a method, and the question whether a CUDA graph stands in for it.
void TorchScriptWriter::writePiece(const CallSegments::Segment& s, const CallSegments& cut) {
  range_.reset();
  const std::string path = at_.path;
  std::string name = fmt::format("forward_piece{}", s.piece);
  while (isTaken(path, name)) name += '_';
  std::vector<JitValue*> inputs = inputsOf(s);
  const c10::TypePtr type = writeMethod(path, name, inputs, s, cut);
  JitValue* self = at_.graph->inputs()[0];
  JitValue* arguments = append(at_.graph->createTuple(inputs))->output();
  JitValue* method = constant(name);
  JitValue* captures = callRunner("captures_piece", {self, method, arguments}, c10::BoolType::get());
  jit::Node* branch = append(at_.graph->create(c10::prim::If, {captures}, 1));
  jit::Block* outer = std::exchange(at_.block, branch->addBlock());
  const auto number = constant(static_cast<int64_t>(s.piece));
  JitValue* replayed = callRunner("run_piece", {self, number, method, arguments}, c10::AnyType::get());
  at_.block->registerOutput(call("prim::unchecked_cast", {replayed}, c10::unshapedType(type)));
  at_.block = branch->addBlock();
  inputs.insert(inputs.begin(), self);
  at_.block->registerOutput(callMethod(name, inputs, type));
  at_.block = outer;
  branch->output()->setType(c10::unshapedType(type));
  bindResults(branch->output(), s);
}

/// Writes the question whether a captured run stands in. What is written next is the branch for "no".
jit::Node* TorchScriptWriter::beginCapture() {
  readRunner();
  arguments_ = append(at_.graph->createTuple(at_.graph->inputs().slice(1)))->output();
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
