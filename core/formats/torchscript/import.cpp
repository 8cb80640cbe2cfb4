#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/method.h>

#include <algorithm>

#include "core/formats/reader.h"
#include "core/formats/torchscript/convert.h"
#include "core/formats/torchscript/format.h"

namespace graft {

bool TorchScriptFormat::matches(const ZipDirectory& zip) { return zip.hasFolder("code") && zip.find("data.pkl"); }

Result<Model> TorchScriptFormat::read(const Source& source, const Semantics& semantics, const ImportOptions& options) {
  auto file = TorchScriptFile::open(source.file, source.zip, source.path);
  if (!file) return file.error();
  Model m;
  for (torch::jit::Function* f : (*file)->module().type()->methods()) m.methods.push_back(f->name());
  const auto chosen = std::find(m.methods.begin(), m.methods.end(), options.method);
  if (chosen == m.methods.end()) {
    if (m.methods.empty())
      return badInput(fmt::format("{} has no methods: the module that was saved has nothing to run", source.path));
    return badInput(
        fmt::format("{} has no method {}; it has {}", source.path, options.method, fmt::join(m.methods, ", ")));
  }
  m.methods.erase(chosen);
  const std::optional<ArchiveMetadata> metadata = readMetadata(source.zip);
  TorchScriptConverter converter(**file, semantics.operators(), metadata ? &*metadata : nullptr, m.graph);
  if (Status s = converter.convert(options.method); !s)
    return badInput(fmt::format("{}: {}", source.path, s.error().message));
  std::vector<Type> examples = metadata ? std::vector<Type>() : tracedInputs(source.zip, options.method);
  if (examples.size() != m.graph.inputs().size()) examples.clear();
  for (size_t i = 0; i < examples.size(); ++i) {
    const Type declared = m.graph.value(m.graph.inputs()[i]).type;
    if (declared.kind != examples[i].kind) examples[i] = declared;
    if (!examples[i].isTensor()) continue;
    Type known = examples[i];  // without sizes, which are only examples: inferFromExamples gets them
    if (known.tensorInfo.shape) known.tensorInfo.shape->assign(known.tensorInfo.shape->size(), Dim());
    m.graph.setType(m.graph.inputs()[i], std::move(known));
  }
  const FinishOptions finish{
      .names = converter.names(), .examples = std::move(examples), .metadata = metadata ? &*metadata : nullptr};
  if (Status s = finishImport(m, source, semantics, finish); !s) return s.error();
  return m;
}

}  // namespace graft
