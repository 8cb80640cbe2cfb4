#include <fmt/format.h>

#include <cstring>
#include <fstream>

#include "core/base/atomic_file.h"
#include "core/formats/export.h"
#include "core/formats/torchscript/writer.h"
#include "core/torch/operator_library.h"
#include "core/torch/values/values.h"

namespace graft {

Status exportTorchScript(const Graph& graph, const std::string& path, const ExportOptions& options) {
  // Told first: a long conversion for a place that cannot be written to would be in vain.
  auto file = AtomicFile::beside(path);
  if (!file) return file.error();
  TorchScriptWriter writer(graph, options.capture && captureObstacle(graph).empty());
  auto module = writer.module();
  if (!module) {
    Error e = module.error();
    e.message = "the model cannot be written as TorchScript: " + e.message;
    return e;
  }
  torch::jit::ExtraFilesMap extra;
  ArchiveMetadata note = writer.note();
  if (usesGraftOperators(graph))
    note.operatorLibrary = options.operatorLibrary.empty() ? "libgraft_ops.so" : options.operatorLibrary;
  extra["graft.json"] = metadataJson(note);
  try {
    std::ofstream out(file->temporaryPath(), std::ios::binary | std::ios::trunc);
    module->save(out, extra);
    out.close();
    if (!out) return badInput(fmt::format("{} cannot be written: {}", path, std::strerror(errno)));
  } catch (const std::exception& e) {
    return badInput(fmt::format("{} cannot be written: {}", path, shortMessage(e)));
  }
  return file->commit();
}

}  // namespace graft
