// Transposes. Where a load steps through memory by ones along another outer range than the lanes do, a square of it is
// read row by row, transposed in registers, and kept in scratch memory; then the nest's stores run on the square. In
// the same way, without a square, they run for several elements of a loop that shares most of what a vector computes.
#include "core/compile/codegen/nest_emitter.h"

namespace graft::codegen {

namespace {

/// Of each four lanes, the first or last two of both vectors: of one lane alternately (unpcklps), or of two (unpcklpd).
Value unpack(IrBuilder& b, const Value& x, const Value& y, bool isHigh, int width) {
  std::vector<int> from;
  for (int block = 0; block < x.lanes; block += 4) {
    const int first = block + (isHigh ? 2 : 0);
    if (width == 1)
      from.insert(from.end(), {first, first + x.lanes, first + 1, first + 1 + x.lanes});
    else
      from.insert(from.end(), {first, first + 1, first + x.lanes, first + 1 + x.lanes});
  }
  return b.shuffle(x, y, from);
}

/// The columns of a square of as many rows as lanes: 4, 8 or 16.
std::vector<Value> transpose(IrBuilder& b, const std::vector<Value>& rows) {
  const int lanes = rows[0].lanes, blocks = lanes / 4;
  // byColumn[c][g]: of the rows 4 g … 4 g + 3, the columns c, c + 4 …, four lanes each
  std::vector<std::vector<Value>> byColumn(4, std::vector<Value>(static_cast<size_t>(blocks)));
  for (size_t g = 0; g < static_cast<size_t>(blocks); ++g) {
    const Value low01 = unpack(b, rows[4 * g], rows[4 * g + 1], false, 1);
    const Value high01 = unpack(b, rows[4 * g], rows[4 * g + 1], true, 1);
    const Value low23 = unpack(b, rows[4 * g + 2], rows[4 * g + 3], false, 1);
    const Value high23 = unpack(b, rows[4 * g + 2], rows[4 * g + 3], true, 1);
    byColumn[0][g] = unpack(b, low01, low23, false, 2);
    byColumn[1][g] = unpack(b, low01, low23, true, 2);
    byColumn[2][g] = unpack(b, high01, high23, false, 2);
    byColumn[3][g] = unpack(b, high01, high23, true, 2);
  }
  // Then blocks of four lanes change places with those of other groups.
  for (std::vector<Value>& groups : byColumn)
    for (int bit = 1; bit < blocks; bit *= 2)
      for (int g = 0; g < blocks; ++g) {
        if (g & bit) continue;
        Value& x = groups[static_cast<size_t>(g)];
        Value& y = groups[static_cast<size_t>(g | bit)];
        std::vector<int> first, second;
        for (int lane = 0; lane < lanes; ++lane) {
          const int block = lane / 4, in = lane % 4;
          first.push_back(block & bit ? lanes + 4 * (block ^ bit) + in : lane);
          second.push_back(block & bit ? lanes + lane : 4 * (block | bit) + in);
        }
        const Value a = b.shuffle(x, y, first);
        y = b.shuffle(x, y, second);
        x = a;
      }
  std::vector<Value> columns;
  for (int j = 0; j < lanes; ++j) columns.push_back(byColumn[static_cast<size_t>(j % 4)][static_cast<size_t>(j / 4)]);
  return columns;
}

}  // namespace

Value NestEmitter::rowsLeft(const Loop& loop, const Value& first, int64_t rows) {
  const std::optional<int64_t> length = known(loop.extent);
  if (length && *length % rows == 0) return {};
  const Value left = b_.binary("sub", value(loop.extent), first);
  const Value most = b_.integer(DType::Int64, rows);
  return b_.select(b_.compare("icmp slt", left, most), left, most);
}

Value NestEmitter::firstLanes(const Value& count) {
  return b_.compare("icmp slt", b_.lanesFrom0(DType::Int32, width_), b_.convert("trunc", count, DType::Int32));
}

void NestEmitter::fillTile(ExprId load, const Value& tile, const Loop& across, const Value& first) {
  const loops::Expr e = accesses_.program().expressions[load];
  const RangeId along = plan_.vector->ranges.back();
  const std::optional<int64_t> rowCount = known(plan_.vector->extent);
  const int n = width_;
  const DType stored = e.dtype == DType::Bool ? DType::UInt8 : e.dtype;
  const Binding lanes = bindings_.at(along);
  // Beyond the end of the rows nothing may be read; beyond the last row, it is read again.
  const Value count = rowsLeft(across, first, width_);
  const Value active = count ? firstLanes(count) : Value{};
  std::vector<Value> rows;
  bindAcross(across, first, first.scope);
  for (int k = 0; k < n; ++k) {
    Value row = b_.binary("add", lanes.index, b_.integer(DType::Int64, k));
    if (!rowCount || *rowCount % n != 0) {
      const Value last = b_.binary("sub", value(plan_.vector->extent), b_.integer(DType::Int64, 1));
      row = b_.select(b_.compare("icmp slt", row, last), row, last);
    }
    bindings_[along] = {row, 1, lanes.scope, false};
    forget(along);  // of the row before
    const Pointer from = pointer(e.buffer(), accesses_.ofLoad(load));
    const Value v = readVector(from.at, stored, n, active, std::max({from.at.scope, lanes.scope, first.scope}), 0);
    rows.push_back(dtypeSize(stored) == 4 ? v : b_.convert("zext", v, DType::Int32));
  }
  bindings_[along] = lanes;
  forget(along);
  const std::vector<Value> columns = transpose(b_, rows);
  for (int j = 0; j < n; ++j) {
    const Value column = dtypeSize(stored) == 4 ? columns[static_cast<size_t>(j)]
                                                : b_.convert("trunc", columns[static_cast<size_t>(j)], stored);
    const Value to = b_.advance(tile, stored, b_.integer(DType::Int64, int64_t{j} * n));
    b_.effect("store " + b_.typed(column) + ", ptr " + to.name + ", align " + std::to_string(n * dtypeSize(stored)));
  }
}

void NestEmitter::emitTurned(const loops::Store& store, const Loop& across) {
  const DType dtype = accesses_.program().buffer(store.buffer).dtype;
  const DType stored = dtype == DType::Bool ? DType::UInt8 : dtype;
  const RangeId along = plan_.vector->ranges.back();
  const int n = width_;
  const Value zero = b_.integer(DType::Int64, 0), step = b_.integer(DType::Int64, n);
  b_.openLoop(zero, value(across.extent), n, {});
  memos_.emplace_back();
  const Value first = b_.loopIndex();
  if (planner_.isTurnedCopy(store, along)) {
    // The columns of squares are the row's elements.
    fillTile(store.value, b_.advance(places_.at(store.buffer), stored, b_.binary("mul", first, step)), across, first);
  } else {
    const Value count = rowsLeft(across, first, width_);
    b_.openLoop(zero, count ? count : step, 1, {});
    memos_.emplace_back();
    bindAcross(across, b_.binary("add", first, b_.loopIndex()), b_.scope());
    Value v = inMemory(store.buffer, value(store.value));
    if (dtypeSize(stored) < 4) v = b_.convert("zext", v, DType::Int32);
    v = b_.spread(v, n);
    const Value to = b_.advance(turnedTile_, v.dtype, b_.binary("mul", b_.loopIndex(), step));
    b_.effect("store " + b_.typed(v) + ", ptr " + to.name + ", align " + std::to_string(n * 4));
    memos_.pop_back();
    b_.closeLoop({});
    std::vector<Value> rows;
    for (int k = 0; k < n; ++k) {
      const Value from = b_.advance(turnedTile_, v.dtype, b_.integer(DType::Int64, int64_t{k} * n));
      rows.push_back(b_.memoryRead(
          "load " + IrBuilder::type(v.dtype, n) + ", ptr " + from.name + ", align " + std::to_string(n * 4), v.dtype, n,
          b_.scope(), 0));
    }
    const std::vector<Value> columns = transpose(b_, rows);
    const Binding lanes = bindings_.at(along);
    const Lanes before = lanes_;
    const Value inside = count ? firstLanes(count) : Value{};
    bindAcross(across, first, first.scope);
    for (const RangeId r : across.ranges) bindings_[r].lanes = r == across.ranges.back() ? n : 1;
    for (int k = 0; k < n; ++k) {
      bindings_[along] = {b_.binary("add", lanes.index, b_.integer(DType::Int64, k)), 1, lanes.scope, false};
      const Value isActive = before.active ? b_.spread(b_.lane(before.active, k), n) : Value{};
      lanes_ = {n, isActive && inside ? b_.binary("and", isActive, inside) : isActive ? isActive : inside};
      const Value& column = columns[static_cast<size_t>(k)];
      storeValue(store.buffer, accesses_.offset(store.buffer, store.index),
                 dtypeSize(stored) == 4 ? column : b_.convert("trunc", column, stored));
    }
    bindings_[along] = lanes;
    lanes_ = before;
  }
  for (const RangeId r : across.ranges) bindings_.erase(r);
  memos_.pop_back();
  b_.closeLoop({});
}

void NestEmitter::bindAcross(const Loop& loop, const Value& index, int scope) {
  for (const RangeId r : loop.ranges) bindings_[r] = {index, 1, scope, r != loop.ranges.back()};
}

void NestEmitter::emitTiled(const loops::Nest& nest) {
  const Value n = b_.integer(DType::Int64, plan_.tileRows), width = b_.integer(DType::Int64, width_);
  const Value first = b_.binary("mul", bindings_.at(tileRange_).index, n);
  for (const auto& [load, tile] : tiles_) fillTile(load, tile, *plan_.tile, first);
  const Value count = rowsLeft(*plan_.tile, first, plan_.tileRows);
  b_.openLoop(b_.integer(DType::Int64, 0), count ? count : n, 1, {});
  memos_.emplace_back();
  tileRow_ = b_.binary("mul", b_.loopIndex(), width);
  bindAcross(*plan_.tile, b_.binary("add", first, b_.loopIndex()), b_.scope());
  emitStores(nest);
  for (const RangeId r : plan_.tile->ranges) bindings_.erase(r);
  tileRow_ = {};
  memos_.pop_back();
  b_.closeLoop({});
}

}  // namespace graft::codegen
