// A memory budget for the cut: the share of what the default cut keeps that may be kept. What exceeds it is computed
// again, the nodes that give most memory for their time first: a knapsack over the expensive nodes, whose capacity is
// searched until the cut that follows from it, with all that it has to keep instead, meets the budget.
//
//   auto cuts = cutWithin(joint, 0.5, pins, {});
//   cuts->chosen.bytes <= 0.5 * cuts->byDefault.bytes
#pragma once

#include "core/base/progress.h"
#include "core/training/cut.h"

namespace graft {

struct BudgetedCut {
  Cut chosen;
  Cut byDefault;       ///< what a budget of 1 keeps
  size_t nothing = 0;  ///< bytes that are kept where nothing is computed again
  size_t least = 0;    ///< bytes of the cut that computes again all that it can
};

/// `budget` from 0 to 1. BadInput where it cannot be met: the message says what can. Errors of minimumCut.
Result<BudgetedCut> cutWithin(const JointGraph&, double budget, const Pins&, const Job& = {});

/// Which items fit into the capacity and are worth most together: 0 or 1 for each. Weights are rounded up to 1/1000 of
/// the capacity where that is needed, so the choice always fits. Dynamic programming (R. Bellman, 1957).
std::vector<char> knapsack(const std::vector<size_t>& weights, const std::vector<double>& worths, size_t capacity);

}  // namespace graft
