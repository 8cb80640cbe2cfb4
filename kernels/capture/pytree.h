// Functions over pytrees of tensors: tensors in nested tuples, lists and dictionaries, as models take and return them
// (torch.utils._pytree has the same idea in Python).
//
//   const c10::IValue copies = mapTensors(value, [](const at::Tensor& t) { return t.clone(); });
//   const bool onCpu = allTensors(value, [](const at::Tensor& t) { return t.is_cpu(); });
//   const std::vector<at::Tensor> leaves = flattenTensors({value});
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <utility>
#include <vector>

namespace graft {

/// The same pytree with f(tensor) in place of each defined tensor. Other leaves and the keys of dictionaries are kept.
template <class F>
c10::IValue mapTensors(const c10::IValue& v, const F& f) {
  if (v.isTensor() && v.toTensor().defined()) return f(v.toTensor());
  if (v.isTuple()) {
    std::vector<c10::IValue> out;
    for (const c10::IValue& m : v.toTupleRef().elements()) out.push_back(mapTensors(m, f));
    return c10::ivalue::Tuple::create(std::move(out));
  }
  if (v.isList()) {
    const auto list = v.toList();
    c10::impl::GenericList out(list.elementType());
    for (size_t i = 0; i < list.size(); ++i) out.push_back(mapTensors(list.get(i), f));
    return out;
  }
  if (v.isGenericDict()) {
    const auto dict = v.toGenericDict();
    c10::impl::GenericDict out(dict.keyType(), dict.valueType());
    for (const auto& e : dict) out.insert(e.key(), mapTensors(e.value(), f));
    return out;
  }
  return v;
}

/// Whether f(tensor) is true of all defined tensors, in order; stops at the first for which it is not.
template <class F>
bool allTensors(const c10::IValue& v, const F& f) {
  if (v.isTensor()) return !v.toTensor().defined() || f(v.toTensor());
  if (v.isTuple()) {
    for (const c10::IValue& m : v.toTupleRef().elements())
      if (!allTensors(m, f)) return false;
  } else if (v.isList()) {
    for (const c10::IValue& m : v.toListRef())
      if (!allTensors(m, f)) return false;
  } else if (v.isGenericDict()) {
    for (const auto& e : v.toGenericDict())
      if (!allTensors(e.value(), f)) return false;
  }
  return true;
}

/// Calls f(tensor) for all defined tensors, in order.
template <class F>
void forEachTensor(const c10::IValue& v, const F& f) {
  allTensors(v, [&](const at::Tensor& t) {
    f(t);
    return true;
  });
}

/// All defined tensors, in the order of the other functions.
inline std::vector<at::Tensor> flattenTensors(const std::vector<c10::IValue>& values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& v : values) forEachTensor(v, [&](const at::Tensor& t) { tensors.push_back(t); });
  return tensors;
}

}  // namespace graft
