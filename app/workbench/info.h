// Info: what a model file is and holds; its graph as rules leave it; the operators that Graft brings along.
//
//   Result<ModelInfo> info = workbench::info({"minilm.pt"}, semantics, job);
//   Result<ShownModel> shown = workbench::show({.model = {"minilm.pt"}, .rules = "rules.py"}, semantics, job);
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/workbench/open.h"
#include "app/workbench/rules.h"
#include "core/text/fx_table.h"
#include "core/torch/cuda_runner.h"
#include "core/torch/operator_library.h"

namespace graft::workbench {

struct ModelInfo {
  Model model;  ///< with its file's size, other methods, operator libraries and notes
  size_t weightElements = 0;
  std::map<std::string, size_t> operators;  ///< how often each is called
  std::map<std::string, size_t> modules;    ///< how often modules of each type are called; "": of no known type
  std::vector<MissingOperator> missing;     ///< that this machine does not have: the model does not run
  Capturing capture;                        ///< whether a GPU can run it as a CUDA graph
};
Result<ModelInfo> info(const OpenRequest&, const Semantics&, const Job& = {});

struct ShowRequest {
  OpenRequest model;
  InputRequest inputs;        ///< where given, one run on them records types
  std::string rules, recipe;  ///< a rule file, and a recipe of it as loadRecipe takes it; "": the graph as it is
  bool isForGpu = false;      ///< the recipe plans for a GPU, whether there is one here or not
};
struct ShownModel {
  Graph graph;
  /// Whether rules were run on it: nothing has compared the result with the model.
  bool isRewritten = false;
  bool foundNothing = false;  ///< the rules found no place
  std::optional<ChosenRecipe> rules;
  CallNames keptModules;  ///< modules that replacements keep, by path, and what they call them
};
Result<ShownModel> show(const ShowRequest&, const Semantics&, const Job& = {});

/// One of the operators in libgraft_ops.so.
struct KernelInfo {
  std::string name, schema, doc;
  std::vector<std::string> runsOn;  ///< devices
  std::string needs;                ///< what dtypes and shapes make it fast
};
/// An error where the library is not found.
Result<std::vector<KernelInfo>> kernels();

}  // namespace graft::workbench
