#include "app/timing_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/ratio_range.h"

namespace graft::cli {

using nlohmann::json;

namespace {

/// Both sides with what the runs tell of them: of PairedTiming and FlushedTiming.
template <class Pairs>
json pairsJson(const Pairs& t) {
  const RatioRange range = ratioRange(t.a.samplesMs, t.b.samplesMs);
  return {{"original", sideJson(t.a)}, {"rewritten", sideJson(t.b)}, {"ratio", t.ratio},
          {"ratio_low", range.low},    {"ratio_high", range.high},   {"repetitions", t.repetitions}};
}

template <class Pairs>
std::string pairsText(const Pairs& t, const std::string& original, const std::string& rewritten) {
  const auto side = [](const Timing& s) {
    return fmt::format("{:.3f} ms (p10 {:.3f}, p90 {:.3f})", s.medianMs, s.p10Ms, s.p90Ms);
  };
  const size_t w = std::max(original.size(), rewritten.size());
  const RatioRange range = ratioRange(t.a.samplesMs, t.b.samplesMs);
  std::string speed;
  if (!range.tellsDifference())
    speed = fmt::format(
        "no difference that these runs can tell ({:.2f} to {:.2f} times as fast; a longer --seconds tells more)",
        range.low, range.high);
  else
    speed = fmt::format("{:.2f} times {}", t.ratio >= 1 ? t.ratio : 1 / t.ratio, t.ratio >= 1 ? "faster" : "SLOWER");
  return fmt::format("{:<{}}  {}\n{:<{}}  {}\n{}", original, w, side(t.a), rewritten, w, side(t.b), speed);
}

}  // namespace

json sideJson(const Timing& t) {
  return {{"median_ms", t.medianMs}, {"p10_ms", t.p10Ms}, {"p90_ms", t.p90Ms}, {"samples_ms", t.samplesMs}};
}

json timingJson(const PairedTiming& t) {
  json out = pairsJson(t);
  out["protocol"] = t.protocol;
  if (t.flushed) out["flushed"] = pairsJson(*t.flushed);
  return out;
}

std::string busyText(double load, unsigned cores) {
  if (cores == 0 || load < 1.5 * cores) return "";
  return fmt::format("the machine is busy with {:.1f} processes on {} core{}", load, cores, cores == 1 ? "" : "s");
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
