#include "core/torch/split_run.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/all.h>
#include <ATen/ops/isfinite.h>

#include <unordered_map>

#include "core/torch/memory.h"
#include "core/torch/values/values.h"
#include "core/torch/verify/program_set.h"

namespace graft {
namespace {

void addLeaves(const c10::IValue& v, std::vector<c10::IValue>& out) {
  if (!v.isTuple()) return out.push_back(v);
  for (const c10::IValue& e : v.toTupleRef().elements()) addLeaves(e, out);
}

std::vector<c10::IValue> leavesOf(const TensorSet& set) {
  std::vector<c10::IValue> out;
  for (const c10::IValue& v : valuesOf(set)) addLeaves(v, out);
  return out;
}

}  // namespace

Result<SplitRun> runSplit(const SplitGraphs& graphs, const TensorSet& inputs, const RunOptions& options,
                          const Job& job) {
  auto whole = Program::build(graphs.whole, options);
  auto first = Program::build(graphs.first, options);
  for (const auto* p : {&whole, &first})
    if (!*p) return p->error();
  std::unordered_map<std::string, c10::IValue> given;
  for (size_t i = 0; i < graphs.whole.inputs().size() && i < inputs.size(); ++i)
    given.emplace(graphs.whole.value(graphs.whole.inputs()[i]).name, valuesOf(inputs)[i]);
  const auto inputsOf = [&](const Graph& g, const std::vector<c10::IValue>& ahead) {
    std::vector<c10::IValue> out = ahead;
    for (size_t i = ahead.size(); i < g.inputs().size(); ++i) out.push_back(given.at(g.value(g.inputs()[i]).name));
    return tensorSet(std::move(out));
  };
  auto expected = runSeeded(*whole, inputs, job);
  if (!expected) return expected.error();
  const TensorSet firstInputs = inputsOf(graphs.first, {});
  auto results = runSeeded(*first, firstInputs, job);
  if (!results) return results.error();
  std::vector<c10::IValue> leaves = leavesOf(*results);
  if (leaves.size() < graphs.firstReturns) return internalError("the first half returns too little");
  const auto kept = leaves.begin() + static_cast<std::ptrdiff_t>(graphs.firstReturns);
  const TensorSet secondInputs = inputsOf(graphs.second, {kept, leaves.end()});
  // What the first half gives counts, not what types the file says: PyTorch's meta kernels are wrong about some dtypes.
  Graph takesIt = graphs.second;
  for (size_t i = 0; i < takesIt.inputs().size() && i < secondInputs.size(); ++i)
    takesIt.setType(takesIt.inputs()[i], typeOfValue(valuesOf(secondInputs)[i]));
  auto second = Program::build(takesIt, options);
  if (!second) return second.error();
  auto gradients = second->run(secondInputs, job);
  if (!gradients) return gradients.error();
  leaves.erase(kept, leaves.end());
  for (const c10::IValue& v : leavesOf(*gradients)) leaves.push_back(v);
  SplitRun out;
  std::vector<c10::IValue> wanted = leavesOf(*expected);
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i].isTensor() && wanted[i].toTensor().defined() &&
        !at::isfinite(wanted[i].toTensor()).all().item<bool>())
      out.notFinite.push_back(i);
  out.differences = compareTensors(tensorSet(std::move(wanted)), tensorSet(std::move(leaves)));
  auto firstUse = memoryUse(graphs.first, *first, firstInputs);
  if (!firstUse) return firstUse.error();
  auto secondUse = memoryUse(takesIt, *second, secondInputs);
  if (!secondUse) return secondUse.error();
  out.firstPeak = firstUse->intermediates;
  out.secondPeak = secondUse->intermediates;
  return out;
}

}  // namespace graft
