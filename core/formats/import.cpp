#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "core/formats/registry.h"

namespace graft {
namespace {

/// Models of some formats have records of this name too: only meant for archives that no format matches.
bool holdsSavedObject(const ZipDirectory& zip) { return zip.find("data.pkl") && !zip.find("constants.pkl"); }

/// "model that Graft knows: neither TorchScript, torch.fx nor torch.export"
std::string knownModels(bool archivesOnly) {
  std::vector<std::string_view> titles;
  for (const Format& f : formats())
    if (f.matchesArchive || !archivesOnly) titles.push_back(f.file->title);
  const std::string_view last = titles.back();
  titles.pop_back();
  return fmt::format("model that Graft knows: neither {} nor {}", fmt::join(titles, ", "), last);
}

/// Why an archive that no format matches is not read, and what to do.
Error unknownArchive(const Source& source) {
  if (source.zip.find("serialized_exported_program.json"))
    return badInput(fmt::format(
        "{} was written by torch.export of an older PyTorch; load it there and save it with torch 2.11", source.path));
  if (holdsSavedObject(source.zip))
    return badInput(
        fmt::format("{} holds a pickled object (torch.save), which cannot be read without running it; in Python, save "
                    "the model with torch.jit.trace(model, inputs).save(...) or torch.export.save(...)",
                    source.path));
  return badInput(fmt::format("{} is an archive, but no {}", source.path, knownModels(/*archivesOnly=*/true)));
}

/// The format of the file. Reads its archive's directory into `source` where no format matches its first bytes.
Result<const Format*> formatOf(Source& source) {
  for (const Format& f : formats())
    if (f.matchesBytes && f.matchesBytes(source.file->bytes())) return &f;
  auto zip = ZipDirectory::read(source.file->bytes(), source.path, knownModels(/*archivesOnly=*/false));
  if (!zip) return zip.error();
  source.zip = std::move(*zip);
  for (const Format& f : formats())
    if (f.matchesArchive && f.matchesArchive(source.zip)) return &f;
  return unknownArchive(source);
}

}  // namespace

bool isSavedObject(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) return false;
  auto zip = ZipDirectory::read((*file)->bytes(), path);
  return zip && holdsSavedObject(*zip);
}

Result<std::vector<CapturedGraph>> capturedGraphs(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) return file.error();
  Source source{std::move(*file), {}, path};
  const auto format = formatOf(source);
  if (!format) return format.error();
  if (!(*format)->graphs) return std::vector<CapturedGraph>();
  return (*format)->graphs(source);
}

Result<std::vector<std::string>> graphNames(const std::string& path) {
  auto captured = capturedGraphs(path);
  if (!captured) return captured.error();
  std::vector<std::string> out;
  for (CapturedGraph& g : *captured) out.push_back(std::move(g.name));
  if (out.empty()) out.emplace_back("forward");
  return out;
}

Result<Model> importModel(const std::string& path, const Semantics& semantics, const ImportOptions& options,
                          const Job& job) {
  auto file = MappedFile::open(path);
  if (!file) return file.error();
  Source source{std::move(*file), {}, path};
  job.report("reading", 0, 0);
  const auto format = formatOf(source);
  if (!format) return format.error();
  auto model = (*format)->read(source, semantics, options);
  if (!model) return model;
  if (job.cancelled()) return Error{ErrorKind::Cancelled, "stopped", {}};
  model->format = (*format)->file;
  model->method = options.method;
  return model;
}

}  // namespace graft
