// Nests that store statistics of the same rows become one.

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
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

/// The stores with what `writer` stores in place of loads of it; nothing where they load another iteration's.
std::optional<std::vector<Store>> forwarded(Lowering& l, const Nest& reader, const Nest& writer) {
  std::map<BufferId, const Store*> stored;
  for (const Store& s : writer.stores) stored.emplace(s.buffer, &s);
  std::map<ExprId, ExprId> done;
  bool isSame = true;
  const auto rewrite = [&](const auto& self, ExprId id) -> ExprId {
    if (const auto at = done.find(id); at != done.end()) return at->second;
    loops::Expr e = l.pool()[id];
    ExprId out = id;
    const auto from = e.op == loops::Op::Load ? stored.find(e.buffer()) : stored.end();
    if (from != stored.end()) {
      isSame = isSame && from->second->index == e.operands && l.pool()[from->second->value].dtype == e.dtype;
      out = from->second->value;
    } else if (!e.operands.empty()) {
      const loops::ExprPool::MadeFor origin(l.pool(), l.pool().origin(id));
      for (ExprId& o : e.operands) o = self(self, o);
      out = l.pool().add(std::move(e));
    }
    done.emplace(id, out);
    return out;
  };
  std::vector<Store> stores = reader.stores;
  for (Store& s : stores) s.value = rewrite(rewrite, s.value);
  return isSame ? std::optional(std::move(stores)) : std::nullopt;
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
}

}  // namespace graft::lower
