// Model files in: what a file holds, whichever format it has. Reading never runs the model's code.
//
//   Result<Model> m = importModel("minilm.pt", semantics);
#pragma once

#include <string>
#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/ir/semantics.h"

namespace graft {

enum class Format { TorchScript, TorchExport, Fx, Text };
/// Whether the format says which sizes may differ from call to call. Those of a trace are guessed.
constexpr bool declaresSizes(Format f) { return f == Format::TorchExport || f == Format::Text; }
std::string_view formatName(Format);  ///< "torchscript", "torch.export", "fx", "text"

struct Model {
  Graph graph;
  Format format = Format::TorchScript;
  std::string path;
  size_t fileBytes = 0;
  size_t weightBytes = 0;                      ///< of distinct weights
  std::vector<std::string> methods;            ///< others than the one shown
  std::vector<std::string> operatorLibraries;  ///< named in the file's extra records
  std::vector<std::string> notes;              ///< what the file says of the graph: a capture's break and guards
};

struct ImportOptions {
  std::string method = "forward";
};

/// The format is told by content, not by the file's name. Errors are BadInput with the cause and what to do.
Result<Model> importModel(const std::string& path, const Semantics&, const ImportOptions& = {}, const Job& = {});

/// Whether the file is what torch.save writes (tensors, weights, a pickled object), and so none of a model. False where
/// it cannot be read.
bool isSavedObject(const std::string& path);

}  // namespace graft
