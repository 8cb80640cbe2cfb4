// The loops of a nest: its iterations, the stores in them, and the loops of each store.
#include <algorithm>

#include "core/compile/codegen/nest_emitter.h"

namespace graft::codegen {

using loops::ReduceKind;
using loops::Store;

void NestEmitter::openRange(const Loop& loop, const Value& start, const Value& end, int64_t step, int lanes,
                            const std::vector<Value>& carried, std::vector<Value>* inside) {
  std::vector<Value> values = b_.openLoop(start, end, step, carried);
  if (inside) *inside = std::move(values);
  memos_.emplace_back();
  for (const RangeId r : loop.ranges)
    bindings_[r] = {b_.loopIndex(), r == loop.ranges.back() ? lanes : 1, b_.scope(), r != loop.ranges.back()};
}

std::vector<Value> NestEmitter::closeRange(const Loop& loop, const std::vector<Value>& next) {
  for (const RangeId r : loop.ranges) bindings_.erase(r);
  memos_.pop_back();
  return b_.closeLoop(next);
}

void NestEmitter::forLanes(const Loop& loop, const Value& start, const Value& end, std::optional<int64_t> length,
                           int lanes, const std::function<void()>& body) {
  const int restLanes = std::min(width_, lanes);
  const Value mask = b_.integer(DType::Int64, -static_cast<int64_t>(lanes));
  Value wholeEnd = end;
  if (!length || *length % lanes != 0) {
    wholeEnd = start.isConstant && length
                   ? b_.integer(DType::Int64, std::stoll(start.name) + *length / lanes * lanes)
                   : b_.binary("add", start, b_.binary("and", b_.binary("sub", end, start), mask));
  }
  const Lanes before = lanes_;
  if (!length || *length >= lanes) {
    lanes_ = {lanes, {}};
    openRange(loop, start, wholeEnd, lanes, lanes, {}, nullptr);
    body();
    closeRange(loop, {});
  }
  if (!length || *length % lanes != 0) {
    openRange(loop, wholeEnd, end, restLanes, restLanes, {}, nullptr);
    const Value left = b_.convert("trunc", b_.binary("sub", end, b_.loopIndex()), DType::Int32);
    lanes_ = {restLanes, b_.compare("icmp slt", b_.lanesFrom0(DType::Int32, restLanes), left)};
    body();
    closeRange(loop, {});
  }
  lanes_ = before;
}

void NestEmitter::emitElement(const Store& store) {
  const loops::Buffer& buffer = accesses_.program().buffer(store.buffer);
  const Value v = value(store.value);
  if (buffer.role == loops::Buffer::Role::Local && buffer.sizes.empty() && store.ranges.empty()) {
    scalars_[store.buffer] = v;
    return;
  }
  this->store(store.buffer, accesses_.offset(store.buffer, store.index), v);
}

void NestEmitter::emitStore(const Store& store) {
  const InnerPlan plan = planner_.planStore(store, storesLanes_ > 1);
  const Value zero = b_.integer(DType::Int64, 0);
  const auto isScan = [&](const Loop& l) { return store.scan && l.ranges.back() == *store.scan; };
  const Loop* scan = nullptr;
  std::vector<const Loop*> opened;
  for (const Loop& loop : plan.sequential) {
    if (isScan(loop)) {
      scan = &loop;
      continue;
    }
    openRange(loop, zero, value(loop.extent), 1, 1, {}, nullptr);
    opened.push_back(&loop);
  }
  const auto inside = [&] {
    if (!scan) {
      emitElement(store);
      return;
    }
    const DType dtype = accesses_.program().buffer(store.buffer).dtype;
    std::vector<Value> sofar{b_.spread(operations_.identity(store.scanKind, dtype), lanes_.count)};
    openRange(*scan, zero, value(scan->extent), 1, 1, sofar, &sofar);
    const Value next = b_.spread(operations_.combine(store.scanKind, sofar[0], value(store.value)), lanes_.count);
    this->store(store.buffer, accesses_.offset(store.buffer, store.index), next);
    closeRange(*scan, {next});
  };
  if (plan.vector)
    forLanes(*plan.vector, zero, value(plan.vector->extent), known(plan.vector->extent), plan.lanes, inside);
  else
    inside();
  for (; !opened.empty(); opened.pop_back()) closeRange(*opened.back(), {});
}

void NestEmitter::emitStores(const loops::Nest& nest) {
  const int before = barrier_;
  barrier_ = b_.scope();
  storesLanes_ = lanes_.count;
  for (const Store& store : nest.stores) {
    emitStore(store);
    forget(store.buffer);
  }
  scalars_.clear();
  storesLanes_ = 1;
  barrier_ = before;
}

void NestEmitter::openIterations(const NestPlan& plan) {
  const Value begin{"%begin", DType::Int64, 1, 0, false}, end{"%end", DType::Int64, 1, 0, false};
  const Value zero = b_.integer(DType::Int64, 0), one = b_.integer(DType::Int64, 1);
  iterationLoops_ = plan.outer;
  const std::vector<Loop>& loops = iterationLoops_;
  // Where the first iteration stands: the last loop fastest
  std::vector<Value> indices(loops.size());
  Value left = begin;
  for (size_t i = loops.size(); i-- > 1;) {
    Value extent = value(loops[i].extent);
    if (!extent.isConstant) extent = b_.select(b_.compare("icmp slt", extent, one), one, extent);
    indices[i] = b_.binary("urem", left, extent);
    left = b_.binary("udiv", left, extent);
  }
  if (!loops.empty()) indices[0] = left;
  if (loops.size() == 1) indices.clear();  // the iteration itself
  const std::vector<Value> inside = b_.openLoop(begin, end, 1, indices);
  memos_.emplace_back();
  for (size_t i = 0; i < loops.size(); ++i) {
    const Value index = loops.size() == 1 ? b_.loopIndex() : inside[i];
    for (const RangeId r : loops[i].ranges) bindings_[r] = {index, 1, b_.scope(), r != loops[i].ranges.back()};
  }
}

void NestEmitter::closeIterations() {
  const std::vector<Loop>& loops = iterationLoops_;
  const Value zero = b_.integer(DType::Int64, 0), one = b_.integer(DType::Int64, 1);
  std::vector<Value> next(loops.size() > 1 ? loops.size() : 0);
  Value carry = b_.boolean(true);
  for (size_t i = next.size(); i-- > 0;) {
    const Value index = bindings_.at(loops[i].ranges.back()).index;
    const Value moved = b_.binary("add", index, b_.convert("zext", carry, DType::Int64));
    if (i == 0) {
      next[i] = moved;
      break;
    }
    const Value wraps = b_.compare("icmp eq", moved, value(loops[i].extent));
    next[i] = b_.select(wraps, zero, moved);
    carry = wraps;
  }
  for (const Loop& loop : loops)
    for (const RangeId r : loop.ranges) bindings_.erase(r);
  memos_.pop_back();
  b_.closeLoop(next);
}

NestEmitter::Emitted NestEmitter::emit(const loops::Nest& nest, const std::string& name) {
  loops::Simplifier& s = accesses_.simplifier();
  const loops::Program& program = accesses_.program();
  plan_ = planner_.plan(nest);
  Emitted result;
  result.instructions = plan_.instructions;

  // Pointers to buffers; locals one after another in the scratch memory
  const Value table{"%buffers", DType::Int64, 1, 0, false}, scratch{"%scratch", DType::Int64, 1, 0, false};
  ExprId bytes = s.integer(0);
  std::vector<bool> isStored(program.buffers.size(), false);
  for (const Store& store : nest.stores) isStored[store.buffer.index] = true;
  for (uint32_t i = 0; i < program.buffers.size(); ++i) {
    const loops::Buffer& buffer = program.buffers[i];
    if (buffer.role != loops::Buffer::Role::Local) {
      places_[BufferId(i)] = {};
      continue;
    }
    if (!isStored[i]) continue;
    places_[BufferId(i)] = b_.advance(scratch, DType::UInt8, value(bytes));
    const int64_t element = static_cast<int64_t>(dtypeSize(buffer.dtype)) * plan_.lanes;
    ExprId size = s.integer(element);
    for (const ExprId extent : std::vector<ExprId>(buffer.sizes)) size = s.multiply(size, extent);
    const ExprId units = s.floorDivide(s.add(size, s.integer(63)), s.integer(64));
    bytes = s.add(bytes, s.multiply(units, s.integer(64)));
  }
  result.scratchBytes = bytes;
  for (uint32_t i = 0; i < program.buffers.size(); ++i)
    if (slots_[i] >= 0) places_[BufferId(i)] = b_.loadPointer(table, slots_[i]);

  ExprId iterations = s.integer(1);
  for (const Loop& loop : plan_.outer) iterations = s.multiply(iterations, loop.extent);
  NestPlan open = plan_;
  const RangeId blockRange(UINT32_MAX - 1);
  if (plan_.block) {
    const ExprId count =
        s.floorDivide(s.add(plan_.vector->extent, s.integer(*plan_.block - 1)), s.integer(*plan_.block));
    iterations = s.multiply(iterations, count);
    open.outer.push_back({{blockRange}, count});
  }
  result.iterations = iterations;

  openIterations(open);
  if (plan_.vector) {
    Value start = b_.integer(DType::Int64, 0), end = value(plan_.vector->extent);
    std::optional<int64_t> length = known(plan_.vector->extent);
    if (plan_.block) {
      const Value block = b_.integer(DType::Int64, *plan_.block);
      const Value extent = end;
      start = b_.binary("mul", bindings_.at(blockRange).index, block);
      end = b_.binary("add", start, block);
      if (length && *length % *plan_.block == 0) {
        length = plan_.block;
      } else {
        length.reset();
        end = b_.select(b_.compare("icmp slt", end, extent), end, extent);
      }
    }
    forLanes(*plan_.vector, start, end, length, plan_.lanes, [&] { emitStores(nest); });
  } else {
    emitStores(nest);
  }
  closeIterations();
  result.function = b_.finish("@" + name +
                              "(ptr noalias nocapture readonly %buffers, ptr noalias nocapture readonly %sizes, ptr "
                              "noalias %scratch, i64 %begin, i64 %end)");
  return result;
}

}  // namespace graft::codegen
