#include "core/base/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace graft {
namespace {

Error cannotWrite(const std::string& path, int error) {
  const size_t slash = path.rfind('/');
  if (error == ENOENT && slash != std::string::npos && slash > 0)
    return badInput(fmt::format("{} cannot be written: there is no folder {}", path, path.substr(0, slash)));
  return badInput(fmt::format("{} cannot be written: {}", path, std::strerror(error)));
}

}  // namespace

Result<AtomicFile> AtomicFile::beside(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return cannotWrite(path, EISDIR);
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkstemp(temporary.data());
  if (fd < 0) return cannotWrite(path, errno);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(fd, 0666 & ~mask);  // mkstemp makes private files; the result is an ordinary one
  ::close(fd);
  return AtomicFile(path, std::move(temporary));
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, {})) {}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status AtomicFile::commit() {
  const int fd = ::open(temporary_.c_str(), O_RDONLY);
  if (fd < 0) return cannotWrite(path_, errno);
  const int synced = ::fsync(fd);
  const int syncError = errno;
  ::close(fd);
  if (synced != 0) return cannotWrite(path_, syncError);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return cannotWrite(path_, errno);
  temporary_.clear();
  return done();
}

Status writeFileAtomically(const std::string& path, std::string_view content) {
  auto file = AtomicFile::beside(path);
  if (!file) return file.error();
  const int fd = ::open(file->temporaryPath().c_str(), O_WRONLY);
  if (fd < 0) return cannotWrite(path, errno);
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      ::close(fd);
      return cannotWrite(path, error);
    }
    content.remove_prefix(static_cast<size_t>(n));
  }
  ::close(fd);
  return file->commit();
}

}  // namespace graft
