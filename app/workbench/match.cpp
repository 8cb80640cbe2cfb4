#include "app/workbench/match.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <set>

#include "core/ir/normal_form.h"
#include "matcher/lang/fix_it.h"

namespace graft::workbench {
namespace {

MatchPlace placeOfMatch(const Graph& g, const Rule& rule, const Match& m) {
  MatchPlace out{m.scope, {}, {}};
  for (NodeId n : m.nodes) out.nodes.push_back(g.node(n).name);
  for (NodeId p : rule.pattern.order())
    if (p.index < m.nodeOf.size() && m.nodeOf[p.index])
      out.map.emplace_back(rule.pattern.node(p).name, g.node(m.nodeOf[p.index]).name);
  return out;
}

NearMissReport reportOf(const Graph& g, const Rule& rule, NearMiss& n) {
  NearMissReport out;
  out.matched = n.matched;
  out.total = n.total;
  if (n.at && g.isAlive(n.at)) out.at = g.node(n.at).name;
  if (n.patternNode) out.inPattern = rule.pattern.node(n.patternNode).name;
  out.reason = std::string(reasonName(n.reason));
  out.parameter = std::move(n.parameter);
  out.expected = std::move(n.expected);
  out.actual = std::move(n.actual);
  out.message = std::move(n.message);
  out.suggestion = std::move(n.suggestion);
  out.edits = std::move(n.edits);
  out.line = n.line;
  out.scope = std::move(n.scope);
  for (size_t i = 0; i < n.matchedPattern.size() && i < n.matchedNodes.size(); ++i)
    out.map.emplace_back(rule.pattern.node(n.matchedPattern[i]).name, g.node(n.matchedNodes[i]).name);
  return out;
}

/// The operators of the pattern that are there, each in a place where several things differ.
std::string nothingNear(const Graph& g, const Rule& rule) {
  std::set<std::string_view> wanted;
  for (NodeId n : rule.pattern.order()) wanted.insert(canonicalOperator(rule.pattern.node(n).op->name));
  std::map<std::string, size_t> there;
  for (NodeId n : g.order())
    if (wanted.contains(canonicalOperator(g.node(n).op->name))) ++there[std::string(g.node(n).op->packetName())];
  if (there.empty()) return "No place comes near: the graph has none of the pattern's operators.";
  std::string names;
  for (const auto& [name, count] : there) names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", name, count);
  return fmt::format(
      "No place comes near: the graph has these of the pattern's operators: {}. At each of them more than one thing "
      "differs.",
      names);
}

}  // namespace

MatchReport match(const Graph& g, const RuleFile& file, const std::string& onlyRule) {
  const auto start = std::chrono::steady_clock::now();
  const Matcher matcher(g);
  MatchReport out;
  for (const Rule& rule : file.rules) {
    if (!onlyRule.empty() && rule.name != onlyRule) continue;
    const SearchResult found = matcher.findAll(rule);
    RuleMatches& row = out.rules.emplace_back(RuleMatches{rule.name, {}, found.budgetExceeded});
    for (const Match& m : found.matches) row.places.push_back(placeOfMatch(g, rule, m));
  }
  out.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return out;
}

Result<Explanation> explain(const Graph& g, const Rule& rule, std::string_view text, const std::string& file,
                            const OperatorSet& operators, const ExplainRequest& request) {
  SearchOptions search;
  search.explain = true;
  search.nearMisses = request.limit;
  if (!request.at.empty()) {
    search.at = g.findNode(request.at);
    if (!search.at) return badInput(fmt::format("there is no node {}", request.at));
  }
  SearchResult found = Matcher(g).findAll(rule, search);
  Explanation out{rule.name, found.matches.size(), found.budgetExceeded, {}, ""};
  if (found.nearMisses.empty() && found.matches.empty()) out.nothingNear = nothingNear(g, rule);
  std::optional<FixIts> fixIts;
  if (request.edits) fixIts.emplace(text, file, operators, g);
  for (NearMiss& n : found.nearMisses) {
    if (fixIts) n.edits = fixIts->edits(rule, n);
    out.nearMisses.push_back(reportOf(g, rule, n));
  }
  return out;
}

}  // namespace graft::workbench
