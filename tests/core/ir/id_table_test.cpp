#include "core/ir/id_table.h"

#include <map>
#include <random>

#include "tests/support/catch.h"

using namespace graft;

TEST_CASE("An id table finds what a map finds, through insertions and removals with few distinct hashes", "[ir]") {
  std::mt19937 random(7);
  for (const uint32_t hashes : {1u, 5u, 97u, 1u << 30}) {
    IdTable table;
    std::map<uint32_t, uint32_t> hashOf;
    for (uint32_t step = 0; step < 4000; ++step) {
      const bool insert = hashOf.empty() || random() % 5 < (step < 2500 ? 3u : 1u);
      if (insert) {
        // High bits too: homes at the table's end wrap round.
        const uint32_t hash = (random() % hashes) * 0x9e3779b1u;
        hashOf[step] = hash;
        table.insert(hash, step);
      } else {
        const auto it = std::next(hashOf.begin(), random() % hashOf.size());
        table.erase(it->second, it->first);
        REQUIRE(table.find(it->second, [&](uint32_t id) { return id == it->first; }) == IdTable::none);
        hashOf.erase(it);
      }
      REQUIRE(table.size() == hashOf.size());
      if (step % 50) continue;
      for (const auto& [id, hash] : hashOf)
        REQUIRE(table.find(hash, [&, want = id](uint32_t other) { return other == want; }) == id);
    }
  }
}

TEST_CASE("Removing from an id table what is not there changes nothing", "[ir]") {
  IdTable table;
  table.erase(3, 4);
  table.insert(3, 5);
  table.erase(3, 4);
  table.erase(9, 5);
  REQUIRE(table.size() == 1);
  REQUIRE(table.find(3, [](uint32_t id) { return id == 5; }) == 5);
}
