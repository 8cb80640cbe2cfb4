#include "core/compile/codegen/cpp/cpp_printer.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/compile/codegen/cpp/c_text.h"
#include "core/compile/loops/marks.h"

namespace graft::codegen {

using loops::Expr;
using loops::Op;
using loops::ReduceKind;
using loops::Store;

namespace {

constexpr double kWorthAName = 40;  ///< operations of an expression that is used once

std::string functionName(Op op, DType dtype) {
  switch (op) {
    case Op::Absolute:
      return dtype == DType::UInt8 ? "" : "std::abs";
    case Op::Floor:
    case Op::Ceil:
      return isFloatingPoint(dtype) ? "std::" + std::string(loops::opName(op)) : "";
    case Op::Round:
      return isFloatingPoint(dtype) ? "std::nearbyint" : "";
    case Op::Truncate:
      return isFloatingPoint(dtype) ? "std::trunc" : "";
    case Op::ExpNonPositive:
      return "std::exp";
    case Op::Power:
      return isFloatingPoint(dtype) ? "std::pow" : "power";
    case Op::CopySign:
      return "std::copysign";
    case Op::Sign:
    case Op::Sigmoid:
    case Op::Minimum:
    case Op::Maximum:
    case Op::Uniform:
    case Op::Gcd:
      return std::string(loops::opName(op));
    case Op::FloorDivide:
      return "floor_divide";
    case Op::TruncateDivide:
      return "truncate_divide";
    case Op::Remainder:
      return "remainder_of";
    case Op::Fmod:
      return isFloatingPoint(dtype) ? "std::fmod" : "fmod_of";
    case Op::ShiftLeft:
      return "shift_left";
    case Op::ShiftRight:
      return "shift_right";
    default:
      return "std::" + std::string(loops::opName(op));
  }
}

std::string identity(ReduceKind kind, DType dtype) {
  const std::string limits = "std::numeric_limits<" + CppPrinter::typeName(dtype) + ">::";
  switch (kind) {
    case ReduceKind::Sum:
      return "0";
    case ReduceKind::Product:
      return "1";
    case ReduceKind::Any:
      return "false";
    case ReduceKind::All:
      return "true";
    case ReduceKind::Minimum:
    case ReduceKind::ArgMinimum:
      return limits + (isFloatingPoint(dtype) ? "infinity()" : "max()");
    default:
      return isFloatingPoint(dtype) ? "-" + limits + "infinity()" : limits + "lowest()";
  }
}

std::string combined(ReduceKind kind, const std::string& a, const std::string& b) {
  switch (kind) {
    case ReduceKind::Sum:
      return a + " + " + b;
    case ReduceKind::Product:
      return a + " * " + b;
    case ReduceKind::Minimum:
      return "minimum(" + a + ", " + b + ")";
    case ReduceKind::Maximum:
      return "maximum(" + a + ", " + b + ")";
    case ReduceKind::Any:
      return a + " | " + b;
    default:
      return a + " & " + b;
  }
}

}  // namespace

std::string CppPrinter::typeName(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return "bool";
    case DType::UInt8:
      return "uint8_t";
    case DType::Int8:
      return "int8_t";
    case DType::Int16:
      return "int16_t";
    case DType::Int32:
      return "int32_t";
    case DType::Float16:
      return "_Float16";
    case DType::BFloat16:
      return "bf16";
    case DType::Float32:
      return "float";
    case DType::Float64:
      return "double";
    default:
      return "int64_t";
  }
}

CppPrinter::CppPrinter(Accesses& accesses, LoopPlanner& planner, bool hasMarks)
    : accesses_(accesses), planner_(planner), hasMarks_(hasMarks) {}

void CppPrinter::line(const std::string& text) {
  scopes_.back().text += std::string(static_cast<size_t>(scopes_.back().depth) * 2, ' ') + text + "\n";
}

void CppPrinter::open(const Loop& loop, const std::string& comment, const std::string& pragma) {
  const std::string name = accesses_.program().range(loop.ranges.back()).name;
  const std::string head = "for (int64_t " + name + " = 0; " + name + " < " + size(loop.extent) + "; ++" + name + ") {";
  Scope s;
  s.depth = scopes_.back().depth + 1;
  const std::string indent(static_cast<size_t>(scopes_.back().depth) * 2, ' ');
  s.text = (pragma.empty() ? "" : indent + pragma + "\n") + indent + head + comment + "\n";
  scopes_.push_back(std::move(s));
  for (const RangeId r : loop.ranges) {
    rangeScopes_[r] = static_cast<int>(scopes_.size()) - 1;
    isAbsorbed_[r] = r != loop.ranges.back();
  }
}

void CppPrinter::close() {
  Scope s = std::move(scopes_.back());
  scopes_.pop_back();
  scopes_.back().text += s.text + std::string(static_cast<size_t>(scopes_.back().depth) * 2, ' ') + "}\n";
}

std::string CppPrinter::size(ExprId id) {
  const Expr e = accesses_.program().expressions[id];
  const auto operand = [&](size_t i) { return size(e.operands[i]); };
  const auto call = [&](const char* function) {
    std::string arguments;
    for (const ExprId o : e.operands) {
      const bool isNumber = accesses_.program().expressions[o].op == Op::Constant;
      arguments += (arguments.empty() ? "" : ", ") + size(o) + (isNumber ? "L" : "");
    }
    return std::string(function) + "(" + arguments + ")";
  };
  switch (e.op) {
    case Op::Constant:
      return std::to_string(static_cast<int64_t>(e.bits));
    case Op::Size:
      return accesses_.program().sizes[e.index].name;
    case Op::Add:
      return "(" + operand(0) + " + " + operand(1) + ")";
    case Op::Subtract:
      return "(" + operand(0) + " - " + operand(1) + ")";
    case Op::Multiply:
      return operand(0) + " * " + operand(1);
    case Op::Negate:
      return "-" + operand(0);
    case Op::Minimum:
      return call("minimum");
    case Op::Maximum:
      return call("maximum");
    case Op::FloorDivide:
      return call("floor_divide");
    default:
      return call("remainder_of");
  }
}

int CppPrinter::scopeOf(ExprId id) const {
  const Dependence& d = accesses_.of(id);
  int scope = d.written.empty() ? 0 : barrier_;
  for (const RangeId r : d.ranges) scope = std::max(scope, rangeScopes_.at(r));
  return scope;
}

void CppPrinter::countUses(ExprId id) {
  if (++uses_[id] > 1) return;
  const Expr e = accesses_.program().expressions[id];
  if (e.op == Op::Load) {
    for (const Affine::Term& t : accesses_.ofLoad(id).terms) countUses(t.atom);
    return;
  }
  for (const ExprId operand : e.operands) countUses(operand);
}

std::string CppPrinter::withOrigin(ExprId id, const std::string& text) const {
  const loops::ExprPool& pool = accesses_.program().expressions;
  return loops::marked(text, hasMarks_ && !isIndex_ && loops::operandCount(pool[id].op) > 0 ? pool.origin(id) : 0);
}

std::string CppPrinter::value(ExprId id, bool mayName) { return withOrigin(id, plainValue(id, mayName)); }

std::string CppPrinter::plainValue(ExprId id, bool mayName) {
  for (size_t i = scopes_.size(); i-- > 0;)
    if (const auto at = scopes_[i].names.find(id); at != scopes_[i].names.end()) return at->second;
  const Expr e = accesses_.program().expressions[id];
  // What a Select may leave out stays inside of it.
  const bool isFree = mayName || !accesses_.of(id).isUnsafe;
  if (e.op == Op::Constant) return constant(e, id);
  if (e.op == Op::Range) return accesses_.program().range(e.range()).name;
  if (e.op == Op::Size) return accesses_.program().sizes[e.index].name;
  if (e.op == Op::Reduce) return reduce(id, isFree);
  const std::string text = compute(e, isFree);
  const bool isNamed = isFree && e.op != Op::Load && (uses_[id] > 1 || accesses_.of(id).operations > kWorthAName);
  const bool isLoadTwice = isFree && e.op == Op::Load && uses_[id] > 1;
  if (!isNamed && !isLoadTwice) return text;
  const std::string name = newName("t");
  Scope& s = scopes_[static_cast<size_t>(scopeOf(id))];
  s.text += std::string(static_cast<size_t>(s.depth) * 2, ' ') + "const " + typeName(e.dtype) + " " + name + " = " +
            withOrigin(id, bareText(text)) + ";\n";
  s.names[id] = name;
  return name;
}

std::string CppPrinter::constant(const Expr& e, ExprId id) {
  if (!isFloatingPoint(e.dtype)) {
    if (e.dtype == DType::Bool) return e.bits ? "true" : "false";
    const std::string text = std::to_string(static_cast<int64_t>(e.bits));
    if (e.dtype == DType::Int64 && static_cast<int64_t>(e.bits) == INT64_MIN) return "INT64_MIN";
    return e.dtype == DType::Int64 || e.dtype == DType::Int32 ? text : typeName(e.dtype) + "(" + text + ")";
  }
  const double v = accesses_.program().expressions.constant(id);
  const std::string limits = "std::numeric_limits<" + typeName(e.dtype) + ">::";
  if (std::isnan(v)) return limits + "quiet_NaN()";
  if (std::isinf(v)) return (v < 0 ? "-" : "") + limits + "infinity()";
  std::string text = e.dtype == DType::Float32 ? fmt::format("{}", static_cast<float>(v)) : fmt::format("{}", v);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return e.dtype == DType::Float32 ? text + "f" : text;
}

std::string CppPrinter::element(BufferId buffer, const Affine& where, bool mayName) {
  const loops::Program& p = accesses_.program();
  if (p.buffer(buffer).role == loops::Buffer::Role::Local && p.buffer(buffer).sizes.empty())
    return p.buffer(buffer).name;
  const bool wasIndex = std::exchange(isIndex_, true);
  std::string sum;
  for (const Affine::Term& t : where.terms) {
    const Expr& atom = p.expressions[t.atom];
    if (atom.op == Op::Range && isAbsorbed_.at(atom.range())) continue;
    const int64_t* factor = p.expressions.findInteger(t.factor);
    if (factor && *factor == -1) {
      sum += (sum.empty() ? "-" : " - ") + value(t.atom, mayName);
      continue;
    }
    sum += (sum.empty() ? "" : " + ") + value(t.atom, mayName) + (factor && *factor == 1 ? "" : " * " + size(t.factor));
  }
  const int64_t* constant = p.expressions.findInteger(where.constant);
  if (!constant || *constant != 0 || sum.empty()) {
    if (constant && *constant < 0 && !sum.empty())
      sum += " - " + std::to_string(-*constant);
    else
      sum += (sum.empty() ? "" : " + ") + size(where.constant);
  }
  isIndex_ = wasIndex;
  return p.buffer(buffer).name + "[" + sum + "]";
}

std::string CppPrinter::compute(const Expr& e, bool mayName) {
  const auto operand = [&](size_t i) { return value(e.operands[i], mayName); };
  const DType dtype = e.operands.empty() ? e.dtype : accesses_.program().expressions[e.operands[0]].dtype;
  switch (e.op) {
    case Op::Load:
      return element(e.buffer(), accesses_.offset(e.buffer(), e.operands), mayName);
    case Op::Cast:
      return "cast<" + typeName(e.dtype) + ">(" + operand(0) + ")";
    case Op::Negate:
      return typeName(dtype) + "(-" + operand(0) + ")";
    case Op::Not:
      return dtype == DType::Bool ? "(!" + operand(0) + ")" : typeName(dtype) + "(~" + operand(0) + ")";
    case Op::Select: {
      const std::string condition = operand(0);
      return "(" + condition + " ? " + value(e.operands[1], false) + " : " + value(e.operands[2], false) + ")";
    }
    case Op::CheckedIndex:
      return "checked_index(" + operand(0) + ", " + operand(1) + ", failed)";
    case Op::CheckedDivisor:
      return "checked_divisor(" + operand(0) + ", failed)";
    default:
      break;
  }
  if (const char* sign = infixSign(e.op)) {
    const std::string text = "(" + operand(0) + " " + sign + " " + operand(1) + ")";
    const bool isSmall = e.dtype == DType::UInt8 || e.dtype == DType::Int8 || e.dtype == DType::Int16;
    return isSmall ? typeName(e.dtype) + text : text;  // C++ computes these as int
  }
  std::string arguments;
  for (size_t i = 0; i < e.operands.size(); ++i) {
    // The functions are templates of one type.
    const Expr& argument = accesses_.program().expressions[e.operands[i]];
    const bool isNumber = argument.op == Op::Constant && argument.dtype == DType::Int64;
    arguments += (i ? ", " : "") + operand(i) + (isNumber ? "L" : "");
  }
  const std::string function = functionName(e.op, dtype);
  if (function.empty()) return arguments;
  if (e.operands.size() == 1) arguments = bareText(arguments);
  return function + "(" + arguments + ")";
}

std::string CppPrinter::reduceLoops(ExprId id, const std::string& result, const std::string& place) {
  const Expr e = accesses_.program().expressions[id];
  const InnerPlan plan = planner_.planReduce(id, false);
  std::vector<Loop> loops = plan.sequential;
  if (plan.vector) loops.push_back(*plan.vector);
  // Without it, a compiler has to add one after another, which is slow, and less accurate than sums side by side.
  const bool isSum = e.reduce == ReduceKind::Sum || e.reduce == ReduceKind::Product;
  const bool isSideBySide = isSum && plan.vector && !accesses_.of(e.operands[0]).isUnsafe;
  for (const Loop& loop : loops) {
    const bool isVector = plan.vector && &loop == &loops.back();
    open(loop, isVector ? "  // " + std::to_string(plan.lanes) + " lanes" : "",
         isVector && isSideBySide
             ? "#pragma omp simd reduction(" + std::string(e.reduce == ReduceKind::Sum ? "+" : "*") + ":" + result + ")"
             : "");
  }
  const std::string next = value(e.operands[0]);
  if (isPlace(e)) {
    std::string at = "0";
    for (const RangeId r : e.ranges)
      at = at == "0" ? accesses_.program().range(r).name
                     : "(" + at + ") * " + size(accesses_.program().range(r).extent) + " + " +
                           accesses_.program().range(r).name;
    line("if (" + std::string(e.reduce == ReduceKind::ArgMaximum ? "is_greater(" : "is_less(") + next + ", " + result +
         ")) {");
    line("  " + result + " = " + next + ";");
    line("  " + place + " = " + at + ";");
    line("}");
  } else {
    line(result + " = " + withOrigin(id, combined(e.reduce, result, next)) + ";");
  }
  for (size_t i = 0; i < loops.size(); ++i) close();
  return "";
}

std::string CppPrinter::reduce(ExprId id, bool mayName) {
  const Expr e = accesses_.program().expressions[id];
  const DType dtype = accesses_.program().expressions[e.operands[0]].dtype;
  const auto target = static_cast<size_t>(mayName ? scopeOf(id) : static_cast<int>(scopes_.size()) - 1);
  std::vector<Scope> inner;
  for (; scopes_.size() > target + 1; scopes_.pop_back()) inner.push_back(std::move(scopes_.back()));
  const std::string result = newName(std::string(loops::reduceName(e.reduce)).c_str());
  const std::string place = isPlace(e) ? newName("place") : "";
  std::string text = isPlace(e) ? place : result;
  const std::string start = typeName(dtype) + " " + result + " = " + identity(e.reduce, dtype) + ";";
  if (mayName) {
    line(start);
    if (isPlace(e)) line("int64_t " + place + " = 0;");
    reduceLoops(id, result, place);
    scopes_.back().names[id] = text;
  } else {
    // Where a Select chooses it, as an expression
    Scope s;
    s.depth = scopes_.back().depth + 1;
    scopes_.push_back(std::move(s));
    line(start);
    if (isPlace(e)) line("int64_t " + place + " = 0;");
    reduceLoops(id, result, place);
    line("return " + text + ";");
    text =
        "[&] {\n" + scopes_.back().text + std::string(static_cast<size_t>(scopes_.back().depth - 1) * 2, ' ') + "}()";
    scopes_.pop_back();
  }
  for (; !inner.empty(); inner.pop_back()) scopes_.push_back(std::move(inner.back()));
  return text;
}

void CppPrinter::store(const Store& store) {
  const loops::Program& p = accesses_.program();
  const InnerPlan plan = planner_.planStore(store, false);
  std::vector<Loop> loops = plan.sequential;
  if (plan.vector) loops.push_back(*plan.vector);
  const auto isScan = [&](const Loop& l) { return store.scan && l.ranges.back() == *store.scan; };
  std::stable_partition(loops.begin(), loops.end(), [&](const Loop& l) { return !isScan(l); });
  const DType dtype = p.buffer(store.buffer).dtype;
  const DType wide = scanType(dtype, store.scanKind);
  std::string sofar;
  for (const Loop& loop : loops) {
    if (isScan(loop)) {
      sofar = newName("sofar");
      line(typeName(wide) + " " + sofar + " = " + identity(store.scanKind, wide) + ";");
    }
    const bool isVector = plan.vector && loop.ranges == plan.vector->ranges;
    open(loop, isVector ? "  // " + std::to_string(plan.lanes) + " lanes" : "");
  }
  const std::string next = value(store.value);
  const std::string to = element(store.buffer, accesses_.offset(store.buffer, store.index), true);
  if (sofar.empty()) {
    line(to + " = " + bareText(next) + ";");
  } else {
    line(sofar + " = " + combined(store.scanKind, sofar, wide != dtype ? typeName(wide) + "(" + next + ")" : next) +
         ";");
    line(to + " = " + (wide != dtype ? "cast<" + typeName(dtype) + ">(" + sofar + ")" : sofar) + ";");
  }
  for (size_t i = 0; i < loops.size(); ++i) close();
  for (Scope& s : scopes_)
    std::erase_if(s.names, [&](const auto& entry) {
      const std::vector<BufferId>& reads = accesses_.of(entry.first).written;
      return std::find(reads.begin(), reads.end(), store.buffer) != reads.end();
    });
}

std::string CppPrinter::nest(const loops::Nest& nest, int depth) {
  const loops::Program& p = accesses_.program();
  const NestPlan plan = planner_.plan(nest);
  scopes_.assign(1, {});
  scopes_[0].depth = depth;
  uses_.clear();
  for (const Store& s : nest.stores) {
    countUses(s.value);
    for (const Affine::Term& t : accesses_.offset(s.buffer, s.index).terms) countUses(t.atom);
  }
  std::vector<Loop> loops = plan.outer;
  if (plan.vector) loops.push_back(*plan.vector);
  if (!plan.outer.empty())
    line("#pragma omp parallel for" +
         (plan.outer.size() > 1 ? " collapse(" + std::to_string(plan.outer.size()) + ")" : std::string()));
  for (const Loop& loop : loops) {
    const bool isVector = plan.vector && &loop == &loops.back();
    std::string comment = isVector ? "  // " + std::to_string(plan.lanes) + " lanes" : "";
    if (isVector && plan.tile) comment += ", squares with " + p.range(plan.tile->ranges.back()).name + " transposed";
    open(loop, comment);
  }
  barrier_ = static_cast<int>(scopes_.size()) - 1;
  std::vector<BufferId> declared;
  for (const Store& s : nest.stores) {
    const loops::Buffer& b = p.buffer(s.buffer);
    if (b.role != loops::Buffer::Role::Local || std::find(declared.begin(), declared.end(), s.buffer) != declared.end())
      continue;
    declared.push_back(s.buffer);
    std::string count;
    for (const ExprId extent : b.sizes) count += (count.empty() ? "" : " * ") + size(extent);
    const bool isKnown =
        std::all_of(b.sizes.begin(), b.sizes.end(), [&](ExprId e) { return p.expressions.findInteger(e); });
    if (b.sizes.empty())
      line(typeName(b.dtype) + " " + b.name + ";");
    else if (isKnown)
      line(typeName(b.dtype) + " " + b.name + "[" + count + "];");
    else
      line("auto " + b.name + " = std::make_unique<" + typeName(b.dtype) + "[]>(" + count + ");");
  }
  for (const Store& s : nest.stores) store(s);
  for (size_t i = 0; i < loops.size(); ++i) close();
  return scopes_[0].text;
}

}  // namespace graft::codegen
