#include "core/base/temporary_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace graft {

Result<TemporaryFolder> TemporaryFolder::make(const std::string& pattern) {
  std::string name = pattern;
  if (!::mkdtemp(name.data()))
    return badInput(fmt::format("no temporary folder {} can be made: {}", pattern, std::strerror(errno)));
  return TemporaryFolder(std::move(name));
}

Result<TemporaryFolder> TemporaryFolder::inSystem() {
  std::error_code error;
  const auto system = std::filesystem::temp_directory_path(error);
  if (error) return badInput("there is no temporary folder; set TMPDIR");
  return make((system / "graft-XXXXXX").string());
}

Result<TemporaryFolder> TemporaryFolder::beside(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  return make((folder.empty() ? "." : folder.string()) + "/.graft-XXXXXX");
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TemporaryFolder& TemporaryFolder::operator=(TemporaryFolder&& other) noexcept {
  std::swap(path_, other.path_);  // the other one removes what was here
  return *this;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace graft
