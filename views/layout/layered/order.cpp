// Order within layers and x: the two sweeping parts of the layered layout.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "views/layout/layered/level.h"

namespace graft {

namespace {

bool isFormer(const LevelItem& item) { return !std::isnan(item.before) && !item.isHint; }

}  // namespace

/// Pool adjacent violators.
void project(std::vector<Wish>& wishes, const std::vector<double>& gap) {
  struct Pool {
    double sum, weight;
    size_t count;
    double mean() const { return sum / weight; }
  };
  std::vector<Pool> pools;
  double shift = 0;
  std::vector<double> shifts(wishes.size());
  for (size_t i = 0; i < wishes.size(); ++i) {
    if (i) shift += gap[i - 1];
    shifts[i] = shift;
    pools.push_back({(wishes[i].position - shift) * wishes[i].weight, wishes[i].weight, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      Pool last = pools.back();
      pools.pop_back();
      pools.back() = {pools.back().sum + last.sum, pools.back().weight + last.weight, pools.back().count + last.count};
    }
  }
  size_t i = 0;
  for (const Pool& pool : pools)
    for (size_t k = 0; k < pool.count; ++k, ++i) wishes[i].position = pool.mean() + shifts[i];
}

void Level::orderLayers() {
  startOrder();
  if (std::none_of(items.begin(), items.end(), isFormer)) {
    sweep(false);
    return;
  }
  using Layers = std::vector<std::vector<int>>;
  const Layers fresh = layers_;
  takeFormerOrder();
  const bool isWhole = std::all_of(items.begin(), items.end(), isFormer);
  if (isWhole && keepsOrder) return;
  uint64_t crossings = isWhole ? countCrossings() : sweep(true);
  // Another order has to be worth that one looks for everything again.
  const auto attempt = [&](const Layers& start) {
    constexpr uint64_t few = 3;
    if (crossings < few) return;
    Layers former = std::exchange(layers_, start);
    numberPositions();
    const uint64_t fewer = sweep(false);
    if (crossings - std::min(crossings, fewer) >= std::max(few, crossings / few)) {
      crossings = fewer;
      return;
    }
    layers_ = std::move(former);
    numberPositions();
  };
  attempt(Layers(layers_));
  attempt(fresh);
}

void Level::numberPositions() {
  for (auto& layer : layers_)
    for (size_t i = 0; i < layer.size(); ++i) items[layer[i]].position = static_cast<int>(i);
}

/// Depth-first along the edges, so that what belongs together starts side by side.
void Level::startOrder() {
  int last = 0;
  for (const LevelItem& item : items) last = std::max(last, item.layer);
  layers_.assign(items.empty() ? 0 : last + 1, {});
  std::vector<int> starts;
  for (size_t i = 0; i < items.size(); ++i)
    if (up_[i].empty()) starts.push_back(static_cast<int>(i));
  // Ports of a module that was just opened: as what they come from stands around it.
  const auto hinted = std::stable_partition(starts.begin(), starts.end(), [&](int i) { return !items[i].isHint; });
  std::stable_sort(hinted, starts.end(), [&](int a, int b) { return items[a].before < items[b].before; });
  std::rotate(starts.begin(), hinted, starts.end());
  std::vector<char> seen(items.size(), 0);
  std::vector<int> stack;
  for (const int start : starts) {
    if (seen[start]) continue;
    stack.push_back(start);
    while (!stack.empty()) {
      int item = stack.back();
      stack.pop_back();
      if (seen[item]) continue;
      seen[item] = 1;
      layers_[items[item].layer].push_back(item);
      for (auto it = down_[item].rbegin(); it != down_[item].rend(); ++it)
        if (!seen[segments_[*it].to]) stack.push_back(segments_[*it].to);
    }
  }
  numberPositions();
}

/// What was there stands as it did; what is new stands below what it comes from.
void Level::takeFormerOrder() {
  std::vector<double> at(items.size(), 0);  // 0 … 1 in its layer
  std::vector<int> former;
  for (auto& layer : layers_) {
    former.clear();
    for (const int item : layer)
      if (isFormer(items[item])) former.push_back(item);
    std::stable_sort(former.begin(), former.end(), [&](int a, int b) { return items[a].before < items[b].before; });
    for (size_t i = 0; i < former.size(); ++i)
      at[former[i]] = (static_cast<double>(i) + 0.5) / static_cast<double>(former.size());
    for (size_t i = 0; i < layer.size(); ++i) {
      const int item = layer[i];
      if (isFormer(items[item])) continue;
      double sum = 0;
      for (const int s : up_[item]) sum += at[segments_[s].from];
      at[item] = up_[item].empty() ? (static_cast<double>(i) + 0.5) / static_cast<double>(layer.size())
                                   : sum / static_cast<double>(up_[item].size());
    }
    std::stable_sort(layer.begin(), layer.end(), [&](int a, int b) { return at[a] < at[b]; });
  }
  numberPositions();
}

/// Of a layer that was sorted: what was there takes its places in its former order.
void Level::restoreFormerOrder(std::vector<std::pair<double, int>>& keys) const {
  std::vector<int> former;
  for (const auto& [key, item] : keys)
    if (isFormer(items[item])) former.push_back(item);
  std::stable_sort(former.begin(), former.end(), [&](int a, int b) { return items[a].before < items[b].before; });
  auto next = former.begin();
  for (auto& [key, item] : keys)
    if (isFormer(items[item])) item = *next++;
}

/// How often neighbours stand the other way round than what there is outside of the module.
size_t Level::turnsRound() const {
  size_t count = 0;
  for (const auto& layer : layers_) {
    double last = NAN;
    for (const int item : layer) {
      if (!items[item].isHint) continue;
      count += items[item].before < last;
      last = items[item].before;
    }
  }
  return count;
}

/// Barycentre sweeps from the order that there is; keeps the best one and says how many crossings it has.
uint64_t Level::sweep(bool keepsFormerOrder) {
  std::vector<std::vector<int>> best = layers_;
  uint64_t fewest = countCrossings();
  const bool hasHints = std::any_of(items.begin(), items.end(), [](const LevelItem& i) { return i.isHint; });
  size_t fewestTurns = hasHints ? turnsRound() : 0;
  int sweeps = items.size() > 20000 ? 6 : items.size() > 3000 ? 10 : 24;
  std::vector<std::pair<double, int>> keys;
  for (int round = 0; round < sweeps && fewest > 0; ++round) {
    bool down = round % 2 == 0;
    for (size_t n = 0; n < layers_.size(); ++n) {
      auto& layer = layers_[down ? n : layers_.size() - 1 - n];
      keys.clear();
      for (int item : layer) {
        const auto& list = down ? up_[item] : down_[item];
        double sum = 0;
        for (int s : list) {
          const LevelItem& other = items[down ? segments_[s].from : segments_[s].to];
          double offset = down ? segments_[s].fromOffset : segments_[s].toOffset;
          sum += other.position + (other.width > 0 ? offset / other.width * 0.9 : 0);
        }
        keys.push_back({list.empty() ? items[item].position : sum / list.size(), item});
      }
      // Ties turn round every other pair of sweeps: that finds ways out of local minima.
      if (round % 4 >= 2) std::reverse(keys.begin(), keys.end());
      std::stable_sort(keys.begin(), keys.end(), [](auto& a, auto& b) { return a.first < b.first; });
      if (keepsFormerOrder) restoreFormerOrder(keys);
      for (size_t i = 0; i < layer.size(); ++i) {
        layer[i] = keys[i].second;
        items[layer[i]].position = static_cast<int>(i);
      }
    }
    uint64_t crossings = countCrossings();
    const size_t turns = hasHints && crossings <= fewest ? turnsRound() : 0;
    if (crossings < fewest || (crossings == fewest && turns < fewestTurns)) {
      fewest = crossings;
      fewestTurns = turns;
      best = layers_;
    }
  }
  layers_ = std::move(best);
  numberPositions();
  return fewest;
}

uint64_t Level::countCrossings() const {
  uint64_t total = 0;
  std::vector<std::pair<double, double>> ends;
  std::vector<double> below;
  std::vector<uint32_t> tree;
  for (const auto& layer : layers_) {
    ends.clear();
    for (int item : layer)
      for (int s : down_[item])
        ends.push_back(
            {items[item].position + segments_[s].fromOffset / (items[item].width + 1) * 0.9,
             items[segments_[s].to].position + segments_[s].toOffset / (items[segments_[s].to].width + 1) * 0.9});
    std::sort(ends.begin(), ends.end());
    below.clear();
    for (auto& end : ends) below.push_back(end.second);
    std::sort(below.begin(), below.end());
    tree.assign(below.size() + 1, 0);
    for (size_t i = 0; i < ends.size(); ++i) {
      size_t rank = std::upper_bound(below.begin(), below.end(), ends[i].second) - below.begin();
      uint32_t atMost = 0;
      for (size_t k = rank; k > 0; k -= k & -k) atMost += tree[k];
      total += i - atMost;
      for (size_t k = rank; k < tree.size(); k += k & -k) ++tree[k];
    }
  }
  return total;
}

double Level::separation(int a, int b) const {
  bool dummies = items[a].kind != LevelItem::Kind::Box || items[b].kind != LevelItem::Kind::Box;
  return (items[a].width + items[b].width) / 2 + items[a].after + (dummies ? 14 : 28);
}

/// Between its neighbours in the layer.
std::pair<double, double> Level::roomOf(int item) const {
  const auto& layer = layers_[items[item].layer];
  const int position = items[item].position;
  std::pair<double, double> room{-1e18, 1e18};
  if (position > 0) room.first = items[layer[position - 1]].x + separation(layer[position - 1], item);
  if (position + 1 < static_cast<int>(layer.size()))
    room.second = items[layer[position + 1]].x - separation(item, layer[position + 1]);
  return room;
}

/// Least squares leave long edges aslant: each run of dummies moves to one x where its neighbours leave room for that.
void Level::straighten() {
  std::vector<char> done(items.size(), 0);
  const auto isBack = [&](int item) { return turn_ > 0 && items[item].layer >= turn_; };
  for (int round = 0; round < 2; ++round) {
    std::fill(done.begin(), done.end(), 0);
    for (size_t e = 0; e < edges.size(); ++e) {
      const auto& chain = chains_[e];
      size_t i = 1;
      while (i + 1 < chain.size()) {
        double low = -1e18, high = 1e18, sum = 0;
        size_t end = i;
        for (; end + 1 < chain.size() && !done[chain[end]]; ++end) {
          if (isBack(chain[end]) != isBack(chain[i])) break;
          const LevelItem& item = items[chain[end]];
          const auto [least, most] = roomOf(chain[end]);
          const double l = std::max(low, least), h = std::min(high, most);
          if (l > h + 1e-6) break;
          low = l;
          high = h;
          sum += item.x;
        }
        if (end == i) {
          ++i;
          continue;
        }
        // Straight on from where it comes or to where it goes, if there is room; else as near as may be.
        double above = items[chain[i - 1]].x, below = items[chain[end]].x, mean = sum / static_cast<double>(end - i);
        if (i == 1) above += segmentOffset(chain[0], chain[1]);
        if (end + 1 == chain.size())
          for (int s : up_[chain[end]])
            if (segments_[s].from == chain[end - 1]) below += segments_[s].toOffset;
        double x = std::clamp(mean, low, std::max(low, high));
        if (above >= low && above <= high && isBack(chain[i - 1]) == isBack(chain[i]))
          x = above;
        else if (below >= low && below <= high && isBack(chain[end]) == isBack(chain[i]))
          x = below;
        for (; i < end; ++i) {
          items[chain[i]].x = x;
          done[chain[i]] = 1;
        }
      }
    }
  }
}

/// Where the segment from `from` to `to` leaves `from`.
double Level::segmentOffset(int from, int to) const {
  for (int s : down_[from])
    if (segments_[s].to == to) return segments_[s].fromOffset;
  return 0;
}

void Level::assignX() {
  for (auto& layer : layers_) {
    double x = 0;
    for (size_t i = 0; i < layer.size(); ++i) {
      if (i) x += separation(layer[i - 1], layer[i]);
      items[layer[i]].x = x;
    }
    for (int i : layer) items[i].x -= x / 2;
  }
  int sweeps = items.size() > 20000 ? 8 : items.size() > 3000 ? 16 : 40;
  std::vector<Wish> wishes;
  std::vector<double> gaps;
  constexpr double pinned = 1e7;  // the spine stays where it is
  const auto [onSpine, spineX] = placeSpine();
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    bool down = sweep % 2 == 0, both = sweep >= sweeps / 2;
    for (size_t n = 0; n < layers_.size(); ++n) {
      auto& layer = layers_[down ? n : layers_.size() - 1 - n];
      wishes.clear();
      gaps.clear();
      for (size_t k = 0; k < layer.size(); ++k) {
        int item = layer[k];
        double sum = 0, weight = 0;
        if (down || both)
          for (int s : up_[item]) {
            const Segment& g = segments_[s];
            if (goesOverTheTurn(g)) continue;
            sum += g.weight * (items[g.from].x + g.fromOffset - g.toOffset);
            weight += g.weight;
          }
        if (!down || both)
          for (int s : down_[item]) {
            const Segment& g = segments_[s];
            if (goesOverTheTurn(g)) continue;
            sum += g.weight * (items[g.to].x + g.toOffset - g.fromOffset);
            weight += g.weight;
          }
        if (onSpine[item])
          wishes.push_back({spineX[item], pinned});
        else if (weight > 0)
          wishes.push_back({sum / weight, weight});
        else
          wishes.push_back({items[item].x, 0.05});
        if (k) gaps.push_back(separation(layer[k - 1], item));
      }
      project(wishes, gaps);
      for (size_t k = 0; k < layer.size(); ++k) items[layer[k]].x = wishes[k].position;
    }
  }
  straightenThreads();
  straighten();
  double left = 0, right = 0;
  bool first = true;
  for (const LevelItem& item : items) {
    left = first ? item.x - item.width / 2 : std::min(left, item.x - item.width / 2);
    right = first ? item.right() : std::max(right, item.right());
    first = false;
  }
  for (LevelItem& item : items) item.x -= left;
  width = right - left;
}

}  // namespace graft
