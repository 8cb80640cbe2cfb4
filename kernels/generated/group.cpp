#include "kernels/generated/group.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <utility>

#include "core/compile/fusion/group_text.h"
#include "core/torch/values/operators.h"
#include "core/torch/values/values.h"

namespace graft::ops {
namespace {

bool isSwitchedOff() {
  const char* wanted = std::getenv("GRAFT_GENERATED");
  return wanted && std::string_view(wanted) == "0";
}

bool isPlain(const at::Tensor& t) {
  return t.defined() && t.device().is_cpu() && t.layout() == at::kStrided && !t.is_quantized() && !t.is_conj() &&
         !t.is_neg() && graftDType(t.scalar_type()) && !t.is_complex();
}

void append(std::string& key, int64_t number) { key.append(reinterpret_cast<const char*>(&number), sizeof number); }

/// What a kernel is made for.
std::string keyOf(at::TensorList inputs, at::IntArrayRef sizes) {
  std::string key;
  key.reserve(inputs.size() * 80);
  for (const at::Tensor& t : inputs) {
    append(key, static_cast<int64_t>(t.scalar_type()) | t.dim() << 8);
    for (const int64_t n : t.sizes()) append(key, n);
    for (const int64_t n : t.strides()) append(key, n);
  }
  for (const int64_t n : sizes) append(key, n);
  return key;
}

/// Values that are numbers become literals.
Argument withNumbers(const Argument& a, const std::unordered_map<ValueId, int64_t>& numbers) {
  if (a.isValue()) {
    const auto found = numbers.find(a.valueId());
    return found == numbers.end() ? a : Argument(found->second);
  }
  const std::vector<Argument>* items = a.items();
  if (!items) return a;
  std::vector<Argument> now;
  for (const Argument& item : *items) now.push_back(withNumbers(item, numbers));
  return a.isList() ? Argument::list(std::move(now)) : Argument::tuple(std::move(now));
}

}  // namespace

std::shared_ptr<Group> Group::of(std::string_view program) {
  static std::mutex mutex;
  static auto* const groups =
      new std::unordered_map<std::string, std::shared_ptr<Group>>();  // threads may outlive statics
  // The text of a model's call lies where it lay before: comparing it is cheaper than hashing it.
  thread_local std::unordered_map<const char*, std::pair<std::string_view, std::shared_ptr<Group>>> recent;
  if (const auto at = recent.find(program.data()); at != recent.end() && at->second.first == program)
    return at->second.second;
  const std::lock_guard lock(mutex);
  auto found = groups->find(std::string(program));
  if (found == groups->end()) {
    static const TorchOperators operators;
    Result<Graph> graph = parseGroup(program, operators);
    TORCH_CHECK(graph, "graft::generated: ", graph.error().format());
    std::shared_ptr<Group> made(new Group(std::make_unique<Graph>(std::move(*graph))));
    found = groups->emplace(program, std::move(made)).first;
  }
  if (recent.size() >= 4096) recent.clear();
  recent[program.data()] = {found->first, found->second};
  return found->second;
}

std::vector<at::Tensor> Group::run(at::TensorList inputs, at::IntArrayRef sizes) {
  static const bool off = isSwitchedOff();
  if (!off && !inputs.empty() && inputs[0].is_cuda()) return runOnCuda(inputs, sizes);
  if (off || !std::all_of(inputs.begin(), inputs.end(), isPlain)) return runAten(inputs, sizes);
  const std::string key = keyOf(inputs, sizes);
  std::shared_ptr<const Compiled> kernel;
  {
    const std::lock_guard lock(mutex_);
    const auto found = compiled_.find(key);
    if (found == compiled_.end()) {
      if (compiled_.size() >= mostKernels) return runAten(inputs, sizes);
    } else if (kernel = found->second; !kernel) {
      return runAten(inputs, sizes);
    }
  }
  if (!kernel) return runFirst(inputs, sizes, key);
  std::vector<at::Tensor> results = kernel->run(inputs);
  return results.empty() ? runAten(inputs, sizes) : results;
}

/// Runs as ATen operators, which refuse what does not fit and tell all types, then makes the kernel and runs it.
std::vector<at::Tensor> Group::runFirst(at::TensorList inputs, at::IntArrayRef sizes, const std::string& key) {
  std::vector<at::Tensor> results;
  const Graph graph = typed(inputs, sizes, results);
  Result<std::shared_ptr<const Compiled>> made = Compiled::make(graph, inputs, sizes, results);
  if (!made) {
    TORCH_WARN_ONCE("graft::generated: ", made.error().message, "; such groups run as ATen operators");
  }
  const std::shared_ptr<const Compiled> kernel = made ? std::move(*made) : nullptr;
  {
    const std::lock_guard lock(mutex_);
    compiled_.emplace(key, kernel);
  }
  std::vector<at::Tensor> generated = kernel ? kernel->run(inputs) : std::vector<at::Tensor>();
  return generated.empty() ? results : generated;
}

/// The graph with the types and numbers that this call has.
Graph Group::typed(at::TensorList inputs, at::IntArrayRef sizes, std::vector<at::Tensor>& results) const {
  Graph graph = *graph_;
  std::unordered_map<ValueId, int64_t> numbers;
  size_t tensor = 0, number = 0;
  for (const ValueId input : graph.inputs()) {
    if (graph.value(input).type.isTensor()) {
      if (tensor < inputs.size()) graph.setType(input, typeOfValue(inputs[tensor++]));
    } else if (number < sizes.size()) {
      numbers.emplace(input, sizes[number++]);
    }
  }
  results = aten_(inputs, sizes, [&](ValueId id, const c10::IValue& value) { graph.setType(id, typeOfValue(value)); });
  if (numbers.empty()) return graph;
  for (const NodeId id : graph.order()) {
    std::vector<Argument> now;
    for (const Argument& a : graph.node(id).args) now.push_back(withNumbers(a, numbers));
    graph.setArguments(id, std::move(now));
  }
  return graph;
}

}  // namespace graft::ops
