// How many times as fast one program is as another, as far as pairs of runs can tell. A busy machine makes equal
// programs look different; what is claimed of them is decided and worded here, the same on the command line, in reports
// and in the window.
//
//   const RatioRange r = ratioRange(original.samplesMs, rewritten.samplesMs);
//   speedOf(ratio, r)      // Speed::Faster
//   speedText(ratio, r)    // "1.32 times faster"
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace graft {

/// Where the median of the pairs' ratios lies in 99 of 100 such measurements; of a few pairs, their least and their
/// most. It holds the ratios of both sides' medians and of their fastest runs, too: what these tell differently is
/// noise.
struct RatioRange {
  double low = 0, high = 0;  ///< a_i / b_i; both 0 where there are no pairs
  /// Whether one of the two is faster: not where the range holds 1.
  bool tellsDifference() const { return low > 1 || (high > 0 && high < 1); }
};

/// Milliseconds of runs that were measured in turns: a[i] beside b[i]. What one has more of is left out. Neighbouring
/// pairs of many are one sample together, for the machine was as busy in the one as in the other.
RatioRange ratioRange(const std::vector<double>& a, const std::vector<double>& b);

/// What may be said of the second program.
enum class Speed {
  Faster,
  Slower,
  Same,    ///< the range holds 1 and is narrow, or the ratio is 1.00
  Untold,  ///< the range holds 1 and is wide: the runs tell nothing
};
Speed speedOf(double ratio, const RatioRange&);
/// In one word, for reports: "faster", "slower", "same", "untold".
std::string_view speedName(Speed);
/// "1.32 times faster", "1.10 times slower", "the same speed (0.98 to 1.03 times as fast)", "no difference that these
/// runs can tell (0.20 to 3.08 times as fast)".
std::string speedText(double ratio, const RatioRange&);

}  // namespace graft
