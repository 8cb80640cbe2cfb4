// WeightGuard: what a captured graph assumes about the weights of a TorchScript module, which addresses and layouts it
// has baked in. It is checked before each replay, like the guards of torch._dynamo. A check costs a few nanoseconds per
// weight, because the module's tree is walked once and kept as a flat list.
//
//   std::optional<WeightGuard> guard = WeightGuard::make(module, /*device=*/0, gradientsEnabled);
//   if (!guard) ...                                  // a weight lies elsewhere, or requires a gradient
//   guard->holds(module, gradientsEnabled)           // later: no weight was moved, replaced or cast
//
// It owns nothing: modules and weights may be freed while it lives.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace graft::ops {

/// A tensor on a GPU that consists of its numbers alone: without wrappers of functorch or Python, and without a lazy
/// conjugation or negation.
bool isPlainCuda(const at::Tensor&);

class WeightGuard {
 public:
  /// Nothing where a weight is not plain (isPlainCuda), not on `device`, or requires a gradient while `gradients` are
  /// recorded.
  static std::optional<WeightGuard> make(const c10::ivalue::Object& module, int device, bool gradients);
  /// Whether `module` still has the same submodules, flags and tensors, with their data at the same addresses.
  bool holds(const c10::ivalue::Object& module, bool gradients) const;

 private:
  struct Weight {
    uint32_t object, slot;
    const c10::TensorImpl* tensor;
    const void* data;
    c10::DispatchKeySet keys;  ///< they include the device
    caffe2::TypeMeta dtype;
    int64_t elements;
  };
  struct Child {
    uint32_t object, slot;
  };
  /// What a slot without a weight or a submodule holds.
  enum class Kind { kOther, kNothing, kFalse, kTrue };
  struct Flag {
    uint32_t object, slot;
    Kind kind;
  };

  static Kind kindOf(const c10::IValue&);
  bool add(const c10::ivalue::Object& module, int device, bool gradients);

  // Parents before children: a child is only accessed after the check that its parent still holds it.
  std::vector<const c10::ivalue::Object*> objects_;
  std::vector<size_t> slots_;    ///< the number of slots of each object
  std::vector<Child> children_;  ///< the slot that holds each object, from the second object on
  std::vector<Weight> weights_;
  std::vector<Flag> flags_;  ///< slots that hold a bool ("training"), None or an undefined tensor
};

}  // namespace graft::ops
