#include "core/compile/loops/program.h"

#include <algorithm>
#include <charconv>

#include "core/compile/loops/element.h"

namespace graft::loops {
namespace {

// The wish, or the wish with the least number behind it that is free: in one pass, for a program may have thousands.
template <class Items>
std::string uniqueName(const Items& items, std::string_view wish) {
  std::vector<bool> isUsed(items.size() + 2, false);  // by the number; 0: the wish itself
  for (const auto& item : items) {
    std::string_view name = item.name;
    if (!name.starts_with(wish)) continue;
    name.remove_prefix(wish.size());
    size_t number = 0;
    if (name.starts_with('_')) {
      const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), number);
      if (error != std::errc() || end != name.data() + name.size() || name[1] == '0') continue;
    } else if (!name.empty()) {
      continue;
    }
    if (number < isUsed.size()) isUsed[number] = true;
  }
  const auto number = std::find(isUsed.begin(), isUsed.end(), false) - isUsed.begin();
  return number == 0 ? std::string(wish) : std::string(wish) + "_" + std::to_string(number);
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
