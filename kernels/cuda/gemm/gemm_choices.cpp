#include "kernels/cuda/gemm/gemm_choices.h"

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
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
  std::unordered_set<std::string> guessed;  // for lack of time
};
Choices& choices() {
  static Choices all;
  return all;
}
thread_local std::vector<TuningProblem>* recorded = nullptr;
thread_local const std::vector<std::string>* tuned = nullptr;  // null: all

// Of one call, from the rates of an H100 or H200. Only the order of problems depends on it.
double estimatedMicroseconds(const GemmArgs& a) {
  const double operations = 2.0 * static_cast<double>(a.m) * static_cast<double>(a.n) * static_cast<double>(a.k);
  const double elements =
      static_cast<double>(a.m) * a.k + static_cast<double>(a.n) * a.k + static_cast<double>(a.m) * a.n;
  const double perMicrosecond = a.dtype != Dtype::kFloat ? 4e8 : usesTf32() ? 2e8 : 4e7;
  return 2 + std::max(operations / perMicrosecond, elements * bytesOf(a.dtype) / 2e6);
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

void record(const std::string& problem, const GemmArgs& a, bool isOpen) {
  const auto known =
      std::find_if(recorded->begin(), recorded->end(), [&](const TuningProblem& each) { return each.name == problem; });
  if (known != recorded->end())
    ++known->calls;
  else
    recorded->push_back({problem, estimatedMicroseconds(a), 1, isOpen});
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
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  const auto algorithm = [&] {
    if (const auto it = all.byProblem.find(problem); it != all.byProblem.end())
      return std::optional(it->second.algorithm);
    const auto found = choiceOnDisk(key, device);
    if (!found) return std::optional<GemmAlgorithm>();
    return std::optional((all.byProblem[problem] = *found).algorithm);
  }();
  if (recorded) record(problem, p.a, !algorithm);
  if (algorithm) return *algorithm;
  const auto guess = [&] { return p.before ? GemmAlgorithm{GemmAlgorithm::Kind::kNormFirst, 0} : guessAlgorithm(p.a); };
  if (!mayTune || !options().autotune || isCapturing()) return guess();
  if (tuned && std::find(tuned->begin(), tuned->end(), problem) == tuned->end()) return guess();
  if (tuningBudget().isSpent()) {
    all.guessed.insert(problem);
    return guess();
  }
  const TuningBudget::Use use(tuningBudget());
  // What this problem's candidates are made of (the product alone, after a norm) is tuned with it.
  const auto* const outer = std::exchange(tuned, nullptr);
  std::vector<TimedAlgorithm> timed;
  try {
    timed = timeAlgorithms(p);
  } catch (...) {
    tuned = outer;
    throw;
  }
  tuned = outer;
  all.guessed.erase(problem);
  cacheOf(device).store(key, lineOf(timed));
  return (all.byProblem[problem] = choiceOnDisk(key, device).value_or(Choice{timed.front().algorithm, {}, false}))
      .algorithm;
}

RecordedProblems::RecordedProblems(std::vector<TuningProblem>* problems) : before_(std::exchange(recorded, problems)) {}
RecordedProblems::~RecordedProblems() { recorded = before_; }

TunedProblems::TunedProblems(const std::vector<std::string>& names) : before_(std::exchange(tuned, &names)) {}
TunedProblems::~TunedProblems() { tuned = before_; }
const std::vector<std::string>* TunedProblems::set(const std::vector<std::string>* names) {
  return std::exchange(tuned, names);
}

size_t guessedProblems() {
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  return all.guessed.size();
}

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
