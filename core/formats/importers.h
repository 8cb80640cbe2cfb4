// The importers of each format behind importModel, and what they share.
#pragma once

#include <memory>

#include "core/archive/zip_directory.h"
#include "core/formats/model.h"

namespace graft {

struct Source {
  std::shared_ptr<MappedFile> file;
  ZipDirectory zip;
  std::string path;
};

Result<Model> importTorchScript(const Source&, const Semantics&, const ImportOptions&);
Result<Model> importTorchExport(const Source&, const Semantics&);
Result<Model> importFx(const Source&, const Semantics&, const ImportOptions&);

}  // namespace graft
