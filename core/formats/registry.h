// The registry of model formats: what importModel and exportModel ask for the functions of a format. registry.cpp makes
// it from format_list.h; nothing registers itself when the program starts, so static linking loses none.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/captured_graphs.h"
#include "core/formats/file_format.h"
#include "core/formats/reader.h"

namespace graft {

struct Format {
  const FileFormat* file = nullptr;  ///< its entry in fileFormats
  // A format has one of these two: it is told by a file's first bytes, or by what an archive holds.
  bool (*matchesBytes)(std::string_view) = nullptr;
  bool (*matchesArchive)(const ZipDirectory&) = nullptr;
  Result<Model> (*read)(const Source&, const Semantics&, const ImportOptions&) = nullptr;
  /// The graphs of one capture, first "forward"; null where a file is one model.
  Result<std::vector<CapturedGraph>> (*graphs)(const Source&) = nullptr;
  Status (*write)(const Graph&, const std::string& path, const ExportOptions&) = nullptr;  ///< null: it is only read
};

/// In the order of format_list.h.
std::span<const Format> formats();

}  // namespace graft
