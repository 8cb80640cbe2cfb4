// IdTable: finds what a container holds by a hash, for instance of a name. It keeps one hash and one id for each and
// asks for the rest, so that names stand in one place only and copying a table is one copy of memory.
//
//   IdTable table;
//   table.insert(IdTable::hash(name), id);
//   uint32_t id = table.find(IdTable::hash(name), [&](uint32_t candidate) { return things[candidate].name == name; });
//
// Open addressing with linear probing; removing shifts back what followed (Knuth, TAOCP 3, 6.4, algorithm R), so that
// there are no tombstones.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace graft {

class IdTable {
 public:
  static constexpr uint32_t none = UINT32_MAX;

  static uint32_t hash(std::string_view text) {
    const uint64_t h = std::hash<std::string_view>{}(text);
    return static_cast<uint32_t>(h ^ (h >> 32));
  }

  /// The id put in under that hash for which `same(id)` holds, or `none`.
  template <typename Same>
  uint32_t find(uint32_t hash, Same&& same) const {
    if (entries_.empty()) return none;
    for (size_t at = hash & mask();; at = (at + 1) & mask()) {
      const Entry& e = entries_[at];
      if (e.id == none) return none;
      if (e.hash == hash && same(e.id)) return e.id;
    }
  }

  /// The pair must not be in the table yet.
  void insert(uint32_t hash, uint32_t id) {
    if ((size_ + 1) * 4 > entries_.size() * 3) grow(size_ + 1);
    place({hash, id});
    ++size_;
  }

  /// Nothing happens if the pair is not there.
  void erase(uint32_t hash, uint32_t id) {
    if (entries_.empty()) return;
    size_t hole = hash & mask();
    while (entries_[hole].id != id || entries_[hole].hash != hash) {
      if (entries_[hole].id == none) return;
      hole = (hole + 1) & mask();
    }
    for (size_t at = (hole + 1) & mask(); entries_[at].id != none; at = (at + 1) & mask()) {
      // An entry may move back into the hole unless its home lies between them.
      const size_t home = entries_[at].hash & mask();
      if (((at - home) & mask()) < ((at - hole) & mask())) continue;
      entries_[hole] = entries_[at];
      hole = at;
    }
    entries_[hole] = {};
    --size_;
  }

  void reserve(size_t count) {
    if (count * 4 > entries_.size() * 3) grow(count);
  }
  size_t size() const { return size_; }

 private:
  struct Entry {
    uint32_t hash = 0, id = none;
  };

  size_t mask() const { return entries_.size() - 1; }

  void place(Entry e) {
    size_t at = e.hash & mask();
    while (entries_[at].id != none) at = (at + 1) & mask();
    entries_[at] = e;
  }

  void grow(size_t count) {
    std::vector<Entry> old(std::bit_ceil(count * 2 + 6));
    old.swap(entries_);
    for (const Entry& e : old)
      if (e.id != none) place(e);
  }

  std::vector<Entry> entries_;  // a power of two, at most three quarters full
  size_t size_ = 0;
};

}  // namespace graft
