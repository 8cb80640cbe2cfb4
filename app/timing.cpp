#include "app/timing.h"

#include <fmt/format.h>

namespace graft::cli {

namespace {

Result<AgainstOriginal> timeInExecutor(const Model& original, const Program& fast, const TensorSet& inputs,
                                       const RunOptions& options, double seconds, const Job& job) {
  auto slow = Program::build(original.graph, options);
  if (!slow) return slow.error();
  AgainstOriginal out;
  out.original = options.device == "cpu" ? "original (operator by operator)" : "original (captured)";
  auto t = timePaired(*slow, fast, inputs, seconds, job);
  if (!t) return t.error();
  out.times = std::move(*t);
  return out;
}

}  // namespace

Result<AgainstOriginal> timeAgainstOriginal(const Model& original, const Graph& rewritten, const TensorSet& inputs,
                                            const RunOptions& options, double seconds, const Job& job) {
  auto fast = Program::build(rewritten, options);
  if (!fast) return fast.error();
  AgainstOriginal out;
  if (original.format->torchJitLoads && options.device == "cpu") {
    auto frozen = frozenTorchScript(original.path, inputs, options);
    if (!frozen) return frozen.error();
    // A file may name the dtypes it was traced with: then TorchScript cannot run it in another, Graft can.
    const bool runs = !options.dtype || (*frozen)().ok();
    if (!runs) return timeInExecutor(original, *fast, inputs, options, seconds, job);
    out.original = "original (frozen TorchScript)";
    auto t =
        timePaired(*frozen, runnable(*fast, inputs), seconds, job,
                   fmt::format("{}, {}", options.device,
                               options.threads > 0 ? fmt::format("{} threads", options.threads) : "default threads"));
    if (!t) return t.error();
    out.times = std::move(*t);
    return out;
  }
  return timeInExecutor(original, *fast, inputs, options, seconds, job);
}

}  // namespace graft::cli
