#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/formats/captured_graphs.h"
#include "core/formats/registry.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

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

constexpr std::string_view captureEnding = ".fx";

/// The captures in a folder, by name.
std::vector<fs::path> capturesIn(const std::string& folder) {
  std::vector<fs::path> out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (entry.path().extension() == captureEnding && entry.is_regular_file(none)) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

Error noCaptures(const std::string& folder) {
  return badInput(fmt::format("{} is a directory, and no file in it ends in {}", folder, captureEnding));
}

/// Of a folder's graph "step_2/forward.1": the file step_2.fx, and its graph forward.1.
Result<std::pair<std::string, std::string>> inFolder(const std::string& folder, const std::string& graph) {
  const std::vector<fs::path> files = capturesIn(folder);
  if (files.empty()) return noCaptures(folder);
  const size_t slash = graph.find('/');
  std::vector<std::string> names;
  for (const fs::path& file : files) {
    if (slash != graph.npos && file.stem() == graph.substr(0, slash))
      return std::pair(file.string(), graph.substr(slash + 1));
    names.push_back(file.stem().string() + "/forward");
  }
  return badInput(
      fmt::format("{} is a folder of captures: name one of its graphs, such as {}", folder,
                  fmt::join(names.begin(), names.begin() + std::min<std::ptrdiff_t>(3, std::ssize(names)), ", ")));
}

bool isFolder(const std::string& path) {
  std::error_code none;
  return fs::is_directory(path, none);
}

}  // namespace

bool isSavedObject(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) return false;
  auto zip = ZipDirectory::read((*file)->bytes(), path);
  return zip && holdsSavedObject(*zip);
}

Result<std::vector<CapturedGraph>> capturedGraphs(const std::string& path) {
  if (isFolder(path)) {
    std::vector<CapturedGraph> out;
    for (const fs::path& file : capturesIn(path)) {
      auto graphs = capturedGraphs(file.string());
      if (!graphs) return graphs.error();
      for (CapturedGraph& g : *graphs) {
        g.name = file.stem().string() + "/" + g.name;
        out.push_back(std::move(g));
      }
    }
    if (out.empty()) return noCaptures(path);
    return out;
  }
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

namespace {

/// `captured`: null, or what becomes the graph as the file has it.
Result<Model> import(const std::string& path, const Semantics& semantics, const ImportOptions& options,
                     std::shared_ptr<const Graph>* captured, const Job& job) {
  if (isFolder(path)) {
    const auto place = inFolder(path, options.method);
    if (!place) return place.error();
    ImportOptions inside = options;
    inside.method = place->second;
    auto model = import(place->first, semantics, inside, captured, job);
    if (model) model->method = options.method;
    return model;
  }
  auto file = MappedFile::open(path);
  if (!file) return file.error();
  Source source{std::move(*file), {}, path};
  source.captured = captured;
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

}  // namespace

Result<Model> importModel(const std::string& path, const Semantics& semantics, const ImportOptions& options,
                          const Job& job) {
  return import(path, semantics, options, nullptr, job);
}

Result<std::shared_ptr<const Graph>> importAsCaptured(const std::string& path, const Semantics& semantics,
                                                      const std::string& method, const Job& job) {
  std::shared_ptr<const Graph> captured;
  const auto model = import(path, semantics, {method}, &captured, job);
  if (!model) return model.error();
  return captured;
}

}  // namespace graft
