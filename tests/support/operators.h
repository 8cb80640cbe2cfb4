// A handful of real PyTorch schemas for tests that must not need LibTorch.
#pragma once

#include "core/ir/operator.h"

namespace graft {

inline OperatorSet& testOperators() {
  static OperatorSet set;
  static const bool filled = [] {
    for (const char* schema : {
             "aten::relu(Tensor self) -> Tensor",
             "aten::relu_(Tensor(a!) self) -> Tensor(a!)",
             "aten::tanh(Tensor self) -> Tensor",
             "aten::neg(Tensor self) -> Tensor",
             "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
             "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
             "aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
             "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor",
             "aten::div.Tensor(Tensor self, Tensor other) -> Tensor",
             "aten::matmul(Tensor self, Tensor other) -> Tensor",
             "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
             "aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
             "aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
             "aten::exp(Tensor self) -> Tensor",
             "aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
             "aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)",
             "aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
             "aten::dropout(Tensor input, float p, bool train) -> Tensor",
             "aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float "
             "eps=1e-05, "
             "bool cudnn_enable=True) -> Tensor",
             "aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
             "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
             "aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)",
             "aten::size.int(Tensor self, int dim) -> int",
             "aten::cat(Tensor[] tensors, int dim=0) -> Tensor",
             "aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor",
             "aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, "
             "int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
             "aten::max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, "
             "int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor",
             "aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, "
             "Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) "
             "-> (Tensor, Tensor, Tensor)",
             "aten::threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
             "aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]",
             "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
             "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
             "aten::rand_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
             "pin_memory=None, "
             "MemoryFormat? memory_format=None) -> Tensor",
             "prim::getitem(t[] list, int index) -> t",
             "graft::attention(Tensor q, Tensor k, Tensor v, Tensor? mask=None, *, float? scale=None, bool "
             "causal=False) -> Tensor",
             "graft::linear(Tensor x, Tensor weight, Tensor? bias=None, *, str activation=\"none\", Tensor? "
             "residual=None) -> Tensor",
         })
      set.add(*parseSchema(schema));
    return true;
  }();
  (void)filled;
  return set;
}

}  // namespace graft
