#include "kernels/capture/capture_key.h"

#include <ATen/core/Tensor.h>

#include <cstring>
#include <string>

#include "kernels/capture/capture_error.h"

namespace graft {
namespace {

void appendKey(const c10::IValue& v, int device, CaptureKey& key) {
  enum : int64_t { kTensor = 1, kNone, kBool, kInt, kDouble, kString, kTuple, kList, kDict };
  if (v.isTensor()) {
    const at::Tensor& t = v.toTensor();
    if (!t.defined()) return key.push_back(kNone);
    if (!t.is_cuda() || t.get_device() != device || t.layout() != at::kStrided)
      throw CaptureError("an input is not an ordinary tensor on cuda:" + std::to_string(device));
    key.push_back(kTensor);
    key.push_back(static_cast<int64_t>(t.scalar_type()));
    key.push_back(t.dim());
    key.insert(key.end(), t.sizes().begin(), t.sizes().end());
    key.insert(key.end(), t.strides().begin(), t.strides().end());
  } else if (v.isNone()) {
    key.push_back(kNone);
  } else if (v.isBool()) {
    key.insert(key.end(), {kBool, v.toBool()});
  } else if (v.isInt()) {
    key.insert(key.end(), {kInt, v.toInt()});
  } else if (v.isDouble()) {
    const double d = v.toDouble();
    int64_t bits = 0;
    std::memcpy(&bits, &d, sizeof bits);
    key.insert(key.end(), {kDouble, bits});
  } else if (v.isString()) {
    key.insert(key.end(), {kString, static_cast<int64_t>(v.toStringRef().size())});
    key.insert(key.end(), v.toStringRef().begin(), v.toStringRef().end());
  } else if (v.isTuple()) {
    const auto& members = v.toTupleRef().elements();
    key.insert(key.end(), {kTuple, static_cast<int64_t>(members.size())});
    for (const c10::IValue& m : members) appendKey(m, device, key);
  } else if (v.isList()) {
    const auto members = v.toListRef();
    key.insert(key.end(), {kList, static_cast<int64_t>(members.size())});
    for (const c10::IValue& m : members) appendKey(m, device, key);
  } else if (v.isGenericDict()) {
    const auto dict = v.toGenericDict();
    key.insert(key.end(), {kDict, static_cast<int64_t>(dict.size())});
    for (const auto& e : dict) {
      appendKey(e.key(), device, key);
      appendKey(e.value(), device, key);
    }
  } else {
    throw CaptureError("an input is a " + v.tagKind() + ", whose values cannot be compared");
  }
}

}  // namespace

CaptureKey captureKey(const std::vector<c10::IValue>& inputs, int device) {
  CaptureKey key;
  for (const c10::IValue& v : inputs) appendKey(v, device, key);
  return key;
}

}  // namespace graft
