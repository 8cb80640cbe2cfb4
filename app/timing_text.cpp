#include "app/timing_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

namespace graft::cli {

using nlohmann::json;

RatioRange ratioRange(const PairedTiming& t) {
  std::vector<double> ratios;
  const size_t n = std::min(t.a.samplesMs.size(), t.b.samplesMs.size());
  for (size_t i = 0; i < n; ++i) ratios.push_back(t.a.samplesMs[i] / t.b.samplesMs[i]);
  if (ratios.empty()) return {t.ratio, t.ratio};
  std::sort(ratios.begin(), ratios.end());
  // How many samples lie below the true median is binomial: this many may be left out on either side, whatever the
  // distribution of the samples.
  const double count = static_cast<double>(n);
  const auto out = static_cast<size_t>(std::max(0.0, (count - 1.96 * std::sqrt(count)) / 2));
  return {ratios[out], ratios[n - 1 - out]};
}

json timingJson(const PairedTiming& t) {
  const auto side = [](const Timing& s) {
    return json{{"median_ms", s.medianMs}, {"p10_ms", s.p10Ms}, {"p90_ms", s.p90Ms}, {"samples_ms", s.samplesMs}};
  };
  const RatioRange range = ratioRange(t);
  return {{"original", side(t.a)},    {"rewritten", side(t.b)},       {"ratio", t.ratio},      {"ratio_low", range.low},
          {"ratio_high", range.high}, {"repetitions", t.repetitions}, {"protocol", t.protocol}};
}

std::string busyText(double load, unsigned cores) {
  if (cores == 0 || load < 1.5 * cores) return "";
  return fmt::format("the machine is busy with {:.1f} processes on {} core{}", load, cores, cores == 1 ? "" : "s");
}

std::string timingText(const PairedTiming& t, const std::string& original, const std::string& rewritten) {
  const auto side = [](const Timing& s) {
    return fmt::format("{:.3f} ms (p10 {:.3f}, p90 {:.3f})", s.medianMs, s.p10Ms, s.p90Ms);
  };
  const size_t w = std::max(original.size(), rewritten.size());
  const RatioRange range = ratioRange(t);
  std::string speed;
  if (range.low <= 1 && range.high >= 1)
    speed = fmt::format(
        "no difference that these runs can tell ({:.2f} to {:.2f} times as fast; a longer --seconds tells more)",
        range.low, range.high);
  else
    speed = fmt::format("{:.2f} times {}", t.ratio >= 1 ? t.ratio : 1 / t.ratio, t.ratio >= 1 ? "faster" : "SLOWER");
  double load = 0;
  const std::string busy = getloadavg(&load, 1) == 1 ? busyText(load, std::thread::hardware_concurrency()) : "";
  return fmt::format("{:<{}}  {}\n{:<{}}  {}\n{}; {}{}\n", original, w, side(t.a), rewritten, w, side(t.b), speed,
                     t.protocol, busy.empty() ? "" : "; " + busy);
}

}  // namespace graft::cli
