// Batch: rewrites many models, each in a process of its own, so that a model that crashes or hangs harms no other. What
// has ended is kept in a state file, from which a batch that was interrupted goes on.
//
//   BatchRequest request{.program = "/usr/bin/graft", .tasks = tasks, .processes = 4, .state = "out/batch.jsonl"};
//   auto report = workbench::runBatch(request, onResult, job);
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/workbench/batch/tasks.h"
#include "core/base/progress.h"
#include "core/base/result.h"

namespace graft::workbench {

enum class BatchOutcome { Done, Unchanged, Failed, NotRun };
/// "done", "unchanged", "failed", "notRun".
std::string_view outcomeName(BatchOutcome);

/// What one model came to.
struct BatchResult {
  BatchTask task;
  BatchOutcome outcome = BatchOutcome::NotRun;
  int exitCode = 0;          ///< of its process; -1: it did not end by itself
  std::string error;         ///< why it failed
  double seconds = 0;        ///< that it took
  std::string report;        ///< the document that `graft apply --json` printed: JSON; "": it printed none
  bool isFromState = false;  ///< an earlier batch did it
};

struct BatchRequest {
  std::string program;  ///< this program's own file
  std::string version;  ///< a state that another version wrote says nothing
  std::vector<BatchTask> tasks;
  size_t processes = 1;  ///< at a time; they share the cores
  std::string state;     ///< the file to go on from; "": none is kept
  double limit = 0;      ///< the most seconds for one model; 0: no limit
};

struct BatchReport {
  std::vector<BatchResult> results;  ///< of each task, in their order
  double seconds = 0;
  bool isInterrupted = false;
  size_t count(BatchOutcome) const;
};

/// `onResult` hears of each model as it ends, one at a time. Errors are those of the state file; a model that fails is
/// a result. Cancelled, it stops its processes and returns what has ended.
Result<BatchReport> runBatch(const BatchRequest&, const std::function<void(const BatchResult&)>& onResult, const Job&);

}  // namespace graft::workbench
