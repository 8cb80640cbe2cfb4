// Nests that store statistics of the same rows become one.

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "core/compile/loops/reachable.h"
#include "core/compile/lower/schedule.h"

namespace graft::lower {
namespace {

using loops::BufferId;
using loops::Nest;
using loops::Program;
using loops::Store;

/// An element for each of a few iterations.
bool storesFewElements(Lowering& l, const Nest& nest) {
  int64_t iterations = 1;
  for (const RangeId r : nest.outer) {
    const auto extent = l.simplifier.bounds(l.program.range(r).extent).max;
    if (!extent || __builtin_mul_overflow(iterations, *extent, &iterations)) return false;
  }
  constexpr int64_t fewOnGpu = 1 << 17;  // parts of columns among them
  return iterations <= (l.machine.isGpu ? fewOnGpu : 4 * fewIterations) &&
         std::all_of(nest.stores.begin(), nest.stores.end(), [](const Store& s) { return s.ranges.empty(); });
}

bool readsFrom(const Program& program, const Nest& reader, const Nest& writer) {
  const std::set<BufferId> read = loops::readBuffers(program, reader);
  return std::any_of(writer.stores.begin(), writer.stores.end(),
                     [&](const Store& s) { return read.contains(s.buffer); });
}

/// The stores with what `writer` stores in place of loads of it; nothing where they load another iteration's.
std::optional<std::vector<Store>> forwarded(Lowering& l, const Nest& reader, const Nest& writer) {
  std::vector<Store> stores = reader.stores;
  std::vector<ExprId> values;
  for (const Store& s : stores) values.push_back(s.value);
  const auto now = loops::withStoredValues(l.pool(), writer.stores, std::move(values));
  if (!now) return std::nullopt;
  for (size_t i = 0; i < stores.size(); ++i) stores[i].value = (*now)[i];
  return stores;
}

bool storesElements(const Nest& nest) {
  return std::all_of(nest.stores.begin(), nest.stores.end(), [](const Store& s) { return s.ranges.empty(); });
}

/// Rows, and statistics of the same rows that parts of columns need: one nest stores both, in the place of the first of
/// them, and the parts find both at hand.
void joinRows(Lowering& l) {
  std::vector<Nest>& nests = l.program.nests;
  const auto joined = [&](size_t rows) -> std::optional<size_t> {
    if (storesElements(nests[rows])) return std::nullopt;
    for (size_t k = rows; k-- > 0;) {
      const bool reads = readsFrom(l.program, nests[rows], nests[k]);
      if (nests[k].outer == nests[rows].outer && storesElements(nests[k]))
        if (auto stores = reads ? forwarded(l, nests[rows], nests[k]) : std::optional(nests[rows].stores)) {
          std::move(stores->begin(), stores->end(), std::back_inserter(nests[k].stores));
          nests.erase(nests.begin() + static_cast<std::ptrdiff_t>(rows));
          return k;
        }
      if (reads) break;
    }
    for (size_t k = rows + 1; k < nests.size(); ++k) {
      if (nests[k].outer != nests[rows].outer || !storesElements(nests[k])) continue;
      const bool mayComeEarlier = std::none_of(nests.begin() + static_cast<std::ptrdiff_t>(rows),
                                               nests.begin() + static_cast<std::ptrdiff_t>(k),
                                               [&](const Nest& n) { return readsFrom(l.program, nests[k], n); });
      if (!mayComeEarlier) continue;
      std::move(nests[k].stores.begin(), nests[k].stores.end(), std::back_inserter(nests[rows].stores));
      nests.erase(nests.begin() + static_cast<std::ptrdiff_t>(k));
      return rows;
    }
    return std::nullopt;
  };
  for (size_t rows = 0; rows < nests.size(); ++rows)
    for (std::optional<size_t> now = joined(rows); now; now = joined(*now)) rows = *now;
}

}  // namespace

void joinStatistics(Lowering& l) {
  std::vector<Nest> joined;
  /// Into a nest that stands before it, with none between them whose results it reads. On a CPU, into its neighbour
  /// alone.
  const auto joins = [&](Nest& nest) {
    if (!storesFewElements(l, nest)) return false;
    for (auto at = joined.rbegin(); at != joined.rend(); ++at) {
      const bool reads = readsFrom(l.program, nest, *at);
      if (reads && !l.machine.isGpu) return false;
      if (at->outer == nest.outer && storesFewElements(l, *at)) {
        std::optional<std::vector<Store>> stores = reads ? forwarded(l, nest, *at) : std::optional(nest.stores);
        if (!stores) return false;
        std::move(stores->begin(), stores->end(), std::back_inserter(at->stores));
        return true;
      }
      if (reads || !l.machine.isGpu) return false;
    }
    return false;
  };
  for (Nest& nest : l.program.nests)
    if (!joins(nest)) joined.push_back(std::move(nest));
  l.program.nests = std::move(joined);
  if (l.reducesRowsToo()) joinRows(l);
}

}  // namespace graft::lower
