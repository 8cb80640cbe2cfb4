#include <fmt/format.h>
#include <torch/csrc/jit/serialization/export.h>

#include "core/base/atomic_file.h"
#include "core/formats/archive_sink.h"
#include "core/formats/export.h"
#include "core/formats/torchscript/format.h"
#include "core/formats/torchscript/writer.h"
#include "core/torch/operator_library.h"
#include "core/torch/values/values.h"

namespace graft {

Status TorchScriptFormat::write(const Graph& graph, const std::string& path, const ExportOptions& options) {
  // Opened first: where the path cannot be written to, no time goes into the conversion.
  auto file = AtomicFile::beside(path);
  if (!file) return file.error();
  const bool isCaptured = options.capture && captureObstacle(graph, options.capturePlain).empty();
  TorchScriptWriter writer(graph, isCaptured);
  auto module = writer.module();
  if (!module) {
    Error e = module.error();
    e.message = "the model cannot be written as TorchScript: " + e.message;
    return e;
  }
  torch::jit::ExtraFilesMap extra;
  ArchiveMetadata metadata = writer.metadata();
  if (isCaptured || usesGraftOperators(graph))
    metadata.operatorLibrary = options.operatorLibrary.empty() ? "libgraft_ops.so" : options.operatorLibrary;
  extra["graft.json"] = metadataJson(metadata);
  try {
    ArchiveSink sink(file->temporaryPath());
    torch::jit::ExportModule(*module, sink.writer(), extra);
    if (Status s = sink.finish(path); !s) return s;
  } catch (const std::exception& e) {
    return badInput(fmt::format("{} cannot be written: {}", path, shortMessage(e)));
  }
  return file->commit();
}

}  // namespace graft
