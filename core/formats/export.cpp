#include "core/formats/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "core/formats/registry.h"
#include "core/torch/operator_library.h"
#include "core/torch/run/capture_facts.h"

namespace graft {
namespace {

Result<const Format*> writerFor(const std::string& path) {
  std::vector<std::string> endings;
  for (const Format& f : formats()) {
    if (!f.write) continue;
    if (path.ends_with(f.file->ending)) return &f;
    endings.push_back(fmt::format("{} for {}", f.file->ending, f.file->title));
  }
  return Error{ErrorKind::Usage,
               fmt::format("cannot write a model to \"{}\": end it in {}", path, fmt::join(endings, " or ")),
               {}};
}

}  // namespace

Result<const FileFormat*> exportFormat(const std::string& path) {
  const auto format = writerFor(path);
  if (!format) return format.error();
  return (*format)->file;
}

Status exportModel(const Graph& graph, const std::string& path, const ExportOptions& options) {
  const auto format = writerFor(path);
  if (!format) return format.error();
  return (*format)->write(graph, path, options);
}

std::string captureObstacle(const Graph& g, bool mayBePlain) {
  if (!mayBePlain && !usesGraftOperators(g)) return "it uses no graft:: operator, so it loads without their library";
  return captureFacts(g).obstacle;
}

}  // namespace graft
