// graft::batched_linear
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>

#include "kernels/cpu/packed_linear.h"
#include "kernels/cpu/support.h"
#include "kernels/ops/gradients/gradients.h"
#include "kernels/ops/operator.h"

namespace graft::ops {
namespace {

constexpr OperatorInfo info{
    "batched_linear", "batched_linear(Tensor x, Tensor weight) -> Tensor",
    "x times each matrix of weight [batch, in, out]: [batch, rows, out], as the experts of a mixture have it. x is "
    "[rows, in], the same for all, or [batch, rows, in]; a batch of 1 serves all. Accumulation happens in fp32 before "
    "the one rounding to the "
    "output's type. The output is contiguous.",
    "on the CPU, up to 256 rows, with weights packed on first use (not for inference tensors); elsewhere matmul",
    "row_major"};

at::Tensor composite(const at::Tensor& x, const at::Tensor& weight) {
  checkBatchedLinear(info.name, x, weight);
  if (x.is_cuda()) return at::matmul(x, weight);
  const at::ScalarType compute = computeType(x);
  return at::matmul(x.to(compute), weight.to(compute)).to(x.scalar_type()).contiguous();
}

at::Tensor cpu(const at::Tensor& x, const at::Tensor& weight) {
  checkBatchedLinear(info.name, x, weight);
  if (!hasLoops(x)) return composite(x, weight);
  if (x.dim() == 3 && x.size(0) != weight.size(0)) {
    if (x.size(0) == 1) return cpu(x.select(0, 0), weight);
    return cpu(x.reshape({1, x.size(0) * x.size(1), x.size(2)}), weight).view({x.size(0), x.size(1), weight.size(2)});
  }
  const at::Tensor out = batchedLinearForward(x, weight);
  return out.defined() ? out : composite(x, weight);
}

at::Tensor meta(const at::Tensor& x, const at::Tensor& weight) {
  checkBatchedLinear(info.name, x, weight);
  const c10::SymInt batch = x.dim() == 3 && weight.sym_size(0) == 1 ? x.sym_size(0) : weight.sym_size(0);
  return at::empty_symint({batch, x.sym_size(-2), weight.sym_size(2)}, x.options());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) { defineOperator<info, composite, batchedLinearTrained>(m, cpu, meta); }

}  // namespace graft::ops
