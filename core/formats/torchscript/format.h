// TorchScript: what torch.jit.save writes, for scripted and traced modules. An archive of code and pickles.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/formats/file_format.h"

namespace graft {

struct TorchScriptFormat {
  static constexpr FileFormat file{.name = "torchscript",
                                   .title = "TorchScript",
                                   .ending = ".pt",
                                   .otherEndings = {".pth", ".ts"},
                                   .sharesEnding = true,
                                   .torchJitLoads = true};

  static bool matches(const ZipDirectory&);
  static Result<Model> read(const Source&, const Semantics&, const ImportOptions&);
  /// A file that torch.jit.load accepts in plain Python; where it uses graft:: operators, after torch.ops.load_library.
  /// The module hierarchy and parameter names are kept, each call of a module is a method, and shared weights are
  /// stored once.
  static Status write(const Graph&, const std::string& path, const ExportOptions&);
};

}  // namespace graft
