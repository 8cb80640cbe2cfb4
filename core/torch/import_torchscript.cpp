#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/method.h>

#include <algorithm>

#include "core/torch/internal/importers.h"
#include "core/torch/internal/torchscript_convert.h"

namespace graft {

Result<Model> importTorchScript(const Source& source, const Semantics& semantics, const ImportOptions& options) {
  auto file = TorchScriptFile::open(source.file, source.zip, source.path);
  if (!file) return file.error();
  Model m;
  m.format = Format::TorchScript;
  for (torch::jit::Function* f : (*file)->module().type()->methods()) m.methods.push_back(f->name());
  const auto chosen = std::find(m.methods.begin(), m.methods.end(), options.method);
  if (chosen == m.methods.end()) {
    if (m.methods.empty())
      return badInput(fmt::format("{} has no methods: the module that was saved has nothing to run", source.path));
    return badInput(
        fmt::format("{} has no method {}; it has {}", source.path, options.method, fmt::join(m.methods, ", ")));
  }
  m.methods.erase(chosen);
  const std::optional<ArchiveNote> note = readNote(source.zip);
  TorchScriptConverter converter(**file, semantics.operators(), note ? &*note : nullptr, m.graph);
  if (Status s = converter.convert(options.method); !s)
    return badInput(fmt::format("{}: {}", source.path, s.error().message));
  if (Status s = normalizeImported(m.graph, semantics.operators()); !s) return s.error();
  inferConstructors(m.graph);
  applyNames(m.graph, converter.names());
  inferMissingTypes(m.graph);
  if (note) applyFacts(*note, m.graph);
  return m;
}

}  // namespace graft
