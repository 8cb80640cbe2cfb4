// Stores of elements that an earlier nest reads while it reduces them: that nest stores them on the way, and memory is
// read once. What later nests make of them they read where they are stored, if that is less than what they are made of.

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <unordered_map>

#include "core/compile/loops/reachable.h"
#include "core/compile/lower/nest_facts.h"
#include "core/compile/lower/places.h"
#include "core/compile/lower/schedule.h"

namespace graft::lower {
namespace {

using loops::Buffer;
using loops::BufferId;
using loops::Expr;
using loops::Nest;
using loops::Store;

/// Rows shorter than this are left to one thread, whose stores would lie apart.
constexpr int64_t shortRow = 32;
/// Fewer iterations than this leave multiprocessors idle, unless each is short (Machine::rowElements).
constexpr int64_t fewRows = 64;

/// An element that an iteration reads while it goes over ranges of its own.
struct RowLoad {
  BufferId buffer;
  Index index;
  std::vector<RangeId> ranges;
  auto operator<=>(const RowLoad&) const = default;  // NOLINT(modernize-use-nullptr): a false alarm
};

class StoreMover {
 public:
  explicit StoreMover(Lowering& l) : l_(l), nests_(l.program.nests) {}

  void run() {
    for (size_t from = 0; from < nests_.size(); ++from) {
      if (!storesElements(l_, nests_[from])) continue;
      for (size_t to = from; to-- > 0;)
        if (moves(from, to)) break;
    }
    std::erase_if(nests_, [](const Nest& n) { return n.stores.empty(); });
  }

 private:
  struct Moved {
    size_t place;  ///< among the stores of its nest
    Store store;
  };

  /// What the nest reads while it reduces or stores rows; nothing where it cannot store anything else.
  std::set<RowLoad> rowLoads(const Nest& nest) const {
    std::set<RowLoad> out;
    bool hasReduce = false;
    for (const Store& s : nest.stores) {
      const TensorId t = l_.tensorOfBuffer(s.buffer);
      if (s.scan || (t && l_[t].isOfRows)) return {};
      for (const ExprId id : loops::reachable(l_.program.expressions, {s.value})) {
        const Expr& e = l_.program.expressions[id];
        if (e.op != Op::Reduce) continue;
        hasReduce = true;
        addLoads(e.operands[0], e.ranges, out);
      }
      if (!s.ranges.empty()) addLoads(s.value, s.ranges, out);
    }
    return hasReduce ? out : std::set<RowLoad>();
  }

  void addLoads(ExprId root, const std::vector<RangeId>& ranges, std::set<RowLoad>& out) const {
    for (const ExprId id : loops::reachable(l_.program.expressions, {root})) {
      const Expr& e = l_.program.expressions[id];
      if (e.op == Op::Load && l_.program.buffer(e.buffer()).role != Buffer::Role::Local)
        out.insert({e.buffer(), e.operands, ranges});
    }
  }

  /// All stores that may move, or one of them: what saves most.
  bool moves(size_t from, size_t to) {
    const std::set<RowLoad> rows = rowLoads(nests_[to]);
    if (rows.empty()) return false;
    std::vector<Moved> all;
    for (size_t k = 0; k < nests_[from].stores.size(); ++k)
      if (auto moved = movedStore(nests_[from], k, from, to, rows)) all.push_back({k, std::move(*moved)});
    if (all.empty()) return false;
    std::vector<std::vector<Moved>> choices{all};
    if (all.size() > 1)
      for (const Moved& m : all) choices.push_back({m});
    int64_t most = 0;
    const std::vector<Moved>* best = nullptr;
    for (const std::vector<Moved>& some : choices)
      if (const int64_t saved = savedBytes(from, to, some); saved > most) {
        most = saved;
        best = &some;
      }
    if (!best || most < bytesOf(l_, readBy(l_, nests_[from].stores)) / kLeastShare) return false;
    const std::vector<Moved> moved = *best;
    std::vector<Store> stored;
    for (const Moved& m : moved) stored.push_back(nests_[from].stores[m.place]);
    nests_[from].stores = reading(stored, storesWithout(nests_[from], moved));
    for (size_t k = from + 1; k < nests_.size(); ++k)
      if (storesElements(l_, nests_[k])) nests_[k].stores = reading(stored, nests_[k].stores);
    for (const Moved& m : moved) nests_[to].stores.push_back(m.store);
    return nests_[from].stores.empty() || !moves(from, to);
  }

  /// The store over the ranges of a nest that reads what it reads.
  std::optional<Store> movedStore(const Nest& nest, size_t k, size_t from, size_t to, const std::set<RowLoad>& rows) {
    const Store& s = nest.stores[k];
    const Buffer& result = l_.program.buffer(s.buffer);
    const auto elements = countOf(l_, result.sizes);
    if (!elements || isStoredFrom(l_, readBy(l_, {s}), to, from)) return {};
    for (const ExprId id : loops::reachable(l_.program.expressions, {s.value})) {
      const Expr load = l_.pool()[id];
      if (load.op != Op::Load || !isLarge(l_, load.buffer(), *elements)) continue;
      for (const RowLoad& row : rows) {
        if (row.buffer != load.buffer() || !isRow(nests_[to], row, *elements)) continue;
        const auto values =
            findRangeValues(l_, load.operands, row.index, l_.program.buffer(load.buffer()).sizes, nest.outer);
        if (!values) continue;
        if (auto moved = over(s, *values, nests_[to], row)) return moved;
      }
    }
    return {};
  }

  std::optional<Store> over(const Store& s, const RangeValues& values, const Nest& to, const RowLoad& row) {
    Store out;
    out.buffer = s.buffer;
    RangeValues own;
    for (const RangeId r : row.ranges) {
      out.ranges.push_back(
          l_.program.addRange("j" + std::to_string(l_.program.ranges.size()), l_.program.range(r).extent));
      own.emplace(r, l_.pool().range(out.ranges.back()));
    }
    const auto moved = [&](ExprId e) { return l_.simplifier.substitute(l_.simplifier.substitute(e, values), own); };
    for (const ExprId e : s.index) out.index.push_back(moved(e));
    std::vector<RangeId> ranges = to.outer;
    ranges.insert(ranges.end(), out.ranges.begin(), out.ranges.end());
    if (!goesOverAll(l_, ranges, out.index, l_.program.buffer(s.buffer).sizes)) return {};
    out.value = moved(s.value);
    // Neighbours are neighbours in all of it.
    Index at;
    for (const ExprId e : row.index) at.push_back(l_.simplifier.substitute(e, own));
    const std::set<RangeId> along = rangesIn(l_, at.at(l_.fastestOf(row.buffer)));
    const auto elements = countOf(l_, ranges);
    const auto liesAlong = [&](BufferId b, const Index& index) {
      const std::set<RangeId> used = rangesIn(l_, index.at(l_.fastestOf(b)));
      return std::any_of(used.begin(), used.end(), [&](RangeId r) { return along.contains(r); });
    };
    if (!liesAlong(s.buffer, out.index)) return {};
    for (const ExprId id : loops::reachable(l_.program.expressions, {out.value}))
      if (const Expr& e = l_.program.expressions[id];
          e.op == Op::Load && isLarge(l_, e.buffer(), *elements) && !liesAlong(e.buffer(), e.operands))
        return {};
    return out;
  }

  bool isRow(const Nest& nest, const RowLoad& row, int64_t elements) const {
    const auto iterations = countOf(l_, nest.outer), length = countOf(l_, row.ranges);
    const int64_t least = std::min(shortRow, l_.machine.columns.partLength);
    return iterations && length && *length >= least && *iterations * *length == elements &&
           (*iterations >= fewRows || *length <= l_.machine.rowElements);
  }

  /// What the nest keeps.
  std::vector<Store> storesWithout(const Nest& nest, const std::vector<Moved>& moved) const {
    std::vector<Store> out;
    for (size_t k = 0; k < nest.stores.size(); ++k)
      if (std::none_of(moved.begin(), moved.end(), [&](const Moved& m) { return m.place == k; }))
        out.push_back(nest.stores[k]);
    return out;
  }

  /// With loads of what `stored` stores in place of what it is made of, where that is less to read. Of a half, others
  /// go on with what has not been rounded, so what is computed in more is no half that was stored.
  std::vector<Store> reading(const std::vector<Store>& stored, const std::vector<Store>& stores) {
    std::unordered_map<ExprId, ExprId> to;
    for (const Store& s : stored) {
      const DType dtype = l_.program.buffer(s.buffer).dtype;
      const ExprId load = l_.pool().load(s.buffer, s.index, dtype);
      to.emplace(s.value, load);
      const Expr value = l_.pool()[s.value];
      if (value.op == Op::Cast && isHalf(dtype) && !l_.isWide(value.operands[0]))
        to.emplace(value.operands[0], l_.pool().cast(load, l_.pool()[value.operands[0]].dtype));
    }
    std::vector<Store> out = stores;
    for (Store& s : out) s.value = replaced(s.value, to);
    return bytesOf(l_, readBy(l_, out)) < bytesOf(l_, readBy(l_, stores)) ? out : stores;
  }

  /// `to`: gets what was replaced on the way.
  ExprId replaced(ExprId id, std::unordered_map<ExprId, ExprId>& to) {
    if (const auto at = to.find(id); at != to.end()) return at->second;
    Expr e = l_.pool()[id];
    ExprId out = id;
    if (!e.operands.empty()) {
      const loops::ExprPool::MadeFor origin(l_.pool(), l_.pool().origin(id));
      for (ExprId& o : e.operands) o = replaced(o, to);
      out = l_.pool().add(std::move(e));
    }
    to.emplace(id, out);
    return out;
  }

  int64_t savedBytes(size_t from, size_t to, const std::vector<Moved>& moved) {
    std::vector<Store> stores, stored;
    for (const Moved& m : moved) {
      stores.push_back(m.store);
      stored.push_back(nests_[from].stores[m.place]);
    }
    const std::vector<Store> left = reading(stored, storesWithout(nests_[from], moved));
    std::set<BufferId> more;
    const std::set<BufferId> theirs = readBy(l_, nests_[to].stores), ours = readBy(l_, stores);
    std::set_difference(ours.begin(), ours.end(), theirs.begin(), theirs.end(), std::inserter(more, more.end()));
    return bytesOf(l_, readBy(l_, nests_[from].stores)) - bytesOf(l_, readBy(l_, left)) - bytesOf(l_, more);
  }

  Lowering& l_;
  std::vector<Nest>& nests_;
};

}  // namespace

void moveStores(Lowering& l) {
  const auto nodes = l.graph.order(l.graph.root());
  const bool hasProduct = std::any_of(nodes.begin(), nodes.end(),
                                      [&](NodeId n) { return kindOf(l.graph.node(n).op->name) == Kind::Product; });
  if (l.machine.isGpu && !hasProduct) StoreMover(l).run();
}

}  // namespace graft::lower
