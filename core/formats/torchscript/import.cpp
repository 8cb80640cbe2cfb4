#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/method.h>

#include <algorithm>
#include <functional>
#include <set>

#include "core/formats/reader.h"
#include "core/formats/torchscript/convert.h"
#include "core/formats/torchscript/format.h"
#include "core/formats/torchscript/set_attribute.h"
#include "core/text/text.h"

namespace graft {
namespace {

/// Without what sets these attributes, and without warnings.
Graph withoutSetting(Graph g, const std::set<std::string>& paths, bool alsoWarnings) {
  for (const NodeId id : g.order()) {
    const Node& n = g.node(id);
    const std::string* path = setAttributePath(n);
    if ((path && paths.contains(*path)) || (alsoWarnings && n.op->name == "aten.warn.default")) g.erase(id);
  }
  return g;
}

/// A model may note something at its first run: `if not self.has_warned: ...; self.has_warned = True`. Where a second
/// run, which finds these notes, computes the same, they are nothing that a graph has to keep.
void forgetNotes(const TorchScriptConverter& converter, const std::function<Result<Graph>()>& convertAgain,
                 Graph& graph) {
  if (converter.setLiterals().empty()) return;
  std::set<std::string> paths;
  std::vector<c10::IValue> before;
  for (const auto& set : converter.setLiterals()) {
    paths.insert(set.path);
    before.push_back(set.object->getSlot(set.slot));
    set.object->setSlot(set.slot, set.value);
  }
  const auto again = convertAgain();
  for (size_t i = before.size(); i-- > 0;) {
    const auto& set = converter.setLiterals()[i];
    set.object->setSlot(set.slot, before[i]);
  }
  if (again && toText(withoutSetting(*again, paths, true)) == toText(withoutSetting(graph, paths, true)))
    graph = withoutSetting(std::move(graph), paths, false);
}

}  // namespace

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
  const auto convertAgain = [&]() -> Result<Graph> {
    Graph again;
    TorchScriptConverter second(**file, semantics.operators(), metadata ? &*metadata : nullptr, again);
    if (Status s = second.convert(options.method); !s) return s.error();
    return again;
  };
  forgetNotes(converter, convertAgain, m.graph);
  std::vector<Type> examples = metadata ? std::vector<Type>() : tracedInputs(source.zip, options.method);
  if (examples.size() != m.graph.inputs().size()) examples.clear();
  for (size_t i = 0; i < examples.size(); ++i) {
    const Type declared = m.graph.value(m.graph.inputs()[i]).type;
    if (declared.kind != examples[i].kind) examples[i] = declared;
    if (!examples[i].isTensor()) continue;
    // The file holds the input as tracing left it.
    const std::vector<NodeId>& users = m.graph.value(m.graph.inputs()[i]).users;
    if (std::any_of(users.begin(), users.end(),
                    [&](NodeId n) { return m.graph.node(n).op->is(OperatorFact::ReshapesInPlace); }))
      examples[i].tensorInfo.shape.reset();
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
