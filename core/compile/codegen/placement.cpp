#include "core/compile/codegen/placement.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/compile/codegen/prepare.h"

namespace graft::codegen {

using Role = loops::Buffer::Role;
using loops::BufferId;
using loops::Expr;
using loops::ExprId;
using loops::Op;
using loops::RangeId;

namespace {

struct Access {
  BufferId buffer;
  std::vector<ExprId> index;
};

/// What the store writes and reads, each once.
std::vector<Access> accessesOf(const loops::Program& program, const loops::Store& store) {
  std::vector<Access> found{{store.buffer, store.index}};
  std::set<uint32_t> seen;
  const auto walk = [&](const auto& self, ExprId id) -> void {
    if (!seen.insert(id.index).second) return;
    const Expr& e = program.expressions[id];
    if (e.op == Op::Load) found.push_back({e.buffer(), e.operands});
    for (const ExprId operand : e.operands) self(self, operand);
  };
  walk(walk, store.value);
  return found;
}

/// The ranges whose steps are steps of one in this index.
std::vector<RangeId> rangesOf(Accesses& accesses, ExprId index) {
  std::vector<RangeId> found;
  const loops::ExprPool& pool = accesses.program().expressions;
  for (const Affine::Term& term : accesses.affine(index).terms) {
    const int64_t* factor = pool.findInteger(term.factor);
    if (pool[term.atom].op == Op::Range && factor && *factor == 1) found.push_back(pool[term.atom].range());
  }
  return found;
}

void turnTemporaries(loops::Program& program, std::vector<Strides>& strides) {
  Accesses accesses(program, strides);
  loops::ExprPool& pool = program.expressions;
  const auto isOne = [&](ExprId id) {
    const int64_t* number = pool.findInteger(id);
    return number && *number == 1;
  };
  std::set<BufferId> known;
  for (uint32_t i = 0; i < program.buffers.size(); ++i)
    if (program.buffers[i].role == Role::Input || program.buffers[i].role == Role::Output) known.insert(BufferId(i));
  std::map<BufferId, std::vector<Access>> uses;  // of temporaries, with what steps by ones beside them
  std::map<BufferId, std::vector<std::vector<RangeId>>> steps;
  for (const loops::Nest& nest : program.nests)
    for (const loops::Store& store : nest.stores) {
      const std::vector<Access> all = accessesOf(program, store);
      std::vector<RangeId> byOnes;
      for (const Access& a : all) {
        if (!known.contains(a.buffer)) continue;
        for (size_t d = 0; d < a.index.size(); ++d)
          if (isOne(strides[a.buffer.index][d]) && !isOne(program.buffer(a.buffer).sizes[d]))
            for (const RangeId r : rangesOf(accesses, a.index[d])) byOnes.push_back(r);
      }
      for (const Access& a : all)
        if (program.buffer(a.buffer).role == Role::Temporary) {
          uses[a.buffer].push_back(a);
          steps[a.buffer].push_back(byOnes);
        }
    }
  for (const auto& [buffer, accessed] : uses) {
    const std::vector<ExprId> sizes = program.buffer(buffer).sizes;
    std::vector<size_t> votes(sizes.size(), 0);
    for (size_t i = 0; i < accessed.size(); ++i)
      for (size_t d = 0; d < sizes.size(); ++d)
        for (const RangeId r : rangesOf(accesses, accessed[i].index[d]))
          votes[d] += static_cast<size_t>(std::count(steps[buffer][i].begin(), steps[buffer][i].end(), r));
    size_t last = sizes.size();  // the dimension that is fastest as things are
    while (last-- > 0 && isOne(sizes[last])) {
    }
    if (last >= sizes.size()) continue;
    const size_t best = static_cast<size_t>(std::max_element(votes.begin(), votes.end()) - votes.begin());
    if (votes[best] <= votes[last]) continue;
    std::vector<size_t> order;
    for (size_t d = 0; d < sizes.size(); ++d)
      if (d != best) order.push_back(d);
    order.push_back(best);
    strides[buffer.index] = denseLayout(program, buffer, order).strides;
  }
}

}  // namespace

int lanesOf(CpuLevel level) { return level == CpuLevel::Avx512 ? 16 : level == CpuLevel::Avx2 ? 8 : 4; }

Placement placeBuffers(loops::Program& program, const CpuOptions& options) {
  Placement result{std::vector<Strides>(program.buffers.size()), std::vector<int>(program.buffers.size(), -1)};
  int slot = 0;
  size_t layout = 0;
  for (const Role role : {Role::Input, Role::Output, Role::Temporary, Role::Local})
    for (uint32_t i = 0; i < program.buffers.size(); ++i) {
      if (program.buffers[i].role != role) continue;
      const bool isOfCall = role == Role::Input || role == Role::Output;
      result.strides[i] = isOfCall && !options.layouts.empty() ? options.layouts.at(layout++).strides
                                                               : rowMajor(program, loops::BufferId(i));
      if (role != Role::Local) result.slots[i] = slot++;
    }
  if (!options.sizes.empty()) specialise(program, options.sizes, result.strides);
  return result;
}

Placement placeBuffersOnCpu(loops::Program& program, const CpuOptions& options) {
  Placement result = placeBuffers(program, options);
  turnTemporaries(program, result.strides);
  return result;
}

}  // namespace graft::codegen
