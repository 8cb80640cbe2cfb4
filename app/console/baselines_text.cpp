#include "app/console/baselines_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/console/console.h"
#include "core/base/numbers/ratio_range.h"

namespace graft::cli {

using workbench::BaselineTiming;

std::string baselinesTable(const workbench::BaselineComparison& c) {
  const auto ms = [](double v) { return fmt::format("{:.3f}", v); };
  std::vector<std::vector<std::string>> rows;
  // On the CPU the host's time is the time.
  const auto add = [&](const std::string& mode, std::vector<std::string> times, const std::string& host,
                       const std::vector<std::string>& rest) {
    if (c.byEvents) times.push_back(host);
    times.insert(times.begin(), mode);
    times.insert(times.end(), rest.begin(), rest.end());
    rows.push_back(std::move(times));
  };
  const auto side = [&](const Timing& t) { return std::vector{ms(t.medianMs), ms(t.p10Ms), ms(t.p90Ms)}; };
  add("mode", {"ms", "p10", "p90"}, "host ms", {"rewritten is", "ready after", "GPU memory", ""});
  const bool memory =
      std::any_of(c.baselines.begin(), c.baselines.end(), [](const BaselineTiming& p) { return p.peakBytes > 0; });
  add("rewritten", side(c.rewritten), ms(c.rewrittenHost.medianMs),
      {"-", fmt::format("{:.1f} s", c.readySeconds), "-", c.how});
  for (const BaselineTiming& p : c.baselines) {
    if (!p.error.empty())
      add(p.mode, {"-", "-", "-"}, "-", {"-", "-", "-", p.error});
    else
      add(p.mode, side(p.times), ms(p.host.medianMs),
          {speedText(p.ratio, ratioRange(p.times.samplesMs, c.rewritten.samplesMs)),
           fmt::format("{:.1f} s", p.readySeconds), memory ? fmt::format("{} MiB", p.peakBytes >> 20) : "-",
           p.description});
  }
  return table(rows) + c.protocol + "\n";
}

std::string trainingTable(const workbench::TrainingComparison& c) {
  const workbench::TrainingTiming* own = nullptr;
  for (const workbench::TrainingTiming& t : c.modes)
    if (t.step.mode == "graft" && t.step.error.empty()) own = &t;
  std::vector<std::vector<std::string>> rows{
      {"mode", "ms a step", "p10", "p90", "graft is", "ready after", "memory", "loss", ""}};
  for (const workbench::TrainingTiming& t : c.modes) {
    const BaselineTiming& p = t.step;
    if (!p.error.empty()) {
      rows.push_back({p.mode, "-", "-", "-", "-", "-", "-", "-", p.error});
      continue;
    }
    rows.push_back(
        {p.mode, fmt::format("{:.3f}", p.times.medianMs), fmt::format("{:.3f}", p.times.p10Ms),
         fmt::format("{:.3f}", p.times.p90Ms),
         own && own != &t ? speedText(p.ratio, ratioRange(p.times.samplesMs, own->step.times.samplesMs)) : "-",
         fmt::format("{:.1f} s", p.readySeconds),
         fmt::format("{:.1f} MiB", static_cast<double>(p.peakBytes) / (1 << 20)),
         t.losses.empty() ? "-" : fmt::format("{:.6g}", t.losses.back()), p.description});
  }
  return table(rows) + c.protocol + "\n";
}

}  // namespace graft::cli
