// graft batch: rewrites many models, each in a process of its own, and goes on where an earlier batch stopped.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/models.h"
#include "app/commands/options.h"
#include "app/json/documents_json.h"
#include "app/version.h"
#include "app/workbench/batch/batch.h"
#include "app/workbench/batch/cluster.h"
#include "core/base/atomic_file.h"
#include "core/base/words.h"

namespace graft::cli {
namespace {

using nlohmann::json;
using workbench::BatchOutcome;
using workbench::BatchReport;
using workbench::BatchResult;
using workbench::BatchTask;
namespace fs = std::filesystem;

struct BatchFlags {
  Console::Options printing;
  std::vector<std::string> models;
  std::string manifest, report, state, part, junit;
  workbench::ClusterRequest cluster;
  workbench::BatchDefaults defaults;
  size_t processes = 1;
  double limit = 0, seconds = 3;
  bool fresh = false, noVerify = false, wholeOnly = false, noTiming = false, noCapture = false, strict = false,
       allowUnchanged = false;
};

constexpr const char* stateName = "graft-batch.jsonl";

Result<std::vector<BatchTask>> tasksOf(const BatchFlags& o, const Console& console) {
  if (!o.part.empty()) return workbench::readPart(o.part);
  if (o.models.empty() == o.manifest.empty())
    return Error{ErrorKind::Usage, "name models and folders of models, or a manifest with --manifest", {}};
  if (!o.manifest.empty()) return workbench::readManifest(o.manifest, o.defaults);
  auto files = modelFiles(o.models, console);
  if (!files) return files.error();
  std::vector<BatchTask> out;
  for (const std::string& file : *files) {
    auto task = workbench::taskFor(file, o.defaults);
    if (!task) return task.error();
    out.push_back(std::move(*task));
  }
  return out;
}

/// The words that hold for every model, and those for models with rules.
void addFlags(BatchFlags& o) {
  const auto add = [](std::vector<std::string>& to, bool given, const char* flag) {
    if (given) to.emplace_back(flag);
  };
  add(o.defaults.flagsOfRules, o.noTiming, "--no-timing");
  add(o.defaults.flagsOfRules, o.noVerify, "--no-verify");
  add(o.defaults.flagsOfRules, o.wholeOnly, "--whole-only");
  add(o.defaults.flagsOfRules, o.strict, "--strict");
  add(o.defaults.flags, o.noCapture, "--no-capture");
  add(o.defaults.flags, o.allowUnchanged, "--allow-unchanged");
  if (!o.noTiming) o.defaults.flags.insert(o.defaults.flags.end(), {"--seconds", fmt::format("{:g}", o.seconds)});
}

Status makeFolder(const std::string& folder) {
  std::error_code e;
  fs::create_directories(folder, e);
  if (e) return badInput(fmt::format("the folder {} cannot be made: {}", folder, e.message()));
  return done();
}

/// Workers start in folders of their own.
void makeAbsolute(std::vector<BatchTask>& tasks) {
  for (BatchTask& t : tasks) {
    std::vector<std::string> paths = t.files;
    paths.insert(paths.end(), {t.model, t.output});
    for (std::string& word : t.words)
      if (std::find(paths.begin(), paths.end(), word) != paths.end()) word = fs::absolute(word).string();
    for (std::string& file : t.files) file = fs::absolute(file).string();
    t.output = fs::absolute(t.output).string();
  }
}

/// "1.32x" of the first graph, where the runs tell a difference; else "same" or "untold".
std::string speedCell(const json& timing) {
  const auto speed = timing["speed"].get<std::string>();
  return speed == "same" || speed == "untold" ? speed : fmt::format("{:.2f}x", timing.value("ratio", 0.0));
}

std::vector<std::string> row(const json& model) {
  const auto firstLine = [](const std::string& text) { return text.substr(0, text.find('\n')); };
  size_t rewrites = 0, takenBack = 0;
  std::string verified = "-", speed = "-", why = firstLine(model.value("error", ""));
  const json graphs = model.value("graphs", json::array());
  for (const json& g : graphs)
    for (const json& step : g.value("steps", json::array())) {
      rewrites += step.value("rewrites", size_t{0});
      takenBack += step.value("rolledBack", json::array()).size();
    }
  if (why.empty() && takenBack > 0) why = fmt::format("{} taken back", takenBack);
  if (!graphs.empty()) {
    const json& first = graphs.front();
    if (first.contains("verification") && !first["verification"]["passed"].is_null())
      verified = first["verification"]["passed"].get<bool>() ? "yes" : "no";
    if (first.contains("verification") && first["verification"].contains("nothingCompared")) verified = "no numbers";
    if (first.contains("timing")) speed = speedCell(first["timing"]);
  }
  const auto outcome = model["outcome"].get<std::string>();
  const bool ran = outcome != workbench::outcomeName(BatchOutcome::NotRun);
  return {model["model"].get<std::string>(),
          ran ? outcome : "not run",
          graphs.empty() ? "-" : std::to_string(rewrites),
          verified,
          speed,
          !ran                           ? "-"
          : model["resumed"].get<bool>() ? "earlier"
                                         : fmt::format("{:.1f}", model["seconds"].get<double>()),
          why};
}

/// With the model's name, which some errors begin with by themselves.
std::string errorOf(const BatchResult& r) {
  return r.error.starts_with(r.task.model + ":") ? r.error : fmt::format("{}: {}", r.task.model, r.error);
}

/// The error of the batch: that of the first model that failed, and how many did.
Status endOf(const BatchReport& report, const std::string& state) {
  if (report.isInterrupted)
    return Error{
        ErrorKind::Cancelled,
        fmt::format("interrupted after {} of {} models{}", report.results.size() - report.count(BatchOutcome::NotRun),
                    report.results.size(), state.empty() ? "" : "; the same command goes on from there"),
        {}};
  const size_t failed = report.count(BatchOutcome::Failed);
  for (const BatchResult& r : report.results)
    if (r.outcome == BatchOutcome::Failed)
      return Error{kindOfExitCode(r.exitCode),
                   fmt::format("{} of {} models failed, the first: {}", failed, report.results.size(), errorOf(r)),
                   {}};
  return done();
}

Ending batch(BatchFlags& o) {
  const Console console(o.printing);
  addFlags(o);
  auto tasks = tasksOf(o, console);
  if (!tasks) return tasks.error();
  if (Status s = workbench::checkOutputs(*tasks); !s) return s;
  for (const BatchTask& t : *tasks)
    if (const fs::path folder = fs::path(t.output).parent_path(); !folder.empty())
      if (Status s = makeFolder(folder); !s) return s;
  if (o.state.empty())
    o.state = (o.defaults.outputFolder.empty() ? fs::path(o.manifest).replace_extension(".state.jsonl")
                                               : fs::path(o.defaults.outputFolder) / stateName)
                  .string();
  std::error_code none;
  if (o.fresh) fs::remove(o.state, none);
  if (!o.report.empty())
    if (auto probe = AtomicFile::beside(o.report); !probe) return probe.error();
  if (!o.junit.empty())
    if (auto probe = AtomicFile::beside(o.junit); !probe) return probe.error();
  if ((o.processes > 1 || !o.cluster.scheduler.empty()) && !o.noTiming)
    console.note("Several models run at a time, so their times disturb each other; with -j 1 they do not.");
  if (!o.cluster.scheduler.empty()) makeAbsolute(*tasks);
  const workbench::BatchRequest request{
      fs::read_symlink("/proc/self/exe").string(), versionText(), *tasks, o.processes, o.state, o.limit};
  const auto onResult = [&](const BatchResult& r) {
    if (r.outcome == BatchOutcome::Failed)
      console.warn("graft: " + errorOf(r));
    else if (!r.isFromState)
      console.note(fmt::format("{}: {} ({:.1f} s)", r.task.model, workbench::outcomeName(r.outcome), r.seconds));
  };
  auto report = o.cluster.scheduler.empty() ? workbench::runBatch(request, onResult, console.job())
                                            : workbench::runOnCluster(request, o.cluster, onResult, console.job());
  if (!report) return report.error();
  const json document = workbench::toJson(*report);
  const std::string text = workbench::document(document);
  if (!o.report.empty())
    if (Status s = writeFileAtomically(o.report, text + "\n"); !s) return s;
  JUnitFile junit(o.junit, "graft batch");
  for (const BatchResult& r : report->results) {
    std::optional<Error> error;
    if (r.outcome == BatchOutcome::Failed) error = Error{kindOfExitCode(r.exitCode), r.error, {}};
    junit.add(r.task.model, r.seconds, error,
              r.outcome == BatchOutcome::NotRun      ? "not run"
              : r.outcome == BatchOutcome::Unchanged ? "nothing was rewritten"
                                                     : "");
  }
  if (Status s = junit.write(); !s) return s;
  std::vector<std::vector<std::string>> rows{{"model", "result", "rewrites", "verified", "speed", "s", "note"}};
  for (const json& model : document["models"]) rows.push_back(row(model));
  console.print(table(rows));
  console.print(fmt::format("{} done, {} unchanged, {} failed, {} not run, in {:.1f} s; {} keeps the state",
                            report->count(BatchOutcome::Done), report->count(BatchOutcome::Unchanged),
                            report->count(BatchOutcome::Failed), report->count(BatchOutcome::NotRun), report->seconds,
                            o.state));
  console.document(text);
  return endOf(*report, o.state);
}

}  // namespace

void addBatch(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand(
      "batch", "Rewrite or optimize many models, each in a process of its own; goes on where an earlier batch stopped");
  auto o = std::make_shared<BatchFlags>();
  c->add_option("models", o->models, "Models, or folders of them; x.inputs.pt beside x.pt holds its inputs")
      ->type_name("MODEL");
  c->add_option("--manifest", o->manifest,
                "JSON Lines: an object for each model with its \"model\", and what differs for it: output, inputs, "
                "input, rules, recipe, fusion, method, device, dtype, expect, library")
      ->type_name("FILE.jsonl");
  c->add_option("--rules", o->defaults.rules,
                "The rule file of models that name no other; models without one are optimized by Graft's own recipes")
      ->type_name("FILE");
  c->add_option("--recipe", o->defaults.recipe, "The recipe to run; without it, all rules of the file run");
  addFusionOption(*c, o->defaults.fusion);
  c->add_option("-o,--output", o->defaults.outputFolder, "The folder for the rewritten models; it is made where needed")
      ->type_name("FOLDER");
  c->add_option("-j,--processes", o->processes, "How many models at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  c->add_option("--on", o->cluster.scheduler,
                "Give the models to a scheduler: dask, slurm or ray. Its workers must see the same files")
      ->check(CLI::IsMember({"dask", "slurm", "ray"}));
  c->add_option("--workers", o->cluster.workers,
                "With --on: how many workers to start on this machine, or at most at a time with Slurm; without it as "
                "many as it has cores, or as Slurm allows")
      ->check(CLI::Range(1, 100000));
  c->add_option("--address", o->cluster.address,
                "With --on dask or ray: a scheduler that runs already, like tcp://host:8786")
      ->type_name("ADDRESS");
  c->add_option("--python", o->cluster.python, "With --on: the Python that has the scheduler's package")
      ->type_name("PROGRAM");
  c->add_option("--part", o->part, "A part of a batch, as --on writes it")->group("");
  c->add_option("--state", o->state,
                fmt::format("The file that keeps what is done; without it {} in the folder of -o", stateName))
      ->type_name("FILE.jsonl");
  c->add_flag("--fresh", o->fresh, "Begin anew: forget the state of an earlier batch");
  c->add_option("--limit", o->limit, "Stop a model after that many seconds; it has failed then. 0: no limit")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  c->add_option("--report", o->report, "Write the report of all models as JSON (docs/json describes it)")
      ->type_name("R.json");
  addJUnitOption(*c, o->junit);
  c->add_option("--device", o->defaults.device, "Where to run: cpu, cuda or cuda:N");
  c->add_option("--dtype", o->defaults.dtype, "Cast floating-point weights and inputs to this dtype");
  c->add_option("--library", o->defaults.libraries, "Load a library of your own operators first; once for each")
      ->type_name("LIB.so|MODULE.py")
      ->allow_extra_args(false);
  c->add_option("--seconds", o->seconds, "How long to time each pair of models")->capture_default_str();
  c->add_flag("--no-timing", o->noTiming, "Time no model");
  c->add_flag("--no-verify", o->noVerify, "Compare no numbers; the report then says so");
  c->add_flag("--whole-only", o->wholeOnly, "Compare whole models only, not each rewrite on its own");
  c->add_flag("--allow-unchanged", o->allowUnchanged, "Copy models in which nothing was rewritten");
  c->add_flag("--no-capture", o->noCapture, "Write models that do not run as CUDA graphs on a GPU");
  c->add_flag("--strict", o->strict, "A match that cannot be rewritten fails its model");
  c->add_flag("--json", o->printing.json, "Print the report as one JSON document (docs/json describes it)");
  c->add_flag("-q,--quiet", o->printing.quiet, "Leave out progress and notes on stderr");
  c->footer("A model that fails stops no other. The exit code is 0, or that of the first model that failed.");
  c->callback([&run, o] { run = [o] { return batch(*o); }; });
}

}  // namespace graft::cli
