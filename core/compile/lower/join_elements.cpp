// Nests that make results of the same elements, one by one, in loops that count them differently, become one nest: what
// both are made of is read once.

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "core/compile/loops/reachable.h"
#include "core/compile/lower/nest_facts.h"
#include "core/compile/lower/places.h"
#include "core/compile/lower/schedule.h"

namespace graft::lower {
namespace {

using loops::BufferId;
using loops::Expr;
using loops::Nest;
using loops::Store;

class ElementJoiner {
 public:
  explicit ElementJoiner(Lowering& l) : l_(l), nests_(l.program.nests) {}

  void run() {
    for (size_t later = 1; later < nests_.size(); ++later)
      for (size_t first = 0; first < later; ++first)
        if (joins(first, later)) {
          nests_.erase(nests_.begin() + static_cast<std::ptrdiff_t>(later--));
          break;
        }
  }

 private:
  /// In the place of the first of them, over the loops of either.
  bool joins(size_t first, size_t later) {
    const Nest &a = nests_[first], &b = nests_[later];
    const auto elements = countOf(l_, a.outer);
    if (!elements || elements != countOf(l_, b.outer) || !storesElements(l_, a) || !storesElements(l_, b) ||
        isStoredFrom(l_, readBy(l_, b.stores), first, later))
      return false;
    for (const bool isOverFirst : {true, false}) {
      const Nest &base = isOverFirst ? a : b, &other = isOverFirst ? b : a;
      std::optional<std::vector<Store>> moved = over(base, other, *elements);
      if (!moved) continue;
      Nest joined{base.outer, {}};
      std::vector<Store> own = base.stores;
      for (auto* const part : {isOverFirst ? &own : &*moved, isOverFirst ? &*moved : &own})
        std::move(part->begin(), part->end(), std::back_inserter(joined.stores));
      nests_[first] = std::move(joined);
      return true;
    }
    return false;
  }

  struct Load {
    BufferId buffer;
    Index index;
    auto operator<=>(const Load&) const = default;  // NOLINT(modernize-use-nullptr): a false alarm
  };
  std::set<Load> loadsOf(const std::vector<Store>& stores) const {
    std::set<Load> out;
    for (const ExprId id : loops::reachable(l_.program.expressions, loops::roots(Nest{{}, stores})))
      if (const Expr& e = l_.program.expressions[id]; e.op == Op::Load) out.insert({e.buffer(), e.operands});
    return out;
  }

  /// The stores of `other` over the loops of `base`, where memory runs along the same of these loops for all of both.
  std::optional<std::vector<Store>> over(const Nest& base, const Nest& other, int64_t elements) {
    const std::set<Load> here = loadsOf(base.stores);
    for (const Load& theirs : loadsOf(other.stores)) {
      if (!isLarge(l_, theirs.buffer, elements)) continue;
      for (const Load& ours : here) {
        if (ours.buffer != theirs.buffer) continue;
        const auto values =
            findRangeValues(l_, theirs.index, ours.index, l_.program.buffer(ours.buffer).sizes, other.outer);
        if (!values) continue;
        std::vector<Store> moved = other.stores;
        for (Store& s : moved) {
          for (ExprId& e : s.index) e = l_.simplifier.substitute(e, *values);
          s.value = l_.simplifier.substitute(s.value, *values);
        }
        if (fits(base, moved) && savedBytes(here, loadsOf(moved)) * kLeastShare >= bytesOf(l_, readBy(l_, moved)))
          return moved;
      }
    }
    return {};
  }

  bool fits(const Nest& base, const std::vector<Store>& moved) {
    const auto along = alongOf(base.stores.front());
    if (!along) return false;
    for (const Store& s : base.stores)
      if (alongOf(s) != along) return false;
    return std::all_of(moved.begin(), moved.end(), [&](const Store& s) {
      return alongOf(s) == along && goesOverAll(l_, base.outer, s.index, l_.program.buffer(s.buffer).sizes);
    });
  }

  /// The loop along which a store writes neighbours in memory.
  std::optional<RangeId> alongOf(const Store& s) const {
    return s.index.empty() ? std::nullopt : findRangeOfOnes(l_, s.index[l_.fastestOf(s.buffer)]);
  }

  /// What both read at the same places.
  int64_t savedBytes(const std::set<Load>& a, const std::set<Load>& b) const {
    std::set<BufferId> buffers;
    for (const Load& load : a)
      if (b.contains(load)) buffers.insert(load.buffer);
    return bytesOf(l_, buffers);
  }

  Lowering& l_;
  std::vector<Nest>& nests_;
};

}  // namespace

void joinElements(Lowering& l) {
  if (l.machine.isGpu) ElementJoiner(l).run();
}

}  // namespace graft::lower
