#include "app/workbench/open.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/formats/export.h"
#include "core/ir/verify.h"
#include "core/torch/graph_in_dtype.h"

namespace graft::workbench {

Result<Model> open(const OpenRequest& request, const Semantics& semantics, const Job& job) {
  auto model = importModel(request.path, semantics, {request.method}, job);
  if (!model || !request.dtype) return model;
  auto cast = inDType(model->graph, *request.dtype);
  if (!cast) return cast.error();
  model->graph = std::move(cast->graph);
  return model;
}

Result<Inputs> inputsFor(const Graph& graph, const InputRequest& request) {
  auto tensors =
      request.file.empty() ? makeInputs(graph, request.specs, request.seed) : loadInputs(request.file, graph);
  if (!tensors) return tensors.error();
  Inputs out;
  if (!request.isGiven() && !graph.inputs().empty()) out.random = tensors->describe();
  auto converted = convert(*tensors, request.device, request.dtype);
  if (!converted) return converted.error();
  out.tensors = std::move(*converted);
  return out;
}

std::optional<std::string> keepWithinRange(Model& model, const OpenRequest& request, const TensorSet& inputs,
                                           const Semantics& semantics, const Job& job) {
  if (!request.dtype || dtypeSize(*request.dtype) != 2 || givesFiniteOutputs(model.graph, inputs, job))
    return std::nullopt;
  auto original = open({request.path, request.method}, semantics, job);
  if (!original) return std::nullopt;
  auto found = inDTypeWithinRange(original->graph, *request.dtype, inputs, job);
  if (!found) return std::nullopt;
  model.graph = std::move(found->graph);
  constexpr size_t mostNames = 5;
  std::vector<std::string>& names = found->nodes;
  const size_t count = names.size();
  if (count > mostNames) names.resize(mostNames);
  return fmt::format("{} node{} stay{} in float32, because {} overflows on these inputs: {}{}", count,
                     count == 1 ? "" : "s", count == 1 ? "s" : "", dtypeName(*request.dtype), fmt::join(names, ", "),
                     count > mostNames ? ", …" : "");
}

Status recordTypes(Model& model, const TensorSet& inputs, const OperatorSet& operators, DeclaredSizes sizes) {
  const bool keepSymbols = sizes == DeclaredSizes::Stay && model.format->declaresSizes;
  if (Status s = graft::recordTypes(model.graph, inputs, keepSymbols); !s) return s;
  typesAreKnown(model, operators);
  return verify(model.graph);
}

}  // namespace graft::workbench
