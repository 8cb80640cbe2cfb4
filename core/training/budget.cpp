#include "core/training/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace graft {

std::vector<char> knapsack(const std::vector<size_t>& weights, const std::vector<double>& worths, size_t capacity) {
  constexpr size_t steps = 1000;
  const size_t unit = std::max<size_t>(1, (capacity + steps - 1) / steps), room = capacity / unit;
  const auto units = [&](size_t i) { return (weights[i] + unit - 1) / unit; };
  std::vector<double> best(room + 1, 0);
  std::vector<std::vector<char>> taken(weights.size(), std::vector<char>(room + 1, 0));
  for (size_t i = 0; i < weights.size(); ++i)
    for (size_t r = room + 1; r-- > units(i);)
      if (best[r - units(i)] + worths[i] > best[r]) {
        best[r] = best[r - units(i)] + worths[i];
        taken[i][r] = 1;
      }
  std::vector<char> out(weights.size(), 0);
  size_t r = room;
  for (size_t i = weights.size(); i-- > 0;)
    if (taken[i][r]) {
      out[i] = 1;
      r -= units(i);
    }
  return out;
}

Result<BudgetedCut> cutWithin(const JointGraph& joint, double budget, const Pins& pins, const Job& job) {
  const auto cutAt = [&](Looseness looseness, std::vector<char> alsoAgain = {}) {
    return minimumCut(joint, {looseness, std::move(alsoAgain), pins});
  };
  BudgetedCut out;
  auto nothing = cutAt(Looseness::Nothing), byDefault = cutAt(Looseness::Cheap);
  auto moderate = cutAt(Looseness::Moderate), all = cutAt(Looseness::All);
  for (auto* cut : {&nothing, &byDefault, &moderate, &all})
    if (!*cut) return cut->error();
  out.nothing = nothing->bytes;
  out.byDefault = *byDefault;
  out.least = all->bytes;
  const double limit = budget * static_cast<double>(byDefault->bytes);
  const auto fits = [&](const Cut& c) { return static_cast<double>(c.bytes) <= limit; };
  if (!fits(*all))
    return badInput(fmt::format(
        "a memory budget of {:.4g} % cannot be met: inputs, random numbers and what is pinned take {:.4g} % of what "
        "the default cut keeps; ask for at least --memory {}%",
        100 * budget, 100.0 * static_cast<double>(all->bytes) / static_cast<double>(byDefault->bytes),
        static_cast<int>(std::ceil(100.0 * static_cast<double>(all->bytes) / static_cast<double>(byDefault->bytes)))));
  if (fits(*byDefault)) {
    out.chosen = std::move(*byDefault);
    return out;
  }
  // The items: nodes that the default cut's bans keep from being computed twice. One that is not in the knapsack may
  // be.
  std::vector<NodeId> items;
  std::vector<size_t> weights;
  std::vector<double> worths;
  size_t together = 0;
  for (NodeId n : joint.order()) {
    if (!byDefault->bannedNodes[n.index] || joint.recomputing(n) == Recomputing::Never || !joint.isWanted(n)) continue;
    size_t bytes = 0;
    for (ValueId v : joint.graph().node(n).outputs)
      if (joint.distance(v) < JointGraph::far) bytes += joint.bytes(v);
    items.push_back(n);
    weights.push_back(bytes);
    worths.push_back(joint.microseconds(n));
    together += bytes;
  }
  out.chosen = std::move(*all);
  if (fits(*moderate) && moderate->microseconds < out.chosen.microseconds) out.chosen = std::move(*moderate);
  size_t low = 0, high = together;
  for (int round = 0; round < 20 && high - low > together / 1000; ++round) {
    if (job.cancelled()) return Error{ErrorKind::Cancelled, "interrupted; nothing was written", {}};
    const size_t capacity = low + (high - low) / 2;
    const std::vector<char> kept = knapsack(weights, worths, capacity);
    std::vector<char> again(joint.graph().nodeBound(), 0);
    for (size_t i = 0; i < items.size(); ++i) again[items[i].index] = !kept[i];
    auto cut = cutAt(Looseness::Cheap, std::move(again));
    if (!cut) return cut.error();
    if (fits(*cut)) {
      low = capacity;
      if (cut->microseconds < out.chosen.microseconds) out.chosen = std::move(*cut);
    } else {
      high = capacity;
    }
  }
  return out;
}

}  // namespace graft
