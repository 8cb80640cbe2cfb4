#include "core/formats/archive_sink.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace graft {

ArchiveSink::ArchiveSink(const std::string& file) : file_(std::fopen(file.c_str(), "wb")) {
  if (!file_) error_ = errno;
}
ArchiveSink::~ArchiveSink() { close(); }

void ArchiveSink::close() {
  if (file_ && std::fclose(file_) != 0 && error_ == 0) error_ = errno;
  file_ = nullptr;
}

std::function<size_t(const void*, size_t)> ArchiveSink::writer() {
  return [this](const void* bytes, size_t n) {
    if (error_ == 0 && std::fwrite(bytes, 1, n, file_) != n) error_ = errno;
    return n;
  };
}

Status ArchiveSink::finish(const std::string& path) {
  close();
  if (error_ != 0) return badInput(fmt::format("{} cannot be written: {}", path, std::strerror(error_)));
  return done();
}

}  // namespace graft
