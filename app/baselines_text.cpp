// What PyTorch's own ways took beside the rewritten model, as a table and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/baselines.h"
#include "app/cli.h"
#include "app/timing_text.h"

namespace graft::cli {

using nlohmann::json;

std::string peersTable(const PeerComparison& c) {
  const auto ms = [](double v) { return fmt::format("{:.3f}", v); };
  std::vector<std::vector<std::string>> rows;
  // On the CPU the host's time is the time.
  const auto add = [&](const std::string& way, std::vector<std::string> times, const std::string& host,
                       const std::vector<std::string>& rest) {
    if (c.byEvents) times.push_back(host);
    times.insert(times.begin(), way);
    times.insert(times.end(), rest.begin(), rest.end());
    rows.push_back(std::move(times));
  };
  const auto side = [&](const Timing& t) { return std::vector{ms(t.medianMs), ms(t.p10Ms), ms(t.p90Ms)}; };
  add("way", {"ms", "p10", "p90"}, "host ms", {"rewritten is", "ready after", "GPU memory", ""});
  const bool memory = std::any_of(c.peers.begin(), c.peers.end(), [](const PeerTiming& p) { return p.peakBytes > 0; });
  add("rewritten", side(c.rewritten), ms(c.rewrittenHost.medianMs),
      {"-", fmt::format("{:.1f} s", c.readySeconds), "-", c.how});
  for (const PeerTiming& p : c.peers) {
    if (!p.error.empty())
      add(p.way, {"-", "-", "-"}, "-", {"-", "-", "-", p.error});
    else
      add(p.way, side(p.times), ms(p.host.medianMs),
          {p.ratio >= 1 ? fmt::format("{:.2f}x faster", p.ratio) : fmt::format("{:.2f}x SLOWER", 1 / p.ratio),
           fmt::format("{:.1f} s", p.readySeconds), memory ? fmt::format("{} MiB", p.peakBytes >> 20) : "-", p.what});
  }
  return table(rows) + c.protocol + "\n";
}

json peersJson(const PeerComparison& c) {
  const auto times = [](const Timing& t, const Timing& host) {
    json out = sideJson(t);
    out["host"] = sideJson(host);
    return out;
  };
  json out{{"rewritten", times(c.rewritten, c.rewrittenHost)}, {"protocol", c.protocol}, {"peers", json::array()}};
  out["rewritten"]["how"] = c.how;
  out["rewritten"]["ready_s"] = c.readySeconds;
  for (const PeerTiming& p : c.peers) {
    json row = p.error.empty() ? times(p.times, p.host) : json{{"error", p.error}};
    row["way"] = p.way;
    if (p.error.empty()) {
      row["what"] = p.what;
      row["ratio"] = p.ratio;
      row["ready_s"] = p.readySeconds;
      row["peak_bytes"] = p.peakBytes;
    }
    out["peers"].push_back(std::move(row));
  }
  return out;
}

}  // namespace graft::cli
