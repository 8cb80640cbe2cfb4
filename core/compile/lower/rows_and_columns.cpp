// Which tensors are reduced along rows and along columns. On a GPU, one kernel can do both.

#include <optional>
#include <set>

#include "core/compile/loops/reachable.h"
#include "core/compile/lower/places.h"
#include "core/compile/lower/schedule.h"

namespace graft::lower {
namespace {

using loops::BufferId;
using loops::Nest;

std::vector<ExprId> partsOf(const Lowering& l, const Nest& nest) {
  return loops::reachable(l.program.expressions, loops::roots(nest));
}

/// The buffers of so many elements that a nest reads, or stores.
std::set<BufferId> buffersOf(const Lowering& l, const Nest& nest, int64_t elements) {
  std::set<BufferId> out;
  for (const loops::Store& s : nest.stores)
    if (countOf(l, l.program.buffer(s.buffer).sizes) == elements) out.insert(s.buffer);
  for (const ExprId id : partsOf(l, nest))
    if (const loops::Expr& e = l.program.expressions[id]; e.op == Op::Load)
      if (const loops::Buffer& b = l.program.buffer(e.buffer());
          b.role != loops::Buffer::Role::Local && countOf(l, b.sizes) == elements)
        out.insert(e.buffer());
  return out;
}

/// How many columns have parts in the nest; nothing where it stores anything else.
std::optional<int64_t> columnsOf(const Lowering& l, const Nest& nest) {
  std::optional<int64_t> columns;
  for (const loops::Store& s : nest.stores) {
    const TensorId t = l.tensorOfBuffer(s.buffer);
    if (!t || l[t].columnParts == 0) return std::nullopt;
    const auto behind = l[t].sizes.begin() + static_cast<std::ptrdiff_t>(l[t].columnParts);
    columns = countOf(l, Sizes(behind, l[t].sizes.end()));
  }
  return columns;
}

/// How many rows of so many elements a nest reduces: its iterations.
std::optional<int64_t> rowsOf(const Lowering& l, const Nest& nest, int64_t elements) {
  for (const ExprId id : partsOf(l, nest))
    if (const loops::Expr& e = l.program.expressions[id]; e.op == Op::Reduce && countOf(l, e.ranges) == elements)
      return countOf(l, nest.outer);
  return std::nullopt;
}

}  // namespace

std::set<RowsAndColumns> rowsBesideColumns(const Lowering& l) {
  std::set<RowsAndColumns> out;
  if (!l.machine.isGpu) return out;
  for (const Nest& parts : l.program.nests) {
    const auto columns = columnsOf(l, parts);
    if (!columns || *columns > kMostColumnsWithRows) continue;
    for (const Nest& nest : l.program.nests) {
      const auto rows = rowsOf(l, nest, *columns);
      int64_t elements = 0;
      if (!rows || columnsOf(l, nest) || __builtin_mul_overflow(*rows, *columns, &elements)) continue;
      const std::set<BufferId> ofRows = buffersOf(l, nest, elements);
      for (const BufferId b : buffersOf(l, parts, elements))
        if (ofRows.contains(b)) out.insert({*rows, *columns});
    }
  }
  return out;
}

}  // namespace graft::lower
