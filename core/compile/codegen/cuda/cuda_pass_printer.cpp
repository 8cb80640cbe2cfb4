// CudaPrinter for one pass of threads over elements: where locals lie, the loop, stores and scans.
#include <fmt/format.h>

#include <algorithm>

#include "core/compile/codegen/cuda/cuda_printer.h"
#include "core/compile/codegen/cuda/cuda_spelling.h"
#include "core/compile/codegen/loop_plan.h"
#include "core/compile/loops/slow_scan.h"

namespace graft::codegen {

using loops::Expr;
using loops::Op;
using loops::Store;
using Role = loops::Buffer::Role;

namespace {

constexpr int64_t kThreadBytes = 512;   ///< that a thread keeps for itself
constexpr int64_t kReduceBytes = 1024;  ///< that a Reduce of a row takes, at most
constexpr int64_t kUnrolled = 32;       ///< iterations of a loop in one thread

}  // namespace

int64_t CudaPrinter::sharedSlot(int64_t bytes) {
  const int64_t at = sharedBytes_;
  sharedBytes_ += (bytes + 15) / 16 * 16;
  return at;
}

int64_t CudaPrinter::bytesOfThreads(const CudaRow& row, DType dtype) const {
  return row.chunks * row.vector * plan_->threads * static_cast<int64_t>(dtypeSize(dtype));
}

int64_t CudaPrinter::keptBytes() const {
  const int64_t left = mostSharedBytes() - 8 * kReduceBytes;
  return plan_->iterations * plan_->cluster > options_.limits.multiprocessors ? left / 2 : left;
}

bool CudaPrinter::isOwn(BufferId b) const {
  const auto at = locals_.find(b);
  return at != locals_.end() && at->second.place == Local::Place::Own;
}

Status CudaPrinter::placeLocals() {
  struct Access {
    BufferId buffer;
    std::vector<ExprId> index;
  };
  std::vector<Access> accesses;
  std::unordered_map<BufferId, RangeId> storedOver;
  std::unordered_set<ExprId> seen;
  const auto walk = [&](const auto& self, ExprId id) -> void {
    if (!seen.insert(id).second) return;
    const Expr e = program_.expressions[id];
    if (e.op == Op::Load && program_.buffer(e.buffer()).role == Role::Local)
      accesses.push_back({e.buffer(), e.operands});
    for (const ExprId operand : e.operands) self(self, operand);
  };
  std::vector<BufferId> order;
  for (const Store& s : plan_->nest.stores) {
    walk(walk, s.value);
    for (const ExprId i : s.index) walk(walk, i);
    if (program_.buffer(s.buffer).role != Role::Local) continue;
    accesses.push_back({s.buffer, s.index});
    storedOver[s.buffer] = s.ranges.empty() ? RangeId() : s.ranges[0];
    if (std::find(order.begin(), order.end(), s.buffer) == order.end()) order.push_back(s.buffer);
  }
  const bool isTeam = plan_->kind != CudaPlan::Kind::Threads;
  for (const BufferId id : order) {
    const loops::Buffer& b = program_.buffer(id);
    Local& l = locals_[id];
    const std::string name = b.name + "_", type = cudaType(b.dtype);
    int64_t count = 1;
    for (const ExprId size : b.sizes) count *= *program_.expressions.findInteger(size);
    const int64_t bytes = std::max<int64_t>(count, 1) * static_cast<int64_t>(dtypeSize(b.dtype));
    if (!isArray(b)) {
      line(type + " " + name + (hasColumnLanes() ? fmt::format("[{}];", plan_->vector) : ";"));
      continue;
    }
    const std::vector<ExprId>* index = nullptr;
    bool isOwn = isTeam;
    for (const Access& a : accesses) {
      if (a.buffer != id) continue;
      isOwn &= !index || *index == a.index;
      index = &a.index;
    }
    const CudaRow* row = nullptr;
    for (const auto& [length, r] : plan_->rows)
      if (r.range == storedOver[id]) row = &r;
    isOwn = isOwn && row && row->length == count;
    if (isOwn && row->isInRegisters) {
      l.place = Local::Place::Registers;
      line(type + " " + name + dimensions(passOf(*row)) + ";");
    } else if (isOwn && plan_->kind == CudaPlan::Kind::Rows) {
      l.place = Local::Place::Own;
      hasOwn_ = true;
      const int64_t at = sharedSlot(bytesOfThreads(*row, b.dtype));
      line(fmt::format("{0}* {1} = ({0}*)(shared + {2});", type, name, at));
    } else if (isTeam) {
      l.place = Local::Place::Shared;
      const bool isColumn = plan_->kind == CudaPlan::Kind::Columns;
      l.step = isColumn ? plan_->perBlock : 1;
      const int64_t at = sharedSlot(bytes * plan_->perBlock);
      line(fmt::format("{0}* {1} = ({0}*)(shared + {2}) + {3};", type, name, at,
                       isColumn ? "team" : fmt::format("team * {}", count)));
    } else if (bytes <= kThreadBytes) {
      l.place = Local::Place::Thread;
      line(fmt::format("{} {}[{}];", type, name, std::max<int64_t>(count, 1)));
    } else {
      l.place = Local::Place::Scratch;
      l.step = plan_->iterations;
      printed_.scratchBytes.push_back(bytes * plan_->iterations);
      printed_.kernel.buffers.push_back(-static_cast<int>(printed_.scratchBytes.size()));
      line(fmt::format("{0}* {1} = ({0}*)scratch{2} + i;", type, name, printed_.scratchBytes.size()));
    }
  }
  if (sharedBytes_ > mostSharedBytes()) return badInput("an iteration keeps more than a block of threads has room for");
  return done();
}

/// What loads of locals were given names, and is no more.
void CudaPrinter::written(BufferId buffer) {
  for (Scope& s : scopes_)
    std::erase_if(s.names, [&](const auto& entry) {
      const std::vector<BufferId>& reads = accesses_.of(entry.first).written;
      return std::find(reads.begin(), reads.end(), buffer) != reads.end();
    });
}

void CudaPrinter::openPass(const Pass& p) {
  pass_ = p;
  steps_.emplace(accesses_, p.range, p.vector);
  const bool isTeam = p.row != nullptr;
  const size_t outside = scopes_.size();
  const bool isWide = p.range == plan_->index && plan_->iterations + plan_->perBlock >= kSmall;
  const std::string type = isWide ? "i64" : "i32";
  const auto times = [](const std::string& a, int64_t n) { return n == 1 ? a : fmt::format("{} * {}", a, n); };
  if (p.chunks > 1) {
    // Several accesses at a time, also where the row is too long for registers.
    const char* unroll = p.isUnrolled ? "#pragma unroll" : p.vector > 1 ? "#pragma unroll 4" : "#pragma unroll 16";
    open({unroll, fmt::format("for (i32 k = {}; k < {}; ++k) {{", p.first, p.first + p.chunks)});
  } else {
    open({"{"});
  }
  std::string condition;
  if (isTeam) {
    const int64_t step = static_cast<int64_t>(plan_->team) * p.row->vector, full = p.row->length / step;
    const std::string chunk = p.chunks > 1 ? "k" : std::to_string(p.first);
    const bool isFirst = p.chunks == 1 && p.first == 0;
    const auto place = [&](const char* thread, int threads) {
      return times(isFirst ? thread : fmt::format("({} * {} + {})", chunk, threads, thread), p.row->vector) + ";";
    };
    line("const i32 j = " + place("t", plan_->team));
    if (hasOwn_) line("const i32 o = " + place("(i32)threadIdx.x", plan_->threads));
    if (p.row->length % step != 0 && !p.isWhole)
      condition = p.chunks == 1
                      ? fmt::format("j < {}", p.row->length)
                      : (full > 0 ? fmt::format("k < {} || ", full) : "") + fmt::format("j < {}", p.row->length);
  } else {
    std::string start =
        fmt::format("{} * {}", isInParts() ? "block" : fmt::format("({})blockIdx.x", type), p.chunks * plan_->threads);
    if (p.chunks > 1) start += fmt::format(" + k * {}", plan_->threads);
    line("const " + type + " i = " + times("(" + start + " + threadIdx.x)", p.vector) + ";");
    if (isInParts())
      condition = "i < length";
    else if (plan_->iterations % (static_cast<int64_t>(p.vector) * p.chunks * plan_->threads) != 0)
      condition = "i < " + cudaNumber(plan_->iterations, DType::Int64, !isWide);
  }
  if (!condition.empty()) open({"if (" + condition + ") {"});
  chunk_ = lane_ = scopes_.size() - 1;
  if (isTeam && p.range != p.row->range) ranges_[p.row->range] = {chunk_, "j"};
  passScopes_ = static_cast<int>(scopes_.size() - outside);
  if (p.vector == 1) return;
  open({"#pragma unroll", fmt::format("for (i32 v = 0; v < {}; ++v) {{", p.vector)});
  lane_ = scopes_.size() - 1;
  if (hasColumnLanes()) localScope_ = lane_;
  line(fmt::format("const {0} {1}v = {1} + v;", type, p.name));
}

/// The columns of a thread, once.
void CudaPrinter::openColumns() {
  pass_ = {.name = "i", .range = plan_->index, .vector = plan_->vector};
  steps_.emplace(accesses_, pass_.range, pass_.vector);
  open({"{"});
  chunk_ = scopes_.size() - 1;
  open({"#pragma unroll", fmt::format("for (i32 v = 0; v < {}; ++v) {{", pass_.vector)});
  lane_ = localScope_ = scopes_.size() - 1;
  passScopes_ = 1;
  line(std::string("const ") + (plan_->iterations + plan_->perBlock < kSmall ? "i32" : "i64") + " iv = i + v;");
}

void CudaPrinter::eachChunk(const Pass& p, const std::function<void()>& print) {
  const int64_t full = p.row->length / (static_cast<int64_t>(plan_->team) * p.row->vector);
  if (p.isUnrolled || full == 0) {
    openPass(p);
    print();
    closePass();
    return;
  }
  Pass part = p;
  part.chunks = full;
  part.isWhole = true;
  const std::unordered_set<ExprId> filled = filled_;
  openPass(part);
  print();
  closePass();
  if (full == p.chunks) return;
  filled_ = filled;
  part.first = full;
  part.chunks = 1;
  part.isWhole = false;
  openPass(part);
  print();
  closePass();
}

void CudaPrinter::closePass() {
  for (; passScopes_ > 0; --passScopes_) close();
  pass_ = {};
  steps_.reset();
  chunk_ = lane_ = 0;
  if (hasColumnLanes()) localScope_ = 0;
}

void CudaPrinter::scanStore(const Store& s) {
  const loops::Buffer& b = program_.buffer(s.buffer);
  std::vector<RangeId> order = s.ranges;
  std::stable_partition(order.begin(), order.end(), [&](RangeId r) { return r != s.scan; });
  const DType wide = s.scan ? scanType(b.dtype, s.scanKind) : b.dtype;
  // From the innermost loop on, as far as that is not much code. An array of a thread's own lies in registers where all
  // of its places are known.
  constexpr int64_t kMostStores = 64;
  std::unordered_set<RangeId> unrolled;
  int64_t stores = 1;
  for (auto r = order.rbegin(); r != order.rend(); ++r) {
    if (*r == s.scan) continue;  // the innermost loop; those around it are unrolled
    stores *= extentOf(*r);
    if (extentOf(*r) <= kUnrolled && (b.role == Role::Local || stores <= kMostStores)) unrolled.insert(*r);
  }
  std::string sofar;
  for (const RangeId r : order) {
    const int64_t extent = extentOf(r);
    if (r == s.scan) {
      sofar = newName("sofar");
      line(fmt::format("{} {} = {};", cudaType(wide), sofar, cudaIdentity(s.scanKind, wide)));
    }
    const std::string name = newName("r");
    open({unrolled.contains(r) ? "#pragma unroll" : "#pragma unroll 1",
          fmt::format("for (i32 {0} = 0; {0} < {1}; ++{0}) {{", name, extent)});
    ranges_[r] = {scopes_.size() - 1, name};
  }
  std::string text = value(s.value);
  const bool isOwn = b.role == Role::Local;
  const std::string to =
      isOwn ? localElement(s.buffer, s.index) : element(s.buffer, planner_.offset(s.buffer, s.index));
  if (!sofar.empty()) {
    if (wide != b.dtype) text = castText(text, b.dtype, wide);
    line(fmt::format("{0} = {1}::of<{2}>({0}, {3});", sofar, cudaCombination(s.scanKind), cudaType(wide), text));
    text = wide != b.dtype ? castText(sofar, wide, b.dtype) : sofar;
  }
  line(to + " = " + bareText(text) + ";");
  for (size_t i = 0; i < order.size(); ++i) close();
}

/// In the lanes. What follows them is added to `after`.
void CudaPrinter::store(const Store& s, std::vector<std::string>& after) {
  const loops::Buffer& b = program_.buffer(s.buffer);
  const std::string text = bareText(value(s.value));
  keepStored(s);
  if (b.role == Role::Local) {
    if (!isOwn(s.buffer) || pass_.vector == 1) {
      line((isOwn(s.buffer) ? b.name + "_[o]" : localElement(s.buffer, s.index)) + " = " + text + ";");
      return;
    }
    const std::string name = newName("y");
    at(chunk_, [&] { line(fmt::format("{} {}[{}];", cudaType(b.dtype), name, pass_.vector)); });
    line(name + "[v] = " + text + ";");
    after.push_back(fmt::format("store<{}, {}>(&{}_[o], {});", pass_.vector,
                                std::min<int64_t>(pass_.vector, 16 / static_cast<int64_t>(dtypeSize(b.dtype))), b.name,
                                name));
    return;
  }
  const bool isTeam = plan_->kind == CudaPlan::Kind::Rows || plan_->kind == CudaPlan::Kind::Columns;
  const bool isLive = !isTeam || plan_->isAlwaysLive();
  const std::string live = isLive ? "" : "if (isLive) ";
  const ExprId offset = planner_.offset(s.buffer, s.index);
  const int64_t width =
      pass_.vector == 1 ? 1
                        : steps_->width(offset, alignments_[s.buffer.index], static_cast<int64_t>(dtypeSize(b.dtype)));
  if (width == 1) {
    line(live + element(s.buffer, offset) + " = " + text + ";");
    return;
  }
  const std::string name = newName("y");
  std::string to;
  at(chunk_, [&] {
    line(fmt::format("{} {}[{}];", cudaType(b.dtype), name, pass_.vector));
    to = element(s.buffer, offset);
  });
  line(name + "[v] = " + text + ";");
  after.push_back(fmt::format("{}store<{}, {}>(&{}, {});", live, pass_.vector, width, to, name));
}

/// Before anything is stored: outputs may lie where inputs do.
void CudaPrinter::loadAll() {
  std::unordered_set<ExprId> seen;
  const auto walk = [&](const auto& self, ExprId id) -> void {
    if (!seen.insert(id).second) return;
    const Expr e = program_.expressions[id];
    if (e.op == Op::Load && program_.buffer(e.buffer()).role != Role::Local) value(id);
    for (const ExprId operand : e.operands) self(self, operand);
  };
  for (const Store& s : plan_->nest.stores) walk(walk, s.value);
}

/// Whether each thread goes over a row of its own, which is long, and there are few: ATen's scan shares rows.
bool CudaPrinter::scansLongRows(const Store& s) const {
  int64_t rows = 1;
  for (const RangeId r : plan_->nest.outer) rows *= extentOf(r);
  return loops::isSlowScan(static_cast<double>(extentOf(*s.scan)), static_cast<double>(rows));
}

Status CudaPrinter::printThreads() {
  Pass p;
  p.name = "i";
  p.range = plan_->index;
  p.vector = plan_->vector;
  p.chunks = plan_->chunks;
  openPass(p);
  localScope_ = lane_;
  if (const Status s = placeLocals(); !s) return s;
  if (isInParts()) loadAll();
  std::vector<std::string> after;
  for (const Store& s : plan_->nest.stores) {
    if (options_.refusesSlowScans && s.scan && scansLongRows(s))
      return badInput("few long rows would be scanned by one thread each");
    if (s.ranges.empty())
      store(s, after);
    else if (!std::any_of(s.ranges.begin(), s.ranges.end(), [&](RangeId r) { return extentOf(r) == 0; }))
      scanStore(s);
    written(s.buffer);
  }
  if (p.vector > 1) close();
  for (const std::string& text : after) line(text);
  closePass();
  return done();
}

}  // namespace graft::codegen
