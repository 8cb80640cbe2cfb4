#include "core/compile/lower/nest_facts.h"

#include <algorithm>

#include "core/compile/loops/reachable.h"
#include "core/compile/lower/places.h"

namespace graft::lower {

using loops::Buffer;
using loops::BufferId;
using loops::Expr;
using loops::Nest;
using loops::Store;

bool storesElements(const Lowering& l, const Nest& nest) {
  if (nest.stores.empty()) return false;
  for (const Store& s : nest.stores)
    if (!s.ranges.empty() || l.program.buffer(s.buffer).role != Buffer::Role::Output) return false;
  const std::vector<ExprId> parts = loops::reachable(l.program.expressions, loops::roots(nest));
  return std::none_of(parts.begin(), parts.end(), [&](ExprId e) { return l.program.expressions[e].op == Op::Reduce; });
}

std::set<BufferId> readBy(const Lowering& l, const std::vector<Store>& stores) {
  return loops::readBuffers(l.program, Nest{{}, stores});
}

int64_t bytesOf(const Lowering& l, const std::set<BufferId>& buffers) {
  int64_t bytes = 0;
  for (const BufferId b : buffers) {
    const Buffer& buffer = l.program.buffer(b);
    bytes += countOf(l, buffer.sizes).value_or(0) * static_cast<int64_t>(dtypeSize(buffer.dtype));
  }
  return bytes;
}

bool isStoredFrom(const Lowering& l, const std::set<BufferId>& buffers, size_t first, size_t end) {
  for (size_t k = first; k < end; ++k)
    for (const Store& s : l.program.nests[k].stores)
      if (buffers.contains(s.buffer)) return true;
  return false;
}

bool isLarge(const Lowering& l, BufferId b, int64_t elements) {
  const auto n = countOf(l, l.program.buffer(b).sizes);
  return n && *n >= elements / 8 && !l.program.buffer(b).sizes.empty();
}

std::set<RangeId> rangesIn(const Lowering& l, ExprId root) {
  std::set<RangeId> out;
  for (const ExprId id : loops::reachable(l.program.expressions, {root}))
    if (const Expr& e = l.program.expressions[id]; e.op == Op::Range) out.insert(e.range());
  return out;
}

}  // namespace graft::lower
