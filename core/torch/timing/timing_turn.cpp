#include "core/torch/timing_turn.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace graft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPause = std::chrono::milliseconds(5);

std::mutex mutex;
int depth = 0;  // of turns in this process
int file = -1;  // open while there is one
std::atomic<int64_t> waitedNanoseconds = 0;

/// "cuda" is "cuda:0".
std::string lockPath(std::string_view device) {
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(failed);
  if (failed) return "";
  const size_t colon = device.find(':');
  const std::string_view number = colon == device.npos ? "0" : device.substr(colon + 1);
  return (folder / ("graft-timing-" + std::to_string(getuid()) + "-" + std::string(number) + ".lock")).string();
}

}  // namespace

TimingTurn::TimingTurn(std::string_view device, const Job& job, double mostSeconds) {
  if (!device.starts_with("cuda")) return;
  const std::scoped_lock lock(mutex);
  if (depth == 0) {
    const std::string path = lockPath(device);
    file = path.empty() ? -1 : open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    const Clock::time_point begin = Clock::now();
    const auto waited = [&] { return Clock::now() - begin; };
    while (file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0 && !job.cancelled() &&
           std::chrono::duration<double>(waited()).count() < mostSeconds)
      std::this_thread::sleep_for(kPause);
    waitedNanoseconds += std::chrono::duration_cast<std::chrono::nanoseconds>(waited()).count();
  }
  ++depth;
  has_ = true;
}

TimingTurn::~TimingTurn() {
  if (!has_) return;
  const std::scoped_lock lock(mutex);
  if (--depth > 0 || file < 0) return;
  close(file);  // which unlocks
  file = -1;
}

double secondsOfWaiting() { return static_cast<double>(waitedNanoseconds.load()) * 1e-9; }

double OwnTime::seconds() const {
  return std::chrono::duration<double>(Clock::now() - begin_).count() - (secondsOfWaiting() - waitedBefore_);
}

}  // namespace graft
