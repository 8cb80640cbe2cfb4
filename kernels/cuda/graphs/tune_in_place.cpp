#include "kernels/cuda/graphs/tune_in_place.h"

#include <c10/cuda/CUDAException.h>

#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include "kernels/cuda/gemm/gemm_choices.h"
#include "kernels/cuda/graphs/unused_memory.h"

namespace graft::cuda {
namespace {

/// A GEMM problem, the algorithms whose times alone were similar, and the choice so far.
struct OpenChoice {
  std::string problem;
  std::vector<std::string> candidates;
  std::string chosen;
};

}  // namespace

void tuneInPlace(std::vector<TuningProblem> problems, Pool& pool, const Body& body) {
  constexpr int kMaxRounds = 3;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  // All attempts share one memory pool: they are replayed one after another, and nobody reads their results.
  const auto attempt = [&, memory = at::cuda::graph_pool_handle()] { return captureOnce(pool, memory, body); };
  std::vector<OpenChoice> choices;
  sortByValue(problems);
  for (const TuningProblem& each : problems) {
    std::vector<std::string> candidates = gemmCandidates(each.name);
    if (!candidates.empty()) choices.push_back({each.name, candidates, candidates[0]});
  }
  TuningBudget& budget = tuningBudget();
  if (choices.empty() || budget.isSpent()) return;
  const TuningBudget::Use use(budget);
  emptyAllocatorCache();
  const OpenChoice* current = nullptr;
  try {
    std::unique_ptr<CapturedGraph> best = attempt();
    bool changed = true;
    for (int round = 0; round < kMaxRounds && changed && !budget.isSpent(); ++round) {
      if (round > 0 && std::chrono::steady_clock::now() > deadline) break;
      changed = false;
      for (OpenChoice& c : choices) {
        if (budget.isSpent()) break;
        current = &c;
        const std::string before = c.chosen;
        for (const std::string& candidate : c.candidates) {
          if (candidate == c.chosen || candidate == before) continue;
          if (budget.isSpent()) break;
          chooseGemmAlgorithm(c.problem, candidate, false);
          std::unique_ptr<CapturedGraph> other = attempt();
          if (isFaster(*best, *other, body)) best = std::move(other), c.chosen = candidate;
        }
        chooseGemmAlgorithm(c.problem, c.chosen, /*isFinal=*/!budget.isSpent());
        changed |= c.chosen != before;
        current = nullptr;
      }
    }
  } catch (const std::exception&) {
    if (current) chooseGemmAlgorithm(current->problem, current->chosen, false);
    (void)cudaGetLastError();
  }
  C10_CUDA_CHECK(cudaStreamSynchronize(pool.stream.stream()));
}

}  // namespace graft::cuda
