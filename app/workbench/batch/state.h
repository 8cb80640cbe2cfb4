// The state of a batch, in a file of JSON Lines that only grows: one line for each model that has ended. A batch that
// was interrupted goes on from it. A last line that was cut off is as if it were not there.
//
//   auto state = BatchState::open("out/batch.jsonl", GRAFT_VERSION);
//   if (auto before = state->doneBefore(task)) …    // ended well, and nothing that it reads has changed since
//   state->add(result);
#pragma once

#include <map>
#include <optional>
#include <string>

#include "app/workbench/batch/batch.h"

namespace graft::workbench {

class BatchState {
 public:
  /// Makes the file where there is none. Errors are BadInput: it cannot be written, it is no state of a batch, another
  /// batch works with it.
  static Result<BatchState> open(const std::string& path, const std::string& version);
  BatchState(BatchState&&) noexcept;
  BatchState& operator=(BatchState&&) = delete;
  ~BatchState();

  /// What the task came to, if it was done or its model was unchanged, by the same words, on the same files, by the
  /// same version, and what it wrote is still there.
  std::optional<BatchResult> doneBefore(const BatchTask&) const;
  /// What the task came to when it ran last, by the same words and the same version; also if it failed.
  std::optional<BatchResult> lastOf(const BatchTask&) const;
  /// Takes over what the state of a part says. Nothing where there is no such file; BadInput where a batch still works
  /// with it, or it is no state.
  Status absorb(const std::string& path);
  /// Writes the line, whole, to the disk.
  Status add(const BatchResult&);

 private:
  BatchState() = default;
  Status write(const std::string& line);
  std::string path_, version_;
  int file_ = -1;
  std::map<std::string, std::string> lines_;  ///< a task's words, and the last line of it
};

}  // namespace graft::workbench
