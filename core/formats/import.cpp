#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/formats/importers.h"
#include "core/ir/declaration_order.h"
#include "core/ir/verify.h"
#include "core/text/text.h"

namespace graft {
namespace {

// Libraries that the file's operators need, as `graft apply` notes them in an extra record.
std::vector<std::string> librariesOf(const ZipDirectory& zip) {
  const ZipRecord* record = zip.find("extra/graft.json");
  if (!record || record->size > 1'000'000) return {};
  const auto note = nlohmann::json::parse(zip.bytes(*record), nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> out;
  if (!note.is_object()) return out;
  if (const auto one = note.find("operatorLibrary");
      one != note.end() && one->is_string() && !one->get<std::string>().empty())
    out.push_back(one->get<std::string>());
  return out;
}

bool isGraftText(std::string_view bytes) {
  const size_t start = bytes.find_first_not_of(" \t\r\n");
  return start != bytes.npos && bytes.substr(start, 6) == "graph ";
}

Result<Model> importText(const Source& source, const Semantics& semantics) {
  auto graph = parseText(source.file->bytes(), semantics.operators(), source.path);
  if (!graph) return graph.error();
  Model m;
  m.graph = std::move(*graph);
  m.format = Format::Text;
  return m;
}

/// Where it is no model of the formats that have records of this name too.
bool holdsSavedObject(const ZipDirectory& zip) { return zip.find("data.pkl") && !zip.find("constants.pkl"); }

Result<Model> importAny(Source& source, const Semantics& semantics, const ImportOptions& options) {
  if (isGraftText(source.file->bytes())) return importText(source, semantics);
  auto zip = ZipDirectory::read(source.file->bytes(), source.path);
  if (!zip) return zip.error();
  source.zip = std::move(*zip);
  const auto has = [&](std::string_view folder) {
    for (const ZipRecord& r : source.zip.records())
      if (r.name.starts_with(folder)) return true;
    return false;
  };
  if (has("code/") && source.zip.find("data.pkl")) return importTorchScript(source, semantics, options);
  if (source.zip.find("graft_fx.json")) return importFx(source, semantics, options);
  if (has("models/")) return importTorchExport(source, semantics);
  if (source.zip.find("serialized_exported_program.json"))
    return badInput(fmt::format(
        "{} was written by torch.export of an older PyTorch; load it there and save it with torch 2.11", source.path));
  if (holdsSavedObject(source.zip))
    return badInput(
        fmt::format("{} holds a pickled object (torch.save), which cannot be read without running it; in Python, save "
                    "the model with torch.jit.trace(model, inputs).save(...) or torch.export.save(...)",
                    source.path));
  return badInput(fmt::format(
      "{} is an archive, but no model that Graft knows: neither TorchScript, torch.export nor FX", source.path));
}

}  // namespace

std::string_view formatName(Format f) {
  switch (f) {
    case Format::TorchScript:
      return "torchscript";
    case Format::TorchExport:
      return "torch.export";
    case Format::Fx:
      return "fx";
    case Format::Text:
      return "text";
  }
  return "";
}

bool isSavedObject(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) return false;
  auto zip = ZipDirectory::read((*file)->bytes(), path);
  return zip && holdsSavedObject(*zip);
}

Result<Model> importModel(const std::string& path, const Semantics& semantics, const ImportOptions& options,
                          const Job& job) {
  auto file = MappedFile::open(path);
  if (!file) return file.error();
  Source source{std::move(*file), {}, path};
  job.report("reading", 0, 0);
  auto model = importAny(source, semantics, options);
  if (!model) return model;
  if (model->format != Format::Text) orderDeclarations(model->graph);
  model->path = path;
  model->fileBytes = source.file->size();
  if (model->operatorLibraries.empty()) model->operatorLibraries = librariesOf(source.zip);
  for (ValueId w : model->graph.weights())
    if (const auto& data = model->graph.value(w).data) model->weightBytes += data->byteSize();
  if (job.cancelled()) return Error{ErrorKind::Cancelled, "stopped", {}};
  if (Status s = verify(model->graph); !s) return s.error();
  return model;
}

}  // namespace graft
