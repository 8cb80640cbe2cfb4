// TensorWeight: a weight's data as LibTorch holds it. The tensor's storage may be mapped from the model's file; it is
// never written to. Includes LibTorch: for core/torch alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>

#include "core/ir/graph.h"

namespace graft {

class TensorWeight : public WeightData {
 public:
  explicit TensorWeight(at::Tensor t) : tensor(std::move(t)) {}
  size_t byteSize() const override {
    if (tensor.layout() == at::kStrided) return tensor.nbytes();
    return static_cast<size_t>(tensor.numel()) * tensor.itemsize();  // sparse: as if it were dense
  }
  at::Tensor tensor;
  /// Of a half that was calculated from halves: the same in float32, before it was rounded. Undefined for others.
  at::Tensor unrounded;
};

/// The tensor of a weight that came from an importer or the evaluator; undefined where there is none.
inline at::Tensor weightTensor(const Value& v) {
  auto* w = dynamic_cast<const TensorWeight*>(v.data.get());
  return w ? w->tensor : at::Tensor();
}

/// The tensor of a constant on the CPU without dimensions: a number; undefined for all else.
inline at::Tensor constantNumber(const Value& v) {
  if (v.kind != Value::Kind::Weight || !v.isConstant || v.type.tensorInfo.rank() != 0) return {};
  at::Tensor t = weightTensor(v);
  return t.defined() && t.device().is_cpu() ? t : at::Tensor();
}

}  // namespace graft
