// Loads and stores: a whole vector, one element for all lanes, or each lane's own.
#include <algorithm>
#include <cassert>

#include "core/compile/codegen/nest_emitter.h"

namespace graft::codegen {

using loops::Expr;
using loops::Op;

namespace {

std::string alignment(DType dtype) { return std::to_string(dtypeSize(dtype)); }

std::string pointers(int lanes) { return lanes == 1 ? "ptr" : "<" + std::to_string(lanes) + " x ptr>"; }

std::string allLanes(int lanes) {
  std::string list;
  for (int i = 0; i < lanes; ++i) list += i ? ", i1 true" : "i1 true";
  return "<" + list + ">";
}

}  // namespace

NestEmitter::Pointer NestEmitter::pointer(BufferId buffer, const Affine& where, bool mayStep) {
  const loops::ExprPool& pool = accesses_.program().expressions;
  const bool isLocal = accesses_.program().buffer(buffer).role == loops::Buffer::Role::Local;
  const DType dtype = accesses_.program().buffer(buffer).dtype;
  // An element of a local is as many as there are lanes along an outer range.
  const int64_t unit = isLocal ? storesLanes_ : 1;
  Value vectorOffset;
  int64_t step = 0;  // of the only term that lanes step by
  bool isContiguous = unit > 1;
  std::vector<Value> offsets;
  const auto times = [&](const Value& v, const Value& factor) {
    return factor.isConstant && factor.name == "1" ? v : b_.binary("mul", v, factor);
  };
  const auto scaled = [&](ExprId factor) {
    const Value f = value(factor);
    if (unit == 1) return f;
    return f.isConstant ? b_.integer(DType::Int64, std::stoll(f.name) * unit)
                        : b_.binary("mul", f, b_.integer(DType::Int64, unit));
  };
  for (const Affine::Term& term : where.terms) {
    const Expr& atom = pool[term.atom];
    const Value factor = scaled(term.factor);
    if (atom.op == Op::Range) {
      const Binding& binding = bindings_.at(atom.range());
      if (binding.isZero) continue;
      offsets.push_back(times(binding.index, factor));
      if (binding.lanes == 1) continue;
      if (factor.isConstant && factor.name == "1" && !vectorOffset) {
        isContiguous = true;
        continue;
      }
      const Value part = times(b_.lanesFrom0(DType::Int64, binding.lanes), factor);
      step = mayStep && unit == 1 && factor.isConstant && !vectorOffset ? std::stoll(factor.name) : 0;
      mayStep = false;
      vectorOffset = vectorOffset ? b_.binary("add", vectorOffset, part) : part;
    } else {
      const Value v = times(value(term.atom), factor);
      if (v.lanes == 1)
        offsets.push_back(v);
      else {
        vectorOffset = vectorOffset ? b_.binary("add", vectorOffset, v) : v;
        mayStep = false;
        step = 0;
      }
    }
  }
  if (isContiguous || std::abs(step) > mostStep(width_)) step = 0;
  if (step != 0) vectorOffset = {};
  if (vectorOffset && isContiguous) {
    vectorOffset = b_.binary("add", vectorOffset, b_.lanesFrom0(DType::Int64, vectorOffset.lanes));
    isContiguous = false;
  }
  offsets.push_back(scaled(where.constant));
  // From the outermost loop in: what changes least is added first.
  std::stable_sort(offsets.begin(), offsets.end(), [](const Value& a, const Value& b) { return a.scope < b.scope; });
  Value at = places_.at(buffer);
  for (const Value& offset : offsets) at = b_.advance(at, dtype, offset);
  if (vectorOffset) at = b_.advance(at, dtype, vectorOffset);
  return {at, isContiguous, step};
}

Value NestEmitter::readVector(const Value& pointer, DType dtype, int lanes, const Value& active, int scope,
                              int64_t version) {
  const std::string type = IrBuilder::type(dtype, lanes);
  const bool isGather = pointer.lanes > 1;
  if (!isGather && !active)
    return b_.memoryRead("load " + type + ", ptr " + pointer.name + ", align " + alignment(dtype), dtype, lanes, scope,
                         version);
  const std::string mask = IrBuilder::type(DType::Bool, lanes);
  const std::string function =
      isGather ? "@llvm.masked.gather." + IrBuilder::suffix(dtype, lanes) + ".v" + std::to_string(lanes) + "p0"
               : "@llvm.masked.load." + IrBuilder::suffix(dtype, lanes) + ".p0";
  const std::string address = pointers(pointer.lanes);
  b_.declare("declare " + type + " " + function + "(" + address + ", i32, " + mask + ", " + type + ")");
  return b_.memoryRead("call " + type + " " + function + "(" + address + " " + pointer.name + ", i32 " +
                           alignment(dtype) + ", " + mask + " " + (active ? active.name : allLanes(lanes)) + ", " +
                           type + " zeroinitializer)",
                       dtype, lanes, scope, version);
}

Value NestEmitter::load(ExprId id) {
  const Expr e = accesses_.program().expressions[id];
  if (const auto at = scalars_.find(e.buffer()); at != scalars_.end()) return at->second;
  const DType stored = e.dtype == DType::Bool ? DType::UInt8 : e.dtype;
  const auto finish = [&](const Value& loaded) {
    return e.dtype == DType::Bool ? b_.compare("icmp ne", loaded, b_.integer(DType::UInt8, 0)) : loaded;
  };
  const auto tile = std::find_if(tiles_.begin(), tiles_.end(), [&](const auto& t) { return t.first == id; });
  if (tileRow_ && tile != tiles_.end()) {
    const Value row = b_.advance(tile->second, stored, tileRow_);
    return finish(readVector(row, stored, width_, {}, row.scope, 0));
  }
  const bool isInside = accesses_.isAlwaysInside(id);
  // Lanes a few elements apart, backwards among them, are shuffled together of whole registers.
  const bool isWhole = isInside || !guard_;
  const Pointer from = pointer(e.buffer(), accesses_.ofLoad(id), isWhole && lanes_.count >= width_);
  const int lanes = from.isContiguous || from.step != 0 ? lanes_.count : from.at.lanes;
  // Where one condition speaks for all lanes, a vector that must not be read is one of zeros instead.
  const Value guard = !isInside && guard_ && lanes > 1 && from.isContiguous ? guardValue(guard_) : Value{};
  const bool isUniform = guard && guard.lanes == 1 && static_cast<size_t>(lanes) * dtypeSize(stored) <= kNothingBytes;
  const Value active = activeLanes(!isInside && !isUniform, lanes);
  int scope = std::max(from.at.scope, active ? active.scope : 0);
  if (!accesses_.of(id).written.empty()) scope = std::max(scope, barrier_);
  // A loop without iterations may be what keeps the index inside.
  if (!isInside) scope = std::max(scope, b_.emptyScope());
  const auto version = versions_.find(e.buffer());
  const int64_t n = version == versions_.end() ? 0 : version->second;
  Value at = from.at;
  if (from.step != 0) return finish(readSteps(id, from, active, scope, n));
  if (isUniform) scope = std::max(scope, guard.scope);
  // A load that must not be is one of something else instead.
  if (const Value& condition = isUniform ? guard : active; condition && (isUniform || lanes == 1))
    at = b_.instruction(DType::Int64, 1, scope,
                        "select i1 " + condition.name + ", ptr " + at.name + ", ptr @graft.nothing");
  if (lanes > 1) return finish(readVector(at, stored, lanes, active, scope, n));
  return finish(b_.memoryRead(
      "load " + IrBuilder::type(stored, 1) + ", ptr " + at.name + ", align " + alignment(stored), stored, 1, scope, n));
}

void NestEmitter::store(BufferId buffer, const Affine& where, const Value& computed) {
  storeValue(buffer, where, inMemory(buffer, computed));
}

Value NestEmitter::inMemory(BufferId buffer, const Value& v) {
  return accesses_.program().buffer(buffer).dtype == DType::Bool ? b_.convert("zext", v, DType::UInt8) : v;
}

void NestEmitter::storeValue(BufferId buffer, const Affine& where, Value v) {
  const Pointer to = pointer(buffer, where);
  const int lanes = to.isContiguous ? lanes_.count : std::max(to.at.lanes, 1);
  if (v.lanes > lanes) v = b_.lane(v, 0);  // all lanes write one element, and the same
  v = b_.spread(v, lanes);
  const DType stored = v.dtype;
  const Value active = lanes > 1 ? activeLanes(false, lanes) : Value{};
  if (lanes == 1 || (to.isContiguous && !active)) {
    b_.effect("store " + b_.typed(v) + ", ptr " + to.at.name + ", align " + alignment(stored));
    return;
  }
  writeMasked(to.at, v, active ? active : b_.spread(b_.boolean(true), lanes));
}

void NestEmitter::writeMasked(const Value& at, const Value& v, const Value& active) {
  const std::string suffix = IrBuilder::suffix(v.dtype, v.lanes);
  const std::string mask = IrBuilder::type(DType::Bool, v.lanes);
  const std::string function = at.lanes == 1 ? "@llvm.masked.store." + suffix + ".p0"
                                             : "@llvm.masked.scatter." + suffix + ".v" + std::to_string(v.lanes) + "p0";
  const std::string address = pointers(at.lanes);
  b_.declare("declare void " + function + "(" + IrBuilder::type(v.dtype, v.lanes) + ", " + address + ", i32, " + mask +
             ")");
  b_.effect("call void " + function + "(" + b_.typed(v) + ", " + address + " " + at.name + ", i32 " +
            alignment(v.dtype) + ", " + b_.typed(active) + ")");
}

}  // namespace graft::codegen
