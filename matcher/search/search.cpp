#include "matcher/search/search.h"

#include <algorithm>
#include <array>

#include "matcher/search/backtracking_search.h"
#include "matcher/search/near_miss.h"

namespace graft {
namespace {

constexpr uint64_t stepsPerAnchor = 20'000;
constexpr uint64_t stepsPerExplanation = 4'000;

// A node that fits in nothing but its operator is no near miss; one that fits but for a literal is, and one of whose
// many operands most fit.
bool worthReporting(const PartialMatch& d) {
  if (d.matched > 0 || d.isAlike) return true;
  return d.complete && d.cause.reason != Reason::Operator && d.cause.reason != Reason::Missing &&
         d.cause.reason != Reason::ModuleType;
}

bool touches(const std::vector<NodeId>& nodes, NodeId n) {
  return std::find(nodes.begin(), nodes.end(), n) != nodes.end();
}

}  // namespace

struct Matcher::Index : GraphIndex {
  using GraphIndex::GraphIndex;
};

Matcher::Matcher(const Graph& graph) : graph_(graph), index_(std::make_unique<Index>(graph)) {}
Matcher::~Matcher() = default;

SearchResult Matcher::findAll(const Rule& rule, const SearchOptions& options) const {
  SearchResult result;
  const Plan plan(rule, *index_);
  if (!plan.problem.empty()) {
    result.problem = plan.problem;
    return result;
  }
  std::vector<uint8_t> taken(graph_.nodeBound(), 0);
  Budget budget;
  budget.total = options.stepBudget;
  budget.anchorLimit = std::min(stepsPerAnchor, options.stepBudget);
  {
    const std::vector<ValueId> starts = plan.startingPoints(false);
    std::optional<BacktrackingSearch> search;
    if (!starts.empty()) search.emplace(plan, taken, budget);
    for (ValueId start : starts) {
      const NodeId n = graph_.value(start).producer;
      if (!n || taken[n.index]) continue;
      if (!search->run(start)) continue;
      Match m = search->match();
      if (options.passOver && options.passOver(m)) continue;
      for (NodeId id : m.nodes) taken[id.index] = 1;
      result.matches.push_back(std::move(m));
      if (budget.used >= budget.total) break;
    }
  }
  result.budgetExceeded = budget.exceeded;
  result.steps = budget.used;
  if (options.explain) {
    Budget explaining;
    explaining.total = options.stepBudget;
    explaining.anchorLimit = stepsPerExplanation;
    BacktrackingSearch search(plan, taken, explaining);
    for (ValueId start : plan.startingPoints(true)) {
      const NodeId n = graph_.value(start).producer;
      if (!n || taken[n.index]) continue;
      if (auto partial = search.explain(start); partial && worthReporting(*partial)) {
        NearMiss miss = toNearMiss(plan, *partial);
        if (!options.at || miss.anchor == options.at || miss.at == options.at || touches(miss.matchedNodes, options.at))
          result.nearMisses.push_back(std::move(miss));
      }
    }
    rankNearMisses(result.nearMisses, options.nearMisses);
    result.steps += explaining.used;
  }
  result.looked = plan.looked;
  if (options.at)
    std::erase_if(result.matches,
                  [&](const Match& m) { return m.anchor != options.at && !touches(m.nodes, options.at); });
  const auto place = [&](const Match& m) { return m.anchor ? index_->position[m.anchor.index] : 0u; };
  const auto comesFirst = [&](const Match& a, const Match& b) { return place(a) < place(b); };
  if (!std::is_sorted(result.matches.begin(), result.matches.end(), comesFirst))
    std::stable_sort(result.matches.begin(), result.matches.end(), comesFirst);
  return result;
}

std::string_view reasonName(Reason r) {
  static constexpr std::array<std::string_view, 20> names{
      "operator", "literal", "operand",       "dtype",   "rank",   "module type", "module name",
      "arity",    "escapes", "overlap",       "scope",   "where",  "alias",       "cycle",
      "random",   "weight",  "constant kind", "missing", "region", "budget"};
  return names[static_cast<size_t>(r)];
}

}  // namespace graft
