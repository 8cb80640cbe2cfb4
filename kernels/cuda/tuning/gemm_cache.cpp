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

namespace graft::cuda {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Changes when our kernels change so much that old choices mislead.
constexpr int kKernelVersion = 9;

fs::path folder() {
  if (const char* given = std::getenv("GRAFT_CACHE_DIR"); given && *given) return given;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return fs::path(xdg) / "graft";
  if (const char* home = std::getenv("HOME"); home && *home) return fs::path(home) / ".cache" / "graft";
  return {};
}

bool printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

bool sound(const std::string& key, const std::string& line) {
  return !key.empty() && key.find(' ') == std::string::npos && !line.empty() && printable(key) && printable(line);
}

/// Held by whoever replaces the file beside it. The lock file stays: were it removed, one process could lock the old
/// one and another the new one.
class Lock {
 public:
  enum class State { kHeld, kBusy, kImpossible };

  Lock(const std::string& path, std::chrono::milliseconds patience)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (file_ < 0) file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);  // another user's, in a folder that both may use
    if (file_ < 0) return;
    // Asked for again and again, not waited for: a process that was stopped while it held the lock must not stop us.
    const auto end = Clock::now() + patience;
    while (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) {
        state_ = State::kBusy;
        if (Clock::now() >= end) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      break;  // The file system knows no locks: the file is still replaced as a whole, only not one after the other.
    }
    state_ = State::kHeld;
  }
  ~Lock() {
    if (file_ < 0) return;
    // Closing alone would leave it to a child that was forked meanwhile.
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

GemmCache::GemmCache(std::string path, std::chrono::milliseconds patience)
    : path_(std::move(path)), patience_(patience) {
  if (!path_.empty()) lines_ = read(path_).value_or(Lines());
}

/// Nothing where there is a file that cannot be read.
std::optional<GemmCache::Lines> GemmCache::read(const std::string& path) {
  Lines lines;
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    std::error_code failed;
    if (fs::exists(path, failed) || failed) return std::nullopt;
    return lines;
  }
  std::string text;
  // A last line without its end has been cut off; what is left of it could be another choice's name.
  while (std::getline(in, text) && !in.eof()) {
    const size_t space = text.find(' ');
    if (space == std::string::npos) continue;
    std::string key = text.substr(0, space), line = text.substr(space + 1);
    if (sound(key, line)) lines.insert_or_assign(std::move(key), std::move(line));
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
  assert(sound(key, line));
  const std::lock_guard lock(mutex_);
  lines_[key] = line;
  if (path_.empty()) return;
  unsaved_[key] = line;
  if (merge()) unsaved_.clear();
}

/// What is on disk is newer than what was read or written before, so it stays; what is missing there (somebody removed
/// the file) is added, what has never been written replaces.
bool GemmCache::merge() {
  std::error_code failed;
  fs::create_directories(fs::path(path_).parent_path(), failed);
  // Who has waited in vain once does not wait again with every choice.
  const Lock lock(path_ + ".lock", waitedInVain_ ? std::chrono::milliseconds(0) : patience_);
  waitedInVain_ = lock.state() == Lock::State::kBusy;
  if (lock.state() != Lock::State::kHeld) return false;
  auto merged = read(path_);
  if (!merged) return false;
  merged->insert(lines_.begin(), lines_.end());
  for (const auto& [key, line] : unsaved_) merged->insert_or_assign(key, line);
  lines_ = std::move(*merged);

  // The time as well, because other machines and containers that use the folder may have a process of that number.
  const std::string beside =
      path_ + "." + std::to_string(getpid()) + "." + std::to_string(Clock::now().time_since_epoch().count());
  std::ofstream out(beside, std::ios::binary);
  for (const auto& [key, line] : lines_) out << key << ' ' << line << '\n';
  out.close();
  if (out) fs::rename(beside, path_, failed);
  if (out && !failed) return true;
  fs::remove(beside, failed);
  return false;
}

GemmCache& gemmCache(const std::string& gpu, size_t ltVersion) {
  static std::mutex mutex;
  static std::map<std::string, GemmCache> caches;  // by the file's name; where there is no folder, a name is all it has
  std::string name = gpu;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  name = "gemm-" + name + "-lt" + std::to_string(ltVersion) + "-v" + std::to_string(kKernelVersion) + ".txt";
  const std::lock_guard lock(mutex);
  if (const auto it = caches.find(name); it != caches.end()) return it->second;
  const fs::path at = folder();
  return caches.try_emplace(name, at.empty() ? std::string() : (at / name).string()).first->second;
}

}  // namespace graft::cuda
