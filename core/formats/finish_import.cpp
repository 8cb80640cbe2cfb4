#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/formats/reader.h"
#include "core/ir/declaration_order.h"
#include "core/ir/verify.h"
#include "core/torch/normal/normal_steps.h"
#include "core/torch/operator_library.h"

namespace graft {
namespace {

/// The library that the model's file names, or the file of that name beside the model, where only that is there.
std::string whereItIs(const std::string& library, const std::string& model) {
  std::error_code none;
  if (std::filesystem::exists(library, none)) return library;
  const auto beside = std::filesystem::path(model).parent_path() / std::filesystem::path(library).filename();
  return std::filesystem::exists(beside, none) ? beside.string() : library;
}

/// Whether something about a tensor is not known: a branch that the run did not take, a loop that was written out.
bool hasUnknownTensors(const Graph& g) {
  return std::ranges::any_of(g.order(), [&](NodeId id) {
    return std::ranges::any_of(g.node(id).outputs, [&](ValueId v) {
      const Type& t = g.value(v).type;
      return t.isTensor() && (!t.tensorInfo.dtype || !t.tensorInfo.shape ||
                              !std::ranges::all_of(*t.tensorInfo.shape, [](const Dim& d) { return d.isKnown(); }));
    });
  });
}

Status completeGraph(Graph& g, const OperatorSet& operators, const FinishOptions& options) {
  if (options.isDecomposed) recompose(g, operators);
  if (Status s = normalizeImported(g, operators, options.functionalised); !s) return s;
  if (options.afterNormalForm) options.afterNormalForm();
  inferConstructors(g);
  applyNames(g, options.names);
  if (!options.examples.empty())
    inferFromExamples(g, options.examples);
  else if (options.inferTypes)
    inferMissingTypes(g);
  if (!options.examples.empty() || options.inferTypes) normalizeTyped(g, operators);
  if (options.metadata) applyFacts(*options.metadata, g);
  orderDeclarations(g);
  return done();
}

}  // namespace

void typesAreKnown(Model& model, const OperatorSet& operators) {
  const SettledBranches settled = normalizeRecorded(model.graph, operators);
  if (hasUnknownTensors(model.graph)) inferMissingTypes(model.graph);
  if (settled.branches > 0)
    model.notes.push_back(fmt::format(
        "The inputs' ranks and dtypes decide {} of the code's branches; the others are left out.", settled.branches));
  if (settled.checks > 0)
    model.notes.push_back(
        fmt::format("{} checks that PyTorch's own modules make of their inputs are left out.", settled.checks));
}

Status finishImport(Model& model, const Source& source, const Semantics& semantics, const FinishOptions& options) {
  Graph& g = model.graph;
  if (source.captured) {
    auto captured = std::make_shared<Graph>(g);
    applyNames(*captured, options.names);
    *source.captured = std::move(captured);
  }
  if (!options.isFinished)
    if (Status s = completeGraph(g, semantics.operators(), options); !s) return s;
  model.path = source.path;
  model.fileBytes = source.file->size();
  if (options.metadata && !options.metadata->operatorLibrary.empty())
    model.operatorLibraries.push_back(options.metadata->operatorLibrary);
  if (options.metadata)
    for (UserLibrary library : options.metadata->libraries) {
      library.path = whereItIs(library.path, source.path);
      noteLibraryOfFile(library);
      model.operatorLibraries.push_back(library.path);
    }
  for (ValueId w : g.weights())
    if (const auto& data = g.value(w).data) model.weightBytes += data->byteSize();
  return options.isFinished ? done() : verify(g);
}

}  // namespace graft
