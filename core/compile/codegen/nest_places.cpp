// Locals in the memory of outputs. Where a store turns the elements of a local one by one into those of an output, and
// nobody reads the local later, the local lies where the output's elements will be: softmax writes its powers there and
// scales them in place, and the caches hold one row, not two.
#include <algorithm>
#include <optional>
#include <set>

#include "core/compile/codegen/nest_emitter.h"

namespace graft::codegen {

using loops::Expr;
using loops::Op;
using loops::Store;

namespace {

struct LocalLoads {
  std::set<ExprId> loads;          ///< of locals with dimensions, outside of reductions
  std::set<BufferId> inReduction;  ///< locals that a reduction reads
};

void collect(const loops::ExprPool& pool, ExprId id, bool isReduced, std::set<std::pair<ExprId, bool>>& seen,
             LocalLoads& found) {
  if (!seen.emplace(id, isReduced).second) return;
  const Expr& e = pool[id];
  if (e.op == Op::Load) {
    if (isReduced)
      found.inReduction.insert(e.buffer());
    else
      found.loads.insert(id);
  }
  for (const ExprId operand : e.operands) collect(pool, operand, isReduced || e.op == Op::Reduce, seen, found);
}

}  // namespace

std::optional<ExprId> NestEmitter::findInPlace(const loops::Nest& nest, size_t index) {
  const Store& to = nest.stores[index];
  const loops::Program& program = accesses_.program();
  const loops::Buffer& output = program.buffer(to.buffer);
  if (output.role != loops::Buffer::Role::Output || to.scan || to.ranges.empty()) return std::nullopt;
  LocalLoads found;
  std::set<std::pair<ExprId, bool>> seen;
  collect(program.expressions, to.value, false, seen, found);
  for (const ExprId place : to.index) collect(program.expressions, place, true, seen, found);
  const auto isReadLater = [&](BufferId local) {
    return std::any_of(nest.stores.begin() + static_cast<long>(index) + 1, nest.stores.end(), [&](const Store& s) {
      const auto reads = [&](ExprId e) {
        const std::vector<BufferId>& read = accesses_.of(e).written;
        return std::find(read.begin(), read.end(), local) != read.end();
      };
      return reads(s.value) || std::any_of(s.index.begin(), s.index.end(), reads);
    });
  };
  for (const ExprId load : found.loads) {
    const Expr e = program.expressions[load];
    const loops::Buffer& local = program.buffer(e.buffer());
    if (local.role != loops::Buffer::Role::Local || local.dtype != output.dtype) continue;
    if (e.operands.size() != to.ranges.size() || found.inReduction.contains(e.buffer())) continue;
    // All of it is read, each element once.
    std::set<RangeId> ranges;
    for (size_t d = 0; d < e.operands.size(); ++d) {
      const Expr& at = program.expressions[e.operands[d]];
      if (at.op == Op::Range && program.range(at.range()).extent == local.sizes[d]) ranges.insert(at.range());
    }
    const bool isAll =
        ranges == std::set<RangeId>(to.ranges.begin(), to.ranges.end()) && ranges.size() == e.operands.size();
    const bool isOnlyLoad = std::none_of(found.loads.begin(), found.loads.end(), [&](ExprId other) {
      return other != load && program.expressions[other].buffer() == e.buffer();
    });
    if (isAll && isOnlyLoad && !isReadLater(e.buffer()) && findRowStart(to, load)) return load;
  }
  return std::nullopt;
}

std::optional<Affine> NestEmitter::findRowStart(const Store& to, ExprId load) {
  const loops::ExprPool& pool = accesses_.program().expressions;
  Affine where = accesses_.offset(to.buffer, to.index);
  const Affine inside = accesses_.ofLoad(load);
  for (const Affine::Term& t : inside.terms) {
    const auto same = std::find_if(where.terms.begin(), where.terms.end(),
                                   [&](const Affine::Term& w) { return w.atom == t.atom && w.factor == t.factor; });
    if (same == where.terms.end()) return std::nullopt;
    where.terms.erase(same);
  }
  const int64_t* first = pool.findInteger(inside.constant);
  const bool isInvariant = std::all_of(where.terms.begin(), where.terms.end(), [&](const Affine::Term& w) {
    return std::none_of(to.ranges.begin(), to.ranges.end(),
                        [&](RangeId r) { return accesses_.of(w.atom).depends(r); }) &&
           accesses_.of(w.atom).written.empty();
  });
  if (!first || *first != 0 || !isInvariant) return std::nullopt;
  return where;
}

void NestEmitter::placeInOutputs(const loops::Nest& nest) {
  if (storesLanes_ > 1) return;
  for (size_t i = 0; i < nest.stores.size(); ++i)
    if (const std::optional<ExprId> load = findInPlace(nest, i)) {
      const Store& to = nest.stores[i];
      const Pointer row = pointer(to.buffer, *findRowStart(to, *load));
      places_[accesses_.program().expressions[*load].buffer()] = row.at;
    }
}

}  // namespace graft::codegen
