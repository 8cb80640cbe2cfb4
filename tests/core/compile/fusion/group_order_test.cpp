// Paths between groups while they merge, beside a search of the whole graph.
#include "core/compile/fusion/group_order.h"

#include <random>

#include "tests/support/catch.h"

using namespace graft;

namespace {

struct Groups {
  std::vector<std::set<uint32_t>> before, after;
  std::vector<bool> isAlive;

  explicit Groups(size_t count) : before(count), after(count), isAlive(count, true) {}
  void connect(uint32_t from, uint32_t to) {
    after[from].insert(to);
    before[to].insert(from);
  }
  GroupOrder::Neighbours neighbours() const {
    return [this](uint32_t g, bool isAfter) -> const std::set<uint32_t>& { return isAfter ? after[g] : before[g]; };
  }
  bool hasPath(uint32_t a, uint32_t b) const {
    std::vector<uint32_t> open;
    std::set<uint32_t> seen;
    for (const uint32_t n : after[a])
      if (n != b && seen.insert(n).second) open.push_back(n);
    while (!open.empty()) {
      const uint32_t g = open.back();
      open.pop_back();
      if (g == b) return true;
      for (const uint32_t n : after[g])
        if (seen.insert(n).second) open.push_back(n);
    }
    return false;
  }
  void merge(uint32_t gone, uint32_t stays) {
    for (const uint32_t b : before[gone]) {
      after[b].erase(gone);
      if (b != stays) connect(b, stays);
    }
    for (const uint32_t a : after[gone]) {
      before[a].erase(gone);
      if (a != stays) connect(stays, a);
    }
    before[gone].clear();
    after[gone].clear();
    isAlive[gone] = false;
  }
};

}  // namespace

TEST_CASE("paths are those of a search of the whole graph, whichever groups have merged") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    constexpr uint32_t count = 24;
    Groups groups(count);
    for (uint32_t to = 1; to < count; ++to)
      for (uint32_t k = below(3); k > 0; --k) groups.connect(below(to), to);
    GroupOrder order(count);
    for (int merges = 0; merges < 40; ++merges) {
      for (uint32_t a = 0; a < count; ++a)
        for (uint32_t b = 0; b < count; ++b)
          if (a != b && groups.isAlive[a] && groups.isAlive[b])
            REQUIRE(order.hasPath(a, b, groups.neighbours()) == groups.hasPath(a, b));
      const uint32_t a = below(count), b = below(count);
      if (a == b || !groups.isAlive[a] || !groups.isAlive[b] || groups.hasPath(a, b) || groups.hasPath(b, a)) continue;
      order.merge(a, b, groups.neighbours());
      groups.merge(a, b);
    }
  }
}
