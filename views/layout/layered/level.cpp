#include "views/layout/layered/level.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

namespace graft {

int Level::addItem(double w, double h, LevelItem::Kind kind) {
  LevelItem item;
  item.kind = kind;
  item.width = w;
  item.height = h;
  items.push_back(item);
  return static_cast<int>(items.size()) - 1;
}

int Level::addEdge(LevelEdge edge) {
  edges.push_back(std::move(edge));
  return static_cast<int>(edges.size()) - 1;
}

void Level::place(const Options& options) {
  boxCount_ = items.size();
  breakCycles();
  assignLayers();
  addDummies();
  if (options.mirrored) findTurn();
  findThreads();
  orderLayers();
  assignX();
  for (LevelItem& item : items) item.across = item.x;
  assignY(options.labels);
  attach();
  route();
  if (turn_ > 0)
    mirror();
  else if (options.columns)
    breakIntoColumns(options);
}

/// Depth-first from each item in order; an edge back onto the path is turned round for the layering.
void Level::breakCycles() {
  reversed_.assign(edges.size(), 0);
  std::vector<std::vector<int>> out(boxCount_);
  for (size_t e = 0; e < edges.size(); ++e) out[edges[e].from].push_back(static_cast<int>(e));
  std::vector<char> state(boxCount_, 0);  // 1: on the path, 2: done
  std::vector<std::pair<int, size_t>> path;
  for (size_t start = 0; start < boxCount_; ++start) {
    if (state[start]) continue;
    path.push_back({static_cast<int>(start), 0});
    state[start] = 1;
    while (!path.empty()) {
      auto& [item, next] = path.back();
      if (next == out[item].size()) {
        state[item] = 2;
        path.pop_back();
        continue;
      }
      int e = out[item][next++];
      int to = edges[e].to;
      if (state[to] == 1) {
        reversed_[e] = 1;
      } else if (state[to] == 0) {
        state[to] = 1;
        path.push_back({to, 0});
      }
    }
  }
}

void Level::assignLayers() {
  std::vector<std::vector<int>> out(boxCount_), in(boxCount_);
  std::vector<int> waiting(boxCount_, 0), order;
  for (size_t e = 0; e < edges.size(); ++e) {
    int a = reversed_[e] ? edges[e].to : edges[e].from, b = reversed_[e] ? edges[e].from : edges[e].to;
    out[a].push_back(b);
    in[b].push_back(a);
    ++waiting[b];
  }
  order.reserve(boxCount_);
  for (size_t i = 0; i < boxCount_; ++i)
    if (!waiting[i]) order.push_back(static_cast<int>(i));
  bool ports =
      std::any_of(items.begin(), items.end(), [](const LevelItem& i) { return i.kind == LevelItem::Kind::InPort; });
  for (size_t i = 0; i < order.size(); ++i) {
    LevelItem& item = items[order[i]];
    if (ports && item.kind != LevelItem::Kind::InPort) item.layer = std::max(item.layer, 1);
    for (int to : out[order[i]]) {
      items[to].layer = std::max(items[to].layer, item.layer + 1);
      if (--waiting[to] == 0) order.push_back(to);
    }
  }
  // Sources and what hangs on little comes down to its users: shorter edges.
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    LevelItem& item = items[*it];
    if (item.kind != LevelItem::Kind::Box || out[*it].empty() || in[*it].size() > out[*it].size()) continue;
    int lowest = INT32_MAX;
    for (int to : out[*it]) lowest = std::min(lowest, items[to].layer - 1);
    item.layer = std::max(item.layer, lowest);
  }
  // The way back begins below all else.
  int lastThere = -1, firstBack = INT32_MAX;
  for (const LevelItem& item : items)
    item.isBack ? firstBack = std::min(firstBack, item.layer) : lastThere = std::max(lastThere, item.layer);
  for (LevelItem& item : items)
    if (item.isBack) item.layer += std::max(0, lastThere + 1 - firstBack);
  int last = 0;
  bool outPorts = false;
  for (const LevelItem& item : items) {
    last = std::max(last, item.layer);
    outPorts |= item.kind == LevelItem::Kind::OutPort;
  }
  if (outPorts) {
    for (const LevelItem& item : items)
      if (item.kind != LevelItem::Kind::OutPort && item.layer == last) {
        ++last;
        break;
      }
    for (LevelItem& item : items)
      if (item.kind == LevelItem::Kind::OutPort) item.layer = last;
  }
}

void Level::addDummies() {
  chains_.resize(edges.size());
  int64_t crossed = 0;
  for (const LevelEdge& edge : edges) crossed += std::abs(items[edge.to].layer - items[edge.from].layer);
  const int longest = crossed > most ? farthest : INT32_MAX;
  std::unordered_map<uint64_t, std::vector<int>> shared;  // by upper item and net: its dummies, layer by layer
  std::unordered_map<uint64_t, std::vector<int>> joint;   // by lower item and net: the same, from below
  std::unordered_map<uint64_t, int> known;                // segments already there
  auto link = [&](int a, int b, double fromOffset, double toOffset) {
    auto [it, isNew] = known.try_emplace(uint64_t(uint32_t(a)) << 32 | uint32_t(b), 0);
    bool da = items[a].kind != LevelItem::Kind::Box, db = items[b].kind != LevelItem::Kind::Box;
    if (isNew) segments_.push_back({a, b, fromOffset, toOffset, da && db ? 8.0 : da || db ? 2.0 : 1.0});
  };
  for (size_t e = 0; e < edges.size(); ++e) {
    LevelEdge& edge = edges[e];
    bool back = reversed_[e];
    int upper = back ? edge.to : edge.from, lower = back ? edge.from : edge.to;
    double upperOffset = back ? edge.toOffset : edge.fromOffset, lowerOffset = back ? edge.fromOffset : edge.toOffset;
    int count = items[lower].layer - items[upper].layer - 1;
    edge.isFar = count > longest;
    if (edge.isFar) {
      chains_[e] = {upper, lower};
      continue;
    }
    const bool fromBelow = edge.joins && !back;
    auto& dummies = fromBelow ? joint[uint64_t(uint32_t(lower)) << 32 | edge.net]
                              : shared[uint64_t(uint32_t(upper)) << 32 | edge.net];
    while (static_cast<int>(dummies.size()) < count) {
      const int step = static_cast<int>(dummies.size()) + 1;
      int dummy = addItem(back ? 10 : 6, 0, LevelItem::Kind::Dummy);
      items[dummy].layer = fromBelow ? items[lower].layer - step : items[upper].layer + step;
      constexpr uint64_t below = 1ULL << 32;
      const uint64_t name = derivedName(items[fromBelow ? lower : upper].name, edge.netName,
                                        static_cast<uint64_t>(step) + (fromBelow ? below : 0));
      items[dummy].name = name;
      if (before) items[dummy].before = before->placeOf(name).value_or(NAN);
      dummies.push_back(dummy);
    }
    auto& chain = chains_[e];
    chain.push_back(upper);
    for (int i = 0; i < count; ++i) chain.push_back(dummies[fromBelow ? count - 1 - i : i]);
    chain.push_back(lower);
    for (size_t i = 0; i + 1 < chain.size(); ++i)
      link(chain[i], chain[i + 1], i == 0 ? upperOffset : 0, i + 2 == chain.size() ? lowerOffset : 0);
  }
  up_.resize(items.size());
  down_.resize(items.size());
  for (size_t s = 0; s < segments_.size(); ++s) {
    down_[segments_[s].from].push_back(static_cast<int>(s));
    up_[segments_[s].to].push_back(static_cast<int>(s));
  }
}

void Level::assignY(bool roomForLabels) {
  size_t count = layers_.size();
  top_.assign(count, 0);
  bottom_.assign(count, 0);
  std::vector<double> widest(count, 0);  // the farthest sideways run of an edge below the layer
  longest_.assign(count, 0);
  std::vector<char> hasBoxes(count, 0);
  for (const Segment& s : segments_) {
    double dx = std::abs(items[s.from].x + s.fromOffset - items[s.to].x - s.toOffset);
    widest[items[s.from].layer] = std::max(widest[items[s.from].layer], dx);
  }
  if (roomForLabels)
    for (const LevelEdge& edge : edges) {
      double& most = longest_[static_cast<size_t>(items[edge.from].layer)];
      if (!edge.isFar) most = std::max(most, edge.labelLength);
    }
  double y = 0;
  for (size_t l = 0; l < count; ++l) {
    double tallest = 0;
    for (int i : layers_[l]) tallest = std::max(tallest, items[i].height);
    top_[l] = y;
    bottom_[l] = y + tallest;
    bool boxes =
        std::any_of(layers_[l].begin(), layers_[l].end(), [&](int i) { return items[i].kind == LevelItem::Kind::Box; });
    for (int i : layers_[l]) items[i].y = y + (tallest - items[i].height) / 2;
    const double base = std::max(boxes ? (roomForLabels ? 30.0 : 22.0) : 12.0, longest_[l]);
    y = bottom_[l] + std::clamp(base + widest[l] * 0.06, base, base + 44);
  }
  height = count ? bottom_.back() : 0;
}

/// Where edges meet plain boxes: in the order of their other ends, straight down where that is possible.
void Level::attach() {
  std::vector<std::vector<int>> above(boxCount_), below(boxCount_);  // by item: edges at its top, at its bottom
  for (size_t e = 0; e < edges.size(); ++e) {
    below[chains_[e].front()].push_back(static_cast<int>(e));
    above[chains_[e].back()].push_back(static_cast<int>(e));
  }
  for (size_t i = 0; i < boxCount_; ++i) {
    spread(below[i], static_cast<int>(i), false);
    spread(above[i], static_cast<int>(i), true);
  }
}

void Level::spread(std::vector<int>& list, int item, bool atTop) {
  const LevelItem& box = items[item];
  if (box.kind != LevelItem::Kind::Box || list.empty()) return;
  struct Slot {   // one for each net below, for each edge above
    double from;  // where its edge comes from or goes to, from the box's centre; of several the nearest
    std::vector<int> edges;
  };
  std::vector<Slot> slots;
  std::unordered_map<uint32_t, size_t> slotOfNet;
  for (int e : list) {
    const auto& chain = chains_[e];
    const int other = atTop ? chain[chain.size() - 2] : chain[1];
    double offset = 0;
    if (chain.size() == 2) offset = atTop != bool(reversed_[e]) ? edges[e].fromOffset : edges[e].toOffset;
    const double from = items[other].x + offset - box.x;
    const auto known = atTop ? slotOfNet.end() : slotOfNet.find(edges[e].net);
    if (known == slotOfNet.end()) {
      if (!atTop) slotOfNet.emplace(edges[e].net, slots.size());
      slots.push_back({from, {e}});
      continue;
    }
    Slot& slot = slots[known->second];
    if (std::abs(from) < std::abs(slot.from)) slot.from = from;
    slot.edges.push_back(e);
  }
  std::stable_sort(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) { return a.from < b.from; });
  const double half = box.width * 0.35;
  const double step = slots.size() > 1 ? std::min(14.0, 2 * half / static_cast<double>(slots.size() - 1)) : 0;
  std::vector<Wish> wishes;
  for (const Slot& slot : slots) {
    // One that can go straight does; the others make room.
    const bool isStraight = std::abs(slot.from) <= half;
    wishes.push_back({std::clamp(slot.from, -half, half), isStraight ? 20.0 : 1.0});
  }
  project(wishes, std::vector<double>(slots.size() - 1, step));
  const auto count = static_cast<double>(slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    const double first = -half + static_cast<double>(i) * step;
    const double last = half - (count - 1 - static_cast<double>(i)) * step;
    const double offset = std::clamp(wishes[i].position, first, std::max(first, last));
    for (int e : slots[i].edges) {
      const bool isFrom = atTop == bool(reversed_[e]);
      if (isFrom ? edges[e].fromFixed : edges[e].toFixed) continue;
      (isFrom ? edges[e].fromOffset : edges[e].toOffset) = offset;
    }
  }
}

void Level::route() {
  for (size_t e = 0; e < edges.size(); ++e) {
    LevelEdge& edge = edges[e];
    const auto& chain = chains_[e];
    double upperOffset = reversed_[e] ? edge.toOffset : edge.fromOffset;
    double lowerOffset = reversed_[e] ? edge.fromOffset : edge.toOffset;
    const LevelItem &upper = items[chain.front()], &lower = items[chain.back()];
    auto& stops = edge.stops;
    if (edge.isFar) {
      constexpr double stub = 16;
      const bool isDown = !reversed_[e];
      const LevelItem& end = isDown ? lower : upper;
      const double at = end.x + edge.toOffset, y = isDown ? end.y : end.y + end.height;
      stops = {{at, isDown ? y - stub : y + stub}, {at, y}};
      continue;
    }
    double x = upper.x + upperOffset;
    stops.push_back({x, upper.y + upper.height});
    stops.push_back({x, bottom_[upper.layer]});
    for (size_t i = 1; i + 1 < chain.size(); ++i) {
      const LevelItem& dummy = items[chain[i]];
      stops.push_back({dummy.x, top_[dummy.layer]});
      stops.push_back({dummy.x, bottom_[dummy.layer]});
    }
    x = lower.x + lowerOffset;
    stops.push_back({x, top_[lower.layer]});
    stops.push_back({x, lower.y});
    if (reversed_[e]) std::reverse(stops.begin(), stops.end());
  }
}

}  // namespace graft
