// CodeCache: machine code on disk, so that a process finds what another has compiled. One file for each piece of code,
// named by a hash of all that went into it, with a hash of that and of what came out in its first line.
//
//   CodeCache& cache = codeCache();
//   std::optional<std::string> object = cache.find(key);
//   if (!object) cache.store(key, compiled);
//
// The folder belongs to the user alone: one that others may write to is not used. Files are put in place by renaming,
// so processes may share the folder. A file that is not whole, or that stands under another one's name, counts as
// absent. Nothing here is an error: where nothing can be read or written, a warning says so once, and code is compiled
// anew.
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace graft::ops {

class CodeCache {
 public:
  /// An empty folder: nothing is kept. What is older goes where all files take more than `mostBytes`.
  explicit CodeCache(std::filesystem::path folder, size_t mostBytes = size_t{256} << 20);

  /// `key`: the source, the options and the compiler's version, of any length. Thread-safe, as store().
  std::optional<std::string> find(std::string_view key) const;
  void store(std::string_view key, std::string_view code) const;
  /// Why nothing is kept on disk; empty where it is.
  const std::string& whyNot() const { return whyNot_; }

 private:
  std::filesystem::path fileOf(std::string_view key) const;
  void removeOld() const;

  std::filesystem::path folder_;
  size_t mostBytes_;
  mutable std::atomic<size_t> unchecked_;  // bytes that were stored since the folder's size was looked at
  std::string whyNot_;
};

/// The process's: the folder `code` in $GRAFT_CACHE_DIR, else $XDG_CACHE_HOME/graft, else ~/.cache/graft.
const CodeCache& codeCache();

}  // namespace graft::ops
