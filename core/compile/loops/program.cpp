#include "core/compile/loops/program.h"

#include <algorithm>

#include "core/compile/loops/element.h"

namespace graft::loops {
namespace {

template <class Items>
std::string uniqueName(const Items& items, std::string_view wish) {
  const auto isTaken = [&](const std::string& name) {
    return std::any_of(items.begin(), items.end(), [&](const auto& item) { return item.name == name; });
  };
  std::string name(wish);
  for (int n = 1; isTaken(name); ++n) name = std::string(wish) + "_" + std::to_string(n);
  return name;
}

std::vector<BufferId> withRole(const std::vector<Buffer>& buffers, Buffer::Role role) {
  std::vector<BufferId> found;
  for (uint32_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].role == role) found.emplace_back(i);
  return found;
}

}  // namespace

SizeId Program::addSize(Size size) {
  sizes.push_back(std::move(size));
  return SizeId(static_cast<uint32_t>(sizes.size() - 1));
}

RangeId Program::addRange(std::string_view name, ExprId extent) {
  ranges.push_back({uniqueName(ranges, name), extent});
  return RangeId(static_cast<uint32_t>(ranges.size() - 1));
}

BufferId Program::addBuffer(std::string_view name, DType dtype, std::vector<ExprId> sizes, Buffer::Role role) {
  buffers.push_back({uniqueName(buffers, name), dtype, std::move(sizes), role});
  return BufferId(static_cast<uint32_t>(buffers.size() - 1));
}

int64_t Program::evaluate(ExprId extent, std::span<const int64_t> values) const {
  const Expr& e = expressions[extent];
  if (e.op == Op::Constant) return static_cast<int64_t>(e.bits);
  if (e.op == Op::Size) return values[e.index];
  const auto operand = [&](size_t i) { return Element::of(evaluate(e.operands[i], values)); };
  if (e.operands.size() == 1) return computeUnary(e.op, DType::Int64, operand(0)).integer;
  return computeBinary(e.op, DType::Int64, operand(0), operand(1)).integer;
}

std::vector<int64_t> Program::shape(BufferId id, std::span<const int64_t> values) const {
  std::vector<int64_t> out;
  for (const ExprId size : buffer(id).sizes) out.push_back(evaluate(size, values));
  return out;
}

std::vector<BufferId> Program::inputs() const { return withRole(buffers, Buffer::Role::Input); }
std::vector<BufferId> Program::outputs() const { return withRole(buffers, Buffer::Role::Output); }

}  // namespace graft::loops
