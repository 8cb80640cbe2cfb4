// A file on disk is always complete: written beside its place, synced, renamed. What was there stays until then.
//
//   if (Status s = writeFileAtomically("report.json", text); !s) return s;
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace graft {

/// Where a writer that needs a path of its own writes first; commit() puts it in place, the destructor removes what was
/// not.
class AtomicFile {
 public:
  /// BadInput where the folder cannot be written to.
  static Result<AtomicFile> beside(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  const std::string& temporaryPath() const { return temporary_; }
  Status commit();

 private:
  AtomicFile(std::string path, std::string temporary) : path_(std::move(path)), temporary_(std::move(temporary)) {}
  std::string path_, temporary_;
};

Status writeFileAtomically(const std::string& path, std::string_view content);

}  // namespace graft
