#pragma once
// The tuner's choices on disk: one text file per GPU model and cuBLASLt version, one line per problem: key, choice,
// timings. Read once, rewritten whole (beside, then renamed) after each new choice, so that an interrupted run keeps
// what it learnt. Without a writable place the choices last as long as the process.
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace graft::cuda {

class GemmCache {
 public:
  GemmCache();
  /// "choice timings"
  std::optional<std::string> find(const std::string& key);
  void store(const std::string& key, const std::string& line);

 private:
  std::mutex mutex_;
  std::string path_;
  std::map<std::string, std::string> lines_;  // key -> "choice timings"
};

GemmCache& gemmCache();

}  // namespace graft::cuda
