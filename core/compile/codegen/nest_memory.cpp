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

NestEmitter::Pointer NestEmitter::pointer(BufferId buffer, const Affine& where) {
  const loops::ExprPool& pool = accesses_.program().expressions;
  const bool isLocal = accesses_.program().buffer(buffer).role == loops::Buffer::Role::Local;
  const DType dtype = accesses_.program().buffer(buffer).dtype;
  // An element of a local is as many as there are lanes along an outer range.
  const int64_t unit = isLocal ? storesLanes_ : 1;
  Value vectorOffset;
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
      vectorOffset = vectorOffset ? b_.binary("add", vectorOffset, part) : part;
    } else {
      const Value v = times(value(term.atom), factor);
      if (v.lanes == 1)
        offsets.push_back(v);
      else
        vectorOffset = vectorOffset ? b_.binary("add", vectorOffset, v) : v;
    }
  }
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
  return {at, isContiguous};
}

Value NestEmitter::load(ExprId id) {
  const Expr e = accesses_.program().expressions[id];
  if (const auto at = scalars_.find(e.buffer()); at != scalars_.end()) return at->second;
  const bool isInside = accesses_.isAlwaysInside(id);
  const Pointer from = pointer(e.buffer(), accesses_.ofLoad(id));
  const int lanes = from.isContiguous ? lanes_.count : from.at.lanes;
  const Value active = activeLanes(!isInside, lanes);
  const bool isWritten = !accesses_.of(id).written.empty();
  int scope = std::max(from.at.scope, active ? active.scope : 0);
  if (isWritten) scope = std::max(scope, barrier_);
  const auto version = versions_.find(e.buffer());
  const int64_t n = version == versions_.end() ? 0 : version->second;
  const DType stored = e.dtype == DType::Bool ? DType::UInt8 : e.dtype;
  const std::string type = IrBuilder::type(stored, lanes);
  std::string text;
  if (lanes == 1) {
    Value at = from.at;
    // A load that must not be is one of something else instead.
    if (active)
      at = b_.instruction(DType::Int64, 1, scope,
                          "select i1 " + active.name + ", ptr " + at.name + ", ptr @graft.nothing");
    text = "load " + type + ", ptr " + at.name + ", align " + alignment(stored);
  } else if (from.isContiguous && !active) {
    text = "load " + type + ", ptr " + from.at.name + ", align " + alignment(stored);
  } else {
    const std::string suffix = IrBuilder::suffix(stored, lanes);
    const std::string mask = IrBuilder::type(DType::Bool, lanes);
    const std::string function = from.isContiguous
                                     ? "@llvm.masked.load." + suffix + ".p0"
                                     : "@llvm.masked.gather." + suffix + ".v" + std::to_string(lanes) + "p0";
    const std::string address = from.isContiguous ? "ptr" : pointers(lanes);
    b_.declare("declare " + type + " " + function + "(" + address + ", i32, " + mask + ", " + type + ")");
    text = "call " + type + " " + function + "(" + address + " " + from.at.name + ", i32 " + alignment(stored) + ", " +
           mask + " " + (active ? active.name : allLanes(lanes)) + ", " + type + " zeroinitializer)";
  }
  const Value loaded = b_.memoryRead(text, stored, lanes, scope, n);
  return e.dtype == DType::Bool ? b_.compare("icmp ne", loaded, b_.integer(DType::UInt8, 0)) : loaded;
}

void NestEmitter::store(BufferId buffer, const Affine& where, const Value& computed) {
  const DType dtype = accesses_.program().buffer(buffer).dtype;
  const Pointer to = pointer(buffer, where);
  const int lanes = to.isContiguous ? lanes_.count : std::max(to.at.lanes, 1);
  Value v = dtype == DType::Bool ? b_.convert("zext", computed, DType::UInt8) : computed;
  if (v.lanes > lanes) v = b_.lane(v, 0);  // all lanes write one element, and the same
  v = b_.spread(v, lanes);
  const DType stored = v.dtype;
  const Value active = lanes > 1 ? activeLanes(false, lanes) : Value{};
  if (lanes == 1 || (to.isContiguous && !active)) {
    b_.effect("store " + b_.typed(v) + ", ptr " + to.at.name + ", align " + alignment(stored));
    return;
  }
  const std::string suffix = IrBuilder::suffix(stored, lanes);
  const std::string mask = IrBuilder::type(DType::Bool, lanes);
  const std::string function = to.isContiguous ? "@llvm.masked.store." + suffix + ".p0"
                                               : "@llvm.masked.scatter." + suffix + ".v" + std::to_string(lanes) + "p0";
  const std::string address = to.isContiguous ? "ptr" : pointers(lanes);
  b_.declare("declare void " + function + "(" + IrBuilder::type(stored, lanes) + ", " + address + ", i32, " + mask +
             ")");
  b_.effect("call void " + function + "(" + b_.typed(v) + ", " + address + " " + to.at.name + ", i32 " +
            alignment(stored) + ", " + mask + " " + (active ? active.name : allLanes(lanes)) + ")");
}

}  // namespace graft::codegen
