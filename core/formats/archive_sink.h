// Takes the bytes of an archive that LibTorch writes. Where a write fails, LibTorch's writer throws from its
// destructor, which ends the process. So this one takes all bytes, keeps the first failure, and tells it at the end.
//
//   ArchiveSink sink(file->temporaryPath());
//   torch::jit::ExportModule(module, sink.writer(), extra);
//   if (Status s = sink.finish(path); !s) return s;
#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>

#include "core/base/result.h"

namespace graft {

class ArchiveSink {
 public:
  explicit ArchiveSink(const std::string& file);
  ~ArchiveSink();
  ArchiveSink(const ArchiveSink&) = delete;
  ArchiveSink& operator=(const ArchiveSink&) = delete;
  /// For this object's lifetime.
  std::function<size_t(const void*, size_t)> writer();
  /// BadInput, which names `path`, where something could not be written.
  Status finish(const std::string& path);

 private:
  void close();
  std::FILE* file_;
  int error_ = 0;
};

}  // namespace graft
