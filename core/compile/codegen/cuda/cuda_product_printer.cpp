// CudaPrinter for matrix products: a block multiplies its tile, keeps the sums in shared memory, and its threads
// compute what is behind them, several neighbouring columns each.
#include <fmt/format.h>

#include <utility>

#include "core/compile/codegen/cuda/cuda_printer.h"
#include "core/compile/codegen/cuda/cuda_spelling.h"

namespace graft::codegen {

using loops::Store;

std::string CudaPrinter::operandType(const CudaProduct::Operand& o, int64_t rows) const {
  return fmt::format("operand<{}, {}, {}, {}, {}>", cudaType(plan_->product->dtype), rows, o.isInnerFast, o.width,
                     plan_->threads);
}

/// A function that says where an operand's element lies.
void CudaPrinter::printPlace(const CudaProduct::Operand& o, const std::string& name, RangeId side,
                             const std::string& sideName) {
  open({fmt::format("const auto {} = [&](i32 {}, i32 k) {{", name, sideName)}, "};");
  ranges_[side] = {scopes_.size() - 1, sideName};
  ranges_[plan_->product->inner] = {scopes_.size() - 1, "k"};
  const ExprId where = offsetOf(o.load);
  const bool wasIndex = std::exchange(isIndex_, true);
  line("return " + bareText(value(where)) + ";");
  isIndex_ = wasIndex;
  close();
}

void CudaPrinter::printProduct() {
  const CudaPlan& plan = *plan_;
  const CudaProduct& p = *plan.product;
  const ProductTile& tile = p.tile;
  const auto nameOf = [&](const CudaProduct::Operand& o) {
    return program_.buffer(program_.expressions[o.load].buffer()).name + "_";
  };
  sharedSlot(tile.sharedBytes());
  line("i32 m0, n0;");
  line(fmt::format("const i64 i = place_tile(blockIdx.x, {}, {}, m0, n0);", divideUp(p.size.rows, tile.rows),
                   divideUp(p.size.columns, tile.columns)));
  line(fmt::format("m0 *= {};", tile.rows));
  line(fmt::format("n0 *= {};", tile.columns));
  printPlace(p.left, "left_place", p.rows, "m");
  printPlace(p.right, "right_place", p.columns, "n");
  const std::string kind = tile.isGrouped ? "group_tile" : "product_tile",
                    warps =
                        tile.isGrouped ? "" : fmt::format(", {}, {}, {}", tile.warpRows, tile.warpColumns, tile.inner);
  line(fmt::format("{}<{}, {}, {}, {}, {}, {}{}> tile;", kind, cudaType(p.dtype), operandType(p.left, tile.rows),
                   operandType(p.right, tile.columns), tile.rows, tile.columns, tile.stages, warps));
  line(withOrigin(p.reduce, fmt::format("tile.multiply(shared, {}, left_place, {}, right_place, m0, {}, n0, {}, {})",
                                        nameOf(p.left), nameOf(p.right), p.size.rows, p.size.columns, p.size.inner)) +
       ";");
  line("tile.keep((f32*)shared);");

  const int vector = plan.vector, across = tile.columns / vector;
  open({"#pragma unroll 2",
        fmt::format("for (i32 c = threadIdx.x; c < {}; c += {}) {{", tile.rows * across, plan.threads)});
  line(fmt::format("const i32 m = m0 + c / {0}, n = n0 + c % {0}{1};", across,
                   vector == 1 ? "" : fmt::format(" * {}", vector)));
  std::string condition;
  if (p.size.rows % tile.rows != 0) condition = fmt::format("m < {}", p.size.rows);
  if (p.size.columns % tile.columns != 0)
    condition += fmt::format("{}n < {}", condition.empty() ? "" : " && ", p.size.columns);
  if (!condition.empty()) open({"if (" + condition + ") {"});
  Pass pass;
  pass.name = "n";
  pass.range = p.columns;
  pass.vector = vector;
  pass_ = pass;
  steps_.emplace(accesses_, p.columns, vector);
  chunk_ = lane_ = scopes_.size() - 1;
  ranges_.erase(p.columns);
  ranges_[p.rows] = {chunk_, "m"};
  const std::string from = fmt::format("(const f32*)shared + (m - m0) * {} + (n - n0)", tile.columns + 8);
  if (vector == 1) {
    line("const f32 sum = *(" + from + ");");
  } else {
    line(fmt::format("f32 sum[{}];", vector));
    line(fmt::format("load<{}, {}>(sum, {});", vector, std::min(vector, 4), from));
    open({"#pragma unroll", fmt::format("for (i32 v = 0; v < {}; ++v) {{", vector)});
    lane_ = scopes_.size() - 1;
    line("const i32 nv = n + v;");
  }
  localScope_ = lane_;
  scopes_.back().names[p.reduce] = vector == 1 ? "sum" : "sum[v]";
  // Locals are the lane's own: the sum, and what several results have in common.
  for (const Store& s : plan.nest.stores)
    if (program_.buffer(s.buffer).role == loops::Buffer::Role::Local && locals_.try_emplace(s.buffer).second)
      line(fmt::format("{} {}_;", cudaType(program_.buffer(s.buffer).dtype), program_.buffer(s.buffer).name));
  std::vector<std::string> after;
  for (const Store& s : plan.nest.stores) {
    store(s, after);
    written(s.buffer);
  }
  if (vector > 1) close();
  for (const std::string& text : after) line(text);
  if (!condition.empty()) close();
  close();
  pass_ = {};
  steps_.reset();
}

}  // namespace graft::codegen
