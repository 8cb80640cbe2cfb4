// Export: model files out. A file on disk is always complete.
//
//   Result<ConvertReport> r = workbench::convert({.model = {"bert.fx"}, .output = "bert.pt2"}, semantics, job);
//   Result<WrittenModel> w = workbench::writeRewritten(graph, "fast.pt", inputs, tracedSizes(model.graph), true);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/workbench/open.h"
#include "core/base/temporary_folder.h"
#include "core/torch/operator_library.h"

namespace graft::workbench {

struct ConvertRequest {
  OpenRequest model;
  InputRequest inputs;  ///< where given, they fix all sizes
  std::string output;   ///< TorchScript for .pt, torch.export for .pt2
};
struct ConvertReport {
  std::string model;
  const FileFormat* format = nullptr;  ///< of the file that was read
  std::string output;
  size_t nodes = 0;
  std::vector<std::string> settled = {};  ///< what the inputs' ranks and dtypes decided, in words
};
/// Writes the model in another format, as it is.
Result<ConvertReport> convert(const ConvertRequest&, const Semantics&, const Job& = {});

/// The sizes of one input as tracing left them, some of them open; none: it is no tensor.
using TracedSizes = std::optional<std::vector<Dim>>;
/// Of each input; empty where tracing left no size open.
std::vector<TracedSizes> tracedSizes(const Graph&);

struct WrittenModel {
  std::string path;
  /// Why it does not run as CUDA graphs on a GPU; "": it does.
  std::string captureObstacle;
  /// The first node where it waits for the GPU, so that it cannot be one graph, and whether it has pieces that can be
  /// graphs of their own; "": it does not wait.
  std::string waits;
  bool inPieces = false;
  /// torch.export has to know how sizes follow from each other, and could not: the model takes inputs of these sizes
  /// only.
  bool sizesAreFixed = false;
  /// The library of operators that it needs; "": none, or one that was not found.
  std::string operatorLibrary;
  std::vector<UserLibrary> libraries;  ///< of the user's own that it needs
};
/// Writes a rewritten model whose types were recorded from `inputs` (which may be empty). As a torch.export program it
/// takes all `sizes` that the trace takes, where these are known.
Result<WrittenModel> writeRewritten(const Graph&, const std::string& path, const TensorSet& inputs,
                                    const std::vector<TracedSizes>& sizes, bool capture);

/// A rewritten model in a file that has not its name yet: what is timed, and thrown away where it is not wanted.
class StagedModel {
 public:
  /// Beside `output`, in a folder that goes with this object.
  static Result<StagedModel> write(const Graph&, const std::string& output, const TensorSet& inputs,
                                   const std::vector<TracedSizes>& sizes, bool capture, bool capturePlain = false);
  const std::string& path() const { return model_.path; }
  /// Gives the file its name.
  Result<WrittenModel> publish();

 private:
  StagedModel(TemporaryFolder folder, WrittenModel model, std::string output)
      : folder_(std::move(folder)), model_(std::move(model)), output_(std::move(output)) {}
  TemporaryFolder folder_;
  WrittenModel model_;
  std::string output_;
};

/// The model's own file under another name; where format or dtype are others, the same graph.
Result<WrittenModel> copyModel(const OpenRequest&, const Graph&, const std::string& path);

}  // namespace graft::workbench
