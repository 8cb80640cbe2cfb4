#include "kernels/runner/weight_guard.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/class_type.h>
#include <c10/core/DispatchKeySet.h>

namespace graft::ops {

bool isPlainCuda(const at::Tensor& t) {
  using c10::DispatchKey;
  static const c10::DispatchKeySet special({DispatchKey::Python, DispatchKey::FuncTorchBatched,
                                            DispatchKey::FuncTorchGradWrapper, DispatchKey::Functionalize,
                                            DispatchKey::Conjugate, DispatchKey::Negative, DispatchKey::ZeroTensor});
  return t.is_cuda() && !t.key_set().has_any(special);
}

std::optional<WeightGuard> WeightGuard::make(const c10::ivalue::Object& module, int device, bool gradients) {
  WeightGuard out;
  if (!out.add(module, device, gradients)) return std::nullopt;
  return out;
}

WeightGuard::Kind WeightGuard::kindOf(const c10::IValue& v) {
  if (v.isBool()) return v.toBool() ? Kind::kTrue : Kind::kFalse;
  return v.isNone() || (v.isTensor() && !v.toTensor().defined()) ? Kind::kNothing : Kind::kOther;
}

bool WeightGuard::add(const c10::ivalue::Object& module, int device, bool gradients) {
  const auto object = static_cast<uint32_t>(objects_.size());
  objects_.push_back(&module);
  slots_.push_back(module.slots().size());
  for (uint32_t slot = 0; slot < module.slots().size(); ++slot) {
    const c10::IValue& v = module.slots()[slot];
    if (v.isTensor() && v.toTensor().defined()) {
      const at::Tensor& t = v.toTensor();
      if (!isPlainCuda(t) || !t.has_storage() || t.get_device() != device || (gradients && t.requires_grad()))
        return false;
      weights_.push_back(
          {object, slot, t.unsafeGetTensorImpl(), t.const_data_ptr(), t.key_set(), t.dtype(), t.numel()});
    } else if (v.isObject() && v.toObjectRef().type()->is_module()) {
      children_.push_back({object, slot});
      if (!add(v.toObjectRef(), device, gradients)) return false;
    } else if (const Kind kind = kindOf(v); kind != Kind::kOther) {
      flags_.push_back({object, slot, kind});
    }
  }
  return true;
}

bool WeightGuard::holds(const c10::ivalue::Object& module, bool gradients) const {
  if (&module != objects_[0] || module.slots().size() != slots_[0]) return false;
  for (size_t i = 0; i < children_.size(); ++i) {
    const c10::IValue& v = objects_[children_[i].object]->slots()[children_[i].slot];
    if (!v.isObject() || &v.toObjectRef() != objects_[i + 1]) return false;
    if (objects_[i + 1]->slots().size() != slots_[i + 1]) return false;
  }
  for (const Weight& w : weights_) {
    const c10::IValue& v = objects_[w.object]->slots()[w.slot];
    if (!v.isTensor() || v.toTensor().unsafeGetTensorImpl() != w.tensor) return false;
    const at::Tensor& t = v.toTensor();
    if (t.key_set() != w.keys || t.dtype() != w.dtype || t.numel() != w.elements || t.const_data_ptr() != w.data)
      return false;
    if (gradients && t.requires_grad()) return false;
  }
  for (const Flag& f : flags_)
    if (kindOf(objects_[f.object]->slots()[f.slot]) != f.kind) return false;
  return true;
}

}  // namespace graft::ops
