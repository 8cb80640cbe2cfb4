#include "matcher/search/candidates.h"

#include <algorithm>
#include <cassert>

namespace graft {
namespace {

uint32_t keyOf(ModuleCallId m) { return m ? m.index : GraphIndex::none; }

}  // namespace

CandidateRoots::CandidateRoots(const GraphIndex& index, std::vector<ValueId> values) : index_(index) {
  const auto place = [&](ValueId v) { return index.position[index.graph.value(v).producer.index]; };
  std::sort(values.begin(), values.end(),
            [&](ValueId a, ValueId b) { return std::pair(place(a), a) < std::pair(place(b), b); });
  for (ValueId v : values) {
    assert(index.graph.value(v).producer);
    ModuleCallId m = index.graph.node(index.graph.value(v).producer).module;
    for (;; m = index.graph.moduleCall(m).parent) {
      rows_[keyOf(m)].values.push_back(v);
      if (!m) break;
    }
  }
  for (auto& [module, row] : rows_) {
    const auto n = static_cast<uint32_t>(row.values.size());
    for (uint32_t i = 0; i <= n; ++i) {
      row.after.push_back(i);
      row.before.push_back(i);
    }
  }
}

CandidateRootWalk::CandidateRootWalk(const CandidateRoots& candidates, NodeId last, const std::vector<uint8_t>& taken)
    : candidates_(candidates), graph_(candidates.index_.graph), taken_(taken), last_(last) {
  if (last) module_ = graph_.node(last).module;
  enter();
}

void CandidateRootWalk::enter() {
  const auto at = candidates_.rows_.find(keyOf(module_));
  row_ = at == candidates_.rows_.end() ? nullptr : &at->second;
  if (!row_) return;
  const auto& position = candidates_.index_.position;
  const uint32_t from = last_ ? position[last_.index] : 0;
  const auto begin = std::partition_point(row_->values.begin(), row_->values.end(),
                                          [&](ValueId v) { return position[graph_.value(v).producer.index] < from; });
  up_ = down_ = static_cast<uint32_t>(begin - row_->values.begin());
}

bool CandidateRootWalk::isTaken(ValueId v) const { return taken_[graph_.value(v).producer.index] != 0; }

// What is taken stays taken, so the next walk jumps over it.
uint32_t CandidateRootWalk::freeFrom(CandidateRoots::Row& row, uint32_t i) {
  uint32_t at = i;
  while (at < row.values.size() && (row.after[at] != at || isTaken(row.values[at])))
    at = row.after[at] != at ? row.after[at] : at + 1;
  while (i < at) {
    const uint32_t further = std::max(row.after[i], i + 1);
    row.after[i] = at;
    i = further;
    ++looked_;
  }
  return at;
}

uint32_t CandidateRootWalk::freeDownFrom(CandidateRoots::Row& row, uint32_t i) {
  uint32_t at = i;
  while (at > 0 && (row.before[at] != at || isTaken(row.values[at - 1])))
    at = row.before[at] != at ? row.before[at] : at - 1;
  while (i > at) {
    const uint32_t further = std::min(row.before[i], i - 1);
    row.before[i] = at;
    i = further;
    ++looked_;
  }
  return at;
}

ValueId CandidateRootWalk::next() {
  while (!done_) {
    while (row_) {
      ValueId v;
      if (up_ = freeFrom(*row_, up_); up_ < row_->values.size()) {
        v = row_->values[up_++];
      } else if (down_ = freeDownFrom(*row_, down_); down_ > 0) {
        v = row_->values[--down_];
      } else {
        row_ = nullptr;
        break;
      }
      ++looked_;
      if (first_ || !graph_.isWithin(graph_.node(graph_.value(v).producer).module, inner_)) return v;
    }
    done_ = !module_;
    if (done_) break;
    first_ = false;
    inner_ = module_;
    module_ = graph_.moduleCall(module_).parent;
    enter();
  }
  return {};
}

// Results of matched nodes come before parameters, whose users may be anywhere; then the value with the fewest users.
ValueId RootLookup::nearestBound(ValueId root) const {
  const std::vector<uint8_t>& leads = plan_.ancestorsOf(root);
  const std::vector<const Argument*>& bindings = state_.bindings();
  ValueId from;
  std::pair<bool, size_t> fewest;
  for (uint32_t v = 0; v < bindings.size(); ++v) {
    if (!bindings[v] || !bindings[v]->isValue() || !leads[v]) continue;
    const std::pair here(plan_.producer(ValueId(v)) == nullptr, graph_.value(bindings[v]->valueId()).users.size());
    if (from && here >= fewest) continue;
    from = ValueId(v);
    fewest = here;
  }
  return from;
}

std::vector<ValueId> RootLookup::above(ValueId root, ValueId from, bool loose) const {
  if (!from) return anywhere(root);
  std::vector<ValueId> found;
  plan_.followUses(from, state_.bound(from)->valueId(), root, loose, found);
  return nearest(std::move(found));
}

std::vector<ValueId> RootLookup::anywhere(ValueId root) const {
  const PlanNode& p = *plan_.producer(root);
  const std::vector<ValueId>& outputs = plan_.pattern.node(p.id).outputs;
  const auto output = std::find(outputs.begin(), outputs.end(), root) - outputs.begin();
  return nearest(plan_.valuesOf(p, static_cast<size_t>(output)));
}

NodeId RootLookup::lastMatched() const {
  NodeId last = state_.coveredNodes().empty() ? NodeId() : state_.coveredNodes().front();
  for (ValueId r : plan_.roots)
    if (const Argument* a = state_.bound(r); a && a->isValue()) last = graph_.value(a->valueId()).producer;
  return last;
}

// Sorted: the same module first, then what comes after the matched nodes, then by distance. So q, k and v of one layer
// come together and in order. Candidates that a match covers are left out.
std::vector<ValueId> RootLookup::nearest(std::vector<ValueId> out) const {
  const NodeId last = lastMatched();
  const auto key = [&](ValueId v) {
    const NodeId n = graph_.value(v).producer;
    if (!n || !last) return std::tuple(0, true, 0u);
    int depth = 0;
    for (ModuleCallId m = graph_.commonModule(graph_.node(n).module, graph_.node(last).module); m;
         m = graph_.moduleCall(m).parent)
      ++depth;
    const uint32_t a = index_.position[n.index], b = index_.position[last.index];
    return std::tuple(-depth, a < b, a < b ? b - a : a - b);
  };
  std::vector<std::pair<std::tuple<int, bool, uint32_t>, ValueId>> sorted;
  for (ValueId v : out) {
    const NodeId n = graph_.value(v).producer;
    if (n && !state_.isTaken(n) && !state_.isCovered(n)) sorted.emplace_back(key(v), v);
  }
  plan_.looked += sorted.size();
  std::sort(sorted.begin(), sorted.end());
  out.clear();
  for (const auto& [k, v] : sorted) out.push_back(v);
  return out;
}

}  // namespace graft
