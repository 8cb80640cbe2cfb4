// torch.export: what torch.export.save writes. An archive with the program as JSON and one record for each weight.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/formats/file_format.h"

namespace graft {

struct TorchExportFormat {
  static constexpr FileFormat file{
      .name = "torch.export", .title = "torch.export", .ending = ".pt2", .declaresSizes = true};

  static bool matches(const ZipDirectory&);
  static Result<Model> read(const Source&, const Semantics&, const ImportOptions&);
  /// A file that torch.export.load accepts; where it uses graft:: operators, after torch.ops.load_library. Needs the
  /// types of all tensors. Branches on tensors become torch.cond, loops that tensors stop become while_loop, and loops
  /// of a known number of turns are written out. Refuses other loops, and inputs that are neither tensors nor ints
  /// unless the options give their values.
  static Status write(const Graph&, const std::string& path, const ExportOptions&);
};

}  // namespace graft
