// A child process that answers what is written to it: lines with lines, or with lines and bytes.
//
//   auto child = Child::start({"python3", "-c", "print(input())"});
//   child->write("hello");
//   Result<std::string> answer = child->readLine(job, "waiting");
//
// It has a process group of its own: Ctrl-C reaches this program alone, which then ends the child.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"

namespace graft {

/// For start(): a child that calls endWithStarter() ends when this program does, also when SIGKILL ends it and nobody
/// is left to end the child. The thread that starts it has to wait for its end.
std::string endsWithThis();
/// To be called first of all. Does nothing where whoever started this program does not want that.
void endWithStarter();

class Child {
 public:
  /// Looks for the first word of `command` on the PATH. Keeps what the child writes to stderr for error messages.
  /// `environment`: what it finds there beyond this program's own, "NAME=VALUE".
  static Result<Child> start(const std::vector<std::string>& command, const std::vector<std::string>& environment = {});
  Child(Child&&) noexcept;
  Child& operator=(Child&&) = delete;
  /// Kills the child and its own children.
  ~Child();

  Status write(const std::string& line);
  /// The same for bytes, as they are.
  Status writeBytes(std::string_view bytes);
  /// Waits for a line. Errors: Cancelled; BadInput where the child has ended, with the last line of its stderr. Reports
  /// `waiting` as progress, with the seconds that have passed.
  Result<std::string> readLine(const Job&, const std::string& waiting);
  /// So many bytes, which follow a line. Errors as those of readLine.
  Result<std::string> readBytes(size_t count, const Job&);
  /// How a process ended.
  struct End {
    std::string output;  ///< that it wrote to stdout and nobody has read
    std::string errors;  ///< that it wrote to stderr
    int code = -1;       ///< its exit code; -1: a signal ended it
    int signal = 0;
  };
  /// Closes the child's stdin and waits for its end. Errors: Cancelled, and BadInput after the limit.
  Result<End> end(const Job&);
  /// From now on, a read or a write that takes longer than that is an error, and the child is of no more use: it may
  /// still answer. 0: no limit.
  void setLimit(double seconds) { limit_ = seconds; }

 private:
  Child() = default;
  std::string complaint() const;
  /// Waits until the pipe is ready, no longer than to the limit from `begin` on.
  Status wait(int pipe, short events, const Job&, const std::string& waiting,
              std::chrono::steady_clock::time_point begin) const;
  /// Adds to read_ what the child has written.
  Status readMore(const Job&, const std::string& waiting, std::chrono::steady_clock::time_point begin);

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  std::string read_;
  double limit_ = 0;
};

}  // namespace graft
