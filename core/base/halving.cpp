#include "core/base/halving.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

namespace graft {
namespace {

using Clock = std::chrono::steady_clock;

class Halving {
 public:
  Halving(double seconds, const std::function<bool(const std::vector<size_t>&)>& passes)
      : seconds_(seconds), passes_(passes) {}

  Kept kept;

  void grow(std::span<const size_t> part, bool isKnownToFail) {
    if (part.empty()) return;
    if (std::chrono::duration<double>(Clock::now() - begin_).count() > seconds_) {
      kept.untried.insert(kept.untried.end(), part.begin(), part.end());
      return;
    }
    if (!isKnownToFail) {
      std::vector<size_t> with = kept.numbers;
      with.insert(with.end(), part.begin(), part.end());
      ++kept.runs;
      if (passes_(with)) {
        kept.numbers = std::move(with);
        return;
      }
    }
    if (part.size() == 1) return;
    const std::span<const size_t> first = part.first(part.size() / 2);
    grow(first, false);
    // Where the first half stayed, the second is what fails.
    const bool firstStayed =
        kept.numbers.size() >= first.size() &&
        std::equal(first.begin(), first.end(), kept.numbers.end() - static_cast<std::ptrdiff_t>(first.size()));
    grow(part.subspan(first.size()), firstStayed);
  }

 private:
  const double seconds_;
  const std::function<bool(const std::vector<size_t>&)>& passes_;
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace

Kept keptInHalves(const std::vector<size_t>& order, double seconds,
                  const std::function<bool(const std::vector<size_t>&)>& passes) {
  Halving halving(seconds, passes);
  halving.grow(order, true);
  return std::move(halving.kept);
}

}  // namespace graft
