#include "app/console/timing_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "core/base/numbers/ratio_range.h"
#include "core/base/words.h"

namespace graft::cli {

namespace {

template <class Pairs>
std::string pairsText(const Pairs& t, const std::string& original, const std::string& rewritten) {
  const auto side = [](const Timing& s) {
    return fmt::format("{:.3f} ms (p10 {:.3f}, p90 {:.3f})", s.medianMs, s.p10Ms, s.p90Ms);
  };
  const size_t w = std::max(original.size(), rewritten.size());
  const RatioRange range = ratioRange(t.a.samplesMs, t.b.samplesMs);
  std::string speed = speedText(t.ratio, range);
  if (speedOf(t.ratio, range) == Speed::Untold) speed += "; a longer --seconds tells more";
  return fmt::format("{:<{}}  {}\n{:<{}}  {}\n{}", original, w, side(t.a), rewritten, w, side(t.b), speed);
}

}  // namespace

std::string busyText(double load, unsigned cores) {
  if (cores == 0 || load < 1.5 * cores) return "";
  return fmt::format("the machine is busy with {:.1f} processes on {}", load, counted(cores, "core"));
}

std::string timingText(const PairedTiming& t, const std::string& original, const std::string& rewritten) {
  double load = 0;
  const std::string busy = getloadavg(&load, 1) == 1 ? busyText(load, std::thread::hardware_concurrency()) : "";
  std::string out =
      fmt::format("{}; {}{}\n", pairsText(t, original, rewritten), t.protocol, busy.empty() ? "" : "; " + busy);
  if (t.flushed)
    out += fmt::format("with a flushed L2 cache\n{}; {} alternating pairs\n",
                       pairsText(*t.flushed, original, rewritten), t.flushed->repetitions);
  return out;
}

}  // namespace graft::cli
