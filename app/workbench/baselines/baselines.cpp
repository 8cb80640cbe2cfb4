#include "app/workbench/baselines/baselines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/child.h"
#include "core/base/python.h"
#include "core/base/temporary_folder.h"
#include "core/formats/export.h"
#include "core/torch/gpu_state.h"
#include "core/torch/graph_in_dtype.h"
#include "core/torch/operator_library.h"

namespace graft::workbench {
namespace {

using nlohmann::json;

constexpr const char* exportedMode = "exported";
constexpr const char* baselinesScript =
#include "app/workbench/baselines/baselines_script.inc"
    ;
/// Runs of one turn; the first is not counted, for another process has had the caches.
constexpr int runsOfATurn = 8;

/// The median of a turn without its first run.
double ofTurn(std::vector<double> v) {
  v.erase(v.begin());
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

/// A file, and the dtype that its weights and inputs are still to be brought to ("" none).
struct ModelFile {
  std::string path, dtype;
};

/// The original as PyTorch can run it in the dtype asked for: its own file, unless that names dtypes inside. It is cast
/// once, and written where a mode needs it.
class Original {
 public:
  Original(const BaselineRequest& request, const RunOptions& options, const TemporaryFolder& folder)
      : own_{request.model, options.dtype ? std::string(dtypeName(*options.dtype)) : ""}, folder_(folder) {
    if (!options.dtype) return;
    auto cast = inDType(*request.original, *options.dtype);
    if (cast && cast->rewroteArguments) cast_ = std::move(cast->graph);
  }

  const std::string& dtype() const { return own_.dtype; }
  /// What torch.compile gets is a torch.export archive, where all types are known: PyTorch's converter does not take
  /// every TorchScript.
  ModelFile file(bool compiled) {
    if (!cast_) return own_;
    std::vector<std::string> endings{own_.path.ends_with(".pt2") ? ".pt2" : ".pt"};
    if (compiled) endings.insert(endings.begin(), ".pt2");
    for (const std::string& ending : endings) {
      const std::string path = folder_.file("original" + ending);
      if (std::filesystem::exists(path) || exportModel(*cast_, path)) return {path, own_.dtype};
    }
    return own_;  // PyTorch will say what it thinks of it
  }

 private:
  ModelFile own_;
  const TemporaryFolder& folder_;
  std::optional<Graph> cast_;
};

Status saveOnCpu(const TensorSet& inputs, const std::string& path) {
  auto onCpu = graft::convert(inputs, "cpu", std::nullopt);
  return onCpu ? saveTensors(*onCpu, path) : Status(onCpu.error());
}

Status writeExported(const Graph& rewritten, const RunOptions& options, const std::string& path) {
  if (!options.dtype) return exportModel(rewritten, path);
  auto cast = inDType(rewritten, *options.dtype);
  return cast ? exportModel(cast->graph, path) : Status(cast.error());
}

struct Process {
  BaselineTiming timing;
  std::optional<Child> child;
  std::vector<double> hostMs;  ///< of each turn
  json settings = json::object();
  std::vector<double> losses;  ///< of the first steps of a mode that trains

  Result<json> answer(const Job& job, const std::string& waiting) {
    auto line = child->readLine(job, waiting);
    if (!line) return line.error();
    json j = json::parse(*line, nullptr, false);
    if (j.is_discarded() || !j.is_object()) return badInput("the process answered: " + *line);
    if (j.contains("error")) return badInput(j["error"].get<std::string>());
    return j;
  }

  Status start(const std::string& python, const ModelFile& file, const std::string& inputs, const RunOptions& options) {
    // Where the library is not found, no rewritten model needs it.
    const auto library = findOperatorLibrary();
    std::string libraries = timing.mode == exportedMode && library ? *library : "";
    for (const UserLibrary& l : userLibraries()) libraries += ":" + l.path;
    auto started = Child::start({python, "-c", baselinesScript, timing.mode, file.path, inputs, options.device,
                                 file.dtype, std::to_string(options.threads), libraries, settings.dump()});
    if (!started) return started.error();
    child.emplace(std::move(*started));
    return done();
  }

  Status wait(const Job& job) {
    auto ready = answer(job, timing.mode + ": loading and compiling");
    if (!ready) return ready.error();
    timing.description = ready->value("description", timing.mode);
    timing.readySeconds = ready->value("loadSeconds", 0.0) + ready->value("readySeconds", 0.0);
    losses = ready->value("losses", std::vector<double>());
    return done();
  }

  Result<double> turn(const Job& job) {
    if (Status s = child->write(std::to_string(runsOfATurn)); !s) return s.error();
    auto a = answer(job, "");
    if (!a) return a.error();
    hostMs.push_back(ofTurn((*a)["wallMs"].get<std::vector<double>>()));
    return ofTurn((*a)["ms"].get<std::vector<double>>());
  }
};

/// The rewritten model's turns in this process.
struct OwnTurns {
  const ProgramWatch& watch;
  const std::string& device;
  std::vector<double> hostMs;
  std::vector<GpuState> gpu;  ///< as it was in each round, right after its kernels

  Result<double> turn() {
    using Clock = std::chrono::steady_clock;
    std::vector<double> ms, host;
    for (int i = 0; i < runsOfATurn; ++i) {
      const auto begin = Clock::now();
      auto t = watch.run();
      if (!t) return t.error();
      host.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
      ms.push_back(*t);
    }
    if (auto state = gpuState(device)) gpu.push_back(std::move(*state));
    hostMs.push_back(ofTurn(std::move(host)));
    return ofTurn(std::move(ms));
  }
};

}  // namespace

const std::vector<std::string>& baselineModes() {
  static const std::vector<std::string> modes{"eager", "jit", "compile", "compile-max-autotune", exportedMode};
  return modes;
}

const std::vector<std::string>& trainingModes() {
  static const std::vector<std::string> modes{"eager", "compile", "compile-max-autotune", "graft"};
  return modes;
}

Result<std::vector<std::string>> parseBaselines(const std::string& list, const std::vector<std::string>& modes) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string mode = list.substr(at, end - at);
    if (std::find(modes.begin(), modes.end(), mode) == modes.end())
      return Error{
          ErrorKind::Usage, fmt::format("--against {}: '{}' is none of {}", list, mode, fmt::join(modes, ", ")), {}};
    out.push_back(mode);
    at = end + 1;
  }
  return out;
}

Result<std::string> findPython(const std::string& asked, const Job& job) {
  return graft::findPython(asked, "--python", "--against", job);
}

Result<PairedTiming> timeInPython(const PythonFile& a, const PythonFile& b, const TensorSet& inputs,
                                  const RunOptions& options, const std::string& python, double seconds,
                                  const Job& job) {
  auto folder = TemporaryFolder::inSystem();
  if (!folder) return folder.error();
  const std::string inputsFile = folder->file("inputs.pt");
  if (Status s = saveOnCpu(inputs, inputsFile); !s) return s.error();
  std::vector<Process> processes(2);
  for (size_t i = 0; i < 2; ++i) {
    const PythonFile& side = i == 0 ? a : b;
    processes[i].timing.mode = side.mode;
    if (Status s = processes[i].start(python, {side.path, ""}, inputsFile, options); !s) return s.error();
  }
  for (Process& p : processes)
    if (Status s = p.wait(job); !s) return s.error();
  auto timed =
      timeTwoInTurns([&] { return processes[0].turn(job); }, [&] { return processes[1].turn(job); }, seconds, job);
  if (!timed) return timed.error();
  PairedTiming out = std::move(*timed);
  out.protocol = fmt::format("{}, {} rounds in turn in two Python processes, {} runs each (the first not counted), {}",
                             options.device, out.repetitions, runsOfATurn,
                             options.device == "cpu" ? "wall time" : "GPU time by events around the call");
  return out;
}

Result<TrainingComparison> timeTraining(const TensorSet& inputs, const RunOptions& options,
                                        const TrainingRequest& request, double seconds, const Job& job) {
  auto folder = TemporaryFolder::inSystem();
  if (!folder) return folder.error();
  const std::string inputsFile = folder->file("inputs.pt");
  if (Status s = saveOnCpu(inputs, inputsFile); !s) return s.error();
  const auto library = findOperatorLibrary();
  std::vector<Process> processes(request.modes.size());
  // One after the other: each compiles on all cores, and looks for the kernels that are fastest then.
  for (size_t i = 0; i < processes.size(); ++i) {
    Process& p = processes[i];
    p.timing.mode = "train-" + request.modes[i];
    if (!request.autocast.empty()) p.settings["autocast"] = request.autocast;
    if (request.modes[i] == "graft")
      p.settings.update({{"graft", request.graft},
                         {"library", library ? *library : ""},
                         {"package", request.package},
                         {"rules", request.rules},
                         {"recipe", request.recipe},
                         {"memory", request.memory}});
    const std::string dtype = options.dtype ? std::string(dtypeName(*options.dtype)) : "";
    Status ready = p.start(request.python, {request.model, dtype}, inputsFile, options);
    if (ready) ready = p.wait(job);
    p.timing.mode = request.modes[i];
    if (ready) continue;
    if (ready.error().kind == ErrorKind::Cancelled) return ready.error();
    p.timing.error = ready.error().message;
    p.child.reset();
  }
  std::vector<Stopwatch> sides;
  std::vector<Process*> running;
  for (Process& p : processes) {
    if (!p.child) continue;
    running.push_back(&p);
    sides.push_back([&p, &job] { return p.turn(job); });
  }
  TrainingComparison out;
  if (!sides.empty()) {
    auto timings = timeInTurns(sides, seconds, job);
    if (!timings) return timings.error();
    for (size_t i = 0; i < running.size(); ++i) {
      running[i]->timing.times = std::move((*timings)[i]);
      running[i]->timing.host = timingOf(std::move(running[i]->hostMs));
    }
    for (Process* p : running)
      for (const Process* graft : running)
        if (graft->timing.mode == "graft") p->timing.ratio = medianRatio(p->timing.times, graft->timing.times);
    for (Process* p : running)
      if (p->child->write("memory"))
        if (auto a = p->answer(job, "")) p->timing.peakBytes = a->value("bytes", size_t{0});
    out.protocol = fmt::format(
        "{}, {} rounds in turn, {} steps each (the first not counted), {}; AdamW, {}; memory: the most that a step "
        "takes beside what is there before it",
        options.device, running[0]->timing.times.samplesMs.size(), runsOfATurn,
        options.device == "cpu" ? "wall time" : "GPU time by events around the step",
        request.autocast.empty() ? "no autocast" : "autocast to " + request.autocast);
  }
  for (Process& p : processes) out.modes.push_back({std::move(p.timing), std::move(p.losses)});
  return out;
}

Result<BaselineComparison> timeAgainstBaselines(const Graph& rewritten, const TensorSet& inputs,
                                                const RunOptions& options, const BaselineRequest& request,
                                                double seconds, const Job& job) {
  auto folder = TemporaryFolder::inSystem();
  if (!folder) return folder.error();
  const std::string inputsFile = folder->file("inputs.pt"), exported = folder->file("rewritten.pt");
  if (Status s = saveOnCpu(inputs, inputsFile); !s) return s.error();
  if (std::find(request.modes.begin(), request.modes.end(), exportedMode) != request.modes.end())
    if (Status s = writeExported(rewritten, options, exported); !s) return s.error();

  auto program = Program::build(rewritten, options);
  if (!program) return program.error();
  auto own = stopwatch(*program, inputs, job);
  if (!own) return own.error();
  BaselineComparison out;
  out.how = own->how;
  out.readySeconds = own->readySeconds;

  Original original(request, options, *folder);
  std::vector<Process> processes(request.modes.size());
  for (size_t i = 0; i < processes.size(); ++i) {
    Process& p = processes[i];
    p.timing.mode = request.modes[i];
    const ModelFile file = p.timing.mode == exportedMode ? ModelFile{exported, original.dtype()}
                                                         : original.file(p.timing.mode.starts_with("compile"));
    // All load and compile at once; they are timed in turns later.
    if (Status s = p.start(request.python, file, inputsFile, options); !s) return s.error();
  }
  for (Process& p : processes) {
    const Status ready = p.wait(job);
    if (ready) continue;
    if (ready.error().kind == ErrorKind::Cancelled) return ready.error();
    p.timing.error = ready.error().message;
    p.child.reset();
  }

  OwnTurns ownTurns{*own, options.device, {}, {}};
  std::vector<Stopwatch> sides{[&] { return ownTurns.turn(); }};
  std::vector<Process*> running;
  for (Process& p : processes) {
    if (!p.child) continue;
    running.push_back(&p);
    sides.push_back([&p, &job] { return p.turn(job); });
  }
  auto timings = timeInTurns(sides, seconds, job);
  if (!timings) return timings.error();
  out.rewritten = std::move((*timings)[0]);
  out.rewrittenHost = timingOf(std::move(ownTurns.hostMs));
  out.byEvents = options.device != "cpu";
  for (size_t i = 0; i < running.size(); ++i) {
    BaselineTiming& t = running[i]->timing;
    t.times = std::move((*timings)[i + 1]);
    t.host = timingOf(std::move(running[i]->hostMs));
    t.ratio = medianRatio(t.times, out.rewritten);
    if (running[i]->child->write("memory"))
      if (auto a = running[i]->answer(job, "")) t.peakBytes = a->value("bytes", size_t{0});
  }
  for (Process& p : processes) out.baselines.push_back(std::move(p.timing));
  const std::string state = gpuStatesText(ownTurns.gpu);
  out.protocol =
      fmt::format("{}, {} rounds in turn, {} runs each (the first not counted), {}{}", options.device,
                  out.rewritten.samplesMs.size(), runsOfATurn,
                  out.byEvents ? "ms: GPU time by events around the call, host ms: by the clock until the GPU is done"
                               : "wall time",
                  state.empty() ? "" : "; in the rounds " + state);
  return out;
}

}  // namespace graft::workbench
