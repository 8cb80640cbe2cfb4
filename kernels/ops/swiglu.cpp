// graft::swiglu
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/silu.h>

#include <tuple>

#include "kernels/cpu/support.h"
#include "kernels/ops/gradients/gradients.h"
#include "kernels/ops/operator.h"

namespace graft::ops {
namespace {

constexpr OperatorInfo info{"swiglu", "swiglu(Tensor gate, Tensor up) -> Tensor",
                            "silu(gate) * up, elementwise: the gated half of a Llama feed-forward block. gate and up "
                            "broadcast. The output is contiguous.",
                            "any strides; contiguous inputs are read in place", "pointwise"};

at::Tensor composite(const at::Tensor& gate, const at::Tensor& up) {
  if (areToBroadcast(gate, up)) return std::apply(composite, broadcastTogether(gate, up));
  checkSwiglu(gate, up);
  const at::ScalarType compute = computeType(gate);
  return at::mul(at::silu(gate.to(compute)), up.to(compute)).to(gate.scalar_type()).contiguous();
}

at::Tensor cpu(const at::Tensor& gate, const at::Tensor& up) {
  if (areToBroadcast(gate, up)) return std::apply(cpu, broadcastTogether(gate, up));
  if (!hasLoops(gate)) return composite(gate, up);
  checkSwiglu(gate, up);
  const at::Tensor g = dense(gate);
  const at::Tensor u = dense(up);
  at::Tensor out = at::empty(gate.sizes(), gate.options());
  const Scalar scalar = scalarOf(gate);
  at::parallel_for(0, out.numel(), grain(1), [&](int64_t begin, int64_t end) {
    loops().swiglu(scalar, g.const_data_ptr(), u.const_data_ptr(), out.mutable_data_ptr(), begin, end);
  });
  return out;
}

at::Tensor meta(const at::Tensor& gate, const at::Tensor& up) {
  if (areToBroadcast(gate, up)) return std::apply(meta, broadcastTogether(gate, up));
  checkSwiglu(gate, up);
  return at::empty_symint(gate.sym_sizes(), gate.options());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) { defineOperator<info, composite, swigluTrained>(m, cpu, meta); }

}  // namespace graft::ops
