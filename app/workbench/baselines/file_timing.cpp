#include "app/workbench/baselines/file_timing.h"

#include <fmt/format.h>

#include <memory>

#include "app/workbench/baselines/baselines.h"
#include "core/base/python.h"
#include "core/base/temporary_folder.h"
#include "core/formats/export.h"

namespace graft::workbench {
namespace {

using Request = FileTimingRequest;

/// Both graphs in Graft's own executor, where the written file itself cannot be timed.
Result<AgainstOriginal> timeGraphs(const Request& r, std::string why, const Job& job) {
  auto slow = Program::build(r.originalGraph, r.options);
  if (!slow) return slow.error();
  auto fast = Program::build(r.rewritten, r.options);
  if (!fast) return fast.error();
  auto t = timePaired(*slow, *fast, r.inputs, r.seconds, job);
  if (!t) return t.error();
  const std::string how = r.options.device == "cpu" ? "operator by operator" : "captured";
  return AgainstOriginal{std::move(*t), fmt::format("original ({})", how),
                         fmt::format("rewritten ({}, not the written file)", how), std::move(why)};
}

/// PyTorch runs the file's forward.
bool pytorchRuns(const Model& m) { return m.format->torchJitLoads && m.method == "forward"; }

std::string whereOf(const RunOptions& o) {
  return fmt::format("{}, {}", o.device, o.threads > 0 ? fmt::format("{} threads", o.threads) : "default threads");
}

Result<AgainstOriginal> timeTorchScript(const Request& r, const Job& job) {
  auto file = loadedTorchScript(r.written, r.inputs, r.options);
  if (!file) return timeGraphs(r, file.error().message, job);
  if (Status ran = (*file)(); !ran) return timeGraphs(r, ran.error().message, job);
  auto original = r.originalRun ? Result<NamedRun>(*r.originalRun)
                                : runOfOriginal(r.original, r.originalGraph, r.inputs, r.options, job);
  if (!original) return original.error();
  constexpr int few = 3;
  const bool isSlow = r.mostSeconds > 0 && leastSeconds(original->run, *file) > r.mostSeconds;
  auto t = timePaired(original->run, *file, r.seconds, job, whereOf(r.options), isSlow ? few : usualPairs);
  if (!t) return t.error();
  return AgainstOriginal{std::move(*t), std::move(original->name), "written file (TorchScript)", {}};
}

/// In Python processes: only Python loads what torch.export wrote.
Result<AgainstOriginal> timeProgram(const Request& r, const TemporaryFolder& folder, const Job& job) {
  auto python = graft::findPython("", "", "timing what torch.export wrote", job);
  if (!python) {
    if (python.error().kind == ErrorKind::Cancelled) return python.error();
    return timeGraphs(r, "only Python runs torch.export's files, and no Python with PyTorch was found", job);
  }
  const bool isScript = pytorchRuns(r.original);
  PythonFile original{isScript ? "jit" : "eager", r.original.path};
  if (r.options.dtype || (!isScript && !r.original.path.ends_with(".pt2"))) {
    original.path = folder.file(isScript ? "original.pt" : "original.pt2");
    if (Status s = exportModel(r.originalGraph, original.path); !s) return timeGraphs(r, s.error().message, job);
  }
  auto t = timeInPython(original, {"exported", r.written}, r.inputs, r.options, *python, r.seconds, job);
  if (!t && t.error().kind == ErrorKind::Cancelled) return t.error();
  if (!t) return timeGraphs(r, t.error().message, job);
  return AgainstOriginal{std::move(*t),
                         isScript ? "original (frozen TorchScript, in Python)" : "original (torch.export, in Python)",
                         "written file (torch.export, in Python)",
                         {}};
}

}  // namespace

Result<NamedRun> runOfOriginal(const Model& model, const Graph& graph, const TensorSet& inputs,
                               const RunOptions& options, const Job& job) {
  if (options.device == "cpu") {
    if (pytorchRuns(model))
      if (auto own = frozenTorchScript(model.path, inputs, options); own && (*own)().ok())
        return NamedRun{std::move(*own), "original (frozen TorchScript)"};
    // A file may name the dtypes it was traced with, and other formats are none that TorchScript loads.
    auto folder = TemporaryFolder::inSystem();
    if (!folder) return folder.error();
    const std::string path = folder->file("original.pt");
    RunOptions asWritten = options;
    asWritten.dtype.reset();
    if (exportModel(graph, path).ok())
      if (auto own = frozenTorchScript(path, inputs, asWritten); own && (*own)().ok())
        return NamedRun{std::move(*own), "original (written as TorchScript, frozen)"};
  }
  auto built = Program::build(graph, options);
  if (!built) return built.error();
  const auto program = std::make_shared<Program>(std::move(*built));
  auto watch = stopwatch(*program, inputs, job);
  if (!watch) return watch.error();
  const std::string how = options.device == "cpu" ? "operator by operator" : watch->how;
  const auto run = [program, run = watch->run]() -> Status {
    auto t = run();
    return t ? done() : Status(t.error());
  };
  return NamedRun{{run}, fmt::format("original ({})", how)};
}

Result<AgainstOriginal> timeWrittenFile(const FileTimingRequest& request, const Job& job) {
  if (!request.written.ends_with(".pt2")) return timeTorchScript(request, job);
  auto folder = TemporaryFolder::inSystem();
  if (!folder) return folder.error();
  return timeProgram(request, *folder, job);
}

}  // namespace graft::workbench
