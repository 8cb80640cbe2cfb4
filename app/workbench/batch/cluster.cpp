#include "app/workbench/batch/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/workbench/batch/state.h"
#include "core/base/atomic_file.h"
#include "core/base/child.h"
#include "core/base/python.h"

namespace graft::workbench {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* clusterScript =
#include "app/workbench/batch/cluster_script.inc"
    ;
/// Enough for each worker to have several, and few enough that a part's own start does not count.
constexpr size_t mostParts = 128;
constexpr double secondsToCancel = 20;

struct Part {
  std::vector<size_t> tasks;
  std::string file, state;
};

/// What an earlier batch's parts have done that was ended before it could say so.
Status takeLeftOvers(BatchState& state, const std::string& folder) {
  std::error_code none;
  std::vector<std::string> states;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (entry.path().string().ends_with(".state.jsonl")) states.push_back(entry.path().string());
  for (const std::string& path : states)
    if (Status s = state.absorb(path); !s) return s;
  fs::remove_all(folder, none);
  return done();
}

Result<std::vector<Part>> writeParts(const BatchRequest& request, const std::vector<size_t>& waiting,
                                     const std::string& folder) {
  std::error_code e;
  fs::create_directories(folder, e);
  if (e) return badInput(fmt::format("the folder {} cannot be made: {}", folder, e.message()));
  const size_t size = (waiting.size() + mostParts - 1) / mostParts;
  std::vector<Part> parts;
  for (size_t begin = 0; begin < waiting.size(); begin += size) {
    Part part;
    part.tasks.assign(waiting.begin() + static_cast<std::ptrdiff_t>(begin),
                      waiting.begin() + static_cast<std::ptrdiff_t>(std::min(begin + size, waiting.size())));
    part.file = fmt::format("{}/{}.json", folder, parts.size());
    part.state = fmt::format("{}/{}.state.jsonl", folder, parts.size());
    std::vector<BatchTask> tasks;
    for (const size_t i : part.tasks) tasks.push_back(request.tasks[i]);
    if (Status s = writePart(part.file, tasks); !s) return s.error();
    parts.push_back(std::move(part));
  }
  return parts;
}

/// What the script reads: absolute paths, for workers start elsewhere.
std::string requestText(const BatchRequest& request, const ClusterRequest& cluster, const std::vector<Part>& parts,
                        const std::string& folder) {
  json commands = json::array();
  for (const Part& part : parts) {
    json command{request.program, "batch",   "--part",
                 part.file,       "--state", part.state,
                 "--quiet",       "-j",      std::to_string(request.processes)};
    if (request.limit > 0) command.insert(command.end(), {"--limit", fmt::format("{:g}", request.limit)});
    commands.push_back(std::move(command));
  }
  const size_t workers = cluster.workers > 0 ? cluster.workers : std::max(1U, std::thread::hardware_concurrency());
  return json{{"scheduler", cluster.scheduler},
              {"address", cluster.address},
              {"workers", cluster.scheduler == "slurm" ? cluster.workers : workers},
              {"folder", folder},
              {"parts", std::move(commands)}}
      .dump();
}

}  // namespace

Result<BatchReport> runOnCluster(const BatchRequest& request, const ClusterRequest& cluster,
                                 const std::function<void(const BatchResult&)>& onResult, const Job& job) {
  const auto begin = Clock::now();
  auto state = BatchState::open(request.state, request.version);
  if (!state) return state.error();
  const std::string folder = fs::absolute(request.state).string() + ".parts";
  if (Status s = takeLeftOvers(*state, folder); !s) return s.error();
  BatchReport report;
  report.results.resize(request.tasks.size());
  std::vector<size_t> waiting;
  for (size_t i = 0; i < request.tasks.size(); ++i) {
    report.results[i].task = request.tasks[i];
    if (auto before = state->doneBefore(request.tasks[i])) {
      report.results[i] = std::move(*before);
      onResult(report.results[i]);
    } else {
      waiting.push_back(i);
    }
  }
  if (waiting.empty()) return report;
  auto parts = writeParts(request, waiting, folder);
  if (!parts) return parts.error();
  auto python = findPython(cluster.python, "", fmt::format("--on {}", cluster.scheduler), job);
  if (!python) return python.error();
  const std::string file = folder + "/request.json";
  if (Status s = writeFileAtomically(file, requestText(request, cluster, *parts, folder)); !s) return s.error();
  auto child = Child::start({*python, "-c", clusterScript, file});
  if (!child) return child.error();

  size_t ended = request.tasks.size() - waiting.size();
  std::optional<Error> broken;
  std::vector<std::string> whyNot(parts->size());
  const auto take = [&](size_t number) -> Status {
    const Part& part = (*parts)[number];
    if (Status s = state->absorb(part.state); !s) return s;
    for (const size_t i : part.tasks) {
      auto result = state->lastOf(request.tasks[i]);
      if (!result) continue;
      result->isFromState = false;
      report.results[i] = std::move(*result);
      onResult(report.results[i]);
      ++ended;
    }
    return done();
  };
  std::vector<char> isTaken(parts->size(), 0);
  for (bool atEnd = false; !atEnd && !broken;) {
    const auto line = child->readLine(job, "");
    if (!line) {
      if (line.error().kind != ErrorKind::Cancelled) broken = line.error();
      break;
    }
    const json said = json::parse(*line, nullptr, false);
    if (!said.is_object()) continue;  // a word of the scheduler's own
    if (said.contains("progress"))
      job.report(fmt::format("on {}", cluster.scheduler),
                 request.tasks.size() - waiting.size() + said["progress"].get<size_t>(), request.tasks.size());
    if (said.contains("part")) {
      const auto number = said["part"].get<size_t>();
      whyNot.at(number) = said.value("error", "");
      isTaken.at(number) = 1;
      if (Status s = take(number); !s) broken = s.error();
      job.report(fmt::format("on {}", cluster.scheduler), ended, request.tasks.size());
    }
    if (said.contains("end")) {
      atEnd = true;
      if (const auto why = said["end"].get<std::string>(); !why.empty())
        broken = badInput(fmt::format("--on {}: {}", cluster.scheduler, why));
    }
  }
  if (job.cancelled()) {  // its stdin ends: it cancels what it has given out
    child->setLimit(secondsToCancel);
    (void)child->end(Job{});
    report.isInterrupted = true;
  }
  for (size_t n = 0; n < parts->size(); ++n)
    if (!isTaken[n])
      if (Status s = take(n); !s && !broken) broken = s.error();
  if (broken && !report.isInterrupted) return *broken;
  for (size_t n = 0; n < parts->size(); ++n)
    for (const size_t i : (*parts)[n].tasks) {
      BatchResult& r = report.results[i];
      if (r.outcome != BatchOutcome::NotRun || report.isInterrupted) continue;
      r.outcome = BatchOutcome::Failed;
      r.exitCode = -1;
      r.error = fmt::format("{} ended its part before it ran{}{}", cluster.scheduler, whyNot[n].empty() ? "" : ": ",
                            whyNot[n]);
      onResult(r);
    }
  std::error_code none;
  if (!report.isInterrupted) fs::remove_all(folder, none);
  report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return report;
}

}  // namespace graft::workbench
