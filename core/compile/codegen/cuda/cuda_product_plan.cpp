// CudaPlanner for matrix products: which ranges of a nest are the sides of matrices, and how their elements lie.
#include <algorithm>

#include "core/compile/codegen/cuda/cuda_plan.h"
#include "core/compile/codegen/cuda/lane_steps.h"
#include "core/compile/codegen/product.h"

namespace graft::codegen {

using loops::Expr;
using loops::Nest;
using loops::Store;
using Role = loops::Buffer::Role;

namespace {

constexpr int64_t kChunk = 8;  // elements of one access at most
/// Places of rows, columns and the depth are counted in 32 bits.
constexpr int64_t kMostPlaces = int64_t{1} << 30;

}  // namespace

/// Along the side or along the depth, whichever lets accesses be wider.
CudaProduct::Operand CudaPlanner::operandOf(ExprId load, RangeId side, RangeId inner) {
  const Expr e = program_.expressions[load];
  const ExprId where = offset(e.buffer(), e.operands);
  const auto bytes = static_cast<int64_t>(dtypeSize(e.dtype));
  const int64_t alignment = planning_.alignments[e.buffer().index];
  const auto along = [&](RangeId r) { return LaneSteps(accesses_, r, kChunk).width(where, alignment, bytes); };
  const int64_t deep = along(inner), wide = along(side);
  CudaProduct::Operand operand{load, deep >= wide, static_cast<int>(std::max(deep, wide))};
  if (operand.width > 1) return operand;
  // Neighbouring threads then read neighbouring elements at least.
  const auto steps = [&](RangeId r) { return LaneSteps(accesses_, r, kChunk).of(where) == LaneSteps::Step::Unit; };
  operand.isInnerFast = steps(inner) || !steps(side);
  return operand;
}

std::optional<CudaPlan> CudaPlanner::planProduct(const Nest& nest) {
  const std::optional<ProductInNest> found = findProduct(program_, nest);
  if (!found) return std::nullopt;
  CudaPlan plan;
  plan.kind = CudaPlan::Kind::Product;
  CudaProduct& product = plan.product.emplace();
  product.dtype = found->dtype;
  ExprId left = found->left, right = found->right;
  std::vector<RangeId> batches, rows, columns;
  for (const RangeId r : nest.outer) {
    if (known(program_.range(r).extent) == 1) continue;
    const bool isLeft = accesses_.of(left).depends(r), isRight = accesses_.of(right).depends(r);
    if (!isLeft && !isRight) return std::nullopt;
    (isLeft && isRight ? batches : isLeft ? rows : columns).push_back(r);
  }
  if (rows.empty() && columns.empty()) return std::nullopt;  // a dot product is a row
  std::vector<std::pair<BufferId, std::vector<ExprId>>> places;
  for (const Store& s : nest.stores)
    if (program_.buffer(s.buffer).role != Role::Local) places.emplace_back(s.buffer, s.index);
  if (places.empty()) return std::nullopt;
  // Results step by ones along columns: neighbouring threads write neighbouring elements.
  const auto stepsByOnes = [&](const std::vector<RangeId>& ranges) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](RangeId r) { return strideOf(places[0].first, places[0].second, r) == 1; });
  };
  if (stepsByOnes(rows) && !stepsByOnes(columns)) {
    std::swap(rows, columns);
    std::swap(left, right);
  }
  std::vector<RangeId> inner = program_.expressions[found->reduce].ranges;
  for (const ExprId load : {left, right})
    places.emplace_back(program_.expressions[load].buffer(), program_.expressions[load].operands);
  sortByStride(batches, places);
  sortByStride(rows, places);
  sortByStride(columns, places);
  sortByStride(inner, {places.end() - 2, places.end()});
  product.size = {extentOf(batches), extentOf(rows), extentOf(columns), extentOf(inner)};
  if (std::max({product.size.rows, product.size.columns, product.size.inner}) > kMostPlaces) return std::nullopt;

  plan.iterations = product.size.batches;
  plan.index = program_.addRange("i", program_.expressions.integer(product.size.batches));
  product.rows = program_.addRange("m", program_.expressions.integer(product.size.rows));
  product.columns = program_.addRange("n", program_.expressions.integer(product.size.columns));
  product.inner = program_.addRange("k", program_.expressions.integer(product.size.inner));
  Rewriting w;
  for (const RangeId r : nest.outer) w.to[r] = program_.expressions.integer(0);
  for (const auto& [ranges, flat] :
       {std::pair(&batches, plan.index), std::pair(&rows, product.rows), std::pair(&columns, product.columns)})
    for (const auto& [range, value] : flatten(*ranges, flat)) w.to[range] = value;
  for (const Store& s : nest.stores) plan.nest.stores.push_back(rewrite(s, w, nullptr));
  product.reduce = rewrite(found->reduce, w, false, nullptr);
  Rewriting within{w.to, {}};
  for (const auto& [range, value] : flatten(inner, product.inner)) within.to[range] = value;
  left = rewrite(left, within, false, nullptr);
  right = rewrite(right, within, false, nullptr);
  product.left = operandOf(left, product.rows, product.inner);
  product.right = operandOf(right, product.columns, product.inner);
  plan.nest.outer = {plan.index, product.rows, product.columns};

  product.tile = planning_.tile ? *planning_.tile : productTiles(product.size, planning_.limits).front();
  // The functions for groups of warps are one product's: of several in one source, the others do without.
  if (product.tile.isGrouped) {
    planning_.limits.capability = 80;
    planning_.tile.reset();
  }
  plan.vector = vectorFor(plan.nest.stores, product.columns, product.size.columns, product.reduce);
  plan.threads = product.tile.threads();
  return plan;
}

}  // namespace graft::codegen
