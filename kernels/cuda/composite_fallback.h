#pragma once
// CompositeFallback: runs an operator's CUDA version, or its composite of ATen operators for fp64 inputs, which no CUDA
// kernel computes: fp64 is the reference that tests compare with.
//
//   TORCH_LIBRARY_IMPL(graft, CUDA, m) { m.impl("swiglu", &CompositeFallback<"swiglu", swiglu>::call); }
//
// A CUDA version that does not support other inputs calls CompositeFallback<...>::composite(...) itself.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

namespace graft::cuda {

template <size_t N>
struct OperatorName {
  char text[N];
  constexpr OperatorName(const char (&from)[N]) { std::copy_n(from, N, text); }
};

inline bool isDouble(const at::Tensor& t) { return t.defined() && t.scalar_type() == at::kDouble; }
inline bool isDouble(const at::TensorList& list) {
  return std::any_of(list.begin(), list.end(), [](const at::Tensor& t) { return isDouble(t); });
}
template <class T>
bool isDouble(const T&) {
  return false;
}

template <OperatorName Name, auto Fast>
struct CompositeFallback;

template <OperatorName Name, class R, class... A, R (*Fast)(A...)>
struct CompositeFallback<Name, Fast> {
  static R call(A... arguments) {
    if ((isDouble(arguments) || ...)) return composite(arguments...);
    return Fast(arguments...);
  }
  /// Runs the kernel that defineOperator registers for backends without one of their own, with these tensors.
  static R composite(A... arguments) {
    static const auto handle = c10::Dispatcher::singleton()
                                   .findSchemaOrThrow((std::string("graft::") + Name.text).c_str(), "")
                                   .template typed<R(A...)>();
    return handle.redispatch(c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), arguments...);
  }
};

}  // namespace graft::cuda
