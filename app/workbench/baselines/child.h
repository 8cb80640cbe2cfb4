// A child process that answers lines with lines.
//
//   auto child = Child::start({"python3", "-c", "print(input())"});
//   child->write("hello");
//   Result<std::string> answer = child->readLine(job, "waiting");
//
// It has a process group of its own: Ctrl-C reaches this program alone, which then ends the child.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"

namespace graft::workbench {

class Child {
 public:
  /// Looks for the first word of `command` on the PATH. Keeps what the child writes to stderr for error messages.
  static Result<Child> start(const std::vector<std::string>& command);
  Child(Child&&) noexcept;
  Child& operator=(Child&&) = delete;
  /// Kills the child and its own children.
  ~Child();

  Status write(const std::string& line);
  /// Waits for a line. Errors: Cancelled; BadInput where the child has ended, with the last line of its stderr. Reports
  /// `waiting` as progress, with the seconds that have passed.
  Result<std::string> readLine(const Job&, const std::string& waiting);

 private:
  Child() = default;
  std::string complaint() const;

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  std::string read_;
};

}  // namespace graft::workbench
