// FX: what resources/python/graft_fx saves of torch.fx graphs and of what torch.compile captures. An archive with the
// graphs as JSON and one record for each weight.
#pragma once

#include <vector>

#include "core/base/result.h"
#include "core/formats/captured_graphs.h"
#include "core/formats/file_format.h"

namespace graft {

struct FxFormat {
  static constexpr FileFormat file{.name = "fx", .title = "torch.fx", .ending = ".fx"};

  static bool matches(const ZipDirectory&);
  /// ImportOptions::method chooses among the graphs of a capture that broke: "forward", "forward.1", ….
  static Result<Model> read(const Source&, const Semantics&, const ImportOptions&);
  /// "forward", "forward.1", …: each is rewritten by itself.
  static Result<std::vector<CapturedGraph>> graphs(const Source&);
};

}  // namespace graft
