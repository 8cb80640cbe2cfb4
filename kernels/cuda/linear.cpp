// graft::linear, qkv_projection and linear_add_layer_norm on CUDA.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/support.h"

namespace graft::cuda {
namespace {

Activation activationOf(c10::string_view name) {
  ops::checkActivation(std::string_view(name.data(), name.size()));
  if (name == "relu") return Activation::kRelu;
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_tanh") return Activation::kGeluTanh;
  if (name == "silu") return Activation::kSilu;
  return Activation::kNone;
}

struct Prepared {
  GemmArgs args;
  Rows x, w, residual;
  OptionalTensor bias;
  at::Tensor out;
};

Prepared prepare(const char* op, const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                 Activation activation, const OptionalTensor& residual) {
  Prepared p;
  GemmArgs& a = p.args;
  a.dtype = dtypeOf(op, x);
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  if (given(residual))
    ops::checkBroadcast(
        op, residual, "residual",
        x.sym_sizes().size() ? at::SymIntArrayRef(c10::fromIntArrayRefSlow(shape)) : at::SymIntArrayRef(),
        "the output");
  p.out = at::empty(shape, x.options());
  if (p.out.numel() == 0) return p;
  p.x = asRows(x), p.w = asRows(weight);
  p.bias = dense(bias);
  a.x = p.x.tensor.const_data_ptr(), a.ldx = p.x.stride;
  a.w = p.w.tensor.const_data_ptr(), a.ldw = p.w.stride;
  a.bias = pointer(p.bias);
  if (given(residual)) {
    p.residual = asRows(residual->expand(shape));
    a.residual = p.residual.tensor.const_data_ptr(), a.ldr = p.residual.stride;
  }
  a.out = p.out.mutable_data_ptr();
  a.m = p.x.rows, a.n = weight.size(0), a.k = p.x.columns, a.ldo = a.n;
  TORCH_CHECK(a.m <= INT32_MAX && a.n <= INT32_MAX && a.k <= INT32_MAX, "graft::", op, ": ", a.m, "x", a.n, "x", a.k,
              " is too large");
  a.activation = activation;
  a.pdl = usesPdl();
  a.constantWeights = options().constantWeights;
  return p;
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                  c10::string_view activation, const OptionalTensor& residual) {
  ops::checkLinear("linear", x, weight, bias);
  ops::checkLike("linear", x, "x", residual, "residual");
  const Activation act = activationOf(activation);
  const c10::cuda::CUDAGuard guard(x.device());
  const auto stream = c10::cuda::getCurrentCUDAStream();
  Prepared p = prepare("linear", x, weight, bias, act, residual);
  if (p.out.numel() == 0) return p.out;
  runGemm(p.args, stream);
  return p.out;
}

// One GEMM; q, k and v are views of its output [batch, length, heads + 2 kv heads, head size], with the heads in front.
std::tuple<at::Tensor, at::Tensor, at::Tensor> qkvProjection(const at::Tensor& x, const at::Tensor& weight,
                                                             const OptionalTensor& bias, int64_t heads,
                                                             int64_t kvHeads) {
  ops::checkQkv(x, weight, bias, heads, kvHeads);
  const at::Tensor all = linear(x, weight, bias, "none", {});
  const at::Tensor split =
      all.view({x.size(0), x.size(1), heads + 2 * kvHeads, weight.size(0) / (heads + 2 * kvHeads)}).transpose(1, 2);
  return {split.narrow(1, 0, heads), split.narrow(1, heads, kvHeads), split.narrow(1, heads + kvHeads, kvHeads)};
}

at::Tensor linearAddLayerNorm(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                              const at::Tensor& residual, const OptionalTensor& normWeight,
                              const OptionalTensor& normBias, double eps) {
  const char* op = "linear_add_layer_norm";
  ops::checkLinearNorm(x, weight, bias, residual, normWeight, normBias);
  const c10::cuda::CUDAGuard guard(x.device());
  Prepared p = prepare(op, x, weight, bias, Activation::kNone, residual);
  if (p.out.numel() == 0) return p.out;
  const OptionalTensor w = dense(normWeight), b = dense(normBias);
  const at::Tensor out = at::empty(p.out.sizes(), p.out.options());
  NormArgs norm;
  norm.dtype = p.args.dtype;
  norm.x = p.args.out, norm.ldx = p.args.ldo;
  norm.weight = pointer(w), norm.bias = pointer(b);
  norm.out = out.mutable_data_ptr();
  norm.rows = p.args.m, norm.n = p.args.n;
  norm.eps = static_cast<float>(eps);
  norm.pdl = usesPdl();
  norm.constantWeights = norm.pdl && options().constantWeights;
  runGemmNorm(p.args, norm, c10::cuda::getCurrentCUDAStream());
  return out;
}

std::string linearWay(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                      c10::string_view activation, const OptionalTensor& residual) {
  const c10::cuda::CUDAGuard guard(x.device());
  return describeGemm(prepare("linear", x, weight, bias, activationOf(activation), residual).args);
}

std::optional<at::Tensor> linearBy(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                                   c10::string_view activation, const OptionalTensor& residual, c10::string_view way) {
  const c10::cuda::CUDAGuard guard(x.device());
  Prepared p = prepare("linear", x, weight, bias, activationOf(activation), residual);
  if (!runGemmWay(p.args, std::string(way), c10::cuda::getCurrentCUDAStream())) return std::nullopt;
  return p.out;
}

}  // namespace

TORCH_LIBRARY_IMPL(graft, CUDA, m) {
  m.impl("linear", TORCH_FN(linear));
  m.impl("qkv_projection", TORCH_FN(qkvProjection));
  m.impl("linear_add_layer_norm", TORCH_FN(linearAddLayerNorm));
}

// For tests and measurements: which way linear takes, all ways there are, and linear by one of them (None: does not
// apply).
TORCH_LIBRARY_FRAGMENT(graft, m) {
  m.def("cuda_linear_ways() -> str", &gemmWays);
  m.def(
      "cuda_linear_way(Tensor x, Tensor weight, Tensor? bias=None, *, str activation=\"none\", Tensor? residual=None) "
      "-> str",
      &linearWay);
  m.def(
      "cuda_linear_by(Tensor x, Tensor weight, Tensor? bias=None, *, str activation=\"none\", Tensor? residual=None, "
      "str way) "
      "-> Tensor?",
      &linearBy);
}

}  // namespace graft::cuda
