#pragma once
// GemmCache: the tuner's choices on disk, in one text file per GPU model and cuBLASLt version. It has one line per
// problem: key, choice, timings. It does not depend on CUDA.
//
// The file is read once. Each new choice is merged at once with what other processes have written meanwhile, so an
// interrupted run keeps what it learnt, and concurrent runs keep each other's choices. Nothing here is an error:
// malformed lines are ignored, and where no file can be written the choices last as long as the process.
//
//   GemmCache& cache = gemmCache("NVIDIA H200", cublasLtGetVersion());
//   if (!cache.find(key)) cache.store(key, "tile-128x128-... tile-128x128-...=3.10us");
#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace graft::cuda {

/// Thread-safe. Several instances, in one process or in several, may share a file.
class GemmCache {
 public:
  /// An empty path: in memory only. `store` waits at most `lockTimeout` while others write; what could not be written
  /// is written by a later store.
  explicit GemmCache(std::string path, std::chrono::milliseconds lockTimeout = std::chrono::seconds(5));

  /// The last line stored for the key, by this instance or by another process whose file was read since.
  std::optional<std::string> find(const std::string& key);
  /// The key must have no spaces, the line must not be empty, and both must be printable ASCII.
  void store(const std::string& key, const std::string& line);

 private:
  using Lines = std::map<std::string, std::string>;
  static std::optional<Lines> read(const std::string& path);
  bool merge();

  const std::string path_;
  const std::chrono::milliseconds lockTimeout_;
  std::mutex mutex_;
  Lines lines_, unsaved_;  // unsaved: stored here, not yet on disk
  bool lockTimedOut_ = false;
};

/// The process's cache for GPUs of that name and that version of cuBLASLt: a file in $GRAFT_CACHE_DIR, else
/// $XDG_CACHE_HOME/graft, else
/// ~/.cache/graft.
GemmCache& gemmCache(const std::string& gpu, size_t ltVersion);

}  // namespace graft::cuda
