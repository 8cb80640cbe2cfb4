#include "matcher/search/candidates.h"

#include <algorithm>

namespace graft {
namespace {

uint32_t keyOf(ModuleCallId m) { return m ? m.index : GraphIndex::none; }

}  // namespace

Places::Places(const GraphIndex& index, std::vector<ValueId> values) : index_(index) {
  const auto place = [&](ValueId v) { return index.position[index.graph.value(v).producer.index]; };
  std::sort(values.begin(), values.end(),
            [&](ValueId a, ValueId b) { return std::pair(place(a), a) < std::pair(place(b), b); });
  for (ValueId v : values) {
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

PlaceWalk::PlaceWalk(const Places& places, NodeId last, const std::vector<uint8_t>& taken)
    : places_(places), graph_(places.index_.graph), taken_(taken), last_(last) {
  if (last) module_ = graph_.node(last).module;
  enter();
}

void PlaceWalk::enter() {
  const auto at = places_.rows_.find(keyOf(module_));
  row_ = at == places_.rows_.end() ? nullptr : &at->second;
  if (!row_) return;
  const auto& position = places_.index_.position;
  const uint32_t from = last_ ? position[last_.index] : 0;
  const auto begin = std::partition_point(row_->values.begin(), row_->values.end(),
                                          [&](ValueId v) { return position[graph_.value(v).producer.index] < from; });
  up_ = down_ = static_cast<uint32_t>(begin - row_->values.begin());
}

bool PlaceWalk::isTaken(ValueId v) const { return taken_[graph_.value(v).producer.index] != 0; }

// What is taken stays so: whoever comes later jumps over it.
uint32_t PlaceWalk::freeFrom(Places::Row& row, uint32_t i) {
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

uint32_t PlaceWalk::freeDownFrom(Places::Row& row, uint32_t i) {
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

ValueId PlaceWalk::next() {
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

}  // namespace graft
