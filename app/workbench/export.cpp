#include "app/workbench/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/base/atomic_file.h"
#include "core/formats/export.h"
#include "core/torch/cuda_runner.h"
#include "core/torch/operator_library.h"
#include "core/torch/semantics.h"

namespace graft::workbench {
namespace {

/// Types fixed at the inputs of one run would make a torch.export program that takes no others. The same graph with the
/// sizes that tracing left open, where all others follow from these.
std::optional<Graph> withTracedSizes(Graph g, const std::vector<TracedSizes>& sizes) {
  if (sizes.size() != g.inputs().size()) return std::nullopt;
  const std::vector<NodeId> order = g.order();
  for (NodeId id : order) {
    if (!g.node(id).blocks.empty()) return std::nullopt;
    for (ValueId v : g.node(id).outputs) {
      const Type had = g.value(v).type;
      if (!had.isTensor()) continue;
      Type open = Type::tensor();
      open.tensorInfo.dtype = had.tensorInfo.dtype;
      open.tensorInfo.device = had.tensorInfo.device;
      g.setType(v, open);
    }
  }
  std::vector<Type> types;
  for (size_t i = 0; i < sizes.size(); ++i) {
    types.push_back(g.value(g.inputs()[i]).type);
    types.back().tensorInfo.shape = sizes[i];
  }
  if (!inferAllTypes(g, types)) return std::nullopt;
  for (NodeId id : order)
    for (ValueId v : g.node(id).outputs) {
      const Type& t = g.value(v).type;
      if (!t.isTensor()) continue;
      const auto& shape = t.tensorInfo.shape;
      if (!shape || !std::all_of(shape->begin(), shape->end(), [](const Dim& d) { return d.isKnown(); }))
        return std::nullopt;
    }
  return g;
}

}  // namespace

std::vector<TracedSizes> tracedSizes(const Graph& g) {
  std::vector<TracedSizes> out;
  bool isOpen = false;
  for (ValueId v : g.inputs()) {
    const auto& shape = g.value(v).type.tensorInfo.shape;
    if (g.value(v).type.isTensor() && !shape) return {};
    out.push_back(shape);
    if (shape) isOpen = isOpen || std::any_of(shape->begin(), shape->end(), [](const Dim& d) { return !d.isStatic(); });
  }
  return isOpen ? out : std::vector<TracedSizes>();
}

Result<WrittenModel> writeRewritten(const Graph& graph, const std::string& path, const TensorSet& inputs,
                                    const std::vector<TracedSizes>& sizes, bool capture, bool capturePlain) {
  WrittenModel out;
  out.path = path;
  ExportOptions options;
  options.inputs = inputs;
  options.capture = capture;
  options.capturePlain = capturePlain;
  const bool isProgram = path.ends_with(".pt2");
  bool isWritten = false;
  if (isProgram && !sizes.empty()) {
    if (const auto open = withTracedSizes(graph, sizes)) isWritten = bool(exportModel(*open, path, options));
    out.sizesAreFixed = !isWritten;
  }
  if (!isWritten)
    if (Status s = exportModel(graph, path, options); !s) return s.error();
  out.captureObstacle = !capture    ? "--no-capture"
                        : isProgram ? "torch.export's format holds no runner; write it as TorchScript (-o OUT.pt), or "
                                      "compile the loaded module with torch.compile(mode=\"reduce-overhead\")"
                                    : captureObstacle(graph, capturePlain);
  if (out.captureObstacle.empty()) {
    const Capturing facts = capturing(graph);
    out.waits = facts.waits;
    out.inPieces = facts.inPieces;
  }
  const bool needsLibrary = usesGraftOperators(graph) || (capturePlain && out.captureObstacle.empty());
  if (const auto library = findOperatorLibrary(); library && needsLibrary) out.operatorLibrary = *library;
  out.libraries = userLibrariesOf(graph);
  return out;
}

Result<StagedModel> StagedModel::write(const Graph& graph, const std::string& output, const TensorSet& inputs,
                                       const std::vector<TracedSizes>& sizes, bool capture, bool capturePlain) {
  auto folder = TemporaryFolder::beside(output);
  if (!folder) return folder.error();
  const std::string name = std::filesystem::path(output).filename().string();
  auto written = writeRewritten(graph, folder->file(name), inputs, sizes, capture, capturePlain);
  if (!written) return written.error();
  return StagedModel(std::move(*folder), std::move(*written), output);
}

Result<WrittenModel> StagedModel::publish() {
  std::error_code error;
  std::filesystem::rename(model_.path, output_, error);
  if (error) return badInput(fmt::format("{} cannot be written: {}", output_, error.message()));
  model_.path = output_;
  return model_;
}

Result<WrittenModel> copyModel(const OpenRequest& from, const Graph& graph, const std::string& path) {
  auto format = exportFormat(path);
  if (!format) return format.error();
  WrittenModel out;
  out.path = path;
  out.captureObstacle = "it is the model as it was";
  if (from.dtype || from.method != "forward" || !from.path.ends_with((*format)->ending)) {
    if (Status s = exportModel(graph, path); !s) return s.error();
    return out;
  }
  auto file = AtomicFile::beside(path);
  if (!file) return file.error();
  std::error_code error;
  std::filesystem::copy_file(from.path, file->temporaryPath(), std::filesystem::copy_options::overwrite_existing,
                             error);
  if (error) return badInput(fmt::format("{} cannot be written: {}", path, error.message()));
  if (Status s = file->commit(); !s) return s.error();
  return out;
}

Result<ConvertReport> convert(const ConvertRequest& request, const Semantics& semantics, const Job& job) {
  auto model = open(request.model, semantics, job);
  if (!model) return model.error();
  ExportOptions how;
  const size_t noted = model->notes.size();
  if (request.inputs.isGiven()) {
    auto inputs = inputsFor(model->graph, request.inputs);
    if (!inputs) return inputs.error();
    if (Status s = recordTypes(*model, inputs->tensors, semantics.operators(), DeclaredSizes::FixedByInputs); !s)
      return s.error();
    how.inputs = std::move(inputs->tensors);
  }
  if (job.cancelled()) return Error{ErrorKind::Cancelled, "interrupted; nothing was written", {}};
  if (Status s = exportModel(model->graph, request.output, how); !s) return s.error();
  ConvertReport report{request.model.path, model->format, request.output, model->graph.nodeCount()};
  report.settled.assign(model->notes.begin() + static_cast<std::ptrdiff_t>(noted), model->notes.end());
  return report;
}

}  // namespace graft::workbench
