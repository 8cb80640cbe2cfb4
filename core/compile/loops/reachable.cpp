#include "core/compile/loops/reachable.h"

#include <algorithm>
#include <unordered_set>

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

}  // namespace graft::loops
