#include "core/formats/export.h"

#include <fmt/format.h>

#include "core/torch/operator_library.h"
#include "core/torch/run/capture_facts.h"

namespace graft {

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

}  // namespace graft
