#include "core/compile/codegen/product.h"

#include <unordered_set>
#include <vector>

namespace graft::codegen {

using loops::Expr;
using loops::ExprId;
using loops::Op;
using Role = loops::Buffer::Role;

namespace {

/// The Reduces of a nest's values, each once.
std::vector<ExprId> reducesOf(const loops::Program& p, const loops::Nest& nest) {
  std::vector<ExprId> found, stack;
  std::unordered_set<ExprId> seen;
  for (const loops::Store& s : nest.stores) stack.push_back(s.value);
  while (!stack.empty()) {
    const ExprId id = stack.back();
    stack.pop_back();
    if (!seen.insert(id).second) continue;
    const Expr& e = p.expressions[id];
    if (e.op == Op::Reduce) found.push_back(id);
    stack.insert(stack.end(), e.operands.begin(), e.operands.end());
  }
  return found;
}

/// The load of a half whose value the expression is; invalid for others.
ExprId loadedHalf(const loops::Program& p, ExprId id) {
  const Expr& cast = p.expressions[id];
  if (cast.op != Op::Cast || cast.dtype != DType::Float32) return {};
  const Expr& load = p.expressions[cast.operands[0]];
  const bool isHalf = load.dtype == DType::Float16 || load.dtype == DType::BFloat16;
  if (load.op != Op::Load || !isHalf || p.buffer(load.buffer()).role == Role::Local) return {};
  return cast.operands[0];
}

}  // namespace

std::optional<ProductInNest> findProduct(const loops::Program& p, const loops::Nest& nest) {
  for (const loops::Store& s : nest.stores)
    if (!s.ranges.empty() || s.scan) return std::nullopt;
  const std::vector<ExprId> reduces = reducesOf(p, nest);
  if (reduces.size() != 1) return std::nullopt;
  const Expr& sum = p.expressions[reduces.front()];
  if (sum.reduce != loops::ReduceKind::Sum || sum.dtype != DType::Float32) return std::nullopt;
  const Expr& term = p.expressions[sum.operands[0]];
  if (term.op != Op::Multiply) return std::nullopt;
  const ExprId left = loadedHalf(p, term.operands[0]), right = loadedHalf(p, term.operands[1]);
  if (!left || !right || p.expressions[left].dtype != p.expressions[right].dtype) return std::nullopt;
  return ProductInNest{reduces.front(), left, right, p.expressions[left].dtype};
}

bool isProductWithEpilogue(const loops::Program& p) { return p.nests.size() == 1 && findProduct(p, p.nests.front()); }

}  // namespace graft::codegen
