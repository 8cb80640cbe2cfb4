// The backward operators on CUDA, and the norms that keep their statistics. Products are PyTorch's: of the two that a
// linear layer's backward pass has, neither has both operands' rows along the sum, as Graft's own kernels want them.
//
// GRAFT_BACKWARD_KERNELS=0 or graft::backward_kernels(False) has the operators' ATen versions run instead.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>
#include <tuple>

#include "kernels/cuda/composite_fallback.h"
#include "kernels/cuda/gradients/gradient_launchers.h"
#include "kernels/cuda/pointwise/rotary_args.h"
#include "kernels/cuda/support.h"
#include "kernels/ops/gradients/contracts.h"

namespace graft::cuda {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

std::atomic<bool>& usesKernels() {
  static std::atomic<bool> on = [] {
    const char* value = std::getenv("GRAFT_BACKWARD_KERNELS");
    return !value || std::string_view(value) != "0";
  }();
  return on;
}

// An operator's kernel where kernels are on, else its ATen version.
template <OperatorName Name, auto Kernel>
struct KernelOrAten;
template <OperatorName Name, class R, class... A, R (*Kernel)(A...)>
struct KernelOrAten<Name, Kernel> {
  static R call(A... arguments) {
    if (!usesKernels().load(std::memory_order_relaxed)) return CompositeFallback<Name, Kernel>::composite(arguments...);
    return CompositeFallback<Name, Kernel>::call(arguments...);
  }
};

int processors() { return at::cuda::getCurrentDeviceProperties()->multiProcessorCount; }

at::Tensor none(const at::Tensor& like) { return at::empty({0}, like.options()); }

Activation activationOf(c10::string_view name) {
  if (name == "relu") return Activation::kRelu;
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_tanh") return Activation::kGeluTanh;
  if (name == "silu") return Activation::kSilu;
  return Activation::kNone;
}

// [..., columns] as a matrix, without a copy where the strides allow it.
at::Tensor matrix(const Rows& r) {
  return r.tensor.as_strided({r.rows, r.columns}, {r.stride, 1}, r.tensor.storage_offset());
}

// A tensor with at least one dimension as rows.
Rows rowsOf(const at::Tensor& t) { return asRows(t.dim() ? t : t.unsqueeze(0)); }

void addParts(const char* op, const at::Tensor& partials, int sums, std::array<at::Tensor, 3> out, bool pdl) {
  SumPartsArgs a;
  a.partials = partials.const_data_ptr<float>();
  a.sums = sums, a.parts = static_cast<int>(partials.size(1)), a.n = partials.size(2);
  a.pdl = pdl;
  for (int s = 0; s < sums; ++s) {
    if (!out[s].defined()) continue;
    a.out[s] = out[s].mutable_data_ptr();
    a.dtype = dtypeOf(op, out[s]);
  }
  report(op, launchSumParts(a, c10::cuda::getCurrentCUDAStream()));
}

Triple linearBackward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                      const OptionalTensor& preactivation, c10::string_view activation, std::array<bool, 3> wanted) {
  const char* op = "linear_backward";
  ops::checkLinearBackward(grad, x, weight, preactivation, activation);
  const c10::cuda::CUDAGuard guard(x.device());
  const int64_t n = weight.size(0), k = weight.size(1);
  at::Tensor dbias = wanted[2] ? at::empty({n}, x.options()) : none(x);
  Rows g = asRows(grad);
  at::Tensor dz;
  if (grad.numel() == 0) {
    dz = matrix(g);
    if (wanted[2]) dbias.zero_();
  } else if (!given(preactivation) && !wanted[2]) {
    dz = matrix(g);
  } else {
    ActivationBackwardArgs a;
    a.dtype = dtypeOf(op, grad);
    a.activation = activationOf(activation);
    a.grad = g.tensor.const_data_ptr(), a.ldg = g.stride;
    a.rows = g.rows, a.n = n;
    Rows z;
    if (given(preactivation)) {
      z = asRows(*preactivation);
      a.z = z.tensor.const_data_ptr(), a.ldz = z.stride;
      dz = at::empty({g.rows, n}, grad.options());
      a.dz = dz.mutable_data_ptr();
    } else {
      dz = matrix(g);
    }
    // About eight blocks of eight warps on each processor.
    const int64_t across = (n + 32 * (16 / grad.element_size()) - 1) / (32 * (16 / grad.element_size()));
    const int64_t parts = std::max<int64_t>(1, 8 * int64_t{processors()} / across);
    a.parts = static_cast<int>(std::min(parts, (g.rows + 7) / 8));
    at::Tensor partials;
    if (wanted[2]) {
      partials = at::empty({1, a.parts, n}, grad.options().dtype(at::kFloat));
      a.partials = partials.mutable_data_ptr<float>();
    }
    a.pdl = usesPdl();
    report(op, launchActivationBackward(a, c10::cuda::getCurrentCUDAStream()));
    if (wanted[2]) addParts(op, partials, 1, {dbias}, a.pdl);
  }
  at::Tensor dx = wanted[0] ? at::mm(dz, weight).view(x.sizes()) : none(x);
  at::Tensor dweight = none(x);
  if (wanted[1]) dweight = at::mm(dz.t(), k ? matrix(asRows(x)) : at::empty({g.rows, 0}, x.options()));
  return {dx, dweight, dbias};
}

// x, residual and biases of a norm, and the tensors that the pointers point into.
struct NormInputs {
  Rows x, residual;
  OptionalTensor inputBias, weight, bias;

  NormInputs(const at::Tensor& input, const OptionalTensor& added, const OptionalTensor& fromBias,
             const OptionalTensor& w, const OptionalTensor& b)
      : x(asRows(input)), inputBias(dense(fromBias)), weight(dense(w)), bias(dense(b)) {
    if (given(added)) residual = asRows(added->expand_as(input));
  }
  const void* residualData() const { return residual.tensor.defined() ? residual.tensor.const_data_ptr() : nullptr; }
};

at::TensorOptions statistics(const at::Tensor& x) { return x.options().dtype(at::kFloat); }

at::Tensor rowNumbers(const at::Tensor& x) { return at::empty(x.sizes().slice(0, x.dim() - 1), statistics(x)); }

void normTraining(const char* op, const NormInputs& in, double eps, bool rms, const at::Tensor& out,
                  const at::Tensor& sum, const at::Tensor& mean, const at::Tensor& rstd) {
  NormTrainingArgs args;
  NormArgs& a = args.norm;
  a.dtype = dtypeOf(op, out);
  a.x = in.x.tensor.const_data_ptr(), a.ldx = in.x.stride;
  a.residual = in.residualData(), a.ldr = in.residual.stride;
  a.inputBias = pointer(in.inputBias), a.weight = pointer(in.weight), a.bias = pointer(in.bias);
  a.out = out.mutable_data_ptr();
  a.sum = sum.defined() ? sum.mutable_data_ptr() : nullptr;
  a.rows = in.x.rows, a.n = in.x.columns;
  a.eps = static_cast<float>(eps);
  a.rms = rms;
  a.pdl = usesPdl();
  args.mean = mean.defined() ? mean.mutable_data_ptr<float>() : nullptr;
  args.rstd = rstd.mutable_data_ptr<float>();
  const cudaError_t status = launchNormTraining(args, c10::cuda::getCurrentCUDAStream());
  TORCH_CHECK(status != cudaErrorNotSupported, "graft::", op, ": ", a.rows,
              " rows are too many for CUDA; up to 2^31 - 1");
  report(op, status);
}

Triple layerNormTraining(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight,
                         const OptionalTensor& bias, double eps, const OptionalTensor& inputBias) {
  const char* op = "add_layer_norm_training";
  ops::checkNorm(op, x, residual, weight, bias, inputBias);
  const c10::cuda::CUDAGuard guard(x.device());
  at::Tensor out = at::empty(x.sizes(), x.options()), mean = rowNumbers(x), rstd = rowNumbers(x);
  if (out.numel() != 0)
    normTraining(op, NormInputs(x, residual, inputBias, weight, bias), eps, false, out, {}, mean, rstd);
  return {out, mean, rstd};
}

Triple rmsNormTraining(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight, double eps) {
  const char* op = "add_rms_norm_training";
  ops::checkNorm(op, x, residual, weight, {}, {});
  const c10::cuda::CUDAGuard guard(x.device());
  at::Tensor out = at::empty(x.sizes(), x.options()), sum = at::empty(x.sizes(), x.options()), rstd = rowNumbers(x);
  if (out.numel() != 0) normTraining(op, NormInputs(x, residual, {}, weight, {}), eps, true, out, sum, {}, rstd);
  return {out, sum, rstd};
}

// dsum, and with `sums` [3] the sums over rows for weight, bias and input bias where they are defined.
void normBackward(const char* op, const at::Tensor& grad, const OptionalTensor& gradSum, const NormInputs& in,
                  const at::Tensor& mean, const at::Tensor& rstd, const at::Tensor& dsum,
                  const std::array<at::Tensor, 3>& sums) {
  const Rows g = asRows(grad);
  Rows onward;
  const at::Tensor means = mean.defined() ? mean.contiguous() : at::Tensor(), deviations = rstd.contiguous();
  NormBackwardArgs a;
  a.dtype = dtypeOf(op, grad);
  a.grad = g.tensor.const_data_ptr(), a.ldg = g.stride;
  if (given(gradSum)) {
    onward = asRows(*gradSum);
    a.gradSum = onward.tensor.const_data_ptr(), a.lds = onward.stride;
  }
  a.x = in.x.tensor.const_data_ptr(), a.ldx = in.x.stride;
  a.residual = in.residualData(), a.ldr = in.residual.stride;
  a.inputBias = pointer(in.inputBias), a.weight = pointer(in.weight);
  a.mean = means.defined() ? means.const_data_ptr<float>() : nullptr;
  a.rstd = deviations.const_data_ptr<float>();
  a.dsum = dsum.defined() ? dsum.mutable_data_ptr() : nullptr;
  a.rows = g.rows, a.n = g.columns;
  a.inputBiasSums = sums[2].defined();
  a.parts = static_cast<int>(std::min<int64_t>(2 * int64_t{processors()}, g.rows));
  a.pdl = usesPdl();
  const bool anySum = sums[0].defined() || sums[1].defined() || sums[2].defined();
  at::Tensor partials;
  if (anySum) {
    partials = at::empty({3, a.parts, a.n}, statistics(grad));
    a.partials = partials.mutable_data_ptr<float>();
  }
  report(op, launchNormBackward(a, c10::cuda::getCurrentCUDAStream()));
  if (anySum) addParts(op, partials, 3, sums, a.pdl);
}

Four layerNormBackward(const at::Tensor& grad, const at::Tensor& x, const OptionalTensor& residual,
                       const OptionalTensor& inputBias, const at::Tensor& mean, const at::Tensor& rstd,
                       const OptionalTensor& weight, std::array<bool, 4> wanted) {
  const char* op = "add_layer_norm_backward";
  ops::checkNorm(op, x, residual, weight, {}, inputBias);
  ops::checkNormBackward(op, x, grad, mean, rstd);
  const c10::cuda::CUDAGuard guard(x.device());
  const int64_t n = x.size(-1);
  const bool isEmpty = x.numel() == 0;
  std::array<at::Tensor, 3> sums;
  for (int s = 0; s < 3; ++s) {
    if (wanted[s + 1]) sums[s] = isEmpty ? at::zeros({n}, x.options()) : at::empty({n}, x.options());
  }
  at::Tensor dsum;
  if (wanted[0]) dsum = at::empty(x.sizes(), x.options());
  if (!isEmpty) normBackward(op, grad, {}, NormInputs(x, residual, inputBias, weight, {}), mean, rstd, dsum, sums);
  const auto made = [&](const at::Tensor& t) { return t.defined() ? t : none(x); };
  return {made(dsum), made(sums[0]), made(sums[1]), made(sums[2])};
}

Pair rmsNormBackward(const OptionalTensor& grad, const OptionalTensor& gradSum, const at::Tensor& sum,
                     const at::Tensor& rstd, const OptionalTensor& weight, std::array<bool, 2> wanted) {
  const char* op = "add_rms_norm_backward";
  ops::checkRmsNormBackward(grad, gradSum, sum, rstd, weight);
  const c10::cuda::CUDAGuard guard(sum.device());
  const int64_t n = sum.size(-1);
  const bool isEmpty = sum.numel() == 0 || !given(grad);
  at::Tensor dweight, dsum;
  if (wanted[1]) dweight = isEmpty ? at::zeros({n}, sum.options()) : at::empty({n}, sum.options());
  if (wanted[0] && !given(grad)) {
    dsum = given(gradSum) ? gradSum->clone(at::MemoryFormat::Contiguous) : at::zeros(sum.sizes(), sum.options());
  } else if (wanted[0]) {
    dsum = at::empty(sum.sizes(), sum.options());
  }
  if (!isEmpty) normBackward(op, *grad, gradSum, NormInputs(sum, {}, {}, weight, {}), {}, rstd, dsum, {dweight});
  return {dsum.defined() ? dsum : none(sum), dweight.defined() ? dweight : none(sum)};
}

Pair swigluBackward(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  ops::checkSwigluBackward(grad, gate, up);
  const c10::cuda::CUDAGuard guard(gate.device());
  at::Tensor dgate = at::empty(gate.sizes(), gate.options()), dup = at::empty(gate.sizes(), gate.options());
  if (dgate.numel() == 0) return {dgate, dup};
  const Rows d = rowsOf(grad), g = rowsOf(gate), u = rowsOf(up);
  SwigluBackwardArgs a;
  a.dtype = dtypeOf("swiglu_backward", gate);
  a.grad = d.tensor.const_data_ptr(), a.ldd = d.stride;
  a.gate = g.tensor.const_data_ptr(), a.ldg = g.stride;
  a.up = u.tensor.const_data_ptr(), a.ldu = u.stride;
  a.dgate = dgate.mutable_data_ptr(), a.dup = dup.mutable_data_ptr();
  a.rows = g.rows, a.n = g.columns;
  a.pdl = usesPdl();
  report("swiglu_backward", launchSwigluBackward(a, c10::cuda::getCurrentCUDAStream()));
  return {dgate, dup};
}

at::Tensor rotaryBackward(const at::Tensor& grad, const at::Tensor& cos, const at::Tensor& sin) {
  ops::checkRotary(grad, grad, cos, sin);
  const c10::cuda::CUDAGuard guard(grad.device());
  const at::Tensor c = rotaryTable(cos), s = rotaryTable(sin);
  at::Tensor out = at::empty_like(grad);
  if (out.numel() == 0) return out;
  const RotaryArgs a = rotaryArgs("rotary_backward", grad, c, s, out);
  report("rotary_backward", launchRotaryBackward(a, c10::cuda::getCurrentCUDAStream()));
  return out;
}

at::Tensor softmaxBackward(const at::Tensor& grad, const at::Tensor& y, double scale, int64_t dim) {
  const char* op = "masked_softmax_backward";
  ops::checkSoftmaxBackward(grad, y, dim);
  const c10::cuda::CUDAGuard guard(y.device());
  const int64_t last = y.dim() - 1;
  if (dim < 0) dim += y.dim();
  if (dim != last)
    return softmaxBackward(grad.transpose(dim, last), y.transpose(dim, last), scale, last)
        .transpose(dim, last)
        .contiguous();
  at::Tensor out = at::empty(y.sizes(), y.options());
  if (out.numel() == 0) return out;
  const Rows g = asRows(grad), v = asRows(y);
  SoftmaxBackwardArgs a;
  a.dtype = dtypeOf(op, y);
  a.grad = g.tensor.const_data_ptr(), a.ldg = g.stride;
  a.y = v.tensor.const_data_ptr(), a.ldy = v.stride;
  a.out = out.mutable_data_ptr();
  a.rows = v.rows, a.n = v.columns;
  a.scale = static_cast<float>(scale);
  a.pdl = usesPdl();
  const cudaError_t status = launchSoftmaxBackward(a, c10::cuda::getCurrentCUDAStream());
  TORCH_CHECK(status != cudaErrorNotSupported, "graft::", op, ": out ", y.sizes(), " has too many rows for CUDA");
  report(op, status);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(graft, CUDA, m) {
  m.impl("linear_backward", &KernelOrAten<"linear_backward", linearBackward>::call);
  m.impl("add_layer_norm_training", &KernelOrAten<"add_layer_norm_training", layerNormTraining>::call);
  m.impl("add_layer_norm_backward", &KernelOrAten<"add_layer_norm_backward", layerNormBackward>::call);
  m.impl("add_rms_norm_training", &KernelOrAten<"add_rms_norm_training", rmsNormTraining>::call);
  m.impl("add_rms_norm_backward", &KernelOrAten<"add_rms_norm_backward", rmsNormBackward>::call);
  m.impl("swiglu_backward", &KernelOrAten<"swiglu_backward", swigluBackward>::call);
  m.impl("rotary_backward", &KernelOrAten<"rotary_backward", rotaryBackward>::call);
  m.impl("masked_softmax_backward", &KernelOrAten<"masked_softmax_backward", softmaxBackward>::call);
}

TORCH_LIBRARY_FRAGMENT(graft, m) {
  m.def("backward_kernels(bool on) -> bool", [](bool on) { return usesKernels().exchange(on); });
}

}  // namespace graft::cuda
