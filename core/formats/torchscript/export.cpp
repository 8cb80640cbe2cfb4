#include <fmt/format.h>

#include <cstring>
#include <fstream>

#include "core/base/atomic_file.h"
#include "core/formats/torchscript/writer.h"
#include "core/torch/export.h"
#include "core/torch/run/capture_facts.h"
#include "core/torch/values/values.h"

namespace graft {

bool usesGraftOperators(const Graph& g) {
  for (NodeId id : g.order())
    if (g.node(id).op->name.starts_with("graft.")) return true;
  return false;
}

Result<Format> exportFormat(const std::string& path) {
  if (path.ends_with(".pt2")) return Format::TorchExport;
  if (path.ends_with(".pt")) return Format::TorchScript;
  return Error{
      ErrorKind::Usage,
      fmt::format("cannot write a model to \"{}\": end it in .pt for TorchScript or .pt2 for torch.export", path),
      {}};
}

Status exportModel(const Graph& graph, const std::string& path, const ExportOptions& options) {
  auto format = exportFormat(path);
  if (!format) return format.error();
  return *format == Format::TorchExport ? exportTorchExport(graph, path, options)
                                        : exportTorchScript(graph, path, options);
}

std::string captureObstacle(const Graph& g) {
  if (!usesGraftOperators(g)) return "it uses no graft:: operator, so it loads without their library";
  return captureFacts(g).obstacle;
}

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
