// Nests that store statistics of the same rows become one.

#include <algorithm>
#include <iterator>
#include <set>

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
  std::set<BufferId> written;
  for (const Store& s : writer.stores) written.insert(s.buffer);
  std::set<ExprId> seen;
  std::vector<ExprId> stack;
  for (const Store& s : reader.stores) {
    stack.push_back(s.value);
    stack.insert(stack.end(), s.index.begin(), s.index.end());
  }
  while (!stack.empty()) {
    const ExprId id = stack.back();
    stack.pop_back();
    if (!seen.insert(id).second) continue;
    const loops::Expr& e = program.expressions[id];
    if (e.op == loops::Op::Load && written.contains(e.buffer())) return true;
    stack.insert(stack.end(), e.operands.begin(), e.operands.end());
  }
  return false;
}

}  // namespace

void joinStatistics(Lowering& l) {
  std::vector<Nest> joined;
  /// The nest that may take this one in: between them stands none whose results it reads. On a CPU, its neighbour
  /// alone.
  const auto findPlace = [&](const Nest& nest) -> Nest* {
    if (!storesFewElements(l, nest)) return nullptr;
    for (auto at = joined.rbegin(); at != joined.rend(); ++at) {
      if (readsFrom(l.program, nest, *at)) return nullptr;
      if (at->outer == nest.outer && storesFewElements(l, *at)) return &*at;
      if (!l.machine.isGpu) return nullptr;
    }
    return nullptr;
  };
  for (Nest& nest : l.program.nests) {
    if (Nest* const place = findPlace(nest))
      std::move(nest.stores.begin(), nest.stores.end(), std::back_inserter(place->stores));
    else
      joined.push_back(std::move(nest));
  }
  l.program.nests = std::move(joined);
}

}  // namespace graft::lower
