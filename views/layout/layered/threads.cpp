// Threads: ways through a level that should be straight lines. The first, the longest from top to bottom, is the spine.
#include <algorithm>
#include <numeric>

#include "views/layout/layered/level.h"

namespace graft {
namespace {

/// What a box adds to the length of a way beside its height.
constexpr double gap = 30;

}  // namespace

/// Each item goes on to the neighbour below from which the longest way leads down.
void Level::findThreads() {
  threads_.clear();
  anchor_.assign(items.size(), 0);
  std::vector<int> byLayer(items.size());
  std::iota(byLayer.begin(), byLayer.end(), 0);
  std::stable_sort(byLayer.begin(), byLayer.end(), [&](int a, int b) { return items[a].layer < items[b].layer; });
  std::vector<double> below(items.size(), 0);  // the longest way from here on, itself included
  for (auto it = byLayer.rbegin(); it != byLayer.rend(); ++it) {
    for (int s : down_[*it])
      if (!goesOverTheTurn(segments_[s])) below[*it] = std::max(below[*it], below[segments_[s].to]);
    if (items[*it].kind == LevelItem::Kind::Box) below[*it] += items[*it].height + gap;
  }
  std::vector<int> starts = std::move(byLayer);
  std::stable_sort(starts.begin(), starts.end(), [&](int a, int b) { return below[a] > below[b]; });
  std::vector<char> taken(items.size(), 0);
  for (int start : starts) {
    if (taken[start]) continue;
    std::vector<int>& thread = threads_.emplace_back();
    for (int item = start;;) {
      taken[item] = 1;
      thread.push_back(item);
      const Segment* next = nullptr;
      for (int s : down_[item])
        if (!taken[segments_[s].to] && !goesOverTheTurn(segments_[s]) &&
            (!next || below[segments_[s].to] > below[next->to]))
          next = &segments_[s];
      if (!next) break;
      // A container's parts may be aside of its middle: it is moved so that what flows in comes straight down.
      if (thread.size() == 1) anchor_[item] = next->fromOffset;
      item = next->to;
      anchor_[item] = next->toOffset;
    }
    if (thread.size() < 2) threads_.pop_back();
  }
}

/// What runs there and what runs back have a spine each: the thread of the second; 0: there is none.
size_t Level::secondSpine() const {
  if (turn_ == 0) return 0;
  const auto isBack = [&](size_t thread) { return items[threads_[thread].front()].layer >= turn_; };
  for (size_t t = 1; t < threads_.size(); ++t)
    if (isBack(t) != isBack(0)) return t;
  return 0;
}

/// Which items are on the spine, and their x: on one line, where what flows in comes straight down. A few wide
/// containers, those in columns, give their results elsewhere than they take in what they are given: the spine goes on
/// from there. Equal blocks that do so a little stand one below the other all the same, but what follows the last of
/// them, the model's output for instance, stands below what it comes from.
std::pair<std::vector<char>, std::vector<double>> Level::placeSpine() const {
  std::vector<char> onSpine(items.size(), 0);
  std::vector<double> x(items.size(), 0);
  if (threads_.empty()) return {onSpine, x};
  constexpr double farAside = 0.45;  // of the width
  constexpr int few = 2;
  const auto place = [&](const std::vector<int>& spine) {
    std::vector<double> shift(spine.size(), 0);  // of the line below each
    size_t last = 0;
    double atLast = 0;
    for (size_t i = 0; i + 1 < spine.size(); ++i) {
      const double aside = segmentOffset(spine[i], spine[i + 1]) - anchor_[spine[i]];
      if (std::abs(aside) > 1) last = i, atLast = aside;
      if (std::abs(aside) > farAside * items[spine[i]].width) shift[i] = aside;
    }
    if (std::count_if(shift.begin(), shift.end(), [](double s) { return s != 0; }) > few) shift.assign(spine.size(), 0);
    shift[last] = atLast;
    double line = 0;
    for (size_t i = 0; i < spine.size(); ++i) {
      onSpine[spine[i]] = 1;
      x[spine[i]] = line - anchor_[spine[i]];
      line += shift[i];
    }
  };
  place(threads_.front());
  if (const size_t second = secondSpine(); second > 0) place(threads_[second]);
  return {onSpine, x};
}

/// Moves the items of each thread onto one line as far as their neighbours leave room; the spine is one already.
void Level::straightenThreads() {
  const size_t second = secondSpine();
  for (int round = 0; round < 2; ++round)
    for (size_t t = 1; t < threads_.size(); ++t) {
      if (t == second) continue;
      const auto& thread = threads_[t];
      for (size_t i = 0; i < thread.size();) {
        double low = -1e18, high = 1e18, sum = 0;
        size_t end = i;
        for (; end < thread.size(); ++end) {
          const auto [least, most] = roomOf(thread[end]);
          const double l = std::max(low, least + anchor_[thread[end]]);
          const double h = std::min(high, most + anchor_[thread[end]]);
          if (l > h + 1e-6) break;
          low = l;
          high = h;
          sum += items[thread[end]].x + anchor_[thread[end]];
        }
        if (end == i) {
          ++i;
          continue;
        }
        const double line = std::clamp(sum / static_cast<double>(end - i), low, std::max(low, high));
        for (; i < end; ++i) items[thread[i]].x = line - anchor_[thread[i]];
      }
    }
}

}  // namespace graft
