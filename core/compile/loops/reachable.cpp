#include "core/compile/loops/reachable.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace graft::loops {

std::vector<ExprId> reachable(const ExprPool& pool, std::vector<ExprId> open) {
  std::unordered_set<ExprId> seen;  // few of a large pool
  std::vector<ExprId> found;
  while (!open.empty()) {
    const ExprId id = open.back();
    open.pop_back();
    if (!seen.insert(id).second) continue;
    found.push_back(id);
    for (const ExprId o : pool[id].operands) open.push_back(o);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<ExprId> roots(const Nest& nest) {
  std::vector<ExprId> out;
  for (const Store& s : nest.stores) {
    out.insert(out.end(), s.index.begin(), s.index.end());
    out.push_back(s.value);
  }
  return out;
}

std::vector<ExprId> roots(const Program& program) {
  std::vector<ExprId> out;
  for (const Nest& n : program.nests) {
    const std::vector<ExprId> more = roots(n);
    out.insert(out.end(), more.begin(), more.end());
  }
  for (const Range& r : program.ranges) out.push_back(r.extent);
  for (const Buffer& b : program.buffers) out.insert(out.end(), b.sizes.begin(), b.sizes.end());
  return out;
}

std::set<BufferId> readBuffers(const Program& program, const Nest& nest) {
  std::set<BufferId> out;
  for (const ExprId id : reachable(program.expressions, roots(nest)))
    if (const Expr& e = program.expressions[id]; e.op == Op::Load) out.insert(e.buffer());
  return out;
}

ExprId changed(ExprPool& pool, ExprId id, std::unordered_map<ExprId, ExprId>& done,
               const std::function<ExprId(ExprId)>& change) {
  if (const auto at = done.find(id); at != done.end()) return at->second;
  ExprId out = change(id);
  if (!out) {
    out = id;
    if (Expr e = pool[id]; !e.operands.empty()) {
      const ExprPool::MadeFor origin(pool, pool.origin(id));
      for (ExprId& o : e.operands) o = changed(pool, o, done, change);
      out = pool.add(std::move(e));
    }
  }
  done.emplace(id, out);
  return out;
}

std::optional<std::vector<ExprId>> withStoredValues(ExprPool& pool, const std::vector<Store>& stores,
                                                    std::vector<ExprId> values) {
  std::unordered_map<BufferId, const Store*> stored;
  for (const Store& s : stores) stored.emplace(s.buffer, &s);
  std::unordered_map<ExprId, ExprId> done;
  bool isSame = true;
  const auto ofStore = [&](ExprId id) -> ExprId {
    const Expr& e = pool[id];
    const auto from = e.op == Op::Load ? stored.find(e.buffer()) : stored.end();
    if (from == stored.end()) return {};
    isSame = isSame && from->second->index == e.operands && pool[from->second->value].dtype == e.dtype;
    return from->second->value;
  };
  for (ExprId& value : values) value = changed(pool, value, done, ofStore);
  return isSame ? std::optional(std::move(values)) : std::nullopt;
}

}  // namespace graft::loops
