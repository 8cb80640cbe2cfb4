// The library of custom_operator_test.py: what a user's own may hold.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <torch/library.h>

namespace {

at::Tensor twice(const at::Tensor& x) { return at::mul(x, 2); }
at::Tensor like(const at::Tensor& x) { return at::empty_like(x); }

// Reads memory, and stands for every device: on a tensor without memory it would crash.
at::Tensor first(const at::Tensor& x) {
  at::Tensor out = at::empty_like(x);
  const at::Tensor from = x.contiguous();
  for (int64_t i = 0; i < x.numel(); ++i) out.mutable_data_ptr<float>()[i] = from.const_data_ptr<float>()[0];
  return out;
}

}  // namespace

TORCH_LIBRARY(my, m) {
  m.def("fused(Tensor x) -> Tensor");
  m.def("first", first);
}
TORCH_LIBRARY_IMPL(my, CPU, m) { m.impl("fused", twice); }
TORCH_LIBRARY_IMPL(my, Meta, m) { m.impl("fused", like); }
