// What every graft:: operator is made of, and the list of them.
//
// An operator lives in one file, kernels/ops/<name>.cpp: an OperatorInfo (schema and documentation), a check of its
// inputs, a composite of ATen operators (differentiable, serves fp64 and everything unusual), the CPU version and the
// Meta version. The CUDA versions (kernels/cuda) implement the same schemas and may reuse the checks in
// kernels/contracts.h; other devices run the composite.
//
//   inline constexpr OperatorInfo swigluInfo{"swiglu", "swiglu(Tensor gate, Tensor up) -> Tensor", "silu(gate) * up
//   ...", "..."}; TORCH_LIBRARY_FRAGMENT(graft, m) { defineOperator<swigluInfo, swigluComposite>(m, swigluCpu,
//   swigluMeta); }
//
// When an input requires a gradient (and gradients are being recorded), the operator runs as its composite, which
// autograd understands; everything else goes to the fast version.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <optional>
#include <string>

namespace graft::ops {

struct OperatorInfo {
  const char* name;    // without "graft::"
  const char* schema;  // as TORCH_LIBRARY takes it
  const char* doc;     // one paragraph
  const char* needs;   // what its fast version asks for; other inputs run as the composite
  // Words for what the schema does not say: "row_major" (contiguous results, whatever the operands' strides are),
  // "pointwise", "convolution". core/ir/operator_facts.cpp reads them.
  const char* facts = "";
};

// Adds an operator to the list that graft_ops_describe() prints; `info` must outlive the library.
void listOperator(const OperatorInfo& info);

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

template <const OperatorInfo& info, auto composite>
struct WithGradient;

template <const OperatorInfo& info, class R, class... A, R (*composite)(A...)>
struct WithGradient<info, composite> {
  static R call(c10::DispatchKeySet keys, A... arguments) {
    if (at::GradMode::is_enabled() && (requiresGrad(arguments) || ...)) return composite(arguments...);
    static const auto handle = c10::Dispatcher::singleton()
                                   .findSchemaOrThrow((std::string("graft::") + info.name).c_str(), "")
                                   .typed<R(A...)>();
    at::AutoDispatchBelowADInplaceOrView guard;
    return handle.redispatch(keys & c10::after_ADInplaceOrView_keyset, arguments...);
  }
};

}  // namespace detail

template <const OperatorInfo& info, auto composite, class Cpu, class Meta>
void defineOperator(torch::Library& library, Cpu* cpu, Meta* meta) {
  listOperator(info);
  library.def(info.schema, {at::Tag::pt2_compliant_tag});
  library.impl(info.name, torch::dispatch(c10::DispatchKey::CPU, cpu));
  library.impl(info.name, torch::dispatch(c10::DispatchKey::Meta, meta));
  library.impl(info.name, torch::dispatch(c10::DispatchKey::Autograd, &detail::WithGradient<info, composite>::call));
  // For devices that nobody wrote a kernel for, and for what a kernel does not take (cuda/or_composite.h).
  library.impl(info.name, torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, composite));
}

}  // namespace graft::ops

// The C interface, for programs that load the library with dlopen (declare these, or look them up with dlsym).
#define GRAFT_OPS_API extern "C" __attribute__((visibility("default")))

// JSON: [{"name", "schema", "doc", "needs", "runs_on": ["cpu", "meta", "cuda"?]}, ...], sorted by name. Owned by the
// library.
GRAFT_OPS_API const char* graft_ops_describe();
// "" when the CUDA implementations are loaded, otherwise why they are not. Owned by the library.
GRAFT_OPS_API const char* graft_ops_cuda_status();
// Drops all packed copies of weights (see cpu/packed_linear.h); the next use packs again.
GRAFT_OPS_API void graft_ops_forget_weights();
// How many bytes those copies take.
GRAFT_OPS_API int64_t graft_ops_packed_bytes();
// The instruction set the CPU loops use: "avx512", "avx2" or "base" (GRAFT_OPS_CPU=... in the environment lowers it).
GRAFT_OPS_API const char* graft_ops_cpu_capability();
