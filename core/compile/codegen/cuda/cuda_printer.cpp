#include "core/compile/codegen/cuda/cuda_printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/compile/codegen/cuda/cuda_spelling.h"
#include "core/compile/codegen/loop_plan.h"

namespace graft::codegen {

using loops::Expr;
using loops::Op;
using loops::Store;
using Role = loops::Buffer::Role;

namespace {

constexpr double kWorthAVariable = 40;     ///< operations of an expression that is used once
constexpr double kWorthABranch = 30;       ///< operations that a Select may leave out
constexpr int64_t kThreadBytes = 512;      ///< that a thread keeps for itself
constexpr int64_t kSharedBytes = 160'000;  ///< of a block
constexpr int64_t kUnrolled = 32;          ///< iterations of a loop in one thread
constexpr int64_t kSmall = int64_t{1} << 31;

bool isArray(const loops::Buffer& b) { return !b.sizes.empty(); }

}  // namespace

std::string CudaPrinter::typeName(DType dtype) { return cudaType(dtype); }

CudaPrinter::CudaPrinter(Accesses& accesses, CudaPlanner& planner, const CudaOptions& options,
                         const std::vector<int>& slots, const std::vector<int64_t>& alignments)
    : accesses_(accesses),
      planner_(planner),
      program_(accesses.program()),
      options_(options),
      slots_(slots),
      alignments_(alignments) {}

// ---- Text ----

void CudaPrinter::line(const std::string& text) {
  scopes_.back().text += std::string(static_cast<size_t>(scopes_.back().depth) * 2, ' ') + text + "\n";
}

/// The heads belong to the text of the scope: what it needs from outside is printed before them, while it is open.
void CudaPrinter::open(const std::vector<std::string>& heads, const std::string& end) {
  Scope s;
  const std::string indent(static_cast<size_t>(scopes_.back().depth) * 2, ' ');
  for (const std::string& head : heads) s.text += indent + head + "\n";
  s.depth = scopes_.back().depth + 1;
  s.end = end;
  scopes_.push_back(std::move(s));
}

void CudaPrinter::close() {
  Scope s = std::move(scopes_.back());
  scopes_.pop_back();
  scopes_.back().text += s.text;
  if (!s.end.empty()) line(s.end);
}

template <class F>
void CudaPrinter::at(size_t target, const F& print) {
  std::vector<Scope> aside;
  for (; scopes_.size() > target + 1; scopes_.pop_back()) aside.push_back(std::move(scopes_.back()));
  std::vector<Guard> guards;
  for (; !guards_.empty() && guards_.back().scope > target; guards_.pop_back()) guards.push_back(guards_.back());
  print();
  for (; !guards.empty(); guards.pop_back()) guards_.push_back(guards.back());
  for (; !aside.empty(); aside.pop_back()) scopes_.push_back(std::move(aside.back()));
}

std::string CudaPrinter::slot(const Pass& p) const {
  return std::string(p.chunks > 1 ? "[k]" : "") + (p.vector > 1 ? "[v]" : "");
}
std::string CudaPrinter::dimensions(const Pass& p) const {
  return (p.chunks > 1 ? fmt::format("[{}]", p.chunks) : "") + (p.vector > 1 ? fmt::format("[{}]", p.vector) : "");
}
CudaPrinter::Pass CudaPrinter::passOf(const CudaRow& r) const {
  return {"j", &r, r.range, r.vector, r.chunks, r.isInRegisters};
}

// ---- Values ----

ExprId CudaPrinter::offsetOf(ExprId load) {
  if (const auto at = offsets_.find(load); at != offsets_.end()) return at->second;
  const Expr e = program_.expressions[load];
  const ExprId offset = planner_.offset(e.buffer(), e.operands);
  offsets_.emplace(load, offset);
  return offset;
}

bool CudaPrinter::isNotNegative(ExprId id) {
  const loops::Bounds b = accesses_.simplifier().bounds(id);
  return b.min && *b.min >= 0;
}

/// Whether 32 bits hold an i64 expression and all that it is made of.
bool CudaPrinter::isNarrow(ExprId id) {
  if (const auto at = narrow_.find(id); at != narrow_.end()) return at->second;
  const Expr e = program_.expressions[id];
  bool narrow = e.dtype == DType::Int64;
  switch (e.op) {
    case Op::Constant:
    case Op::Range:
    case Op::CheckedIndex:
      break;
    case Op::Add:
    case Op::Subtract:
    case Op::Multiply:
    case Op::FloorDivide:
    case Op::Remainder:
    case Op::Minimum:
    case Op::Maximum:
      for (const ExprId operand : e.operands) narrow = narrow && isNarrow(operand);
      break;
    case Op::Select:
      narrow = narrow && isNarrow(e.operands[1]) && isNarrow(e.operands[2]);
      break;
    default:
      narrow = false;
  }
  if (narrow) {
    const loops::Bounds b = accesses_.simplifier().bounds(id);
    narrow = b.min && b.max && *b.min >= -kSmall && *b.max < kSmall;
  }
  narrow_.emplace(id, narrow);
  return narrow;
}

std::string CudaPrinter::numberType(ExprId id) {
  return isNarrow(id) ? "i32" : cudaType(program_.expressions[id].dtype);
}

void CudaPrinter::countUses(ExprId id, int times) {
  if ((uses_[id] += times) > times) return;
  const Expr e = program_.expressions[id];
  if (e.op == Op::Load) {
    const loops::Buffer& b = program_.buffer(e.buffer());
    if (b.role != Role::Local || isArray(b)) countUses(offsetOf(id));
    return;
  }
  for (const ExprId operand : e.operands) countUses(operand);
}

size_t CudaPrinter::scopeOf(ExprId id) {
  const Dependence& d = accesses_.of(id);
  size_t scope = d.written.empty() ? 0 : localScope_;
  if (d.isUnsafe && !guards_.empty()) scope = std::max(scope, guards_.back().scope);
  for (const RangeId r : d.ranges) {
    if (pass_.range == r)
      scope = std::max(scope, steps_->of(id) == LaneSteps::Step::Same ? chunk_ : lane_);
    else if (const auto at = ranges_.find(r); at != ranges_.end())
      scope = std::max(scope, at->second.first);
  }
  return scope;
}

std::string CudaPrinter::value(ExprId id) {
  for (size_t i = scopes_.size(); i-- > 0;)
    if (const auto at = scopes_[i].names.find(id); at != scopes_[i].names.end()) return at->second;
  const Expr e = program_.expressions[id];
  if (e.op == Op::Constant) return constant(id);
  if (e.op == Op::Range) {
    if (e.range() == pass_.range) return pass_.name + (scopes_.size() > lane_ && pass_.vector > 1 ? "v" : "");
    if (e.range() == plan_->index) return "i";
    return ranges_.at(e.range()).second;
  }
  if (e.op == Op::Reduce) return serialReduce(id);
  if (e.op == Op::Load) {
    const loops::Buffer& b = program_.buffer(e.buffer());
    if (b.role == Role::Local && locals_.at(e.buffer()).place <= Local::Place::Registers)
      return localElement(e.buffer(), e.operands);
    if (const std::string text = vectorLoad(id); !text.empty()) return text;
  }
  const size_t here = scopes_.size() - 1, wanted = scopeOf(id);
  const size_t target = std::min(here, wanted);
  if (e.op == Op::Select) {
    const Dependence& then = accesses_.of(e.operands[1]);
    const Dependence& otherwise = accesses_.of(e.operands[2]);
    const bool isBranch = then.isUnsafe || otherwise.isUnsafe || then.operations + otherwise.operations > kWorthABranch;
    if (isBranch && wanted <= here) {
      std::string name;
      at(target, [&] { name = select(id); });
      return name;
    }
  }
  const double operations = accesses_.of(id).operations;
  const bool isNamed = wanted <= here && (e.op == Op::Load || uses_[id] > 1 || operations > kWorthAVariable ||
                                          (target < here && operations > 1));
  if (!isNamed) return compute(id);
  std::string name;
  at(target, [&] {
    const std::string text = compute(id);
    name = newName(e.op == Op::Load ? "x" : "t");
    line(fmt::format("const {} {} = {};", numberType(id), name, bareText(text)));
    scopes_.back().names[id] = name;
  });
  return name;
}

std::string CudaPrinter::select(ExprId id) {
  const Expr e = program_.expressions[id];
  const std::string condition = value(e.operands[0]);
  const std::string name = newName("t");
  line(fmt::format("{} {};", numberType(id), name));
  std::vector<Scope> branches;
  for (const bool isThen : {true, false}) {
    open({isThen ? "if (" + bareText(condition) + ") {" : "} else {"}, isThen ? "" : "}");
    guards_.push_back({e.operands[0], isThen, scopes_.size() - 1});
    const std::string text = value(e.operands[isThen ? 1 : 2]);
    line(name + " = " + bareText(text) + ";");
    guards_.pop_back();
    branches.push_back(std::move(scopes_.back()));
    scopes_.pop_back();
  }
  // What the second branch needs from outside is printed before the first one.
  for (Scope& branch : branches) {
    scopes_.push_back(std::move(branch));
    close();
  }
  scopes_.back().names[id] = name;
  return name;
}

std::string CudaPrinter::constant(ExprId id) {
  const Expr& e = program_.expressions[id];
  if (isFloatingPoint(e.dtype)) return cudaNumber(program_.expressions.constant(id), e.dtype);
  return cudaNumber(static_cast<int64_t>(e.bits), e.dtype, isNarrow(id));
}

std::string CudaPrinter::castText(const std::string& text, DType from, DType to) {
  if (from == DType::Float16 || from == DType::BFloat16) {
    const std::string wide = "to_f32(" + bareText(text) + ")";
    return to == DType::Float32 ? wide : castText(wide, DType::Float32, to);
  }
  if (to == DType::Float16 || to == DType::BFloat16)
    return "to_" + cudaType(to) + "(" + (from == DType::Float32 ? bareText(text) : "(f32)" + text) + ")";
  if (to == DType::Bool) return "(" + text + " != 0)";
  if (isFloatingPoint(from) && to == DType::UInt8) return "(u8)(i64)" + text;
  if (isFloatingPoint(from) && (to == DType::Int8 || to == DType::Int16)) return "(" + cudaType(to) + ")(i32)" + text;
  return "(" + cudaType(to) + ")" + text;
}

std::string CudaPrinter::element(BufferId buffer, ExprId offset) {
  std::string text = bareText(value(offset));
  const std::string name = program_.buffer(buffer).name + "_";
  if (program_.buffer(buffer).role == Role::Local) {
    const Local& l = locals_.at(buffer);
    if (l.step != 1)
      text = fmt::format("({}) * {}", text,
                         cudaNumber(l.step, DType::Int64, l.step < kSmall && l.place != Local::Place::Scratch));
  }
  return name + "[" + text + "]";
}

std::string CudaPrinter::localElement(BufferId buffer, const std::vector<ExprId>& index) {
  const Local& l = locals_.at(buffer);
  const std::string name = program_.buffer(buffer).name + "_";
  if (l.place == Local::Place::Scalar) return name;
  if (l.place == Local::Place::Registers) return name + slot(pass_);
  return element(buffer, planner_.offset(buffer, index));
}

std::string CudaPrinter::loadText(ExprId id) {
  if (const auto at = tiles_.find(id); at != tiles_.end())
    return fmt::format("{}[({} - a0) * {} + c - c0]", at->second, pass_.vector > 1 ? "av" : "a", tilePitch_);
  const Expr e = program_.expressions[id];
  return element(e.buffer(), offsetOf(id));
}

/// The conditions around, where they hold for whole vectors or not at all; false where one does not.
bool CudaPrinter::hasGuardsInVector(std::string& condition, std::string& key) {
  for (const Guard& g : guards_) {
    if (g.scope <= chunk_) continue;  // printed where the vector is loaded
    if (steps_->of(g.condition) != LaneSteps::Step::Same || scopeOf(g.condition) > chunk_) return false;
    std::string text;
    at(chunk_, [&] { text = value(g.condition); });
    condition += (condition.empty() ? "" : " && ") + (g.isThen ? text : "!" + text);
    key += fmt::format(" {}{}", g.isThen ? "" : "!", g.condition.index);
  }
  return true;
}

/// The element of this lane, where the elements of all lanes are loaded together; empty where they are not.
std::string CudaPrinter::vectorLoad(ExprId id) {
  const bool isInLanes = !pass_.range || !steps_ ? false : scopes_.size() > lane_;
  if (!isInLanes || !accesses_.of(id).depends(pass_.range) || tiles_.contains(id)) return "";
  const Expr e = program_.expressions[id];
  const ExprId offset = offsetOf(id);
  const auto bytes = static_cast<int64_t>(dtypeSize(e.dtype));
  const bool isLocal = program_.buffer(e.buffer()).role == Role::Local;
  const bool isKept = kept_.contains(id);
  if (isKept && filled_.contains(id)) return kept_.at(id) + slot(pass_);
  const int64_t width = isLocal || pass_.vector == 1 ? 1 : steps_->width(offset, alignments_[e.buffer().index], bytes);
  if (width == 1 || scopeOf(offset) > lane_) {
    if (!isKept || !guards_.empty() || scopeOf(id) != lane_) return "";
    at(lane_, [&] { line(kept_.at(id) + slot(pass_) + " = " + loadText(id) + ";"); });
    filled_.insert(id);
    return kept_.at(id) + slot(pass_);
  }
  std::string condition, key = std::to_string(id.index);
  if (accesses_.of(id).isUnsafe && !hasGuardsInVector(condition, key)) return "";
  const auto known = scopes_[chunk_].arrays.find(key);
  if (known != scopes_[chunk_].arrays.end()) return known->second + "[v]";
  std::string name = isKept ? kept_.at(id) + (pass_.chunks > 1 ? "[k]" : "") : newName("x");
  at(chunk_, [&] {
    if (!isKept) line(fmt::format("{} {}[{}];", cudaType(e.dtype), name, pass_.vector));
    const std::string call = fmt::format("load<{}, {}>({}, &{});", pass_.vector, width, name, loadText(id));
    line((condition.empty() ? "" : "if (" + condition + ") ") + call);
  });
  if (isKept)
    filled_.insert(id);
  else
    scopes_[chunk_].arrays[key] = name;
  return name + "[v]";
}

std::string CudaPrinter::serialReduce(ExprId id) {
  const Expr e = program_.expressions[id];
  std::string name;
  at(std::min(scopes_.size() - 1, scopeOf(id)), [&] {
    const DType dtype = program_.expressions[e.operands[0]].dtype;
    const std::string type = isPlace(e) ? "best<" + cudaType(dtype) + ">" : cudaType(dtype);
    name = newName(std::string(loops::reduceName(e.reduce)));
    const std::string identity = cudaIdentity(e.reduce, dtype);
    line(fmt::format("{} {} = {};", type, name, isPlace(e) ? "{" + identity + ", 0}" : identity));
    int64_t count = 1;
    for (const RangeId r : e.ranges) count *= *program_.expressions.findInteger(program_.range(r).extent);
    if (count > 0) {
      std::string place = "0";
      for (const RangeId r : e.ranges) {
        const int64_t extent = *program_.expressions.findInteger(program_.range(r).extent);
        const std::string range = newName("r");
        std::vector<std::string> heads;
        if (extent <= kUnrolled / 4) heads.emplace_back("#pragma unroll");
        heads.push_back(fmt::format("for (i32 {0} = 0; {0} < {1}; ++{0}) {{", range, extent));
        open(heads);
        ranges_[r] = {scopes_.size() - 1, range};
        place = place == "0" ? "(i64)" + range : fmt::format("({}) * {} + {}", place, extent, range);
      }
      const std::string next = value(e.operands[0]);
      const std::string item = isPlace(e) ? fmt::format("{}{{{}, {}}}", type, bareText(next), place) : bareText(next);
      line(fmt::format("{0} = {1}::of<{2}>({0}, {3});", name, cudaCombination(e.reduce), type, item));
      for (size_t i = 0; i < e.ranges.size(); ++i) close();
    }
    if (isPlace(e)) name += ".place";
    scopes_.back().names[id] = name;
  });
  return name;
}

std::string CudaPrinter::compute(ExprId id) {
  const Expr e = program_.expressions[id];
  const auto operand = [&](size_t i) { return value(e.operands[i]); };
  const DType from = e.operands.empty() ? e.dtype : program_.expressions[e.operands[0]].dtype;
  switch (e.op) {
    case Op::Load:
      return loadText(id);
    case Op::Cast:
      return castText(operand(0), from, e.dtype);
    case Op::Select: {
      const std::string condition = operand(0);
      return "(" + condition + " ? " + operand(1) + " : " + operand(2) + ")";
    }
    case Op::CheckedIndex: {
      const std::string call = "checked_index(" + bareText(operand(0)) + ", " + bareText(operand(1)) + ")";
      return isNarrow(id) ? "(i32)" + call : call;
    }
    case Op::CheckedDivisor:
      return "checked_divisor<" + cudaType(e.dtype) + ">(" + bareText(operand(0)) + ")";
    default:
      break;
  }
  const std::string a = operand(0), b = e.operands.size() > 1 ? operand(1) : "";
  if (e.dtype == DType::Int64 && !loops::isComparison(e.op)) {
    const bool narrow = isNarrow(id);
    if (narrow && (e.op == Op::Add || e.op == Op::Subtract || e.op == Op::Multiply)) {
      const char* sign = e.op == Op::Add ? " + " : e.op == Op::Subtract ? " - " : " * ";
      return "(" + a + sign + b + ")";
    }
    const int64_t* divisor = e.operands.size() > 1 ? program_.expressions.findInteger(e.operands[1]) : nullptr;
    if ((e.op == Op::FloorDivide || e.op == Op::Remainder) && divisor && *divisor > 0 && isNotNegative(e.operands[0])) {
      const char* sign = e.op == Op::FloorDivide ? "/" : "%";
      return narrow ? fmt::format("(i32)((u32){} {} {}u)", a, sign, *divisor)
                    : fmt::format("(i64)((u64){} {} {}ull)", a, sign, *divisor);
    }
    if (narrow) return cudaOperation(e.op, DType::Int32, a, b);
  }
  return cudaOperation(e.op, from, a, b);
}

// ---- The kernel ----

int64_t CudaPrinter::sharedSlot(int64_t bytes) {
  const int64_t at = sharedBytes_;
  sharedBytes_ += (bytes + 15) / 16 * 16;
  return at;
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
      line(type + " " + name + ";");
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
    if (isOwn && row && row->isInRegisters && row->length == count) {
      l.place = Local::Place::Registers;
      line(type + " " + name + dimensions(passOf(*row)) + ";");
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
  if (sharedBytes_ > kSharedBytes) return badInput("an iteration keeps more than a block of threads has room for");
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
  const bool isWide = !isTeam && plan_->iterations >= kSmall;
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
    const int64_t step = static_cast<int64_t>(plan_->team) * p.vector, full = p.row->length / step;
    const std::string chunk = p.chunks > 1 ? "k" : std::to_string(p.first);
    const bool isFirst = p.chunks == 1 && p.first == 0;
    line("const i32 j = " + times(isFirst ? "t" : fmt::format("({} * {} + t)", chunk, plan_->team), p.vector) + ";");
    if (p.row->length % step != 0 && !p.isWhole)
      condition = p.chunks == 1
                      ? fmt::format("j < {}", p.row->length)
                      : (full > 0 ? fmt::format("k < {} || ", full) : "") + fmt::format("j < {}", p.row->length);
  } else {
    std::string start = fmt::format("({})blockIdx.x * {}", type, p.chunks * plan_->threads);
    if (p.chunks > 1) start += fmt::format(" + k * {}", plan_->threads);
    line("const " + type + " i = " + times("(" + start + " + threadIdx.x)", p.vector) + ";");
    if (plan_->iterations % (static_cast<int64_t>(p.vector) * p.chunks * plan_->threads) != 0)
      condition = "i < " + cudaNumber(plan_->iterations, DType::Int64, !isWide);
  }
  if (!condition.empty()) open({"if (" + condition + ") {"});
  chunk_ = lane_ = scopes_.size() - 1;
  passScopes_ = static_cast<int>(scopes_.size() - outside);
  if (p.vector == 1) return;
  open({"#pragma unroll", fmt::format("for (i32 v = 0; v < {}; ++v) {{", p.vector)});
  lane_ = scopes_.size() - 1;
  line(fmt::format("const {0} {1}v = {1} + v;", type, p.name));
}

void CudaPrinter::eachChunk(const Pass& p, const std::function<void()>& print) {
  const int64_t full = p.row->length / (static_cast<int64_t>(plan_->team) * p.vector);
  if (p.isUnrolled || full == 0) {
    openPass(p);
    print();
    closePass();
    return;
  }
  Pass part = p;
  part.chunks = full;
  part.isWhole = true;
  openPass(part);
  print();
  closePass();
  if (full == p.chunks) return;
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
}

void CudaPrinter::scanStore(const Store& s) {
  const loops::Buffer& b = program_.buffer(s.buffer);
  std::vector<RangeId> order = s.ranges;
  std::stable_partition(order.begin(), order.end(), [&](RangeId r) { return r != s.scan; });
  const DType wide = s.scan ? scanType(b.dtype, s.scanKind) : b.dtype;
  std::string sofar;
  for (const RangeId r : order) {
    const int64_t extent = *program_.expressions.findInteger(program_.range(r).extent);
    if (r == s.scan) {
      sofar = newName("sofar");
      line(fmt::format("{} {} = {};", cudaType(wide), sofar, cudaIdentity(s.scanKind, wide)));
    }
    const std::string name = newName("r");
    open({extent <= kUnrolled && r != s.scan ? "#pragma unroll" : "#pragma unroll 1",
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
  if (b.role == Role::Local) {
    line(localElement(s.buffer, s.index) + " = " + text + ";");
    return;
  }
  const bool isTeam = plan_->kind == CudaPlan::Kind::Rows || plan_->kind == CudaPlan::Kind::Columns;
  const bool isLive = !isTeam || plan_->iterations % plan_->perBlock == 0;
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

Status CudaPrinter::printThreads() {
  Pass p;
  p.name = "i";
  p.range = plan_->index;
  p.vector = plan_->vector;
  p.chunks = plan_->chunks;
  openPass(p);
  localScope_ = lane_;
  if (const Status s = placeLocals(); !s) return s;
  std::vector<std::string> after;
  for (const Store& s : plan_->nest.stores) {
    if (s.ranges.empty())
      store(s, after);
    else if (!std::any_of(s.ranges.begin(), s.ranges.end(),
                          [&](RangeId r) { return *program_.expressions.findInteger(program_.range(r).extent) == 0; }))
      scanStore(s);
    written(s.buffer);
  }
  if (p.vector > 1) close();
  for (const std::string& text : after) line(text);
  closePass();
  return done();
}

void CudaPrinter::printTiles() {
  const CudaPlan& plan = *plan_;
  const auto extent = [&](RangeId r) { return *program_.expressions.findInteger(program_.range(r).extent); };
  const int64_t a = extent(plan.along), c = extent(plan.across), side = plan.tile;
  // Halves go in pairs, where their places allow it.
  int vector = 2;
  LaneSteps across(accesses_, plan.across, vector);
  for (const ExprId load : plan.transposed) {
    const Expr e = program_.expressions[load];
    const auto bytes = static_cast<int64_t>(dtypeSize(e.dtype));
    if (bytes != 2 || c % 2 != 0 || a % 2 != 0 ||
        across.width(offsetOf(load), alignments_[e.buffer().index], bytes) < 2)
      vector = 1;
  }
  const int64_t alongs = (a + side - 1) / side, acrosses = (c + side - 1) / side;
  const int64_t columns = side / vector, rows = plan.threads / columns;
  // Columns of a square lie in different banks of the memory.
  tilePitch_ = side == 64 && vector == 1 ? 66 : side + 1;
  line(fmt::format("const i32 i = (i32)((u32)blockIdx.x / {}u);", alongs * acrosses));
  line(fmt::format("const i32 a0 = (i32)((u32)blockIdx.x % {}u) * {};", alongs, side));
  line(fmt::format("const i32 c0 = (i32)((u32)blockIdx.x / {}u % {}u) * {};", alongs, acrosses, side));
  line(fmt::format("const i32 x = (i32)(threadIdx.x % {0}u){1}, y = (i32)(threadIdx.x / {0}u);", columns,
                   vector > 1 ? " * 2" : ""));
  std::vector<std::string> names;
  for (const ExprId load : plan.transposed) {
    const std::string type = cudaType(program_.expressions[load].dtype);
    names.push_back(newName("tile"));
    const int64_t at =
        sharedSlot(side * tilePitch_ * static_cast<int64_t>(dtypeSize(program_.expressions[load].dtype)));
    line(fmt::format("{0}* {1} = ({0}*)(shared + {2});", type, names.back(), at));
  }
  const auto openRows = [&](const std::string& along, const std::string& across) {
    open({"#pragma unroll", fmt::format("for (i32 k = 0; k < {0}; k += {1}) {{", side, rows)});
    line(fmt::format("const i32 a = {}, c = {};", along, across));
    std::string condition = a % side != 0 ? fmt::format("a < {}", a) : "";
    if (c % side != 0) condition += (condition.empty() ? "" : " && ") + fmt::format("c < {}", c);
    open({condition.empty() ? "{" : "if (" + condition + ") {"});
    ranges_[plan.along] = {scopes_.size() - 1, "a"};
    ranges_[plan.across] = {scopes_.size() - 1, "c"};
  };
  openRows("a0 + k + y", "c0 + x");
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string to = fmt::format("{}[(k + y) * {} + x]", names[i], tilePitch_);
    const std::string from = loadText(plan.transposed[i]);
    line(vector > 1 ? fmt::format("load<2, 2>(&{}, &{});", to, from) : to + " = " + from + ";");
  }
  close();
  close();
  line("join_block();");
  for (size_t i = 0; i < names.size(); ++i) tiles_[plan.transposed[i]] = names[i];
  openRows("a0 + x", "c0 + k + y");
  chunk_ = lane_ = scopes_.size() - 1;
  if (vector > 1) {
    pass_.name = "a";
    pass_.range = plan.along;
    pass_.vector = vector;
    steps_.emplace(accesses_, plan.along, vector);
    open({"#pragma unroll", "for (i32 v = 0; v < 2; ++v) {"});
    lane_ = scopes_.size() - 1;
    line("const i32 av = a + v;");
  }
  std::vector<std::string> after;
  for (const Store& s : plan.nest.stores) store(s, after);
  if (vector > 1) close();
  for (const std::string& text : after) line(text);
  close();
  close();
}

const CudaRow& CudaPrinter::rowOf(RangeId range) const {
  for (const auto& [length, row] : plan_->rows)
    if (row.range == range) return row;
  return plan_->rows.begin()->second;
}

void CudaPrinter::barrier() {
  line(plan_->team > 32 || plan_->kind == CudaPlan::Kind::Columns ? "join_block();" : "join_warp();");
}

void CudaPrinter::reducePass(ExprId id) {
  const Expr e = program_.expressions[id];
  const DType dtype = program_.expressions[e.operands[0]].dtype;
  const CudaRow* row = &rowOf(e.ranges[0]);
  const std::string type = isPlace(e) ? "best<" + cudaType(dtype) + ">" : cudaType(dtype);
  const std::string identity = cudaIdentity(e.reduce, dtype);
  const std::string start = isPlace(e) ? type + "{" + identity + ", 0}" : identity;
  const std::string parts = newName("part"), combination = cudaCombination(e.reduce);
  const Pass p = passOf(*row);
  if (p.vector > 1) line(fmt::format("{} {}[{}];", type, parts, p.vector));
  line(p.vector > 1 ? fmt::format("fill<{}>({}, {});", p.vector, parts, start)
                    : fmt::format("{} {} = {};", type, parts, start));
  if (row->length > 0) {
    eachChunk(p, [&] {
      const std::string next = value(e.operands[0]);
      const std::string item =
          isPlace(e) ? fmt::format("{}{{{}, {}}}", type, bareText(next), p.vector > 1 ? "jv" : "j") : bareText(next);
      const std::string part = parts + (p.vector > 1 ? "[v]" : "");
      line(fmt::format("{0} = {1}::of<{2}>({0}, {3});", part, combination, type, item));
      if (p.vector > 1) close();
    });
  }
  std::string name = newName(std::string(loops::reduceName(e.reduce)));
  const std::string folded = p.vector > 1 ? fmt::format("fold<{}, {}>({})", combination, p.vector, parts) : parts;
  const bool isColumn = plan_->kind == CudaPlan::Kind::Columns;
  const int64_t bytes = isPlace(e) ? 16 : 8;
  std::string memory = "nullptr";
  if (isColumn)
    memory = fmt::format("({}*)(shared + {})", type, sharedSlot(bytes * plan_->threads));
  else if (plan_->team > 32)
    memory =
        fmt::format("({}*)(shared + {}) + team * {}", type, sharedSlot(bytes * plan_->threads / 32), plan_->team / 32);
  line(fmt::format("const {} {} = {}<{}, {}, {}>({}, t, {}{});", type, name, isColumn ? "join_column" : "join_row",
                   combination, type, plan_->team, folded, isColumn ? "team, " : "", memory));
  if (isPlace(e)) name += ".place";
  scopes_[0].names[id] = name;
}

void CudaPrinter::rowStore(const Store& s) {
  const std::string text = bareText(value(s.value));
  if (program_.buffer(s.buffer).role == Role::Local) {
    const Local& l = locals_.at(s.buffer);
    line((l.place == Local::Place::Shared ? "if (t == 0) " : "") + localElement(s.buffer, s.index) + " = " + text +
         ";");
    if (l.place == Local::Place::Shared) barrier();
    return;
  }
  const std::string to = element(s.buffer, planner_.offset(s.buffer, s.index));
  const bool isLive = plan_->iterations % plan_->perBlock == 0;
  line(std::string("if (t == 0") + (isLive ? "" : " && isLive") + ") " + to + " = " + text + ";");
}

void CudaPrinter::storePass(const std::vector<const Store*>& together) {
  const CudaRow* row = &rowOf(together[0]->ranges[0]);
  if (row->length == 0) return;
  const Pass p = passOf(*row);
  bool isShared = false;
  eachChunk(p, [&] {
    std::vector<std::string> after;
    for (const Store* s : together) {
      store(*s, after);
      written(s->buffer);
      isShared |= program_.buffer(s->buffer).role == Role::Local && locals_.at(s->buffer).place == Local::Place::Shared;
    }
    if (p.vector > 1) close();
    for (const std::string& text : after) line(text);
  });
  if (isShared) barrier();
}

void CudaPrinter::reducesOf(ExprId id, std::vector<ExprId>& order) const {
  if (std::find(order.begin(), order.end(), id) != order.end() || scopes_[0].names.contains(id)) return;
  const Expr& e = program_.expressions[id];
  for (const ExprId operand : e.operands) reducesOf(operand, order);
  if (plan_->rowReduces.contains(id)) order.push_back(id);
}

/// Elements of a row that several passes read stay in registers.
void CudaPrinter::keepLoads(const std::vector<std::vector<ExprId>>& passes) {
  std::unordered_map<ExprId, int> count;
  std::vector<ExprId> order;
  for (const std::vector<ExprId>& values : passes) {
    std::unordered_set<ExprId> seen;
    const auto walk = [&](const auto& self, ExprId id, bool isRoot) -> void {
      if (!seen.insert(id).second || (!isRoot && plan_->rowReduces.contains(id))) return;
      const Expr& e = program_.expressions[id];
      if (e.op == Op::Load && ++count[id] == 2) order.push_back(id);
      for (const ExprId operand : e.operands) self(self, operand, false);
    };
    for (const ExprId v : values) walk(walk, v, true);
  }
  for (const ExprId id : order) {
    const Expr& e = program_.expressions[id];
    const Dependence& d = accesses_.of(id);
    if (program_.buffer(e.buffer()).role == Role::Local || d.isUnsafe || !d.written.empty()) continue;
    for (const auto& [length, row] : plan_->rows) {
      const bool isOfRow = d.depends(row.range) && d.ranges.size() <= (d.depends(plan_->index) ? 2U : 1U);
      // What all lanes share is no vector.
      if (!isOfRow || !row.isInRegisters) continue;
      LaneSteps steps(accesses_, row.range, row.vector);
      if (row.vector > 1 && steps.of(offsetOf(id)) == LaneSteps::Step::Same) continue;
      const std::string name = newName("row");
      line(cudaType(e.dtype) + " " + name + dimensions(passOf(row)) + ";");
      kept_[id] = name;
    }
  }
}

Status CudaPrinter::printTeam() {
  const CudaPlan& plan = *plan_;
  const std::string type = plan.iterations + plan.perBlock < kSmall ? "i32" : "i64";
  const bool isColumn = plan.kind == CudaPlan::Kind::Columns;
  if (isColumn) {
    line(fmt::format("const i32 team = threadIdx.x % {0}, t = threadIdx.x / {0};", plan.perBlock));
  } else if (plan.perBlock == 1) {
    line("const i32 team = 0, t = threadIdx.x;");
  } else {
    line(fmt::format("const i32 team = threadIdx.x / {0}, t = threadIdx.x % {0};", plan.team));
  }
  const std::string whole = plan.perBlock == 1 ? fmt::format("({})blockIdx.x", type)
                                               : fmt::format("({})blockIdx.x * {} + team", type, plan.perBlock);
  if (plan.iterations % plan.perBlock == 0) {
    line(fmt::format("const {} i = {};", type, whole));
  } else {
    const std::string count = cudaNumber(plan.iterations, DType::Int64, plan.iterations < kSmall);
    line(fmt::format("const bool isLive = {} < {};", whole, count));
    line(fmt::format("const {} i = isLive ? {} : {} - 1;", type, whole, count));
  }
  if (const Status s = placeLocals(); !s) return s;
  // Passes over a row, in their order: Reduces, and stores together where nothing stands between them.
  struct Step {
    ExprId reduce;
    std::vector<const Store*> stores;
  };
  std::vector<Step> steps;
  std::vector<ExprId> reduces;
  const auto isArrayInBlock = [&](BufferId b) {
    return program_.buffer(b).role == Role::Local && locals_.at(b).place == Local::Place::Shared;
  };
  for (const Store& s : plan.nest.stores) {
    const size_t before = reduces.size();
    reducesOf(s.value, reduces);
    for (size_t i = before; i < reduces.size(); ++i) steps.push_back({reduces[i], {}});
    const std::vector<BufferId>& reads = accesses_.of(s.value).written;
    const bool isBehind =
        !steps.empty() && !steps.back().stores.empty() && !s.ranges.empty() &&
        steps.back().stores[0]->ranges == s.ranges &&
        std::none_of(steps.back().stores.begin(), steps.back().stores.end(), [&](const Store* other) {
          return isArrayInBlock(other->buffer) && std::find(reads.begin(), reads.end(), other->buffer) != reads.end();
        });
    if (isBehind)
      steps.back().stores.push_back(&s);
    else
      steps.push_back({{}, {&s}});
    // What reads this local is computed anew behind it.
    if (program_.buffer(s.buffer).role == Role::Local)
      std::erase_if(reduces, [&](ExprId r) {
        const std::vector<BufferId>& of = accesses_.of(r).written;
        return std::find(of.begin(), of.end(), s.buffer) != of.end();
      });
  }
  std::vector<std::vector<ExprId>> passes;
  for (const Step& s : steps) {
    std::vector<ExprId> values;
    if (s.reduce) values.push_back(s.reduce);
    for (const Store* store : s.stores)
      if (!store->ranges.empty()) values.push_back(store->value);
    passes.push_back(std::move(values));
  }
  keepLoads(passes);
  for (const Step& s : steps) {
    if (s.reduce) {
      reducePass(s.reduce);
    } else if (s.stores[0]->ranges.empty()) {
      rowStore(*s.stores[0]);
      written(s.stores[0]->buffer);
    } else {
      storePass(s.stores);
    }
  }
  return done();
}

std::string CudaPrinter::header(const std::string& function) {
  std::vector<BufferId> reads, writes;
  std::unordered_set<ExprId> seen;
  const auto walk = [&](const auto& self, ExprId id) -> void {
    if (!seen.insert(id).second) return;
    const Expr& e = program_.expressions[id];
    if (e.op == Op::Load && std::find(reads.begin(), reads.end(), e.buffer()) == reads.end())
      reads.push_back(e.buffer());
    for (const ExprId operand : e.operands) self(self, operand);
  };
  for (const Store& s : plan_->nest.stores) {
    walk(walk, s.value);
    for (const ExprId i : s.index) walk(walk, i);
    if (std::find(writes.begin(), writes.end(), s.buffer) == writes.end()) writes.push_back(s.buffer);
  }
  std::string parameters;
  std::vector<int> places;
  const auto add = [&](BufferId b, const char* how, const char* alone) {
    const loops::Buffer& buffer = program_.buffer(b);
    if (buffer.role == Role::Local) return;
    places.push_back(slots_[b.index]);
    parameters +=
        (parameters.empty() ? "" : ", ") + std::string(how) + cudaType(buffer.dtype) + "*" + alone + buffer.name + "_";
  };
  // Of `const __restrict__`, the compiler knows that nobody writes it while the kernel runs, and may load it ahead of
  // overlap(). There the kernel before still writes it.
  for (const BufferId b : reads) add(b, "const ", options_.isOverlapped ? " " : " __restrict__ ");
  for (const BufferId b : writes) add(b, "", " __restrict__ ");
  for (size_t i = 0; i < printed_.scratchBytes.size(); ++i)
    parameters += (parameters.empty() ? "" : ", ") + fmt::format("void* __restrict__ scratch{}", i + 1);
  printed_.kernel.buffers.insert(printed_.kernel.buffers.begin(), places.begin(), places.end());
  std::string text = fmt::format("// {}\nextern \"C\" __global__ void __launch_bounds__({}) {}({}) {{\n",
                                 plan_->describe(), plan_->threads, function, parameters);
  if (sharedBytes_ > 0) text += "  extern __shared__ __align__(1024) unsigned char shared[];\n";
  if (options_.isOverlapped) text += "  overlap();\n";
  return text;
}

Result<CudaPrinter::Printed> CudaPrinter::print(const CudaPlan& plan, const std::string& function) {
  plan_ = &plan;
  scopes_.assign(1, {});
  scopes_[0].depth = 1;
  guards_.clear();
  locals_.clear();
  ranges_.clear();
  uses_.clear();
  kept_.clear();
  filled_.clear();
  pass_ = {};
  steps_.reset();
  chunk_ = lane_ = localScope_ = 0;
  sharedBytes_ = 0;
  names_ = 0;
  printed_ = {};
  for (const Store& s : plan.nest.stores) {
    countUses(s.value);
    const loops::Buffer& b = program_.buffer(s.buffer);
    if (b.role != Role::Local || isArray(b)) countUses(planner_.offset(s.buffer, s.index));
  }
  tiles_.clear();
  const bool isTeam = plan.kind == CudaPlan::Kind::Rows || plan.kind == CudaPlan::Kind::Columns;
  if (plan.product) {
    for (const CudaProduct::Operand* o : {&plan.product->left, &plan.product->right}) countUses(offsetOf(o->load));
  }
  if (plan.kind == CudaPlan::Kind::Tiles)
    printTiles();
  else if (plan.kind == CudaPlan::Kind::Product)
    printProduct();
  else if (const Status s = isTeam ? printTeam() : printThreads(); !s)
    return s.error();
  const std::string head = header(function);
  printed_.text = head + scopes_[0].text + "}\n";
  printed_.kernel.function = function;
  printed_.kernel.schedule = plan.describe();
  const int64_t each = isTeam ? plan.perBlock : static_cast<int64_t>(plan.vector) * plan.chunks * plan.threads;
  printed_.kernel.blocks = (plan.iterations + each - 1) / each;
  if (plan.kind == CudaPlan::Kind::Tiles)
    for (const RangeId r : {plan.along, plan.across}) {
      const int64_t extent = *program_.expressions.findInteger(program_.range(r).extent);
      printed_.kernel.blocks =
          (r == plan.along ? plan.iterations : printed_.kernel.blocks) * ((extent + plan.tile - 1) / plan.tile);
    }
  if (plan.product) {
    const ProductSize& p = plan.product->size;
    printed_.kernel.product = p;
    if (plan.product->tile.isGrouped)
      printed_.kernel.helpers = cudaGroupMachine(plan.product->tile.columns, plan.product->dtype,
                                                 plan.product->left.isInnerFast, plan.product->right.isInnerFast) +
                                std::string(cudaGroupHelpers());
    printed_.kernel.blocks =
        p.batches * divideUp(p.rows, plan.product->tile.rows) * divideUp(p.columns, plan.product->tile.columns);
  }
  printed_.kernel.threads = plan.threads;
  printed_.kernel.sharedBytes = sharedBytes_;
  return std::move(printed_);
}

}  // namespace graft::codegen
