// The sizes of the graph's tensors, as expressions of the program's sizes.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include "core/compile/lower/lowering.h"
#include "core/ir/size_expression.h"

namespace graft::lower {

std::string Lowering::sizeName(const std::string& wish) const {
  std::string name;
  for (const char c : wish) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  std::string unique = name;
  const auto isTaken = [&] {
    return std::any_of(program.sizes.begin(), program.sizes.end(),
                       [&](const loops::Size& s) { return s.name == unique; });
  };
  for (int n = 1; isTaken(); ++n) unique = fmt::format("{}_{}", name, n);
  return unique;
}

loops::SizeId Lowering::symbol(const std::string& name) {
  const auto [at, isNew] = symbols_.try_emplace(name);
  if (isNew) {
    loops::Size size;
    size.name = sizeName(name);
    if (const Symbol* known = graph.findSymbol(name)) {
      size.min = std::max<int64_t>(0, known->min.value_or(0));
      size.max = known->max;
    }
    at->second = program.addSize(std::move(size));
  }
  return at->second;
}

ExprId Lowering::sizeOf(const std::string& text, const std::string& whose) {
  using Kind = SizeExpression::Kind;
  const auto parsed = SizeExpression::parse(text);
  if (!parsed) throw Refusal{fmt::format("the size {} of {} is no expression", text, whose)};
  std::vector<ExprId> stack;
  for (const SizeExpression::Step& step : parsed->steps()) {
    if (step.kind == Kind::Number) {
      stack.push_back(integer(step.number));
      continue;
    }
    if (step.kind == Kind::Symbol) {
      stack.push_back(pool().size(symbol(step.symbol)));
      continue;
    }
    const ExprId b = stack.back();
    stack.pop_back();
    if (step.kind == Kind::Negate) {
      stack.push_back(simplifier.subtract(integer(0), b));
      continue;
    }
    const ExprId a = stack.back();
    stack.pop_back();
    if (step.kind == Kind::FloorDivide || step.kind == Kind::Mod) {
      const auto least = simplifier.bounds(b).min;
      if (!least || *least < 1) throw Refusal{fmt::format("the size {} of {} may divide by 0", text, whose)};
    }
    switch (step.kind) {
      case Kind::Add:
        stack.push_back(simplifier.add(a, b));
        break;
      case Kind::Subtract:
        stack.push_back(simplifier.subtract(a, b));
        break;
      case Kind::Multiply:
        stack.push_back(simplifier.multiply(a, b));
        break;
      case Kind::FloorDivide:
        stack.push_back(simplifier.floorDivide(a, b));
        break;
      case Kind::Mod:
        stack.push_back(simplifier.remainder(a, b));
        break;
      case Kind::Max:
        stack.push_back(simplifier.maximum(a, b));
        break;
      default:
        stack.push_back(simplifier.minimum(a, b));
        break;
    }
  }
  return stack.back();
}

ExprId Lowering::sizeOf(const Dim& dim, const std::string& whose) {
  constexpr int64_t greatest = int64_t{1} << 40;
  if (dim.size > greatest) throw Refusal{fmt::format("%{} is too large", whose)};
  if (dim.isStatic()) return integer(dim.size);
  if (dim.symbol.empty()) throw Refusal{fmt::format("a size of %{} is not known", whose)};
  return sizeOf(dim.symbol, "%" + whose);
}

std::pair<DType, Sizes> Lowering::typeOf(ValueId v) {
  const Value& value = graph.value(v);
  const TensorInfo& info = value.type.tensorInfo;
  if (!value.type.isTensor()) throw Refusal{fmt::format("%{} is no tensor", value.name)};
  if (!info.dtype) throw Refusal{fmt::format("the dtype of %{} is not known", value.name)};
  if (!info.shape) throw Refusal{fmt::format("the shape of %{} is not known", value.name)};
  Sizes sizes;
  sizes.reserve(info.shape->size());
  for (const Dim& d : *info.shape) sizes.push_back(sizeOf(d, value.name));
  return {*info.dtype, std::move(sizes)};
}

}  // namespace graft::lower
