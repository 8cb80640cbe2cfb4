#include "core/compile/codegen/ir/ir_builder.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdio>

namespace graft::codegen {
namespace {

const char* scalarType(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return "i1";
    case DType::UInt8:
    case DType::Int8:
      return "i8";
    case DType::Int16:
    case DType::UInt16:
    case DType::Float16:
    case DType::BFloat16:
      return "i16";
    case DType::Int32:
    case DType::UInt32:
      return "i32";
    case DType::Float32:
      return "float";
    case DType::Float64:
      return "double";
    default:
      return "i64";
  }
}

std::string withLanes(const std::string& scalar, int lanes) {
  return lanes == 1 ? scalar : "<" + std::to_string(lanes) + " x " + scalar + ">";
}

}  // namespace

std::string IrBuilder::type(DType dtype, int lanes) { return withLanes(scalarType(dtype), lanes); }
std::string IrBuilder::suffix(DType dtype, int lanes) {
  const std::string scalar = scalarType(dtype);
  const std::string name = scalar == "float" ? "f32" : scalar == "double" ? "f64" : scalar;
  return lanes == 1 ? name : "v" + std::to_string(lanes) + name;
}

IrBuilder::IrBuilder(bool hasAvx512) : hasAvx512_(hasAvx512) {
  scopes_.emplace_back();
  scopes_.back().label = "entry";
}

int IrBuilder::commonLanes(std::initializer_list<const Value*> values) {
  int lanes = 1;
  for (const Value* v : values) lanes = std::max(lanes, v->lanes);
  return lanes;
}

Value IrBuilder::emit(DType dtype, int lanes, int scope, const std::string& text) {
  Scope& s = scopes_[static_cast<size_t>(scope)];
  const auto [at, isNew] = s.numbered.try_emplace(text);
  if (isNew) {
    at->second = {newName(), dtype, lanes, scope, false};
    s.text += "  " + at->second.name + " = " + text + "\n";
  }
  // Equal instructions may be of several dtypes: i8 and u8 are one type of LLVM's.
  Value result = at->second;
  result.dtype = dtype;
  return result;
}

Value IrBuilder::number(DType dtype, double value) {
  if (!isFloatingPoint(dtype)) return integer(dtype, static_cast<int64_t>(value));
  if (dtype == DType::Float32) value = static_cast<float>(value);
  char text[32];
  std::snprintf(text, sizeof text, "0x%016llX", static_cast<unsigned long long>(std::bit_cast<uint64_t>(value)));
  return {text, dtype, 1, 0, true};
}

Value IrBuilder::integer(DType dtype, int64_t value) {
  if (dtype == DType::Bool) return boolean(value != 0);
  return {std::to_string(value), dtype, 1, 0, true};
}

Value IrBuilder::boolean(bool value) { return {value ? "true" : "false", DType::Bool, 1, 0, true}; }

Value IrBuilder::lanesFrom0(DType dtype, int lanes) {
  const std::string element = scalarType(dtype);
  std::string list;
  for (int i = 0; i < lanes; ++i) list += (i ? ", " : "") + element + " " + std::to_string(i);
  const std::string t = type(dtype, lanes);
  return emit(dtype, lanes, 0, "bitcast " + t + " <" + list + "> to " + t);
}

Value IrBuilder::spread(const Value& v, int lanes) {
  if (v.lanes == lanes) return v;
  assert(v.lanes == 1);
  const std::string t = type(v.dtype, lanes);
  const Value first = emit(v.dtype, lanes, v.scope, "insertelement " + t + " poison, " + typed(v) + ", i64 0");
  return emit(v.dtype, lanes, v.scope,
              "shufflevector " + t + " " + first.name + ", " + t + " poison, " + type(DType::Int32, lanes) +
                  " zeroinitializer");
}

Value IrBuilder::combine(std::string_view op, const Value& a, const Value& b, DType result) {
  const int lanes = commonLanes({&a, &b});
  const Value x = spread(a, lanes), y = spread(b, lanes);
  return emit(result, lanes, std::max(a.scope, b.scope),
              std::string(op) + " " + type(a.dtype, lanes) + " " + x.name + ", " + y.name);
}

Value IrBuilder::binary(std::string_view op, const Value& a, const Value& b) { return combine(op, a, b, a.dtype); }

Value IrBuilder::compare(std::string_view predicate, const Value& a, const Value& b) {
  return combine(predicate, a, b, DType::Bool);
}

Value IrBuilder::select(const Value& condition, const Value& then, const Value& otherwise) {
  if (then.name == otherwise.name) return then;
  if (condition.isConstant) return condition.name == "true" ? then : otherwise;
  const int lanes = commonLanes({&condition, &then, &otherwise});
  const Value x = spread(then, lanes), y = spread(otherwise, lanes);
  return emit(then.dtype, lanes, std::max({condition.scope, then.scope, otherwise.scope}),
              "select " + typed(condition) + ", " + typed(x) + ", " + typed(y));
}

Value IrBuilder::convert(std::string_view op, const Value& v, DType dtype) {
  if (op == "bitcast" && type(v.dtype, 1) == type(dtype, 1)) {
    Value same = v;
    same.dtype = dtype;
    return same;
  }
  return emit(dtype, v.lanes, v.scope, std::string(op) + " " + typed(v) + " to " + type(dtype, v.lanes));
}

Value IrBuilder::unary(std::string_view op, const Value& v) {
  return emit(v.dtype, v.lanes, v.scope, std::string(op) + " " + typed(v));
}

Value IrBuilder::intrinsic(std::string_view name, const std::vector<Value>& arguments) {
  int lanes = 1, scope = 0;
  for (const Value& a : arguments) {
    lanes = std::max(lanes, a.lanes);
    scope = std::max(scope, a.scope);
  }
  const DType dtype = arguments.front().dtype;
  std::string passed, types;
  for (const Value& a : arguments) {
    passed += (passed.empty() ? "" : ", ") + typed(spread(a, lanes));
    types += (types.empty() ? "" : ", ") + type(a.dtype, lanes);
  }
  const std::string function = " @" + std::string(name) + "." + suffix(dtype, lanes) + "(";
  declare("declare " + type(dtype, lanes) + function + types + ")");
  return emit(dtype, lanes, scope, "call " + type(dtype, lanes) + function + passed + ")");
}

Value IrBuilder::callEach(const std::string& name, const std::vector<Value>& arguments) {
  int lanes = 1, scope = 0;
  for (const Value& a : arguments) {
    lanes = std::max(lanes, a.lanes);
    scope = std::max(scope, a.scope);
  }
  const DType dtype = arguments.front().dtype;
  std::string types;
  for (const Value& a : arguments) types += (types.empty() ? "" : ", ") + type(a.dtype, 1);
  declare("declare " + type(dtype, 1) + " @" + name + "(" + types + ") readnone nounwind willreturn");
  const auto one = [&](int i) {
    std::string passed;
    for (const Value& a : arguments) passed += (passed.empty() ? "" : ", ") + typed(a.lanes == 1 ? a : lane(a, i));
    return emit(dtype, 1, scope, "call " + type(dtype, 1) + " @" + name + "(" + passed + ")");
  };
  if (lanes == 1) return one(0);
  Value result{"poison", dtype, lanes, 0, true};
  for (int i = 0; i < lanes; ++i) {
    const Value element = one(i);
    result = emit(dtype, lanes, scope,
                  "insertelement " + typed(result) + ", " + typed(element) + ", i64 " + std::to_string(i));
  }
  return result;
}

Value IrBuilder::lane(const Value& vector, int64_t index) {
  if (vector.lanes == 1) return vector;
  return emit(vector.dtype, 1, vector.scope, "extractelement " + typed(vector) + ", i64 " + std::to_string(index));
}

Value IrBuilder::half(const Value& vector, bool second) {
  const int count = vector.lanes / 2;
  std::string places;
  for (int i = 0; i < count; ++i) places += (i ? ", i32 " : "i32 ") + std::to_string(i + (second ? count : 0));
  if (count == 1) return lane(vector, second ? 1 : 0);
  return emit(vector.dtype, count, vector.scope,
              "shufflevector " + typed(vector) + ", " + type(vector.dtype, vector.lanes) + " poison, " +
                  type(DType::Int32, count) + " <" + places + ">");
}

Value IrBuilder::shuffle(const Value& x, const Value& y, const std::vector<int>& from) {
  std::string places;
  for (const int p : from) places += (places.empty() ? "i32 " : ", i32 ") + std::to_string(p);
  const int lanes = static_cast<int>(from.size());
  return emit(x.dtype, lanes, std::max(x.scope, y.scope),
              "shufflevector " + typed(x) + ", " + typed(y) + ", " + type(DType::Int32, lanes) + " <" + places + ">");
}

Value IrBuilder::anyLane(const Value& condition) {
  if (condition.lanes == 1) return condition;
  const std::string function = "@llvm.vector.reduce.or." + suffix(DType::Bool, condition.lanes);
  declare("declare i1 " + function + "(" + type(DType::Bool, condition.lanes) + ")");
  return emit(DType::Bool, 1, condition.scope, "call i1 " + function + "(" + typed(condition) + ")");
}

Value IrBuilder::scale(const Value& x, const Value& n) {
  if (x.lanes > 16) {
    const Value low = scale(half(x, false), half(n, false)), high = scale(half(x, true), half(n, true));
    std::string places;
    for (int i = 0; i < x.lanes; ++i) places += (i ? ", i32 " : "i32 ") + std::to_string(i);
    return emit(
        x.dtype, x.lanes, std::max(x.scope, n.scope),
        "shufflevector " + typed(low) + ", " + typed(high) + ", " + type(DType::Int32, x.lanes) + " <" + places + ">");
  }
  const std::string function = "<16 x float> @llvm.x86.avx512.mask.scalef.ps.512(";
  declare("declare " + function + "<16 x float>, <16 x float>, <16 x float>, i16, i32)");
  // No lane is left out, and the result is rounded as everything else.
  return emit(x.dtype, 16, std::max(x.scope, n.scope),
              "call " + function + typed(x) + ", " + typed(n) + ", <16 x float> zeroinitializer, i16 -1, i32 4)");
}

Value IrBuilder::loadPointer(const Value& table, int64_t index) {
  const Value at = emit(DType::Int64, 1, table.scope,
                        "getelementptr inbounds i8, ptr " + table.name + ", i64 " + std::to_string(8 * index));
  return emit(DType::Int64, 1, table.scope, "load ptr, ptr " + at.name + ", align 8");
}

Value IrBuilder::advance(const Value& pointer, DType element, const Value& count) {
  if (count.isConstant && count.name == "0") return pointer;
  // In bytes. LLVM 14 takes two addresses for one where they differ in the element's type alone (EarlyCSE and GVN with
  // opaque pointers, and loop strength reduction, which counts in bytes; later versions do not):
  //   %a = getelementptr i16, ptr %p, i64 16
  //   %b = getelementptr i8, ptr %p, i64 16
  const auto size = static_cast<int64_t>(dtypeSize(element));
  const Value bytes = size == 1          ? count
                      : count.isConstant ? integer(DType::Int64, std::stoll(count.name) * size)
                                         : binary("mul", count, integer(DType::Int64, size));
  const int lanes = std::max(pointer.lanes, count.lanes);
  const std::string base = (pointer.lanes == 1 ? "ptr " : withLanes("ptr", pointer.lanes) + " ") + pointer.name;
  return emit(DType::Int64, lanes, std::max(pointer.scope, count.scope),
              "getelementptr i8, " + base + ", " + typed(bytes));
}

Value IrBuilder::memoryRead(const std::string& text, DType dtype, int lanes, int scope, int64_t version) {
  // A comment keeps texts apart between which the memory was written.
  return emit(dtype, lanes, scope, version ? text + " ; " + std::to_string(version) : text);
}

void IrBuilder::effect(const std::string& text) { scopes_.back().text += "  " + text + "\n"; }

int IrBuilder::emptyScope() const {
  for (int i = scope(); i > 0; --i) {
    const Scope& s = scopes_[static_cast<size_t>(i)];
    const bool isEntered = s.start.isConstant && s.end.isConstant && std::stoll(s.start.name) < std::stoll(s.end.name);
    if (!isEntered) return i;
  }
  return 0;
}

void IrBuilder::raise(const Value& condition, int scope) {
  raises_ = true;
  const Value any = anyLane(condition);
  Scope& s = scopes_[static_cast<size_t>(std::max(scope, condition.scope))];
  if (!s.numbered.try_emplace("raise " + any.name, any).second) return;
  const std::string before = newName(), after = newName();
  s.text += "  " + before + " = load i1, ptr %flags, align 1\n";
  s.text += "  " + after + " = or i1 " + before + ", " + any.name + "\n";
  s.text += "  store i1 " + after + ", ptr %flags, align 1\n";
}

std::vector<Value> IrBuilder::openLoop(const Value& start, const Value& end, int64_t step,
                                       const std::vector<Value>& carried) {
  const int depth = static_cast<int>(scopes_.size());
  Scope s;
  s.id = loops_++;
  s.label = "body" + std::to_string(s.id);
  s.index = {newName(), DType::Int64, 1, depth, false};
  s.start = start;
  s.end = end;
  s.step = step;
  s.initial = carried;
  for (const Value& v : carried) s.carried.push_back({newName(), v.dtype, v.lanes, depth, false});
  std::vector<Value> inside = s.carried;
  scopes_.push_back(std::move(s));
  return inside;
}

std::vector<Value> IrBuilder::closeLoop(const std::vector<Value>& next) {
  Scope s = std::move(scopes_.back());
  scopes_.pop_back();
  Scope& outer = scopes_.back();
  const std::string n = std::to_string(s.id);
  const std::string before = "%pre" + n, body = "%body" + n, exit = "%exit" + n;
  const std::string nextIndex = newName(), again = newName();
  std::string& t = outer.text;
  t += "  br label " + before + "\npre" + n + ":\n";
  const bool isEntered = s.start.isConstant && s.end.isConstant && std::stoll(s.start.name) < std::stoll(s.end.name);
  if (isEntered) {
    t += "  br label " + body + "\n";
  } else {
    const std::string enters = newName();
    t += "  " + enters + " = icmp slt i64 " + s.start.name + ", " + s.end.name + "\n";
    t += "  br i1 " + enters + ", label " + body + ", label " + exit + "\n";
  }
  t += "body" + n + ":\n";
  const std::string last = "%" + s.label;
  t += "  " + s.index.name + " = phi i64 [ " + s.start.name + ", " + before + " ], [ " + nextIndex + ", " + last +
       " ]\n";
  for (size_t i = 0; i < s.carried.size(); ++i)
    t += "  " + s.carried[i].name + " = phi " + type(s.carried[i].dtype, s.carried[i].lanes) + " [ " +
         s.initial[i].name + ", " + before + " ], [ " + next[i].name + ", " + last + " ]\n";
  t += s.text;
  t += "  " + nextIndex + " = add nsw i64 " + s.index.name + ", " + std::to_string(s.step) + "\n";
  t += "  " + again + " = icmp slt i64 " + nextIndex + ", " + s.end.name + "\n";
  t += "  br i1 " + again + ", label " + body + ", label " + exit + "\nexit" + n + ":\n";
  std::vector<Value> results;
  for (size_t i = 0; i < s.carried.size(); ++i) {
    Value r{newName(), next[i].dtype, s.carried[i].lanes, scope(), false};
    t += "  " + r.name + " = phi " + type(r.dtype, r.lanes) + " [ " + next[i].name + ", " + last + " ]" +
         (isEntered ? "" : ", [ " + s.initial[i].name + ", " + before + " ]") + "\n";
    results.push_back(std::move(r));
  }
  outer.label = "exit" + n;
  return results;
}

void IrBuilder::suspend(int scope) {
  std::vector<Scope> inner;
  while (this->scope() > scope) {
    inner.push_back(std::move(scopes_.back()));
    scopes_.pop_back();
  }
  suspended_.push_back(std::move(inner));
}

void IrBuilder::resume() {
  std::vector<Scope> inner = std::move(suspended_.back());
  suspended_.pop_back();
  for (; !inner.empty(); inner.pop_back()) scopes_.push_back(std::move(inner.back()));
}

std::string IrBuilder::finish(const std::string& signature) {
  assert(scopes_.size() == 1);
  std::string text = "define i32 " + signature + " #0 {\nentry:\n";
  if (raises_) text += "  %flags = alloca i1, align 1\n  store i1 false, ptr %flags, align 1\n";
  text += scopes_.front().text;
  if (raises_)
    text += "  %raised = load i1, ptr %flags, align 1\n  %result = zext i1 %raised to i32\n  ret i32 %result\n}\n";
  else
    text += "  ret i32 0\n}\n";
  return text;
}

}  // namespace graft::codegen
