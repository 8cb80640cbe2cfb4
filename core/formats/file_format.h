// FileFormat: what one kind of model file is called, and how the names of its files end. Plain data without LibTorch,
// because the window reads it too. format_list.h has the list of all of them.
//
//   for (const FileFormat& f : fileFormats) fmt::print("{} (*{})\n", f.title, f.ending);
#pragma once

#include <array>
#include <string_view>

namespace graft {

// What the functions of the formats' descriptions take and give.
class Graph;
class Semantics;
class ZipDirectory;
struct ExportOptions;
struct ImportOptions;
struct Model;
struct Source;

struct FileFormat {
  std::string_view name;   ///< in reports and JSON: "torchscript"
  std::string_view title;  ///< in messages and dialogs: "TorchScript"
  /// ".pt": Graft writes this ending, and takes a file of this ending in a folder for a model. Empty where a format has
  /// no ending of its own.
  std::string_view ending;
  std::array<std::string_view, 2> otherEndings = {};  ///< dialogs that open models offer these as well
  /// torch.save gives tensors and weights the same ending: only a file's content says whether it is a model.
  bool sharesEnding = false;
  /// The file says which sizes may differ from call to call. Those of a trace are guessed.
  bool declaresSizes = false;
  bool torchJitLoads = false;  ///< PyTorch's TorchScript interpreter runs the file as it is
  bool canWrite = false;       ///< format_list.h sets it, for formats that have a function `write`
};

}  // namespace graft
