// A child process that answers lines with lines. It stands in a process group of its own, so that Ctrl-C reaches this
// program alone, which then ends it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"

namespace graft::cli {

class Child {
 public:
  /// The first of `command` is looked for on the PATH. Its stderr is kept for errors.
  static Result<Child> start(const std::vector<std::string>& command);
  Child(Child&&) noexcept;
  Child& operator=(Child&&) = delete;
  /// Ends it.
  ~Child();

  Status write(const std::string& line);
  /// Waits for a line. Cancelled, or BadInput with the end of what it said on stderr where it has ended. `waiting` is
  /// shown as progress with the seconds that have passed.
  Result<std::string> readLine(const Job&, const std::string& waiting);

 private:
  Child() = default;
  std::string complaint() const;

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  std::string read_;
};

}  // namespace graft::cli
