#include "core/formats/reader.h"
#include "core/formats/text/format.h"
#include "core/text/text.h"

namespace graft {

bool TextFormat::matches(std::string_view firstBytes) {
  const size_t start = firstBytes.find_first_not_of(" \t\r\n");
  return start != firstBytes.npos && firstBytes.substr(start, 6) == "graph ";
}

Result<Model> TextFormat::read(const Source& source, const Semantics& semantics, const ImportOptions&) {
  auto graph = parseText(source.file->bytes(), semantics.operators(), source.path);
  if (!graph) return graph.error();
  Model m;
  m.graph = std::move(*graph);
  if (Status s = finishImport(m, source, semantics, {.isFinished = true}); !s) return s.error();
  return m;
}

}  // namespace graft
