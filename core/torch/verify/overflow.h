// Which values of a model leave the range of their dtype, and findOverflow for whoever has the programs already.
//
// Private to core/torch/verify.
#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/torch/verification.h"
#include "core/torch/verify/program_set.h"

namespace graft {

/// What one run saw of a graph's floating values. Of a value in a loop: of all rounds together.
class Ranges {
 public:
  /// Runs the program once, with the random numbers that verification draws.
  static Result<Ranges> observe(const Program&, const TensorSet& inputs);
  /// How many elements are NaN or infinite.
  size_t nonFinite(ValueId v) const { return of(v).nonFinite; }
  /// The largest magnitude among the finite ones.
  double largest(ValueId v) const { return of(v).largest; }
  /// The values in the order in which they were computed.
  const std::vector<ValueId>& order() const { return order_; }

 private:
  struct Range {
    size_t nonFinite = 0;
    double largest = 0;
  };
  Range of(ValueId) const;
  std::unordered_map<ValueId, Range> ranges_;
  std::vector<ValueId> order_;
};

/// What overflows in one run and not in a wider one, on the way to the graph's outputs: a mask that does so on the way
/// to a softmax harms nothing.
struct OverflowedValues {
  std::unordered_set<ValueId> all;
  std::unordered_set<ValueId> begins;  ///< of these, what is computed from values that do not
};
OverflowedValues overflowedValues(const Graph&, const Ranges& narrow, const Ranges& wide);

/// Runs the original and its reference once more.
std::optional<Overflow> findOverflow(const Graph& original, VerificationPrograms&, const TensorSet& inputs);

}  // namespace graft
