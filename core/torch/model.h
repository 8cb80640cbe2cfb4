// Model files in: what a file holds, whichever format it has. Reading never runs the model's code.
//
//   Result<Model> m = importModel("minilm.pt", semantics);
#pragma once

#include <memory>
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

/// LibTorch's answers: operators from its registries, types by running on meta tensors, constants by running on
/// weights.
std::unique_ptr<Semantics> makeTorchSemantics();

/// Writes the types of all values that follow from those of the inputs (symbolic dimensions allowed), by running the
/// operators on meta tensors. Values that only running can tell keep the type they have. An error names the node that
/// refuses its arguments.
Status inferAllTypes(Graph&, const std::vector<Type>& inputTypes);

/// Where our own operators' library lies: the one that is loaded, else $GRAFT_OPS, else libgraft_ops.so in a folder lib
/// beside or above the program. BadInput where it is in none of these.
Result<std::string> findOperatorLibrary();
/// Loads a shared library of operators (libgraft_ops.so or a user's), by path; "" is our own, which is found as above.
/// Loading twice is harmless.
Status loadOperatorLibrary(const std::string& path = "");
/// What our own library says of its operators, as JSON; null before it is loaded.
const char* describeOperatorLibrary();

}  // namespace graft
