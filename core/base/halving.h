// keptInHalves: which of many changes a whole passes its check with. Each passes alone, and all together do not: small
// differences add up, so one of them alone is not to blame.
//
//   const Kept kept = keptInHalves(order, seconds, [&](const std::vector<size_t>& kept) { return isRight(kept); });
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace graft {

struct Kept {
  std::vector<size_t> numbers;  ///< of the changes that the whole passes with
  std::vector<size_t> untried;  ///< not kept, since time was not enough to try them
  size_t runs = 0;              ///< how often the whole was tried
  bool isComplete() const { return untried.empty(); }
};

/// Adds the changes of `order`, which fail together, to the whole in halves: what passes stays, what fails is halved
/// until it is one change. Of k changes out of n that have to go, that takes about 2 k log n runs. After `seconds` no
/// run begins.
Kept keptInHalves(const std::vector<size_t>& order, double seconds,
                  const std::function<bool(const std::vector<size_t>& kept)>& passes);

}  // namespace graft
