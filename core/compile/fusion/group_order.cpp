#include "core/compile/fusion/group_order.h"

#include <algorithm>
#include <numeric>

namespace graft {

GroupOrder::GroupOrder(size_t groups) : places_(groups), seenForward_(groups, 0), seenBackward_(groups, 0) {
  std::iota(places_.begin(), places_.end(), 0U);
}

// From both ends in turn, so that it takes as long as the shorter of both searches.
bool GroupOrder::hasPath(uint32_t a, uint32_t b, const Neighbours& neighbours) const {
  const uint32_t first = places_[a], last = places_[b];
  if (first >= last) return false;
  ++search_;
  std::vector<uint32_t> forward{a}, backward{b};
  const auto goOn = [&](bool after) {
    std::vector<uint32_t>& open = after ? forward : backward;
    std::vector<uint32_t>&own = after ? seenForward_ : seenBackward_, &others = after ? seenBackward_ : seenForward_;
    const uint32_t from = open.back();
    open.pop_back();
    for (const uint32_t next : neighbours(from, after)) {
      if (places_[next] <= first || places_[next] >= last || own[next] == search_) continue;
      if (others[next] == search_) return true;
      own[next] = search_;
      open.push_back(next);
    }
    return false;
  };
  // The neighbours of both ends first: a path ends in one and begins in one, so either search alone finds it.
  if (goOn(true) || goOn(false)) return true;
  while (!forward.empty() && !backward.empty())
    if (goOn(true) || goOn(false)) return true;
  return false;
}

std::vector<uint32_t> GroupOrder::reached(uint32_t from, uint32_t to, bool after, const Neighbours& neighbours) const {
  const auto [low, high] = std::minmax(places_[from], places_[to]);
  ++search_;
  std::vector<uint32_t> open{from}, out;
  while (!open.empty()) {
    const uint32_t g = open.back();
    open.pop_back();
    for (const uint32_t next : neighbours(g, after)) {
      if (places_[next] <= low || places_[next] >= high || seenForward_[next] == search_) continue;
      seenForward_[next] = search_;
      open.push_back(next);
      out.push_back(next);
    }
  }
  return out;
}

void GroupOrder::merge(uint32_t gone, uint32_t stays, const Neighbours& neighbours) {
  const bool isGoneFirst = places_[gone] < places_[stays];
  const uint32_t early = isGoneFirst ? gone : stays, late = isGoneFirst ? stays : gone;
  const auto byPlace = [&](uint32_t x, uint32_t y) { return places_[x] < places_[y]; };
  std::vector<uint32_t> before = reached(late, early, false, neighbours),
                        behind = reached(early, late, true, neighbours);
  std::sort(before.begin(), before.end(), byPlace);
  std::sort(behind.begin(), behind.end(), byPlace);
  std::vector<uint32_t> places{places_[early], places_[late]};
  for (const auto* moved : {&before, &behind})
    for (const uint32_t g : *moved) places.push_back(places_[g]);
  std::sort(places.begin(), places.end());
  size_t at = 0;
  for (const uint32_t g : before) places_[g] = places[at++];
  places_[stays] = places[at];
  at += 2;  // the place of the one that is gone stays empty
  for (const uint32_t g : behind) places_[g] = places[at++];
}

}  // namespace graft
