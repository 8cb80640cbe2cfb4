#include "core/torch/values/tensor_sets.h"

#include <ATen/core/Tensor.h>

#include "core/torch/values/values.h"

namespace graft {
namespace {

c10::IValue mapValue(const c10::IValue& v, const std::function<at::Tensor(const at::Tensor&)>& f) {
  auto mapAll = [&](const auto& items) {
    std::vector<c10::IValue> out;
    for (const c10::IValue& i : items) out.push_back(mapValue(i, f));
    return out;
  };
  if (v.isTensor() && v.toTensor().defined()) return f(v.toTensor());
  if (v.isTuple()) return c10::ivalue::Tuple::create(mapAll(v.toTupleRef().elements()));
  if (v.isList()) {
    const auto list = v.toList();
    c10::impl::GenericList out(list.elementType());
    for (c10::IValue& i : mapAll(std::vector<c10::IValue>(list.begin(), list.end()))) out.push_back(std::move(i));
    return out;
  }
  if (v.isGenericDict()) {
    const auto dict = v.toGenericDict();
    c10::impl::GenericDict out(dict.keyType(), dict.valueType());
    for (const auto& e : dict) out.insert(e.key(), mapValue(e.value(), f));
    return out;
  }
  return v;
}

}  // namespace

TensorSet mapTensors(const TensorSet& set, const std::function<at::Tensor(const at::Tensor&)>& f) {
  std::vector<c10::IValue> out;
  for (const c10::IValue& v : valuesOf(set)) out.push_back(mapValue(v, f));
  TensorSet result = tensorSet(std::move(out));
  if (set.impl) result.impl->names = set.impl->names;
  return result;
}

TensorSet copyOf(const TensorSet& set) {
  return mapTensors(set, [](const at::Tensor& t) { return t.clone(); });
}

std::string deviceOf(const TensorSet& inputs) {
  std::string device = "cpu";
  mapTensors(inputs, [&](const at::Tensor& t) {
    if (!t.device().is_cpu()) device = t.device().str();
    return t;
  });
  return device;
}

}  // namespace graft
