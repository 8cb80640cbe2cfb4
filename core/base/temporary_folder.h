// A folder for files that nobody keeps: it goes with all that is in it.
//
//   auto folder = TemporaryFolder::inSystem();          // in $TMPDIR
//   auto staging = TemporaryFolder::beside("out/m.pt"); // in out/, for what is renamed to out/m.pt when it is whole
#pragma once

#include <string>

#include "core/base/result.h"

namespace graft {

class TemporaryFolder {
 public:
  /// BadInput where no folder can be made.
  static Result<TemporaryFolder> inSystem();
  static Result<TemporaryFolder> beside(const std::string& path);
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept;
  ~TemporaryFolder();

  /// The path of a file in it.
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  static Result<TemporaryFolder> make(const std::string& pattern);
  std::string path_;
};

}  // namespace graft
