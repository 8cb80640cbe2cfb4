// Values that nest tensors in tuples, lists and dictionaries, which is how inputs and outputs of models come.
//
//   const c10::IValue copies = mapTensors(value, [](const at::Tensor& t) { return t.clone(); });
//   const bool onCpu = everyTensor(value, [](const at::Tensor& t) { return t.is_cpu(); });
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <utility>
#include <vector>

namespace graft {

/// The same nest with f of each tensor; what is no tensor, keys of dictionaries included, stays. Undefined tensors
/// stay.
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

/// Looks at all tensors of a nest until `f` returns false; whether it never did. Undefined tensors are passed over.
template <class F>
bool everyTensor(const c10::IValue& v, const F& f) {
  if (v.isTensor()) return !v.toTensor().defined() || f(v.toTensor());
  if (v.isTuple()) {
    for (const c10::IValue& m : v.toTupleRef().elements())
      if (!everyTensor(m, f)) return false;
  } else if (v.isList()) {
    for (const c10::IValue& m : v.toListRef())
      if (!everyTensor(m, f)) return false;
  } else if (v.isGenericDict()) {
    for (const auto& e : v.toGenericDict())
      if (!everyTensor(e.value(), f)) return false;
  }
  return true;
}

}  // namespace graft
