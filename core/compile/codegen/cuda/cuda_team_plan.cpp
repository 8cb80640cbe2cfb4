// CudaPlanner for rows and columns: how many threads, and blocks of them, run one iteration together.
#include <algorithm>
#include <bit>

#include "core/compile/codegen/cuda/cuda_plan.h"

namespace graft::codegen {

using loops::Expr;
using loops::Nest;
using loops::Op;
using loops::Store;
using Role = loops::Buffer::Role;

namespace {

/// Of larger blocks, a thread has half as many registers.
constexpr int64_t kBusyBlock = 512;
constexpr int64_t kMostThreads = 1024;
/// Blocks that may run an iteration together: what every GPU with clusters has.
constexpr int64_t kMostBlocks = 8;

int64_t powerBelow(int64_t n) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}
int64_t powerAbove(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

}  // namespace

/// The outer range along which neighbouring threads read what lies together, where that is more than what lies together
/// in a row. What is read more of decides: a tensor of statistics is small beside the one that they are of.
std::optional<RangeId> CudaPlanner::columnsOf(const Nest& nest) {
  std::map<RangeId, double> votes;
  double rowVotes = 0;
  for (const Store& store : nest.stores)
    for (const ExprId p : partsOf(store)) {
      const Expr e = program_.expressions[p];
      if (e.op != Op::Load || program_.buffer(e.buffer()).role == Role::Local) continue;
      bool isOfRow = false;
      for (const RangeId r : accesses_.of(p).ranges) isOfRow |= !outer_.contains(r);
      if (!isOfRow) continue;
      auto bytes = static_cast<double>(dtypeSize(e.dtype));
      for (const RangeId r : accesses_.of(p).ranges) bytes *= static_cast<double>(known(program_.range(r).extent));
      for (const RangeId r : accesses_.of(p).ranges) {
        if (!liesSideBySide(e.buffer(), e.operands, r) || known(program_.range(r).extent) < 4) continue;
        (outer_.contains(r) ? votes[r] : rowVotes) += bytes;
      }
    }
  for (const auto& [range, bytes] : votes)
    if (bytes > rowVotes && known(program_.range(range).extent) >= 8) return range;
  return std::nullopt;
}

CudaPlan CudaPlanner::planTeam(const Nest& nest, std::optional<RangeId> columns) {
  CudaPlan plan;
  plan.kind = columns ? CudaPlan::Kind::Columns : CudaPlan::Kind::Rows;
  std::vector<RangeId> outer = nest.outer;
  if (columns) {
    std::erase(outer, *columns);
    outer.push_back(*columns);
  }
  plan.iterations = extentOf(outer);
  plan.index = program_.addRange("i", program_.expressions.integer(plan.iterations));
  const Replacements flat = flatten(outer, plan.index);
  for (const Store& store : nest.stores) {
    Rewriting w{flat, {}};
    std::vector<RangeId> order = store.ranges;
    Store s;
    if (const int64_t length = extentOf(order); length != 1) {
      std::vector<std::pair<BufferId, std::vector<ExprId>>> places;
      for (const ExprId p : partsOf(store))
        if (const Expr e = program_.expressions[p]; e.op == Op::Load && program_.buffer(e.buffer()).role != Role::Local)
          places.emplace_back(e.buffer(), e.operands);
      places.emplace_back(store.buffer, store.index);
      sortByStride(order, places);
      const RangeId j = rowOf(plan, length).range;
      for (const auto& [range, value] : flatten(order, j)) w.to[range] = value;
      s = rewrite(store, w, &plan);
      s.ranges = {j};
    } else {
      for (const RangeId r : order) w.to[r] = program_.expressions.integer(0);
      s = rewrite(store, w, &plan);
      s.ranges.clear();
    }
    plan.nest.stores.push_back(std::move(s));
  }
  plan.nest.outer = {plan.index};
  if (plan.rows.empty()) {
    plan.threads = plan.perBlock = 128;
    return plan;
  }
  const bool mayShare = !plan.rowReduces.empty() && keepsOwnElements(plan);
  if (plan.kind == CudaPlan::Kind::Columns) {
    chooseColumns(plan, mayShare);
    const auto isKept = [](const auto& row) { return row.second.isInRegisters; };
    // What a column keeps beyond the registers lies in the memory of one block, a column beside the other.
    if ((plan.vector > 1 || plan.cluster > 1) && hasArrays(plan) &&
        !std::all_of(plan.rows.begin(), plan.rows.end(), isKept))
      chooseColumns(plan, false);
  } else {
    chooseRows(plan, mayShare);
  }
  return plan;
}

bool CudaPlanner::hasArrays(const CudaPlan& plan) const {
  return std::any_of(plan.nest.stores.begin(), plan.nest.stores.end(), [&](const Store& s) {
    const loops::Buffer& b = program_.buffer(s.buffer);
    return b.role == Role::Local && !b.sizes.empty();
  });
}

/// Whether each thread of a team reads of the values that the team keeps those alone that it wrote, so that blocks that
/// share no memory can keep them.
bool CudaPlanner::keepsOwnElements(const CudaPlan& plan) const {
  std::unordered_map<BufferId, std::vector<ExprId>> places;
  bool isOwn = true;
  const auto note = [&](BufferId buffer, const std::vector<ExprId>& index) {
    const loops::Buffer& b = program_.buffer(buffer);
    if (b.role != Role::Local || b.sizes.empty()) return;
    const auto [at, isNew] = places.emplace(buffer, index);
    isOwn = isOwn && (isNew || at->second == index);
  };
  for (const Store& s : plan.nest.stores) {
    note(s.buffer, s.index);
    const loops::Buffer& b = program_.buffer(s.buffer);
    if (b.role == Role::Local && !b.sizes.empty()) {
      int64_t count = 1;
      for (const ExprId size : b.sizes) count *= known(size);
      isOwn = isOwn && s.ranges.size() == 1 && extentOf(s.ranges) == count;
    }
    for (const ExprId p : partsOf(s))
      if (const Expr& e = program_.expressions[p]; e.op == Op::Load) note(e.buffer(), e.operands);
  }
  return isOwn;
}

/// At most so many blocks for an iteration.
int64_t CudaPlanner::mostBlocks() const {
  return planning_.limits.capability >= kClusterCapability ? std::min<int64_t>(kMostBlocks, planning_.limits.cluster)
                                                           : 1;
}

void CudaPlanner::chooseColumns(CudaPlan& plan, bool mayShare) {
  int64_t longest = 1;
  for (const auto& [length, row] : plan.rows) longest = std::max(longest, length);
  const int64_t multiprocessors = planning_.limits.multiprocessors;
  plan.vector = plan.cluster = 1;
  const bool isEachOwn = std::all_of(plan.rowReduces.begin(), plan.rowReduces.end(),
                                     [&](ExprId r) { return accesses_.of(r).depends(plan.index); });
  if (mayShare && isEachOwn) plan.vector = vectorFor(plan.nest.stores, plan.index, plan.iterations);
  // Threads side by side: a sector of memory and more, and whole warps with those below each other.
  const auto blocks = [&] { return divideUp(plan.iterations, static_cast<int64_t>(plan.vector) * plan.width); };
  const bool isFew = plan.iterations * 4 <= multiprocessors * kWarp;
  const auto setWidth = [&] { plan.width = plan.vector > 2 ? 64 / plan.vector : isFew ? kWarp / 4 : kWarp; };
  setWidth();
  while (plan.vector > 1 && blocks() * mostBlocks() < multiprocessors) {
    plan.vector /= 2;
    setWidth();
  }
  plan.perBlock = plan.width * plan.vector;
  // Few columns: more threads for each.
  const int64_t wanted = divideUp(multiprocessors * 1024, std::max<int64_t>(plan.iterations / plan.vector, 1));
  const int64_t most = (plan.vector > 1 ? kBusyBlock : kMostThreads) / plan.width;
  int64_t team = powerAbove(std::clamp<int64_t>(wanted, std::min<int64_t>(8, longest), most));
  while (team > 1 && team > longest) team /= 2;
  const auto kept = [&] { return divideUp(longest, team) * plan.vector; };
  while (2 * team * plan.width <= kBusyBlock && 2 * team <= longest && kept() > planning_.limits.inRegisters &&
         kept() <= 4 * planning_.limits.inRegisters)
    team *= 2;
  if (mayShare && mostBlocks() > 1)
    plan.cluster = static_cast<int>(std::min({mostBlocks(), powerBelow(multiprocessors / blocks()),
                                              powerBelow(longest * plan.width / planning_.limits.blockElements)}));
  plan.team = static_cast<int>(team) * plan.cluster;
  plan.threads = static_cast<int>(team) * plan.width;
  setChunks(plan);
}

void CudaPlanner::chooseRows(CudaPlan& plan, bool mayShare) {
  int64_t longest = 1, values = 0;
  for (auto& [length, row] : plan.rows) {
    longest = std::max(longest, length);
    row.vector = vectorFor(plan.nest.stores, row.range, length);
  }
  for (const Store& store : plan.nest.stores) {
    const loops::Buffer& b = program_.buffer(store.buffer);
    values += b.role == Role::Local && !b.sizes.empty() ? 1 : 0;
  }
  const CudaRow& main = plan.rows.at(longest);
  const int64_t vectors = divideUp(longest, main.vector);
  const int64_t multiprocessors = planning_.limits.multiprocessors;
  plan.cluster = static_cast<int>(mayShare ? blocksForRow(plan.iterations, longest) : 1);
  if (plan.cluster > 1) {
    const int64_t each = divideUp(vectors, static_cast<int64_t>(plan.cluster));
    plan.threads = static_cast<int>(powerAbove(std::clamp<int64_t>(each, 2 * kWarp, kBusyBlock)));
    plan.team = plan.threads * plan.cluster;
    plan.perBlock = 1;
    setChunks(plan);
    return;
  }
  const bool isBusy = plan.iterations >= multiprocessors * 16;
  // A warp needs no barrier; enough rows keep it from waiting alone.
  int64_t team = isBusy && divideUp(vectors, kWarp) * main.vector <= planning_.limits.inRegisters
                     ? std::min<int64_t>(vectors, kWarp)
                     : divideUp(vectors, isBusy ? 2 : 1);
  team = powerAbove(std::clamp<int64_t>(team, 4, kMostThreads));
  // Values of a row that a thread keeps.
  const auto kept = [&] { return divideUp(vectors, team) * main.vector * (values + 1); };
  while (team < kMostThreads && team < vectors &&
         kept() > (team <= 256 ? 2 * planning_.limits.inRegisters : planning_.limits.inRegisters))
    team *= 2;
  plan.team = static_cast<int>(team);
  plan.perBlock = static_cast<int>(std::max<int64_t>(1, (isBusy ? 128 : 64) / team));
  plan.threads = plan.team * plan.perBlock;
  setChunks(plan);
}

/// Blocks that run one row together: where multiprocessors would be idle, or where so many keep the row in registers.
int64_t CudaPlanner::blocksForRow(int64_t rows, int64_t length) const {
  const int64_t most = mostBlocks();
  if (most == 1) return 1;
  const int64_t idle = std::min(powerBelow(planning_.limits.multiprocessors / rows),
                                powerBelow(length / planning_.limits.blockElements));
  const int64_t kept = powerAbove(divideUp(length, kBusyBlock * planning_.limits.inRegisters));
  return std::clamp<int64_t>(std::max(idle, kept <= most ? kept : 1), 1, most);
}

void CudaPlanner::setChunks(CudaPlan& plan) const {
  for (auto& [length, row] : plan.rows) {
    const int64_t lanes = plan.kind == CudaPlan::Kind::Columns ? plan.vector : row.vector;
    row.chunks = divideUp(length, static_cast<int64_t>(row.vector) * plan.team);
    row.isInRegisters = row.chunks * lanes <=
                        (plan.threads <= kBusyBlock ? planning_.limits.inRegisters : planning_.limits.inRegisters / 2);
  }
}

}  // namespace graft::codegen
