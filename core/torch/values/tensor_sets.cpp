#include "core/torch/values/tensor_sets.h"

#include <ATen/core/Tensor.h>

#include "core/torch/values/values.h"
#include "kernels/capture/pytree.h"

namespace graft {
TensorSet mapTensors(const TensorSet& set, const std::function<at::Tensor(const at::Tensor&)>& f) {
  std::vector<c10::IValue> out;
  for (const c10::IValue& v : valuesOf(set)) out.push_back(mapTensors(v, f));
  TensorSet result = tensorSet(std::move(out));
  if (set.impl) result.impl->names = set.impl->names;
  return result;
}

TensorSet copyOf(const TensorSet& set) {
  return mapTensors(set, [](const at::Tensor& t) { return t.clone(); });
}

std::string deviceOf(const TensorSet& inputs) {
  std::string device = "cpu";
  for (const c10::IValue& v : valuesOf(inputs))
    forEachTensor(v, [&](const at::Tensor& t) {
      if (!t.device().is_cpu()) device = t.device().str();
    });
  return device;
}

}  // namespace graft
