#include "core/torch/run/made_up.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <stdexcept>

#include "core/ir/size_expression.h"
#include "core/torch/run/plan.h"
#include "core/torch/values/values.h"

namespace graft {
namespace {

std::optional<int64_t> sizeOf(const Dim& d, const SymbolSizes& sizes) {
  if (d.isStatic()) return d.size;
  const auto expression = SizeExpression::parse(d.symbol);
  if (!expression) return std::nullopt;
  return expression->evaluate([&](std::string_view symbol) -> std::optional<int64_t> {
    const auto it = sizes.find(std::string(symbol));
    return it == sizes.end() ? std::nullopt : std::optional(it->second);
  });
}

}  // namespace

SymbolSizes symbolSizes(const std::vector<InputSpec>& specs, const std::vector<c10::IValue>& inputs) {
  SymbolSizes out;
  for (size_t i = 0; i < std::min(specs.size(), inputs.size()); ++i) {
    const auto& shape = specs[i].type.tensorInfo.shape;
    if (!shape || !inputs[i].isTensor()) continue;
    const auto sizes = inputs[i].toTensor().sizes();
    for (size_t d = 0; d < std::min(shape->size(), sizes.size()); ++d)
      if (isSymbolName((*shape)[d].symbol)) out.emplace((*shape)[d].symbol, sizes[d]);
  }
  return out;
}

bool canBeMadeUp(const Graph& g, const Node& n) {
  SymbolSizes known;
  for (ValueId v : g.inputs())
    if (const auto& shape = g.value(v).type.tensorInfo.shape)
      for (const Dim& d : *shape)
        if (isSymbolName(d.symbol)) known.emplace(d.symbol, 7);
  return !n.outputs.empty() && std::all_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) {
    const Type& t = g.value(v).type;
    return t.isTensor() && t.tensorInfo.dtype && t.tensorInfo.shape &&
           std::all_of(t.tensorInfo.shape->begin(), t.tensorInfo.shape->end(),
                       [&](const Dim& d) { return sizeOf(d, known).has_value(); });
  });
}

at::Tensor makeUp(const Type& type, uint64_t seed, const SymbolSizes& sizes, c10::Device device,
                  std::optional<DType> floatsAs) {
  std::vector<int64_t> shape;
  for (const Dim& d : *type.tensorInfo.shape) {
    const auto size = sizeOf(d, sizes);
    if (!size || *size < 0) throw std::runtime_error("a size of what is made up does not follow from these inputs");
    shape.push_back(*size);
  }
  auto generator = at::detail::createCPUGenerator(seed);
  const c10::ScalarType dtype = torchDType(*type.tensorInfo.dtype);
  if (!c10::isFloatingType(dtype)) return at::randint(2, shape, generator, at::kLong).to(dtype).to(device);
  const at::Tensor made = at::randn(shape, generator, at::kDouble).to(dtype);
  return (floatsAs ? made.to(torchDType(*floatsAs)) : made).to(device);
}

}  // namespace graft
