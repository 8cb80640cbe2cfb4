// CudaPrinter for values: an expression as CUDA C++, each in the outermost scope that has what it depends on; loads of
// neighbouring elements together.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/compile/codegen/cuda/cuda_printer.h"
#include "core/compile/codegen/cuda/cuda_spelling.h"
#include "core/compile/loops/marks.h"

namespace graft::codegen {

using loops::Expr;
using loops::Op;
using Role = loops::Buffer::Role;

namespace {

constexpr double kWorthAVariable = 40;  ///< operations of an expression that is used once
constexpr double kWorthABranch = 30;    ///< operations that a Select may leave out
constexpr int64_t kUnrolledReduce = 8;  ///< iterations of a Reduce in one thread

}  // namespace

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
  if ((d.isUnsafe || chosen_.contains(id)) && !guards_.empty()) scope = std::max(scope, guards_.back().scope);
  for (const RangeId r : d.ranges) {
    if (pass_.range == r)
      scope = std::max(scope, steps_->of(id) == LaneSteps::Step::Same ? chunk_ : lane_);
    else if (const auto at = ranges_.find(r); at != ranges_.end())
      scope = std::max(scope, at->second.first);
  }
  return scope;
}

std::string CudaPrinter::withOrigin(ExprId id, const std::string& text) const {
  const loops::ExprPool& pool = program_.expressions;
  const bool isMarked = options_.hasMarks && !isIndex_ && loops::operandCount(pool[id].op) > 0;
  return loops::marked(text, isMarked ? pool.origin(id) : 0);
}

std::string CudaPrinter::value(ExprId id) { return withOrigin(id, plainValue(id)); }

std::string CudaPrinter::plainValue(ExprId id) {
  for (size_t i = scopes_.size(); i-- > 0;)
    if (const auto at = scopes_[i].names.find(id); at != scopes_[i].names.end()) return at->second;
  const Expr e = program_.expressions[id];
  if (e.op == Op::Constant) return constant(id);
  if (e.op == Op::Range) {
    if (e.range() == pass_.range) return pass_.name + (scopes_.size() > lane_ && pass_.vector > 1 ? "v" : "");
    if (e.range() == plan_->index) return "i";
    return ranges_.at(e.range()).second;
  }
  if (e.op == Op::Reduce) return isReducedInLanes(id) ? laneReduce(id) : serialReduce(id);
  if (e.op == Op::Load) {
    const loops::Buffer& b = program_.buffer(e.buffer());
    if (b.role == Role::Local && locals_.at(e.buffer()).place <= Local::Place::Registers)
      return localElement(e.buffer(), e.operands);
    if (b.role == Role::Local && isOwn(e.buffer())) return ownElement(b.name + "_", b.dtype);
    if (const std::string text = vectorLoad(id); !text.empty()) return text;
  }
  const size_t here = scopes_.size() - 1, wanted = scopeOf(id);
  const size_t target = std::min(here, wanted);
  if (e.op == Op::Select) {
    const Dependence& then = accesses_.of(e.operands[1]);
    const Dependence& otherwise = accesses_.of(e.operands[2]);
    const bool isBranch = choosesLoads(e) || then.isUnsafe || otherwise.isUnsafe ||
                          then.operations + otherwise.operations > kWorthABranch;
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
    line(fmt::format("const {} {} = {};", numberType(id), name, withOrigin(id, bareText(text))));
    scopes_.back().names[id] = name;
  });
  return name;
}

/// Whether all lanes take the same side of a Select, and a side loads what nobody else reads. Such loads stay in their
/// branch, with what is made of them there.
bool CudaPrinter::choosesLoads(const Expr& select) {
  if (pass_.vector == 1 || !pass_.range || !steps_ || scopes_.size() <= lane_ ||
      steps_->of(select.operands[0]) != LaneSteps::Step::Same || scopeOf(select.operands[0]) > chunk_)
    return false;
  const auto keep = [&](const auto& self, ExprId id) -> bool {
    if (uses_[id] != 1) return false;
    const Expr& e = program_.expressions[id];
    bool loads = e.op == Op::Load && program_.buffer(e.buffer()).role != Role::Local &&
                 accesses_.of(id).depends(pass_.range) && !kept_.contains(id);
    if (e.op != Op::Load && e.op != Op::Reduce)
      for (const ExprId o : e.operands) loads = self(self, o) || loads;
    if (loads) chosen_.insert(id);
    return loads;
  };
  const bool isThen = keep(keep, select.operands[1]), isOtherwise = keep(keep, select.operands[2]);
  return isThen || isOtherwise;
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
  const bool wasIndex = std::exchange(isIndex_, true);
  std::string text = bareText(value(offset));
  isIndex_ = wasIndex;
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
  if (l.place == Local::Place::Scalar) return hasColumnLanes() ? name + "[v]" : name;
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
  const bool isInShared = isKept && keptOwn_.contains(id);
  if (isKept && filled_.contains(id))
    return isInShared ? ownElement(kept_.at(id), e.dtype) : kept_.at(id) + slot(pass_);
  const int64_t width = isLocal || pass_.vector == 1 ? 1 : steps_->width(offset, alignments_[e.buffer().index], bytes);
  if (width == 1 || scopeOf(offset) > lane_) {
    if (!isKept || !guards_.empty() || scopeOf(id) != lane_) return "";
    const std::string to = kept_.at(id) + (!isInShared ? slot(pass_) : pass_.vector > 1 ? "[o + v]" : "[o]");
    at(lane_, [&] { line(to + " = " + loadText(id) + ";"); });
    filled_.insert(id);
    return to;
  }
  std::string condition, key = std::to_string(id.index);
  if (accesses_.of(id).isUnsafe) {
    if (!hasGuardsInVector(condition, key)) return "";
  } else if (chosen_.contains(id) && !hasGuardsInVector(condition, key)) {
    condition = "";  // it may be loaded in any case
    key = std::to_string(id.index);
  }
  const auto known = scopes_[chunk_].arrays.find(key);
  if (known != scopes_[chunk_].arrays.end()) return known->second + "[v]";
  const bool isNew = !isKept || isInShared;
  const std::string name = isNew ? newName("x") : kept_.at(id) + (pass_.chunks > 1 ? "[k]" : "");
  at(chunk_, [&] {
    if (isNew) line(fmt::format("{} {}[{}];", cudaType(e.dtype), name, pass_.vector));
    const std::string call = fmt::format("load<{}, {}>({}, &{});", pass_.vector, width, name, loadText(id));
    line((condition.empty() ? "" : "if (" + condition + ") ") + call);
    if (isInShared)
      line(fmt::format("store<{}, {}>(&{}[o], {});", pass_.vector, std::min<int64_t>(pass_.vector, 16 / bytes),
                       kept_.at(id), name));
  });
  if (isKept) filled_.insert(id);
  if (isNew) scopes_[chunk_].arrays[key] = name;
  // In this pass, the registers still have it.
  if (isInShared) scopes_[chunk_].arrays["own " + kept_.at(id)] = name;
  return name + "[v]";
}

std::string CudaPrinter::ownElement(const std::string& name, DType dtype) {
  if (pass_.vector == 1) return name + "[o]";
  std::string& array = scopes_[chunk_].arrays["own " + name];
  if (!array.empty()) return array + "[v]";
  const std::string made = array = newName("x");
  at(chunk_, [&] {
    line(fmt::format("{} {}[{}];", cudaType(dtype), made, pass_.vector));
    line(fmt::format("load<{}, {}>({}, &{}[o]);", pass_.vector,
                     std::min<int64_t>(pass_.vector, 16 / static_cast<int64_t>(dtypeSize(dtype))), made, name));
  });
  return made + "[v]";
}

namespace {

/// How elements are combined that come one after another: of equal ones the first one stays.
std::string combinationInOrder(loops::ReduceKind kind) {
  if (kind == loops::ReduceKind::ArgMaximum) return "first_greatest_of";
  if (kind == loops::ReduceKind::ArgMinimum) return "first_least_of";
  return cudaCombination(kind);
}

}  // namespace

std::string CudaPrinter::serialReduce(ExprId id) {
  const Expr e = program_.expressions[id];
  std::string name;
  at(std::min(scopes_.size() - 1, scopeOf(id)), [&] {
    const DType dtype = program_.expressions[e.operands[0]].dtype;
    const std::string type = cudaAccumulator(e.reduce, dtype);
    name = newName(std::string(loops::reduceName(e.reduce)));
    line(fmt::format("{} {} = {};", type, name, cudaStart(e.reduce, dtype)));
    int64_t count = 1;
    for (const RangeId r : e.ranges) count *= extentOf(r);
    if (count > 0) {
      std::string place = "0";
      for (const RangeId r : e.ranges) {
        const int64_t extent = extentOf(r);
        const std::string range = newName("r");
        std::vector<std::string> heads;
        if (extent <= kUnrolledReduce) heads.emplace_back("#pragma unroll");
        heads.push_back(fmt::format("for (i32 {0} = 0; {0} < {1}; ++{0}) {{", range, extent));
        open(heads);
        ranges_[r] = {scopes_.size() - 1, range};
        place = place == "0" ? "(i64)" + range : fmt::format("({}) * {} + {}", place, extent, range);
      }
      const std::string next = value(e.operands[0]);
      const std::string item = isPlace(e) ? fmt::format("{}{{{}, {}}}", type, bareText(next), place) : bareText(next);
      line(withOrigin(id, fmt::format("{0} = {1}::of<{2}>({0}, {3})", name, combinationInOrder(e.reduce), type, item)) +
           ";");
      for (size_t i = 0; i < e.ranges.size(); ++i) close();
    }
    if (isPlace(e)) name += ".place";
    scopes_.back().names[id] = name;
  });
  return name;
}

/// Whether the lanes may run inside of the Reduce's loops, so that neighbouring elements are loaded together.
bool CudaPrinter::isReducedInLanes(ExprId id) {
  const Expr& e = program_.expressions[id];
  const Dependence& d = accesses_.of(id);
  const bool isInLanes = pass_.vector > 1 && scopes_.size() == lane_ + 1 && d.depends(pass_.range);
  if (!isInLanes || d.isUnsafe || !d.written.empty() || !guards_.empty()) return false;
  // Another Reduce within would have to be finished for each lane.
  const auto hasReduce = [&](const auto& self, ExprId part) -> bool {
    const Expr& p = program_.expressions[part];
    if (p.op == Op::Reduce) return true;
    return std::any_of(p.operands.begin(), p.operands.end(), [&](ExprId o) { return self(self, o); });
  };
  return !hasReduce(hasReduce, e.operands[0]) &&
         std::all_of(e.ranges.begin(), e.ranges.end(), [&](RangeId r) { return extentOf(r) > 0; });
}

std::string CudaPrinter::laneReduce(ExprId id) {
  const Expr e = program_.expressions[id];
  const DType dtype = program_.expressions[e.operands[0]].dtype;
  const std::string type = cudaAccumulator(e.reduce, dtype), name = newName(std::string(loops::reduceName(e.reduce)));
  const size_t chunk = chunk_, lane = lane_, local = localScope_;
  std::string place = "0";
  at(chunk, [&] {
    line(fmt::format("{} {}[{}];", type, name, pass_.vector));
    line(fmt::format("fill<{}>({}, {});", pass_.vector, name, cudaStart(e.reduce, dtype)));
    for (const RangeId r : e.ranges) {
      const int64_t extent = extentOf(r);
      const std::string range = newName("r");
      std::vector<std::string> heads;
      if (extent <= kUnrolledReduce) heads.emplace_back("#pragma unroll");
      heads.push_back(fmt::format("for (i32 {0} = 0; {0} < {1}; ++{0}) {{", range, extent));
      open(heads);
      ranges_[r] = {scopes_.size() - 1, range};
      place = place == "0" ? "(i64)" + range : fmt::format("({}) * {} + {}", place, extent, range);
    }
    chunk_ = scopes_.size() - 1;
    open({"#pragma unroll", fmt::format("for (i32 v = 0; v < {}; ++v) {{", pass_.vector)});
    lane_ = localScope_ = scopes_.size() - 1;
    const bool isWide = pass_.range == plan_->index && plan_->iterations + plan_->perBlock >= kSmall;
    line(fmt::format("const {0} {1}v = {1} + v;", isWide ? "i64" : "i32", pass_.name));
    const std::string text = bareText(value(e.operands[0]));
    const std::string item = isPlace(e) ? fmt::format("{}{{{}, {}}}", type, text, place) : text;
    line(fmt::format("{0}[v] = {1}::of<{2}>({0}[v], {3});", name, combinationInOrder(e.reduce), type, item));
    for (size_t i = 0; i <= e.ranges.size(); ++i) close();
  });
  chunk_ = chunk, lane_ = lane, localScope_ = local;
  const std::string result = name + (isPlace(e) ? "[v].place" : "[v]");
  scopes_[chunk].names[id] = result;
  return result;
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
    case Op::Uniform:
      return fmt::format("uniform({}, {}, {}, {})", bareText(operand(0)), bareText(operand(1)), bareText(operand(2)),
                         bareText(operand(3)));
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

}  // namespace graft::codegen
