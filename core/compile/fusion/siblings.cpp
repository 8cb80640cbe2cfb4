// Groups that read the same value and become one kernel, though none reads what the other makes.
#include <algorithm>
#include <unordered_set>

#include "core/compile/fusion/planner.h"

namespace graft {
namespace {

/// What the first makes is kept until the second has run, and paths between them are looked for among so many.
constexpr int64_t farApart = 256;
/// Of the readers of one value, each is looked at beside so many behind it.
constexpr size_t nextReaders = 4;
/// On a GPU, siblings of at most so many elements save a launch, also where what both read is small: the angles by
/// which queries and keys are turned. One such value alone, a bias, does not make them alike.
constexpr double fewElements = 1 << 22;
constexpr size_t leastInCommon = 2;
/// Tensors that a kernel of siblings reads and writes: of more streams than this, caches and prefetchers lose track.
constexpr size_t mostStreams = 16;

}  // namespace

bool FusionPlanner::isWhole(ValueId v, const GrowingGroup& a) const {
  return g_.value(v).type.isTensor() && elementsOf(g_.value(v).type) == a.elements;
}

std::optional<std::vector<Dim>> FusionPlanner::shapeOf(uint32_t a) const {
  return g_.value(g_.node(groups_[a].nodes.back()).outputs.front()).type.tensorInfo.shape;
}

bool FusionPlanner::mayShare(ValueId v, const GrowingGroup& a) const {
  if (isWhole(v, a)) return true;
  return options_.hasProducts && !a.hasRows && !a.hasWindows && a.elements <= fewElements &&
         g_.value(v).type.isTensor() && elementsOf(g_.value(v).type) > 1;
}

std::vector<ValueId> FusionPlanner::readByBoth(uint32_t ai, uint32_t bi) const {
  std::unordered_set<ValueId> first;
  for (const NodeId n : groups_[ai].nodes)
    for (const FusionRead& r : nodes_[n.index].reads) first.insert(r.base);
  std::vector<ValueId> both;
  for (const NodeId n : groups_[bi].nodes)
    for (const FusionRead& r : nodes_[n.index].reads)
      if (mayShare(r.base, groups_[ai]) && first.erase(r.base) > 0) both.push_back(r.base);
  const auto isWhole = [&](ValueId v) { return this->isWhole(v, groups_[ai]); };
  if (std::ranges::any_of(both, isWhole))
    std::erase_if(both, [&](ValueId v) { return !isWhole(v); });
  else if (both.size() < leastInCommon || shapeOf(ai) != shapeOf(bi))
    both.clear();
  return both;
}

MergeJudgement FusionPlanner::judgeSiblings(uint32_t ai, uint32_t bi) const {
  const GrowingGroup &a = groups_[ai], &b = groups_[bi];
  const Prices& p = options_.prices;
  double bytes = 0;
  const std::vector<ValueId> both = readByBoth(ai, bi);
  for (const ValueId v : both) bytes += bytesOf(g_.value(v).type);
  MergeJudgement j;
  j.apart = 2 * p.call + microsecondsOfBytes(p, 2 * bytes);
  j.together = p.call + microsecondsOfBytes(p, bytes);
  if (const auto entry = conflictOf(a.sides, b.sides))
    j.why = "they are to stay apart (" + steered_.apartEntries[*entry] + ")";
  else if (a.product || b.product)
    j.why = "one of them computes a matrix product";
  else if (both.empty())
    j.why = "they read no value of their own size together";
  else if (a.elements != b.elements)
    j.why = "they go over different numbers of elements";
  else if (a.hasRows && b.hasRows && a.rowKey != b.rowKey && !areRowsAndColumns(a, b) && !areRowsAndColumns(b, a))
    j.why = rowsDiffer(a, b);
  else if (a.block != b.block)
    j.why = "one of them is in a branch or a loop that the other is not in";
  else if (a.epoch != b.epoch)
    j.why = "an operator that writes or has effects lies between them";
  else if (a.nodes.size() + b.nodes.size() > options_.maxNodes)
    j.why = "the group would have more than " + std::to_string(options_.maxNodes) + " nodes";
  else if (tensorsOf(ai, bi) > std::min(options_.maxInputs, mostStreams))
    j.why = "the group would read and write more than " + std::to_string(std::min(options_.maxInputs, mostStreams)) +
            " tensors";
  else if (std::max(a.last, b.last) - std::min(a.first, b.first) > farApart)
    j.why = "they stand far apart, and what the first makes would be kept for long";
  else if (a.after.contains(bi) || b.after.contains(ai) || isCycle(ai, bi) || isCycle(bi, ai))
    j.why = "one of them depends on what the other makes";
  j.isLegal = j.why.empty();
  return j;
}

std::vector<FusionSiblings> FusionPlanner::findSiblings() const {
  std::vector<FusionSiblings> found;
  std::set<std::pair<uint32_t, uint32_t>> seen;
  for (uint32_t v = 0; v < readers_.size(); ++v) {
    std::vector<std::pair<uint32_t, NodeId>> groups;  // in the order of nodes
    for (const NodeId reader : readers_[v]) {
      const uint32_t group = groupOf_[reader.index];
      const auto isKnown = [&](const auto& known) { return known.first == group; };
      if (groups_[group].computes && mayShare(ValueId(v), groups_[group]) &&
          std::none_of(groups.rbegin(), groups.rbegin() + static_cast<long>(std::min<size_t>(groups.size(), 64)),
                       isKnown))
        groups.emplace_back(group, reader);
    }
    for (size_t i = 0; i < groups.size(); ++i)
      for (size_t k = i + 1; k < std::min(groups.size(), i + 1 + nextReaders); ++k) {
        if (groups[i].first == groups[k].first || !seen.emplace(groups[i].first, groups[k].first).second) continue;
        const MergeJudgement j = judgeSiblings(groups[i].first, groups[k].first);
        found.push_back({j.saved(), groups[i].second, groups[k].second, ValueId(v)});
      }
  }
  // What saves most comes first.
  std::stable_sort(found.begin(), found.end(),
                   [](const FusionSiblings& a, const FusionSiblings& b) { return a.saved > b.saved; });
  return found;
}

void FusionPlanner::mergeSiblings() {
  for (const FusionSiblings& s : findSiblings()) {
    const uint32_t a = groupOf_[s.first.index], b = groupOf_[s.second.index];
    if (a == b) continue;
    const MergeJudgement j = judgeSiblings(a, b);
    const bool isMerged = j.isLegal && j.saved() > 0;
    decisions_.push_back({g_.node(s.first).name, g_.node(s.second).name, g_.value(s.value).name, j.isLegal, isMerged,
                          false, true, j.isLegal && !isMerged ? "it would not be faster" : j.why, j.apart, j.together});
    if (isMerged) merge(a, b);
  }
}

}  // namespace graft
