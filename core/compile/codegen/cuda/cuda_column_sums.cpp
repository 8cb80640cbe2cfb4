// Rows whose columns are summed up, too: a block runs several rows, one after another, and each thread adds up the
// elements that it has of them in registers. The gradients of a layer norm are an example: the input's goes over rows,
// those of weight and bias over columns, and all are made of the same two tensors.
//
// After "mix-order reductions" of PyTorch's Inductor.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "core/compile/codegen/cuda/cuda_plan.h"
#include "core/compile/codegen/cuda/cuda_printer.h"
#include "core/compile/codegen/cuda/cuda_spelling.h"
#include "core/compile/loops/reachable.h"

namespace graft::codegen {

using loops::Expr;
using loops::Nest;
using loops::Op;
using loops::Store;
using Role = loops::Buffer::Role;

namespace {

/// What a thread keeps in registers, in bytes, beside what it computes with.
constexpr int64_t kMostBytes = 400;
constexpr int kMostTeam = 1024;  // threads of a row at most
/// Elements of one access, where that is narrowed.
constexpr int kLeastVector = 4;
/// Threads of a block whose teams are small. Half as many took 1.25 times as long on an H100.
constexpr int kFewThreads = 256;
/// Shared memory in which teams join what they have: of a block, so that some blocks share a multiprocessor.
constexpr int64_t kMostSharedBytes = 48 * 1024;

bool isRowInMemory(const loops::Program& program, const Store& s) {
  return !s.ranges.empty() && program.buffer(s.buffer).role != Role::Local;
}

bool isStoredByRow(const loops::Program& program, const CudaPlan& plan, BufferId buffer) {
  return std::any_of(plan.nest.stores.begin(), plan.nest.stores.end(),
                     [&](const Store& s) { return s.buffer == buffer && isRowInMemory(program, s); });
}

/// What a half is rounded from: a thread keeps that, since sums may read it.
ExprId unrounded(const loops::ExprPool& pool, ExprId value) {
  const Expr& e = pool[value];
  const bool isHalf = e.dtype == DType::Float16 || e.dtype == DType::BFloat16;
  return isHalf && e.op == Op::Cast && pool[e.operands[0]].dtype == DType::Float32 ? e.operands[0] : value;
}

}  // namespace

// ---- Plans ----

/// Of a store of parts. The nest's outer ranges count parts, then columns; the Reduce's count the rows of a part. Part
/// and row together count the rows of the plan, as its index does, and the last part may have more rows than there are.
bool CudaPlanner::addColumnSum(CudaPlan& plan, const Nest& columns, const Store& store) {
  const Expr sum = program_.expressions[store.value];
  if (!store.ranges.empty() || store.scan || sum.op != Op::Reduce || isPlace(sum) || hasReduce(sum.operands[0]) ||
      program_.buffer(store.buffer).role != Role::Temporary)
    return false;
  const CudaRow& row = plan.rows.begin()->second;
  size_t first = columns.outer.size();
  while (first > 0 &&
         extentOf({columns.outer.begin() + static_cast<std::ptrdiff_t>(first), columns.outer.end()}) < row.length)
    --first;
  const auto middle = columns.outer.begin() + static_cast<std::ptrdiff_t>(first);
  const std::vector<RangeId> parts(columns.outer.begin(), middle), ofRow(middle, columns.outer.end());
  const int64_t count = extentOf(parts), each = extentOf(sum.ranges);
  if (extentOf(ofRow) != row.length || each < 2 || divideUp(plan.iterations, each) != count) return false;
  if (plan.rowsOfBlock != 0 && plan.rowsOfBlock != each) return false;
  if (plan.rowsOfBlock == 0) {
    plan.rowsOfBlock = each;
    plan.block = program_.addRange("b", program_.expressions.integer(count));
  }
  loops::Simplifier& s = accesses_.simplifier();
  const auto split = [&](const std::vector<RangeId>& ranges, ExprId by) {
    Replacements to;
    const RangeId whole = program_.addRange("r", program_.expressions.integer(extentOf(ranges)));
    for (const auto& [range, value] : flatten(ranges, whole)) to[range] = s.substitute(value, {{whole, by}});
    return to;
  };
  const ExprId i = program_.expressions.range(plan.index);
  Rewriting of, at;
  of.to = split(parts, s.floorDivide(i, s.integer(each)));
  of.to.merge(split(sum.ranges, s.remainder(i, s.integer(each))));
  of.to.merge(flatten(ofRow, row.range));
  at.to = flatten(parts, plan.block);
  at.to.merge(flatten(ofRow, row.range));
  std::vector<ExprId> index;
  for (const ExprId e : store.index) index.push_back(rewrite(e, at, false, nullptr));
  // All rows of the plan are there: conditions of the last part go.
  const ExprId value = s.simplify(rewrite(sum.operands[0], of, false, nullptr));
  const std::optional<ExprId> own = withStoredRows(plan, value);
  if (!own) return false;
  plan.sums.push_back({sum.reduce, *own, store.buffer, offset(store.buffer, index)});
  return true;
}

/// A value of a sum, with what the row itself has at hand: its numbers by what they are made of, and its elements as
/// loads of what it stores, before that is rounded. Nothing where it reads other rows' elements.
std::optional<ExprId> CudaPlanner::withStoredRows(const CudaPlan& plan, ExprId value) {
  loops::ExprPool& pool = program_.expressions;
  std::unordered_map<BufferId, const Store*> stored;
  for (const Store& s : plan.nest.stores) stored.emplace(s.buffer, &s);
  std::unordered_map<ExprId, ExprId> done, elements;
  bool isOfThisRow = true;
  const std::function<ExprId(ExprId)> ofRow = [&](ExprId id) -> ExprId {
    const Expr e = pool[id];
    const auto from = e.op == Op::Load ? stored.find(e.buffer()) : stored.end();
    if (from == stored.end()) return {};
    const Store& s = *from->second;
    isOfThisRow = isOfThisRow && s.index == e.operands && pool[s.value].dtype == e.dtype;
    if (!isOfThisRow) return id;
    if (!isRowInMemory(program_, s)) return loops::changed(pool, s.value, done, ofRow);
    const ExprId kept = unrounded(pool, s.value);
    return kept == s.value ? id : pool.cast(pool.load(s.buffer, s.index, pool[kept].dtype), e.dtype);
  };
  value = loops::changed(pool, value, done, ofRow);
  for (const Store& s : plan.nest.stores) {
    if (!isRowInMemory(program_, s)) continue;
    const ExprId made = loops::changed(pool, unrounded(pool, s.value), done, ofRow);
    const Expr& e = pool[made];
    const bool isAtHand = e.op == Op::Load || (e.op == Op::Cast && pool[e.operands[0]].op == Op::Load);
    if (!isAtHand) elements.emplace(made, pool.load(s.buffer, s.index, e.dtype));
  }
  done = std::move(elements);  // each of them becomes its load
  value = loops::changed(pool, value, done, [](ExprId) { return ExprId(); });
  for (const ExprId id : loops::reachable(pool, {value}))
    isOfThisRow = isOfThisRow && (pool[id].op != Op::Reduce || plan.rowReduces.contains(id));
  return isOfThisRow ? std::optional(value) : std::nullopt;
}

/// For each of its elements of a row, a thread keeps the sums, and what the row is made of.
int64_t CudaPlanner::keptBytesOf(const CudaPlan& plan) {
  const RangeId row = plan.rows.begin()->second.range;
  std::unordered_set<ExprId> seen;
  std::vector<ExprId> parts;
  for (const Store& s : plan.nest.stores) collect(s.value, seen, parts);
  for (const CudaColumnSum& s : plan.sums) collect(s.value, seen, parts);
  int64_t bytes = 0;
  for (const CudaColumnSum& s : plan.sums)
    bytes += static_cast<int64_t>(dtypeSize(program_.expressions[s.value].dtype));
  for (const ExprId id : parts)
    if (const Expr& e = program_.expressions[id]; e.op == Op::Load && accesses_.of(id).depends(row))
      bytes += static_cast<int64_t>(dtypeSize(e.dtype));
  return bytes;
}

/// Whether rows and columns read the same elements: at least half of what the columns read, in bytes.
bool CudaPlanner::sharesLoads(const CudaPlan& plan) {
  const RangeId row = plan.rows.begin()->second.range;
  std::unordered_set<ExprId> seen, ofColumns;
  std::vector<ExprId> ofRows;
  for (const Store& s : plan.nest.stores) collect(s.value, seen, ofRows);
  int64_t bytes = 0, shared = 0;
  for (const CudaColumnSum& s : plan.sums) {
    std::vector<ExprId> order;
    collect(s.value, ofColumns, order);
    for (const ExprId id : order) {
      const Expr& e = program_.expressions[id];
      if (e.op != Op::Load || !accesses_.of(id).depends(row) || !accesses_.of(id).depends(plan.index)) continue;
      bytes += static_cast<int64_t>(dtypeSize(e.dtype));
      if (isStoredByRow(program_, plan, e.buffer()) || seen.contains(id))
        shared += static_cast<int64_t>(dtypeSize(e.dtype));
    }
  }
  return shared > 0 && 2 * shared >= bytes;
}

/// At a glance, by the numbers of iterations alone.
bool CudaPlanner::mayBeParts(const Nest& columns, const Nest& rows) const {
  return std::all_of(columns.stores.begin(), columns.stores.end(), [&](const Store& s) {
    const Expr& sum = program_.expressions[s.value];
    if (sum.op != Op::Reduce) return false;
    const int64_t each = extentOf(sum.ranges), parts = divideUp(extentOf(rows.outer), std::max<int64_t>(each, 1));
    return each > 1 && parts > 1 && extentOf(columns.outer) % parts == 0;
  });
}

std::optional<CudaPlan> CudaPlanner::planWithColumnSums(const Nest& rows, const std::vector<const Nest*>& columns) {
  for (const Nest* const c : columns)
    if (!mayBeParts(*c, rows)) return {};
  std::vector<CudaPlan> plans = plan(rows);
  if (plans.size() != 1) return {};
  CudaPlan& p = plans.front();
  if (p.kind != CudaPlan::Kind::Rows || p.cluster > 1 || p.rows.size() != 1 || p.rowReduces.empty()) return {};
  CudaRow& row = p.rows.begin()->second;
  if (!row.isInRegisters) return {};
  for (const Nest* const c : columns)
    for (const Store& s : c->stores)
      if (!addColumnSum(p, *c, s)) return {};
  if (p.sums.empty() || !sharesLoads(p)) return {};
  int64_t bytes = 0;
  for (const CudaColumnSum& s : p.sums)
    bytes = std::max(bytes, static_cast<int64_t>(dtypeSize(program_.buffer(s.parts).dtype)));
  // The fewest threads whose registers hold a row: the more rows are on their way at a time. Of two widths of accesses
  // the one that leaves fewer threads without elements.
  const auto kept = [&] { return row.chunks * row.vector * keptBytesOf(p); };
  const int widest = row.vector, narrowest = std::min(widest, kLeastVector);
  for (p.team = kWarp; p.team <= kMostTeam; p.team *= 2) {
    int64_t least = 0;
    int best = 0;
    for (int vector = widest; vector >= narrowest; vector /= 2) {
      row.vector = vector;
      setChunks(p);
      const int64_t elements = row.chunks * vector;
      if (kept() > kMostBytes || !row.isInRegisters || (best != 0 && elements >= least)) continue;
      best = vector;
      least = elements;
    }
    if (best == 0 && p.team < kMostTeam) continue;
    row.vector = best == 0 ? widest : best;
    break;
  }
  p.perBlock = std::max(1, kFewThreads / p.team);
  p.threads = p.team * p.perBlock;
  setChunks(p);
  // Half the teams take half the memory, and a warp that waits alone is not a block.
  while (p.perBlock > 1 && p.threads > 32 && bytes * row.length * p.perBlock > kMostSharedBytes) {
    p.perBlock /= 2;
    p.threads /= 2;
  }
  if (!row.isInRegisters || kept() > kMostBytes || bytes * row.length * p.perBlock > kMostSharedBytes) return {};
  return std::move(p);
}

// ---- Text ----

/// Declares an array of what a thread has of a row: its name.
std::string CudaPrinter::rowArray(const std::string& stem, DType dtype, const std::string& start) {
  const Pass p = passOf(plan_->rows.begin()->second);
  const std::string name = newName(stem);
  line(fmt::format("{} {}{};", cudaType(dtype), name, dimensions(p)));
  if (start.empty()) return name;
  const int64_t count = p.chunks * p.vector;
  line(count == 1 ? fmt::format("{} = {};", name, start)
                  : fmt::format("fill<{}>({}, {});", count, firstOf(name), start));
  return name;
}

std::string CudaPrinter::firstOf(const std::string& rowArray) const {
  const Pass p = passOf(plan_->rows.begin()->second);
  return "&" + rowArray + (p.chunks > 1 ? "[0]" : "") + (p.vector > 1 ? "[0]" : "");
}

/// Keeps what the row's columns add up of what it stores.
void CudaPrinter::keepStored(const Store& s) {
  const auto own = storedRows_.find(s.buffer);
  if (own == storedRows_.end() || s.ranges.empty()) return;
  line(own->second.array + slot(pass_) + " = " + bareText(value(unrounded(program_.expressions, s.value))) + ";");
  filled_.insert(own->second.load);
}

/// Fills the arrays that are kept of these loads.
void CudaPrinter::fillRows(const std::vector<ExprId>& loads) {
  if (loads.empty()) return;
  const Pass p = passOf(plan_->rows.begin()->second);
  openPass(p);
  for (const ExprId id : loads) (void)value(id);
  if (p.vector > 1) close();
  closePass();
}

/// What a row is made of, but for what only a condition lets be read. A thread asks for all of it at once.
CudaPrinter::RowLoads CudaPrinter::loadsOfRow() {
  const CudaPlan& plan = *plan_;
  const RangeId range = plan.rows.begin()->second.range;
  std::unordered_set<BufferId> stored;
  std::vector<ExprId> roots;
  for (const Store& s : plan.nest.stores) {
    stored.insert(s.buffer);
    roots.push_back(s.value);
  }
  for (const CudaColumnSum& s : plan.sums) roots.push_back(s.value);
  RowLoads out;
  const Pass p = passOf(plan.rows.begin()->second);
  for (const ExprId id : loops::reachable(program_.expressions, roots)) {
    const Expr& e = program_.expressions[id];
    if (e.op != Op::Load || program_.buffer(e.buffer()).role == Role::Local || stored.contains(e.buffer())) continue;
    const Dependence& d = accesses_.of(id);
    const bool isOfRow = d.depends(plan.index), isAlong = d.depends(range);
    if (d.isUnsafe || !d.written.empty() || d.ranges.size() != (isOfRow ? 1U : 0U) + (isAlong ? 1U : 0U)) continue;
    LaneSteps steps(accesses_, p.range, p.vector);
    if (isAlong && p.vector > 1 && steps.of(offsetOf(id)) == LaneSteps::Step::Same) continue;
    if (isAlong)
      (isOfRow ? out.elements : out.ofAllRows).push_back(id);
    else if (isOfRow)
      out.numbers.push_back(id);
  }
  return out;
}

/// The loop over the rows of a block, and in front of it what each thread has of the sums: their names.
std::vector<std::string> CudaPrinter::openIterationsOfBlock() {
  const CudaPlan& plan = *plan_;
  if (plan.perBlock == 1)
    line("const i32 team = 0, t = threadIdx.x;");
  else
    line(fmt::format("const i32 team = threadIdx.x / {0}, t = threadIdx.x % {0};", plan.team));
  std::vector<std::string> names;
  for (const CudaColumnSum& s : plan.sums) {
    const DType dtype = program_.expressions[s.value].dtype;
    names.push_back(rowArray("sum", dtype, cudaIdentity(s.kind, dtype)));
  }
  const RowLoads loads = loadsOfRow();
  const auto typeOf = [&](ExprId load) { return program_.expressions[load].dtype; };
  for (const ExprId id : loads.ofAllRows) kept_[id] = rowArray("row", typeOf(id), "");
  fillRows(loads.ofAllRows);
  const bool isWide = plan.iterations + plan.rowsOfBlock >= kSmall;
  open({"#pragma unroll 1", fmt::format("for (i32 n = 0; n < {}; n += {}) {{", plan.rowsOfBlock, plan.perBlock)});
  iteration_ = localScope_ = scopes_.size() - 1;
  ranges_[plan.index] = {iteration_, "i"};
  const std::string type = isWide ? "i64" : "i32";
  const std::string row = fmt::format("({})blockIdx.x * {} + n + team", type, plan.rowsOfBlock);
  if (plan.isAlwaysLive()) {
    line(fmt::format("const {} i = {};", type, row));
  } else {
    const std::string count = cudaNumber(plan.iterations, DType::Int64, !isWide);
    line(fmt::format("const bool isLive = n + team < {} && {} < {};", plan.rowsOfBlock, row, count));
    line(fmt::format("const {} i = isLive ? {} : {} - 1;", type, row, count));
  }
  for (const ExprId id : loads.numbers) (void)value(id);
  for (const ExprId id : loads.elements) kept_[id] = rowArray("row", typeOf(id), "");
  fillRows(loads.elements);
  // What the row stores and its columns add up.
  for (const CudaColumnSum& s : plan.sums)
    for (const ExprId id : loops::reachable(program_.expressions, {s.value}))
      if (const Expr& e = program_.expressions[id]; e.op == Op::Load && isStoredByRow(program_, plan, e.buffer())) {
        StoredRow& own = storedRows_[e.buffer()];
        if (own.array.empty()) own = {id, rowArray("own", typeOf(id), "")};
        kept_[id] = own.array;
      }
  return names;
}

/// Adds a row, and ends the loop over rows.
void CudaPrinter::sumColumns(const std::vector<std::string>& names) {
  const Pass p = passOf(plan_->rows.begin()->second);
  openPass(p);
  for (size_t k = 0; k < names.size(); ++k) {
    const CudaColumnSum& s = plan_->sums[k];
    const DType dtype = program_.expressions[s.value].dtype;
    const std::string sum = names[k] + slot(p);
    std::string next = bareText(value(s.value));
    if (!plan_->isAlwaysLive()) next = fmt::format("isLive ? {} : {}", next, cudaIdentity(s.kind, dtype));
    line(fmt::format("{0} = {1}::of<{2}>({0}, {3});", sum, cudaCombination(s.kind), cudaType(dtype), next));
  }
  if (p.vector > 1) close();
  closePass();
  if (sharedBytes_ > 0) barrier();  // before the next row takes the memory
  close();
  ranges_.erase(plan_->index);
  iteration_ = localScope_ = 0;
}

/// What the teams of a block have, combined in their order, and stored.
Status CudaPrinter::joinColumnSums(const std::vector<std::string>& names) {
  const CudaPlan& plan = *plan_;
  const CudaRow& row = plan.rows.begin()->second;
  const Pass p = passOf(row);
  hasOwn_ = false;
  int64_t bytes = 0;
  for (const CudaColumnSum& s : plan.sums)
    bytes = std::max(bytes, static_cast<int64_t>(dtypeSize(program_.expressions[s.value].dtype)));
  const int64_t at = sharedSlot(bytes * row.length * plan.perBlock);
  for (size_t k = 0; k < names.size(); ++k) {
    const CudaColumnSum& s = plan.sums[k];
    const DType dtype = program_.expressions[s.value].dtype;
    const std::string type = cudaType(dtype), memory = newName("parts");
    if (k > 0) line("join_block();");
    line(fmt::format("{0}* {1} = ({0}*)(shared + {2});", type, memory, at));
    openPass({p.name, p.row, p.range, 1, p.chunks, p.isUnrolled});
    const std::string to = fmt::format("{}[team * {} + j]", memory, row.length);
    const std::string from = names[k] + (p.chunks > 1 ? "[k]" : "");
    line(p.vector == 1
             ? fmt::format("{} = {};", to, from)
             : fmt::format("store<{}, {}>(&{}, {});", p.vector,
                           std::min<int64_t>(p.vector, 16 / static_cast<int64_t>(dtypeSize(dtype))), to, from));
    closePass();
    line("join_block();");
    open({fmt::format("for (i32 j = threadIdx.x; j < {}; j += {}) {{", row.length, plan.threads)});
    ranges_[row.range] = {scopes_.size() - 1, "j"};
    ranges_[plan.block] = {0, "(i32)blockIdx.x"};
    const std::string sum = newName("sum");
    line(fmt::format("{} {} = {}[j];", type, sum, memory));
    if (plan.perBlock > 1) {
      line("#pragma unroll");
      line(fmt::format("for (i32 q = 1; q < {0}; ++q) {1} = {2}::of<{3}>({1}, {4}[q * {5} + j]);", plan.perBlock, sum,
                       cudaCombination(s.kind), type, memory, row.length));
    }
    line(fmt::format("{} = {};", element(s.parts, s.offset), sum));
    close();
    ranges_.erase(row.range);
    ranges_.erase(plan.block);
  }
  if (sharedBytes_ > mostSharedBytes()) return badInput("rows and their columns keep more than a block has room for");
  return done();
}

}  // namespace graft::codegen
