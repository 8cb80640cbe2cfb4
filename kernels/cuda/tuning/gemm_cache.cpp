#include "kernels/cuda/tuning/gemm_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "core/base/cache_folder.h"

namespace graft::cuda {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Part of the file's name. Increase it when the kernels change so much that old choices mislead.
constexpr int kKernelVersion = 10;

bool printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

bool isWellFormed(const std::string& key, const std::string& line) {
  return !key.empty() && key.find(' ') == std::string::npos && !line.empty() && printable(key) && printable(line);
}

/// A lock for replacing the cache file. The lock file is never removed: otherwise one process could lock the removed
/// file and another its successor.
class Lock {
 public:
  enum class State { kHeld, kBusy, kImpossible };

  Lock(const std::string& path, std::chrono::milliseconds timeout)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (file_ < 0) file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);  // another user's file, in a shared folder
    if (file_ < 0) return;
    // Polls rather than blocks: a process that was stopped while it held the lock must not stop this one.
    const auto end = Clock::now() + timeout;
    while (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) {
        state_ = State::kBusy;
        if (Clock::now() >= end) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      break;  // The file system has no locks. The file is still replaced atomically; a concurrent choice may be lost.
    }
    state_ = State::kHeld;
  }
  ~Lock() {
    if (file_ < 0) return;
    // Closing alone would leave the lock to a child that was forked meanwhile.
    if (state_ == State::kHeld) ::flock(file_, LOCK_UN);
    ::close(file_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  State state() const { return state_; }

 private:
  int file_;
  State state_ = State::kImpossible;
};

}  // namespace

GemmCache::GemmCache(std::string path, std::chrono::milliseconds lockTimeout)
    : path_(std::move(path)), lockTimeout_(lockTimeout) {
  if (!path_.empty()) lines_ = read(path_).value_or(Lines());
}

/// Nothing where the file exists but cannot be read.
std::optional<GemmCache::Lines> GemmCache::read(const std::string& path) {
  Lines lines;
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    std::error_code failed;
    if (fs::exists(path, failed) || failed) return std::nullopt;
    return lines;
  }
  std::string text;
  // A last line without a newline was cut off: the rest of it could be the name of another choice.
  while (std::getline(in, text) && !in.eof()) {
    const size_t space = text.find(' ');
    if (space == std::string::npos) continue;
    std::string key = text.substr(0, space), line = text.substr(space + 1);
    if (isWellFormed(key, line)) lines.insert_or_assign(std::move(key), std::move(line));
  }
  if (in.bad()) return std::nullopt;
  return lines;
}

std::optional<std::string> GemmCache::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto it = lines_.find(key);
  if (it == lines_.end()) return std::nullopt;
  return it->second;
}

void GemmCache::store(const std::string& key, const std::string& line) {
  assert(isWellFormed(key, line));
  const std::lock_guard lock(mutex_);
  lines_[key] = line;
  if (path_.empty()) return;
  unsaved_[key] = line;
  if (merge()) unsaved_.clear();
}

/// Merges this instance's lines into the file. A line on disk is newer than one that was read or written here before,
/// so it wins. Lines that are missing on disk (the file was removed) are added, and unsaved lines replace those on
/// disk.
bool GemmCache::merge() {
  std::error_code failed;
  fs::create_directories(fs::path(path_).parent_path(), failed);
  // After one timeout, later choices do not wait again.
  const Lock lock(path_ + ".lock", lockTimedOut_ ? std::chrono::milliseconds(0) : lockTimeout_);
  lockTimedOut_ = lock.state() == Lock::State::kBusy;
  if (lock.state() != Lock::State::kHeld) return false;
  auto merged = read(path_);
  if (!merged) return false;
  merged->insert(lines_.begin(), lines_.end());
  for (const auto& [key, line] : unsaved_) merged->insert_or_assign(key, line);
  lines_ = std::move(*merged);

  // With the time as well, because other machines and containers that share the folder may have the same process id.
  const std::string temporary =
      path_ + "." + std::to_string(getpid()) + "." + std::to_string(Clock::now().time_since_epoch().count());
  std::ofstream out(temporary, std::ios::binary);
  for (const auto& [key, line] : lines_) out << key << ' ' << line << '\n';
  out.close();
  if (out) fs::rename(temporary, path_, failed);
  if (out && !failed) return true;
  fs::remove(temporary, failed);
  return false;
}

GemmCache& gemmCache(const std::string& gpu, size_t ltVersion) {
  static std::mutex mutex;
  static std::map<std::string, GemmCache> caches;  // by the name of the file, whether or not there is a folder for it
  std::string name = gpu;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  name = "gemm-" + name + "-lt" + std::to_string(ltVersion) + "-v" + std::to_string(kKernelVersion) + ".txt";
  const std::lock_guard lock(mutex);
  if (const auto it = caches.find(name); it != caches.end()) return it->second;
  const fs::path at = cacheFolder();
  return caches.try_emplace(name, at.empty() ? std::string() : (at / name).string()).first->second;
}

}  // namespace graft::cuda
