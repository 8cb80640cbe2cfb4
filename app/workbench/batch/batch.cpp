#include "app/workbench/batch/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "app/workbench/batch/state.h"
#include "core/base/child.h"

namespace graft::workbench {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr int unchangedCode = 7, interruptedCode = 130;

/// What the program said last: from its "graft: " on.
std::string complaintOf(const std::string& errors) {
  const size_t at = errors.rfind("\ngraft: ");
  std::string out = at != std::string::npos         ? errors.substr(at + 8)
                    : errors.starts_with("graft: ") ? errors.substr(7)
                                                    : errors;
  while (!out.empty() && (out.back() == '\n' || out.back() == ' ')) out.pop_back();
  return out;
}

BatchResult runOne(const BatchRequest& request, const BatchTask& task, const Job& job) {
  BatchResult out;
  out.task = task;
  std::vector<std::string> command{request.program};
  command.insert(command.end(), task.words.begin(), task.words.end());
  command.insert(command.end(), {"--json", "--quiet"});
  const auto begin = Clock::now();
  const auto ended = [&]() -> Result<Child::End> {
    auto child = Child::start(command, {endsWithThis()});
    if (!child) return child.error();
    child->setLimit(request.limit);
    return child->end(job);
  }();
  out.seconds = secondsSince(begin);
  if (!ended) {
    if (ended.error().kind == ErrorKind::Cancelled) return out;
    out.outcome = BatchOutcome::Failed;
    out.exitCode = -1;
    out.error = request.limit > 0 && out.seconds >= request.limit
                    ? fmt::format("it was stopped after {:g} s (--limit)", request.limit)
                    : ended.error().message;
    return out;
  }
  out.exitCode = ended->code;
  out.report = ended->output;
  if (ended->code == interruptedCode) return out;
  out.outcome = ended->code == 0               ? BatchOutcome::Done
                : ended->code == unchangedCode ? BatchOutcome::Unchanged
                                               : BatchOutcome::Failed;
  if (out.outcome != BatchOutcome::Failed) return out;
  out.error = complaintOf(ended->errors);
  if (ended->signal != 0) {
    const char* name = sigabbrev_np(ended->signal);
    out.error = fmt::format("its process was ended by SIG{}{}{}", name ? name : std::to_string(ended->signal),
                            out.error.empty() ? "" : ": ", out.error);
  }
  return out;
}

}  // namespace

std::string_view outcomeName(BatchOutcome outcome) {
  switch (outcome) {
    case BatchOutcome::Done:
      return "done";
    case BatchOutcome::Unchanged:
      return "unchanged";
    case BatchOutcome::Failed:
      return "failed";
    case BatchOutcome::NotRun:
      return "notRun";
  }
  return "?";
}

size_t BatchReport::count(BatchOutcome outcome) const {
  return static_cast<size_t>(
      std::count_if(results.begin(), results.end(), [&](const BatchResult& r) { return r.outcome == outcome; }));
}

Result<BatchReport> runBatch(const BatchRequest& request, const std::function<void(const BatchResult&)>& onResult,
                             const Job& job) {
  const auto begin = Clock::now();
  std::optional<BatchState> state;
  if (!request.state.empty()) {
    auto opened = BatchState::open(request.state, request.version);
    if (!opened) return opened.error();
    state.emplace(std::move(*opened));
  }
  BatchReport report;
  report.results.resize(request.tasks.size());
  std::vector<size_t> waiting;
  for (size_t i = 0; i < request.tasks.size(); ++i) {
    auto before = state ? state->doneBefore(request.tasks[i]) : std::nullopt;
    if (before) {
      report.results[i] = std::move(*before);
      onResult(report.results[i]);
    } else {
      report.results[i].task = request.tasks[i];
      waiting.push_back(i);
    }
  }
  // Each process would take all cores otherwise. Who sets the variable knows better.
  const size_t processes = std::clamp<size_t>(request.processes, 1, std::max<size_t>(waiting.size(), 1));
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  if (processes > 1) setenv("OMP_NUM_THREADS", std::to_string(std::max<size_t>(1, cores / processes)).c_str(), 0);
  std::mutex mutex;
  std::optional<Error> broken;
  size_t next = 0, ended = report.results.size() - waiting.size();
  const auto work = [&] {
    for (;;) {
      size_t mine = 0;
      {
        const std::scoped_lock lock(mutex);
        if (next == waiting.size() || job.cancelled() || broken) return;
        mine = waiting[next++];
        job.report(request.tasks[mine].model, ended, report.results.size());
      }
      Job silent;
      silent.cancel = job.cancel;
      BatchResult result = runOne(request, request.tasks[mine], silent);
      const std::scoped_lock lock(mutex);
      if (result.outcome == BatchOutcome::NotRun) continue;
      if (state)
        if (Status s = state->add(result); !s && !broken) broken = s.error();
      report.results[mine] = std::move(result);
      onResult(report.results[mine]);
      job.report("", ++ended, report.results.size());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < processes; ++i) threads.emplace_back(work);
  }
  if (broken) return *broken;
  report.isInterrupted = job.cancelled();
  report.seconds = secondsSince(begin);
  return report;
}

}  // namespace graft::workbench
