// Where the weights of a TorchScript module lie and what they are: what a captured graph has baked in. Looked at before
// each replay, so it costs a few nanoseconds a weight: the module's tree is walked once and kept as a flat list.
//
//   std::optional<WeightPlaces> places = WeightPlaces::of(module, /*device=*/0, gradientsEnabled);
//   if (!places) ...                                       // a weight is elsewhere, or wants a gradient
//   places->holdFor(module, gradientsEnabled)              // later: nothing was moved, replaced or cast
//
// Owns nothing: modules and weights may go, also while this lives.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace graft::ops {

/// A tensor that is nothing but its numbers, on a GPU: no wrapper of functorch's or Python's, not lazily negated.
bool isPlainCuda(const at::Tensor&);

class WeightPlaces {
 public:
  /// Nothing where one of the weights is not plain (isPlainCuda), not on `device`, or wants a gradient while
  /// `gradients` are recorded.
  static std::optional<WeightPlaces> of(const c10::ivalue::Object& module, int device, bool gradients);
  /// Whether that module has the same submodules, flags and tensors, with their numbers where they were.
  bool holdFor(const c10::ivalue::Object& module, bool gradients) const;

 private:
  struct Weight {
    uint32_t object, slot;
    const c10::TensorImpl* tensor;
    const void* data;
    c10::DispatchKeySet keys;  ///< its device among them
    caffe2::TypeMeta dtype;
    int64_t elements;
  };
  struct Child {
    uint32_t object, slot;
  };
  /// "training", and places where a weight could be and is none.
  enum class Kind { kOther, kNothing, kFalse, kTrue };
  struct Flag {
    uint32_t object, slot;
    Kind kind;
  };

  static Kind kindOf(const c10::IValue&);
  bool add(const c10::ivalue::Object& module, int device, bool gradients);

  // Parents before children: an object is looked into only once its parent is known to hold it still.
  std::vector<const c10::ivalue::Object*> objects_;
  std::vector<size_t> slots_;    ///< how many each object had
  std::vector<Child> children_;  ///< in the order of objects_, from the second on: where its parent holds it
  std::vector<Weight> weights_;
  std::vector<Flag> flags_;  ///< "training"
};

}  // namespace graft::ops
