#include "app/timing.h"

#include <fmt/format.h>

namespace graft::cli {

Result<AgainstOriginal> timeAgainstOriginal(const Model& original, const Graph& rewritten, const TensorSet& inputs,
                                            const RunOptions& options, double seconds, const Job& job) {
  auto fast = Program::build(rewritten, options);
  if (!fast) return fast.error();
  AgainstOriginal out;
  if (original.format == Format::TorchScript && options.device == "cpu") {
    auto frozen = frozenTorchScript(original.path, inputs, options);
    if (!frozen) return frozen.error();
    out.original = "original (frozen TorchScript)";
    auto t =
        timePaired(*frozen, runnable(*fast, inputs), seconds, job,
                   fmt::format("{}, {}", options.device,
                               options.threads > 0 ? fmt::format("{} threads", options.threads) : "default threads"));
    if (!t) return t.error();
    out.times = std::move(*t);
    return out;
  }
  auto slow = Program::build(original.graph, options);
  if (!slow) return slow.error();
  out.original = options.device == "cpu" ? "original (operator by operator)" : "original (captured)";
  auto t = timePaired(*slow, *fast, inputs, seconds, job);
  if (!t) return t.error();
  out.times = std::move(*t);
  return out;
}

}  // namespace graft::cli
