#include "app/workbench/optimize/advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "app/workbench/match.h"
#include "app/workbench/profile.h"
#include "core/base/words.h"

namespace graft::workbench {
namespace {

/// "Most of its time goes into aten.lstm (81 %, 1 call), aten.cumsum (9 %, 1 call)."
std::optional<std::string> whereTimeGoes(const Model& model, const TensorSet& inputs, const RunOptions& options,
                                         const Job& job) {
  constexpr int runs = 3;
  constexpr size_t shown = 4;
  auto program = Program::build(model.graph, options);
  if (!program) return std::nullopt;
  auto times = timeNodes(*program, inputs, runs, job);
  if (!times) return std::nullopt;
  struct Share {
    double microseconds = 0;
    size_t calls = 0;
  };
  std::map<std::string, Share> of;
  double all = 0;
  for (const NodeTimes& t : *times) {
    Share& share = of[std::string(model.graph.node(t.node).op->packetName())];
    share.microseconds += t.microseconds;
    share.calls += t.calls;
    all += t.microseconds;
  }
  std::vector<std::pair<std::string, Share>> sorted(of.begin(), of.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.microseconds > b.second.microseconds; });
  if (sorted.size() > shown) sorted.resize(shown);
  std::vector<std::string> parts;
  for (const auto& [name, share] : sorted)
    parts.push_back(fmt::format("{} ({:.0f} %, {})", name, 100 * share.microseconds / std::max(all, 1e-9),
                                counted(share.calls, "call")));
  if (parts.empty()) return std::nullopt;
  return fmt::format("Its time goes into {}.", fmt::join(parts, ", "));
}

/// The shipped rule of which the most is there.
std::optional<std::string> nearestRule(const Model& model, const std::vector<RuleFile>& shipped,
                                       const OperatorSet& operators, const Job& job) {
  constexpr size_t fewestNodes = 2;
  std::optional<std::string> out;
  double best = 0.5;  // what is half there or less would be no help
  std::set<std::string> seen;
  for (const RuleFile& file : shipped)
    for (const Rule& rule : file.rules) {
      if (job.cancelled()) return out;
      if (!rule.replacement || !seen.insert(rule.name).second) continue;
      const auto why = explain(model.graph, rule, "", file.path, operators, {"", 1, false});
      if (!why || why->nearMisses.empty()) continue;
      const NearMissReport& n = why->nearMisses[0];
      const double part = static_cast<double>(n.matched) / static_cast<double>(std::max<size_t>(n.total, 1));
      if (n.matched < fewestNodes || part <= best) continue;
      best = part;
      out = fmt::format(
          "The nearest rule is {}, {} of whose {} nodes are there{}{}: {}. `graft explain {} --rules {} "
          "--rule {}` says more.",
          rule.name, n.matched, n.total, n.at ? " at " + *n.at : "", n.scope.empty() ? "" : " in " + n.scope, n.message,
          model.path, file.path, rule.name);
    }
  return out;
}

}  // namespace

std::vector<std::string> adviceFor(const Model& model, const TensorSet* inputs, const RunOptions& options,
                                   const std::vector<RuleFile>& shipped, const OperatorSet& operators, const Job& job) {
  std::vector<std::string> out;
  if (inputs)
    if (auto line = whereTimeGoes(model, *inputs, options, job)) out.push_back(std::move(*line));
  if (auto line = nearestRule(model, shipped, operators, job)) out.push_back(std::move(*line));
  out.push_back(
      fmt::format("A rule of your own can replace what the model spends its time on: `graft profile {}` shows "
                  "the places, docs/guide/writing-rules.md how to write one.",
                  model.path));
  return out;
}

}  // namespace graft::workbench
