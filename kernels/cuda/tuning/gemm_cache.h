#pragma once
// The tuner's choices on disk: one text file per GPU model and cuBLASLt version, one line per problem: key, choice,
// timings. Read once; each new choice is merged at once into what other processes have written meanwhile, so that an
// interrupted run keeps what it learnt and runs side by side keep each other's choices. Nothing here is an error: lines
// that make no sense are passed over, and without a writable place the choices last as long as the process. Knows
// nothing of CUDA.
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

/// Threads may share one; so may processes, and several in one process, share a file.
class GemmCache {
 public:
  /// Without a path, in memory only. A store waits while others write, at most for `patience`; what could not be
  /// written goes with the next one that can.
  explicit GemmCache(std::string path, std::chrono::milliseconds patience = std::chrono::seconds(5));

  /// What was last stored for the key, here or, as far as known, by another process.
  std::optional<std::string> find(const std::string& key);
  /// The key has no spaces, the line is not empty, and both are printable ASCII.
  void store(const std::string& key, const std::string& line);

 private:
  using Lines = std::map<std::string, std::string>;
  static std::optional<Lines> read(const std::string& path);
  bool merge();

  const std::string path_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  Lines lines_, unsaved_;  // unsaved: stored here, not yet on disk
  bool waitedInVain_ = false;
};

/// The process's cache for all GPUs of that name: a file in $GRAFT_CACHE_DIR, else $XDG_CACHE_HOME/graft, else
/// ~/.cache/graft.
GemmCache& gemmCache(const std::string& gpu, size_t ltVersion);

}  // namespace graft::cuda
