// How many times as fast one program is as another, as far as pairs of runs can tell. A busy machine makes equal
// programs look different; what is claimed of them is decided here, the same on the command line and in the window.
//
//   const RatioRange r = ratioRange(original.samplesMs, rewritten.samplesMs);
//   if (r.tellsDifference()) …   // above 1: the second is faster
#pragma once

#include <vector>

namespace graft {

/// Where the median of the pairs' ratios lies in 19 of 20 such measurements; of a few pairs, their least and their
/// most.
struct RatioRange {
  double low = 0, high = 0;  ///< a_i / b_i; both 0 where there are no pairs
  /// Whether one of the two is faster: not where the range holds 1.
  bool tellsDifference() const { return low > 1 || (high > 0 && high < 1); }
};

/// Milliseconds of runs that were measured in turns: a[i] beside b[i]. What one has more of is left out.
RatioRange ratioRange(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace graft
