#include "matcher/search/reshapes.h"

#include <algorithm>

#include "core/ir/normal_form.h"

namespace graft {
namespace {

// The operators of one side, without what only calculates its sizes.
std::vector<std::string_view> operatorsOf(const Graph& side) {
  std::vector<std::string_view> out;
  for (NodeId n : side.order()) {
    const std::string_view name = canonicalOperator(side.node(n).op->name);
    if (name != "pattern.expr" && name != "aten.size.int") out.push_back(name);
  }
  return out;
}

}  // namespace

bool isReshape(std::string_view op) { return factsOf(op).has(OperatorFact::Reshape); }
bool alwaysViews(std::string_view op) { return factsOf(op).has(OperatorFact::View); }
bool saysWholeShape(std::string_view op) { return isReshape(op) && factsOf(op).shape == ShapeRule::Listed; }

bool findsAllReshapes(const Rule& rule) {
  if (rule.exact) return false;
  if (!rule.replacement) return true;
  const auto from = operatorsOf(rule.pattern), to = operatorsOf(*rule.replacement);
  const bool alike = std::equal(from.begin(), from.end(), to.begin(), to.end(),
                                [](auto a, auto b) { return a == b || (isReshape(a) && isReshape(b)); });
  return !alike || from == to;
}

std::optional<std::vector<Polynomial>> sizesOf(const Graph& g, const Argument& tensor) {
  if (!tensor.isValue() || !g.value(tensor.valueId()).type.tensorInfo.shape) return std::nullopt;
  std::vector<Polynomial> out;
  const auto rank = static_cast<int64_t>(g.value(tensor.valueId()).type.tensorInfo.shape->size());
  for (int64_t k = 0; k < rank; ++k) {
    auto size = sizeMeaning(g, tensor.valueId(), k);
    if (!size) return std::nullopt;
    out.push_back(std::move(*size));
  }
  return out;
}

Argument listOf(std::span<const Polynomial> sizes) {
  std::vector<Argument> items;
  for (const Polynomial& p : sizes) items.push_back(p.argument());
  return Argument::list(std::move(items));
}

}  // namespace graft
