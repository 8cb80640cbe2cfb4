// Graft's canonical text (core/text), as `graft text` prints it: a graph without the weights' data.
#pragma once

#include <string_view>

#include "core/base/result.h"
#include "core/formats/file_format.h"

namespace graft {

struct TextFormat {
  static constexpr FileFormat file{
      .name = "text", .title = "Graft's text", .ending = "", .otherEndings = {".txt"}, .declaresSizes = true};

  static bool matches(std::string_view firstBytes);
  static Result<Model> read(const Source&, const Semantics&, const ImportOptions&);
};

}  // namespace graft
