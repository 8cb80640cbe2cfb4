// Model files in: what a file holds, whichever format it has. Reading never runs the model's code.
//
//   Result<Model> m = importModel("minilm.pt", semantics);
//   fmt::print("{}: {} nodes\n", m->format->title, m->graph.nodeCount());
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"
#include "core/formats/file_format.h"
#include "core/ir/graph.h"
#include "core/ir/semantics.h"
#include "core/training/signature.h"

namespace graft {

struct Model {
  Graph graph;
  const FileFormat* format = nullptr;  ///< an entry of fileFormats (format_list.h); importModel sets it
  std::string path;
  std::string method = "forward";  ///< which of the file's methods or graphs `graph` is
  size_t fileBytes = 0;
  size_t weightBytes = 0;                      ///< of distinct weights
  std::vector<std::string> methods;            ///< the file's other methods or graphs
  std::vector<std::string> operatorLibraries;  ///< that the file says its operators need
  std::optional<TrainingSignature> signature;  ///< of a captured training step
  std::vector<std::string> notes;  ///< what is said about the graph: a capture's break and guards, branches left out
};

struct ImportOptions {
  std::string method = "forward";
};

/// Tells the format by the file's content, not by its name. Errors are BadInput with the cause and what to do.
Result<Model> importModel(const std::string& path, const Semantics&, const ImportOptions& = {}, const Job& = {});

/// The graphs that a file holds of one capture, first "forward"; "forward" alone where it is a model of any other kind,
/// whose further methods are told by Model::methods. Errors are those of importModel.
Result<std::vector<std::string>> graphNames(const std::string& path);

/// Once a run has recorded types: the steps of the normal form that ask for them. Ranks and dtypes choose the branches
/// of scripted code; what that takes away stands in the model's notes.
void typesAreKnown(Model&, const OperatorSet&);

/// Whether the file holds what torch.save writes (tensors, weights, a pickled object) and so no model. False where it
/// cannot be read.
bool isSavedObject(const std::string& path);

}  // namespace graft
