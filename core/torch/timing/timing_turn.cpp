#include "core/torch/timing_turn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "core/torch/timing/gpu_names.h"

namespace graft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPause = std::chrono::milliseconds(5);

std::mutex mutex;
int depth = 0;  // of turns in this process
int file = -1;  // open while there is one
std::atomic<int64_t> waitedNanoseconds = 0;

/// What "cuda" ("cuda:0"), "cuda:1" is called whoever asks: CUDA_VISIBLE_DEVICES gives a GPU another number.
std::string gpuOf(std::string_view device) {
  const size_t colon = device.find(':');
  int number = 0;
  if (colon != device.npos) std::from_chars(device.data() + colon + 1, device.data() + device.size(), number);
  if (std::string uuid = gpuUuid(number); !uuid.empty()) return uuid;
  const char* const variable = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string_view visible = variable ? variable : "";
  for (int i = 0; i < number && !visible.empty(); ++i)
    visible.remove_prefix(std::min(visible.find(','), visible.size() - 1) + 1);
  std::string name;
  for (const char c : visible.substr(0, visible.find(',')))
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '-') name += c;
  return name.empty() ? std::to_string(number) : name;
}

std::string lockPath(std::string_view device) {
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(failed);
  if (failed) return "";
  return (folder / fmt::format("graft-timing-{}-{}.lock", getuid(), gpuOf(device))).string();
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
