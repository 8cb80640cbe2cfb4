#include "core/compile/codegen/placement.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "core/compile/codegen/prepare.h"
#include "core/compile/loops/reachable.h"

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

/// An input that a nest reads many times, with the lanes along a dimension in which its elements lie apart, is copied
/// once, turned: such tables, and images with their channels side by side under windows, are small beside what is made
/// of them.
class OperandTurner {
 public:
  OperandTurner(loops::Program& program, const std::vector<Strides>& strides)
      : program_(program), accesses_(program, strides), strides_(strides) {}

  void run() {
    for (size_t i = 0; i < program_.nests.size(); ++i)
      for (const BufferId buffer : program_.inputs())
        if (const auto fastest = findTurn(program_.nests[i], buffer)) i += turn(i, buffer, *fastest);
  }
  /// The copies, and the order of their dimensions in memory, the fastest one last.
  const std::vector<std::pair<BufferId, std::vector<size_t>>>& copies() const { return copies_; }

 private:
  static constexpr int64_t kFewestReads = 4;       ///< of each element, for a copy to be worth it
  static constexpr int64_t kFewestElements = 256;  ///< that lie apart, of the copy

  std::optional<int64_t> known(ExprId size) const {
    const int64_t* number = program_.expressions.findInteger(size);
    return number ? std::optional(*number) : std::nullopt;
  }

  /// The range along which all stores of the nest write neighbours.
  std::optional<RangeId> alongOf(const loops::Nest& nest) {
    std::optional<RangeId> along;
    for (const loops::Store& store : nest.stores) {
      if (program_.buffer(store.buffer).role == Role::Local) continue;
      std::vector<RangeId> byOnes;
      for (size_t d = 0; d < store.index.size(); ++d)
        if (known(strides_.at(store.buffer.index)[d]) == 1)
          for (const RangeId r : rangesOf(accesses_, store.index[d])) byOnes.push_back(r);
      if (byOnes.size() != 1 || (along && *along != byOnes[0])) return std::nullopt;
      along = byOnes[0];
    }
    return along;
  }

  /// Whether the index goes on by one place or two with each step of the range, in stretches at least.
  bool stepsAlong(ExprId index, RangeId range) {
    const loops::ExprPool& pool = program_.expressions;
    for (const Affine::Term& term : accesses_.affine(index).terms) {
      const Expr& atom = pool[term.atom];
      const int64_t* factor = pool.findInteger(term.factor);
      const bool isPart = atom.op == Op::Remainder && pool[atom.operands[0]].op == Op::Range;
      const Expr& base = isPart ? pool[atom.operands[0]] : atom;
      if (base.op == Op::Range && base.range() == range && factor && std::abs(*factor) <= 2) return true;
    }
    return false;
  }

  std::optional<size_t> findTurn(const loops::Nest& nest, BufferId buffer) {
    const std::vector<ExprId> sizes = program_.buffer(buffer).sizes;
    if (sizes.size() < 2 || dtypeSize(program_.buffer(buffer).dtype) > 4) return std::nullopt;
    int64_t elements = 1;
    for (const ExprId size : sizes) {
      if (!known(size) || *known(size) < 1) return std::nullopt;
      elements *= *known(size);
    }
    const std::optional<RangeId> along = elements < kFewestElements ? std::nullopt : alongOf(nest);
    if (!along) return std::nullopt;
    std::optional<size_t> fastest;
    std::set<uint32_t> seen;
    bool isFit = true;
    int64_t reads = 0;
    const auto walk = [&](const auto& self, ExprId id) -> void {
      if (!seen.insert(id.index).second) return;
      const Expr e = program_.expressions[id];
      for (const ExprId operand : e.operands) self(self, operand);
      if (e.op != Op::Load || e.buffer() != buffer) return;
      std::optional<size_t> steps;
      for (size_t d = 0; d < sizes.size(); ++d) {
        if (!accesses_.of(e.operands[d]).depends(*along)) continue;
        isFit = isFit && known(strides_.at(buffer.index)[d]).value_or(1) > 1;
        if (stepsAlong(e.operands[d], *along)) steps = d;
      }
      isFit = isFit && steps && (!fastest || fastest == steps);
      fastest = steps;
      int64_t times = 1;
      for (const RangeId r : accesses_.of(id).ranges) times *= known(program_.range(r).extent).value_or(0);
      reads += times;
    };
    for (const loops::Store& store : nest.stores) walk(walk, store.value);
    return isFit && fastest && reads >= kFewestReads * elements ? fastest : std::nullopt;
  }

  /// Returns how many nests it adds before the nest.
  size_t turn(size_t nest, BufferId buffer, size_t fastest) {
    loops::ExprPool& pool = program_.expressions;
    const loops::Buffer from = program_.buffer(buffer);
    std::vector<size_t> order;
    for (size_t d = 0; d < from.sizes.size(); ++d)
      if (d != fastest) order.push_back(d);
    order.push_back(fastest);
    const BufferId copy = program_.addBuffer(from.name + "_turned_" + std::to_string(copies_.size()), from.dtype,
                                             from.sizes, Role::Temporary);
    copies_.emplace_back(copy, order);
    loops::Nest made;
    loops::Store store;
    store.buffer = copy;
    for (const ExprId size : from.sizes) {
      made.outer.push_back(program_.addRange("turned" + std::to_string(program_.ranges.size()), size));
      store.index.push_back(pool.range(made.outer.back()));
    }
    store.value = pool.load(buffer, store.index, from.dtype);
    made.stores.push_back(std::move(store));
    std::unordered_map<ExprId, ExprId> done;
    const std::function<ExprId(ExprId)> ofCopy = [&](ExprId id) -> ExprId {
      Expr e = pool[id];
      if (e.op != Op::Load || e.buffer() != buffer) return {};
      const loops::ExprPool::MadeFor origin(pool, pool.origin(id));
      for (ExprId& o : e.operands) o = loops::changed(pool, o, done, ofCopy);
      return pool.load(copy, e.operands, e.dtype);
    };
    for (loops::Store& s : program_.nests[nest].stores) s.value = loops::changed(pool, s.value, done, ofCopy);
    program_.nests.insert(program_.nests.begin() + static_cast<std::ptrdiff_t>(nest), std::move(made));
    return 1;
  }

  loops::Program& program_;
  Accesses accesses_;
  const std::vector<Strides>& strides_;
  std::vector<std::pair<BufferId, std::vector<size_t>>> copies_;
};

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
  std::vector<std::pair<BufferId, std::vector<size_t>>> copies;
  if (options.schedule.transposes) {
    if (program.sizes.empty()) specialise(program, {}, result.strides);  // indices as their bounds make them
    const std::vector<Strides> given = result.strides;
    OperandTurner turner(program, given);
    turner.run();
    copies = turner.copies();
    if (!copies.empty()) result = placeBuffers(program, options);
  }
  turnTemporaries(program, result.strides);
  for (const auto& [copy, order] : copies) result.strides[copy.index] = denseLayout(program, copy, order).strides;
  return result;
}

}  // namespace graft::codegen
