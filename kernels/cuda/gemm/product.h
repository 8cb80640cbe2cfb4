#pragma once
// From tensors to the arguments of GEMMs and of the norms before or after them.
//
//   const Product p = productOf("linear", x, weight, bias, Activation::kNone, residual);
//   if (p.out.numel() != 0) runGemm(p.args, stream);
#include <ATen/ops/empty.h>

#include <vector>

#include "kernels/cuda/support.h"

namespace graft::cuda {

inline Activation activationOf(c10::string_view name) {
  ops::checkActivation(std::string_view(name.data(), name.size()));
  if (name == "relu") return Activation::kRelu;
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_tanh") return Activation::kGeluTanh;
  if (name == "silu") return Activation::kSilu;
  return Activation::kNone;
}

// The arguments of a product, and the tensors that must live until it is launched. args is not filled in where the
// output is empty.
struct Product {
  GemmArgs args;
  Rows x, w, residual;
  OptionalTensor bias;
  at::Tensor out;
};

// A product without x. `leading`: the output's dimensions before the last. weight [n, k], bias [n], residual of the
// output's shape or one that broadcasts to it.
inline Product productWithout(const char* op, const at::TensorOptions& of, at::IntArrayRef leading,
                              const at::Tensor& weight, const OptionalTensor& bias, Activation activation,
                              const OptionalTensor& residual) {
  Product p;
  GemmArgs& a = p.args;
  std::vector<int64_t> shape = leading.vec();
  shape.push_back(weight.size(0));
  if (given(residual)) ops::checkBroadcast(op, residual, "residual", c10::fromIntArrayRefSlow(shape), "the output");
  p.out = at::empty(shape, of);
  a.dtype = dtypeOf(op, p.out);
  if (p.out.numel() == 0) return p;
  p.w = asRows(weight);
  p.bias = dense(bias);
  a.w = p.w.tensor.const_data_ptr(), a.ldw = p.w.stride;
  a.bias = pointer(p.bias);
  if (given(residual)) {
    p.residual = asRows(residual->expand(shape));
    a.residual = p.residual.tensor.const_data_ptr(), a.ldr = p.residual.stride;
  }
  a.out = p.out.mutable_data_ptr();
  a.n = weight.size(0), a.k = weight.size(1), a.m = p.out.numel() / a.n, a.ldo = a.n;
  TORCH_CHECK(a.m <= INT32_MAX && a.n <= INT32_MAX && a.k <= INT32_MAX, "graft::", op, ": ", a.m, "x", a.n, "x", a.k,
              " is too large");
  a.activation = activation;
  a.pdl = usesPdl();
  a.constantWeights = options().constantWeights;
  return p;
}

// A product of x [..., k].
inline Product productOf(const char* op, const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                         Activation activation, const OptionalTensor& residual) {
  Product p = productWithout(op, x.options(), x.sizes().slice(0, x.dim() - 1), weight, bias, activation, residual);
  if (p.out.numel() == 0) return p;
  p.x = asRows(x);
  p.args.x = p.x.tensor.const_data_ptr(), p.args.ldx = p.x.stride;
  return p;
}

// The arguments of a LayerNorm of the rows of a contiguous tensor of a half type or fp32. `out` is the tensor itself,
// or a new one where several blocks of a kernel read the same row. In place is better: the rows are written where they
// were just read, and no memory that nobody reads again is written back from the L2.
struct RowNorm {
  OptionalTensor weight, bias;
  at::Tensor out;
  NormArgs args;

  enum class Into { kItself, kNew };

  RowNorm(const at::Tensor& x, const OptionalTensor& normWeight, const OptionalTensor& normBias, double eps, Into into)
      : weight(dense(normWeight)),
        bias(dense(normBias)),
        out(into == Into::kItself ? x : at::empty(x.sizes(), x.options())) {
    args.dtype = dtypeOf("layer_norm", x);
    args.x = x.const_data_ptr(), args.ldx = args.n = x.size(-1);
    args.weight = pointer(weight), args.bias = pointer(bias);
    args.out = out.mutable_data_ptr();
    args.rows = args.n ? x.numel() / args.n : 0;
    args.eps = static_cast<float>(eps);
    args.pdl = usesPdl();
    args.constantWeights = args.pdl && options().constantWeights;
  }
};

}  // namespace graft::cuda
