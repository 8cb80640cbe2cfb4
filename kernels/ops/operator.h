// How a graft:: operator is defined and registered.
//
// An operator lives in one file, kernels/ops/<name>.cpp: an OperatorInfo (schema and documentation), a check of its
// inputs, a composite of ATen operators (differentiable; it also serves fp64 and unusual inputs), the CPU version and
// the Meta version. The CUDA versions (kernels/cuda) implement the same schemas with the same checks
// (kernels/ops/contracts.h). Other devices run the composite.
//
//   constexpr OperatorInfo info{"swiglu", "swiglu(Tensor gate, Tensor up) -> Tensor", "silu(gate) * up ...", "..."};
//   TORCH_LIBRARY_FRAGMENT(graft, m) { defineOperator<info, composite>(m, cpu, meta); }
//
// When an input requires a gradient and gradients are being recorded, the operator runs as its trained version
// (gradients/gradients.h), where it has one:
//
//   defineOperator<info, composite, swigluTrained>(m, cpu, meta);
//
// fp64 and tangents of forward-mode derivatives run as the composite, which autograd can differentiate, and so does an
// operator without a trained version. GRAFT_OPS_BACKWARD=0, or graft::own_backward(False), has all run as composites.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <optional>
#include <string>
#include <type_traits>

namespace graft::ops {

struct OperatorInfo {
  const char* name;    // without "graft::"
  const char* schema;  // as TORCH_LIBRARY takes it
  const char* doc;     // one paragraph
  const char* needs;   // what the fast version requires; other inputs run as the composite
  // Facts that the schema does not express: "row_major" (contiguous results, whatever the operands' strides are),
  // "layout_of_operands" (the results may lie as these do), "pointwise", "convolution".
  // core/ir/operators/operator_facts.cpp reads them.
  const char* facts = "";
};

// Adds an operator to the list that graft_ops_describe() returns. `info` must live as long as the library.
void listOperator(const OperatorInfo& info);

// Whether operators with a trained version run as it (gradients/own_backward.cpp).
bool usesOwnBackward();

namespace detail {

inline bool requiresGrad(const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }
inline bool requiresGrad(const std::optional<at::Tensor>& tensor) {
  return tensor.has_value() && requiresGrad(*tensor);
}
inline bool requiresGrad(at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (requiresGrad(tensor)) return true;
  }
  return false;
}
template <class T>
bool requiresGrad(const T&) {
  return false;
}

// Whether an input is what only the composite differentiates: fp64, or one with a tangent.
inline bool needsComposite(const at::Tensor& tensor) {
  return tensor.defined() && (tensor.scalar_type() == at::kDouble || tensor._fw_grad(/*level=*/0).defined());
}
inline bool needsComposite(const std::optional<at::Tensor>& tensor) {
  return tensor.has_value() && needsComposite(*tensor);
}
inline bool needsComposite(at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (needsComposite(tensor)) return true;
  }
  return false;
}
template <class T>
bool needsComposite(const T&) {
  return false;
}

template <const OperatorInfo& info, auto composite, auto trained>
struct WithGradient;

template <const OperatorInfo& info, class R, class... A, R (*composite)(A...), auto trained>
struct WithGradient<info, composite, trained> {
  static R call(c10::DispatchKeySet keys, A... arguments) {
    if (at::GradMode::is_enabled() && (requiresGrad(arguments) || ...)) {
      if constexpr (!std::is_null_pointer_v<decltype(trained)>) {
        if (usesOwnBackward() && !(needsComposite(arguments) || ...)) return trained(arguments...);
      }
      return composite(arguments...);
    }
    static const auto handle = c10::Dispatcher::singleton()
                                   .findSchemaOrThrow((std::string("graft::") + info.name).c_str(), "")
                                   .typed<R(A...)>();
    at::AutoDispatchBelowADInplaceOrView guard;
    return handle.redispatch(keys & c10::after_ADInplaceOrView_keyset, arguments...);
  }
};

}  // namespace detail

template <const OperatorInfo& info, auto composite, auto trained = nullptr, class Cpu, class Meta>
void defineOperator(torch::Library& library, Cpu* cpu, Meta* meta) {
  listOperator(info);
  library.def(info.schema, {at::Tag::pt2_compliant_tag});
  library.impl(info.name, torch::dispatch(c10::DispatchKey::CPU, cpu));
  library.impl(info.name, torch::dispatch(c10::DispatchKey::Meta, meta));
  library.impl(info.name,
               torch::dispatch(c10::DispatchKey::Autograd, &detail::WithGradient<info, composite, trained>::call));
  // For devices without a kernel, and for inputs that a kernel does not support (cuda/composite_fallback.h).
  library.impl(info.name, torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, composite));
}

}  // namespace graft::ops
