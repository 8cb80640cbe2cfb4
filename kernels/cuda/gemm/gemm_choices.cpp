#include "kernels/cuda/gemm/gemm_choices.h"

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "kernels/cuda/gemm/gemm_tuner.h"
#include "kernels/cuda/support.h"
#include "kernels/cuda/tuning/gemm_cache.h"
#include "kernels/cuda/tuning/tuning.h"

namespace graft::cuda {
namespace {

// Candidates for the second stage: at most kMaxCandidates algorithms, at most kClose times as slow as the fastest.
constexpr double kClose = 1.25;
constexpr int kMaxCandidates = 6;
// How many timings a line of the cache holds.
constexpr size_t kTimingsOnDisk = 8;
// At the end of a choice on disk that was made inside a captured model.
constexpr char kFinalMark = '*';

struct Choice {
  GemmAlgorithm algorithm;
  std::vector<GemmAlgorithm> candidates;  // the fastest alone first
  bool isFinal = false;                   // made inside a captured model
};
struct Choices {
  // Recursive: tuning a norm and the product after it needs the choice for the product alone.
  std::recursive_mutex mutex;
  std::unordered_map<std::string, Choice> byProblem;
};
Choices& choices() {
  static Choices all;
  return all;
}
thread_local std::vector<std::string>* recorded = nullptr;

GemmCache& cacheOf(int device) {
  return gemmCache(at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(device))->name, cublasLtGetVersion());
}

// A line of the cache: the choice, then " algorithm=1.23us" for each of the fastest.
std::string lineOf(const std::vector<TimedAlgorithm>& timed) {
  std::string line = nameOf(timed.front().algorithm);
  for (size_t i = 0; i < timed.size() && i < kTimingsOnDisk; ++i)
    line += fmt::format(" {}={:.2f}us", nameOf(timed[i].algorithm), timed[i].microseconds);
  return line;
}

std::optional<Choice> readLine(const std::string& line) {
  Choice c;
  std::istringstream words(line);
  std::string word;
  words >> word;
  if (word.ends_with(kFinalMark)) c.isFinal = true, word.pop_back();
  const auto chosen = algorithmNamed(word);
  if (!chosen) return std::nullopt;
  c.algorithm = *chosen;
  double fastest = 0;
  while (words >> word) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) continue;
    const auto algorithm = algorithmNamed(std::string_view(word).substr(0, equals));
    if (!algorithm) continue;
    const double time = std::atof(word.c_str() + equals + 1);
    if (fastest == 0) fastest = time;
    if (time < fastest * kClose && static_cast<int>(c.candidates.size()) < kMaxCandidates)
      c.candidates.push_back(*algorithm);
  }
  return c;
}

std::optional<Choice> choiceOnDisk(const std::string& key, int device) {
  const auto line = cacheOf(device).find(key);
  return line ? readLine(*line) : std::nullopt;
}

}  // namespace

GemmAlgorithm chosenAlgorithm(const GemmProblem& p, bool mayTune) {
  const std::string key = keyOf(p.a) + (p.after ? "-norm" : p.before ? "-normed" : "");
  const int device = c10::cuda::current_device();
  const std::string problem = fmt::format("{}:{}", device, key);
  if (recorded && std::find(recorded->begin(), recorded->end(), problem) == recorded->end())
    recorded->push_back(problem);
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  if (const auto it = all.byProblem.find(problem); it != all.byProblem.end()) return it->second.algorithm;
  if (const auto found = choiceOnDisk(key, device)) return (all.byProblem[problem] = *found).algorithm;
  if (!mayTune || !options().autotune || isCapturing())
    return p.before ? GemmAlgorithm{GemmAlgorithm::Kind::kNormFirst, 0} : guessAlgorithm(p.a);
  const std::vector<TimedAlgorithm> timed = timeAlgorithms(p);
  cacheOf(device).store(key, lineOf(timed));
  return (all.byProblem[problem] = choiceOnDisk(key, device).value_or(Choice{timed.front().algorithm, {}, false}))
      .algorithm;
}

RecordedProblems::RecordedProblems(std::vector<std::string>* problems) : before_(std::exchange(recorded, problems)) {}
RecordedProblems::~RecordedProblems() { recorded = before_; }

std::vector<std::string> gemmCandidates(const std::string& problem) {
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  const auto it = all.byProblem.find(problem);
  std::vector<std::string> names;
  if (it == all.byProblem.end() || it->second.isFinal) return names;
  names.push_back(nameOf(it->second.algorithm));
  for (GemmAlgorithm candidate : it->second.candidates) {
    if (std::string name = nameOf(candidate); name != names.front()) names.push_back(std::move(name));
  }
  return names;
}

void chooseGemmAlgorithm(const std::string& problem, const std::string& name, bool isFinal) {
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  const auto it = all.byProblem.find(problem);
  const auto algorithm = algorithmNamed(name);
  if (it == all.byProblem.end() || !algorithm) return;
  it->second.algorithm = *algorithm;
  if (!isFinal) return;
  it->second.isFinal = true;
  const std::string key = problem.substr(problem.find(':') + 1);
  GemmCache& cache = cacheOf(std::atoi(problem.c_str()));
  std::string line = cache.find(key).value_or("");
  line.erase(0, line.find(' '));
  cache.store(key, name + kFinalMark + line);
}

}  // namespace graft::cuda
