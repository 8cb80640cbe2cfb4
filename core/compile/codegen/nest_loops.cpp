// The loops of a nest: its iterations, the stores in them, and the loops of each store.
#include <algorithm>

#include "core/compile/codegen/nest_emitter.h"

namespace graft::codegen {

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

void NestEmitter::bindSteps(const Loop& loop, int64_t step) {
  unbindSteps(loop);
  for (const RangeId r : loop.ranges) bindings_[r] = {b_.integer(DType::Int64, step), 1, 0, r != loop.ranges.back()};
}

void NestEmitter::unbindSteps(const Loop& loop) {
  for (const RangeId r : loop.ranges) {
    bindings_.erase(r);
    forget(r);
  }
}

int NestEmitter::restLanes(std::optional<int64_t> length) const {
  int lanes = std::min(width_, plan_.lanes);
  // What is left over of columns is read in one piece of each row, too.
  if (plan_.isOfColumns && length)
    while (lanes < *length % plan_.lanes) lanes *= 2;
  return lanes;
}

void NestEmitter::forLanes(const Loop& loop, const Value& start, const Value& end, std::optional<int64_t> length,
                           int lanes, int restLanes, const std::function<void()>& body) {
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
  if (phase_)
    if (const auto at = std::ranges::find(*phase_, &store, [](const auto& p) { return p.first; });
        at != phase_->end()) {
      at->second = v;
      return;
    }
  this->store(store.buffer, accesses_.offset(store.buffer, store.index), v);
}

void NestEmitter::emitStore(const Store& store) {
  InnerPlan plan = planner_.planStore(store, storesLanes_ > 1);
  if (plan.turned &&
      !isTurned_.at(store.buffer.index)) {  // in a part of the nest alone: no memory is there for squares
    plan.sequential.push_back(*plan.turned);
    plan.turned.reset();
  }
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
    const DType stored = accesses_.program().buffer(store.buffer).dtype;
    const DType dtype = scanType(stored, store.scanKind);
    std::vector<Value> sofar{b_.spread(operations_.identity(store.scanKind, dtype), lanes_.count)};
    openRange(*scan, zero, value(scan->extent), 1, 1, sofar, &sofar);
    const Value element = operations_.cast(value(store.value), dtype);
    const Value next = b_.spread(operations_.combine(store.scanKind, sofar[0], element), lanes_.count);
    this->store(store.buffer, accesses_.offset(store.buffer, store.index), operations_.cast(next, stored));
    closeRange(*scan, {next});
  };
  if (plan.turned)
    emitTurned(store, *plan.turned);
  else if (plan.vector)
    forLanes(*plan.vector, zero, value(plan.vector->extent), known(plan.vector->extent), plan.lanes,
             std::min(width_, plan.lanes), inside);
  else
    inside();
  for (; !opened.empty(); opened.pop_back()) closeRange(*opened.back(), {});
}

bool NestEmitter::isReducedBy(const Store& row, const Store& next) {
  const loops::Program& program = accesses_.program();
  const auto isRange = [&](ExprId id, RangeId range) {
    const loops::Expr& e = program.expressions[id];
    return e.op == loops::Op::Range && e.range() == range;
  };
  const auto isRow = [&](ExprId load, RangeId range) {
    const loops::Expr& e = program.expressions[load];
    return e.op == loops::Op::Load && e.buffer() == row.buffer && e.operands.size() == 1 &&
           isRange(e.operands[0], range);
  };
  const loops::Expr& sum = program.expressions[next.value];
  if (storesLanes_ > 1 || row.scan || row.ranges.size() != 1 || row.index.size() != 1 || !next.ranges.empty())
    return false;
  if (program.buffer(row.buffer).role != loops::Buffer::Role::Local || sum.op != loops::Op::Reduce) return false;
  if (isPlace(sum) || sum.ranges.size() != 1 || !isRow(sum.operands[0], sum.ranges[0])) return false;
  const RangeId over = row.ranges[0];
  const bool isSame = isRange(row.index[0], over) && program.range(over).extent == program.range(sum.ranges[0]).extent;
  return isSame && planner_.planStore(row, false).vector && planner_.planReduce(next.value, false).vector;
}

void NestEmitter::emitStores(const loops::Nest& nest) {
  const int before = barrier_;
  barrier_ = b_.scope();
  storesLanes_ = lanes_.count;
  if (!phase_) loads_ = rewriter_.loadsOf(nest);
  const std::unordered_map<BufferId, Value> places = places_;
  placeInOutputs(nest);
  for (size_t i = 0; i < nest.stores.size(); ++i) {
    const Store& store = nest.stores[i];
    if (i + 1 < nest.stores.size() && isReducedBy(store, nest.stores[i + 1])) {
      fused_ = &store;
      continue;
    }
    const Store* before = fused_;
    emitStore(store);
    if (before) forget(before->buffer);
    forget(store.buffer);
  }
  scalars_.clear();
  places_ = places;
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

ExprId NestEmitter::placeBuffers(const loops::Nest& nest) {
  loops::Simplifier& s = accesses_.simplifier();
  const loops::Program& program = accesses_.program();
  const Value table{"%buffers", DType::Int64, 1, 0, false}, scratch{"%scratch", DType::Int64, 1, 0, false};
  // No buffer begins where the memory does, which is counted in bytes alone (IrBuilder::advance).
  const ExprId none = s.integer(64);
  ExprId bytes = none;
  const auto place = [&](DType dtype, ExprId elements) {
    const Value at = b_.advance(scratch, DType::UInt8, value(bytes));
    const ExprId size = s.multiply(elements, s.integer(static_cast<int64_t>(dtypeSize(dtype))));
    bytes = s.add(bytes, s.multiply(s.floorDivide(s.add(size, s.integer(63)), s.integer(64)), s.integer(64)));
    return at;
  };
  std::vector<bool> isStored(program.buffers.size(), false);
  isTurned_.assign(program.buffers.size(), false);
  for (const Store& store : nest.stores) {
    isStored[store.buffer.index] = true;
    if (plan_.vector && planner_.planStore(store, true).turned) isTurned_[store.buffer.index] = true;
  }
  for (uint32_t i = 0; i < program.buffers.size(); ++i) {
    const bool isRow = i >= slots_.size();  // that the emitter keeps
    if (!isRow && slots_[i] >= 0) places_[BufferId(i)] = b_.loadPointer(table, slots_[i]);
    if ((!isRow && slots_[i] >= 0) || !isStored[i]) continue;
    ExprId elements = s.integer(plan_.lanes);
    for (const ExprId extent : std::vector<ExprId>(program.buffers[i].sizes))
      // Squares are written as a whole, beyond the end of a row.
      elements = s.multiply(elements, isRow || isTurned_[i] ? s.add(extent, s.integer(width_)) : extent);
    places_[BufferId(i)] = place(program.buffers[i].dtype, elements);
  }
  if (std::ranges::count(isTurned_, true) > 0) turnedTile_ = place(DType::Float32, s.integer(int64_t{width_} * width_));
  for (const ExprId load : plan_.transposed)
    tiles_.emplace_back(load, place(program.expressions[load].dtype, s.integer(int64_t{width_} * width_)));
  return bytes == none ? s.integer(0) : bytes;
}

void NestEmitter::findParts(const loops::Nest& nest) {
  // Code grows with each; DenseNet joins up to 24 tensors, and without copies each element looks at all of them.
  constexpr size_t kMostCopies = 32;
  constexpr int64_t kFewestInside = 2;  // vectors, for windows that reach over an edge to be set apart
  size_t copies = 1;
  for (const RangeId r : nest.outer) {
    const bool isVector = plan_.vector && plan_.vector->ranges.back() == r;
    const bool isAcross = (plan_.tile && std::ranges::count(plan_.tile->ranges, r) > 0) || plan_.interleaved == r;
    if ((isVector && (plan_.block || plan_.tile)) || isAcross) continue;
    Parts parts{r, rewriter_.borders(nest, r)};
    if (parts.borders.empty() && isVector && plan_.vector->ranges.size() == 1)
      parts.borders = rewriter_.interior(nest, r, kFewestInside * plan_.lanes);
    if (parts.borders.empty() && isVector && plan_.vector->ranges.size() == 1)
      parts.borders = rewriter_.bends(nest, r, width_);
    if (parts.borders.empty() || copies * (parts.borders.size() + 1) > kMostCopies) continue;
    copies *= parts.borders.size() + 1;
    parts.borders.insert(parts.borders.begin(), 0);
    parts.borders.push_back(*known(accesses_.program().range(r).extent));
    parts_.push_back(std::move(parts));
  }
}

void NestEmitter::emitParts(const loops::Nest& nest, size_t part) {
  if (part == parts_.size()) {
    emitLanes(nest);
    return;
  }
  const Parts parts = parts_[part];
  const Value zero = b_.integer(DType::Int64, 0);
  const bool isVector = plan_.vector && plan_.vector->ranges.back() == parts.range;
  for (size_t i = 0; i + 1 < parts.borders.size(); ++i) {
    const int64_t start = parts.borders[i], length = parts.borders[i + 1] - start;
    const RangeId piece = rewriter_.addPart(parts.range, length);
    const loops::Nest restricted = rewriter_.restrictTo(nest, parts.range, piece, start);
    if (isVector) {
      const NestPlan whole = plan_;
      plan_.vector = Loop{{piece}, accesses_.program().range(piece).extent};
      planner_.setLanes(piece);
      blockStart_ = zero;
      blockEnd_ = b_.integer(DType::Int64, length);
      blockLength_ = length;
      emitParts(restricted, part + 1);
      planner_.setLanes(parts.range);
      plan_ = whole;
      continue;
    }
    const Value index = bindings_.at(parts.range).index;
    const Value inside = b_.binary("and", b_.compare("icmp sge", index, b_.integer(DType::Int64, start)),
                                   b_.compare("icmp slt", index, b_.integer(DType::Int64, start + length)));
    b_.openLoop(zero, b_.convert("zext", inside, DType::Int64), 1, {});
    memos_.emplace_back();
    Value inPiece = b_.binary("sub", index, b_.integer(DType::Int64, start));
    inPiece.scope = b_.scope();  // what depends on it is of this part alone
    bindings_[piece] = {inPiece, 1, b_.scope(), false};
    emitParts(restricted, part + 1);
    bindings_.erase(piece);
    memos_.pop_back();
    b_.closeLoop({});
  }
}

void NestEmitter::emitLanes(const loops::Nest& nest) {
  if (!plan_.vector) {
    emitStores(nest);
    return;
  }
  // A few elements at an edge are cheaper one by one than in a vector with most of its lanes switched off.
  constexpr int64_t kMostScalars = 2;
  const bool isEdge = !parts_.empty() && blockLength_ && *blockLength_ <= kMostScalars;
  // Blocks are whole vectors: what is left over in the last one is that of the range.
  const int rest = isEdge ? 1 : restLanes(known(plan_.vector->extent));
  forLanes(*plan_.vector, blockStart_, blockEnd_, blockLength_, isEdge ? 1 : plan_.lanes, rest, [&] {
    if (plan_.tile)
      emitTiled(nest);
    else if (plan_.interleaved)
      emitInterleaved(nest);
    else
      emitStores(nest);
  });
}

loops::Nest NestEmitter::cheapest(const loops::Nest& given) {
  std::optional<loops::Nest> best;
  double least = planner_.plan(given).total;
  const auto consider = [&](std::optional<loops::Nest> nest) {
    const double cost = nest ? planner_.plan(*nest).total : least;
    if (cost >= least) return;
    least = cost;
    best = std::move(nest);
  };
  consider(rewriter_.splitAlternating(given, kMostInterleaved));
  for (const RangeId r : given.outer) consider(rewriter_.keepRows(given, r));
  return best ? *best : given;
}

NestEmitter::Emitted NestEmitter::emit(const loops::Nest& given, const std::string& name) {
  loops::Simplifier& s = accesses_.simplifier();
  const loops::Nest nest = cheapest(given);
  plan_ = planner_.plan(nest);
  Emitted result;
  result.scratchBytes = placeBuffers(nest);
  findParts(nest);
  if (parts_.empty()) {
    planner_.findRepeated(nest, plan_);
    planner_.shareLanes(plan_);
  }
  result.instructions = plan_.instructions;

  // The loops that iterations are counted over: a square or a block at a time
  NestPlan open = plan_;
  const auto pieces = [&](ExprId extent, int64_t size) {
    return s.floorDivide(s.add(extent, s.integer(size - 1)), s.integer(size));
  };
  for (Loop& loop : open.outer)
    if (plan_.tile && loop.ranges == plan_.tile->ranges) loop = {{tileRange_}, pieces(loop.extent, plan_.tileRows)};
  if (plan_.block) open.outer.push_back({{blockRange_}, pieces(plan_.vector->extent, *plan_.block)});
  result.iterations = s.integer(1);
  for (const Loop& loop : open.outer) result.iterations = s.multiply(result.iterations, loop.extent);

  openIterations(open);
  if (plan_.vector) {
    blockStart_ = b_.integer(DType::Int64, 0);
    blockEnd_ = value(plan_.vector->extent);
    blockLength_ = known(plan_.vector->extent);
    if (plan_.block) {
      const Value block = b_.integer(DType::Int64, *plan_.block), extent = blockEnd_;
      blockStart_ = b_.binary("mul", bindings_.at(blockRange_).index, block);
      blockEnd_ = b_.binary("add", blockStart_, block);
      if (blockLength_ && *blockLength_ % *plan_.block == 0) {
        blockLength_ = plan_.block;
      } else {
        blockLength_.reset();
        blockEnd_ = b_.select(b_.compare("icmp slt", blockEnd_, extent), blockEnd_, extent);
      }
    }
  }
  emitParts(nest, 0);
  closeIterations();
  result.function = b_.finish("@" + name +
                              "(ptr noalias nocapture readonly %buffers, ptr noalias nocapture readonly %sizes, ptr "
                              "noalias %scratch, i64 %begin, i64 %end)");
  return result;
}

}  // namespace graft::codegen
