// graft::rotary_embedding
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/mul.h>

#include <tuple>

#include "kernels/cpu/support.h"
#include "kernels/ops/gradients/gradients.h"
#include "kernels/ops/operator.h"

namespace graft::ops {
namespace {

constexpr OperatorInfo info{
    "rotary_embedding", "rotary_embedding(Tensor q, Tensor k, Tensor cos, Tensor sin) -> (Tensor, Tensor)",
    "q * cos + rotate_half(q) * sin, and the same for k: rotary position embedding in the half-split form that Llama "
    "uses "
    "(the first half of a head turns with the second). q and k are [batch, heads, length, head size], cos and sin "
    "[length, "
    "head size] or [batch or 1, length, head size] or with a 1 for the heads. Outputs keep the order of q's and k's "
    "strides, as empty_like does.",
    "the head size contiguous in memory; other strides are free"};

using Pair = std::tuple<at::Tensor, at::Tensor>;

// [batch or 1, 1, length, head size]
at::Tensor withHeads(const at::Tensor& table) {
  if (table.dim() == 2) return table.unsqueeze(0).unsqueeze(0);
  return table.dim() == 3 ? table.unsqueeze(1) : table;
}

at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const at::ScalarType compute = computeType(x);
  const at::Tensor wide = x.to(compute);
  const c10::SymInt half = x.sym_size(-1) / 2;
  const at::Tensor low = wide.narrow_symint(-1, 0, half);
  const at::Tensor high = wide.narrow_symint(-1, half, half);
  return (wide * withHeads(cos).to(compute) + at::cat({-high, low}, -1) * withHeads(sin).to(compute))
      .to(x.scalar_type());
}

// The composite's result with the strides of empty_like(x).
at::Tensor laidOutLike(const at::Tensor& x, const at::Tensor& values) {
  const at::Tensor layout = at::empty_like(x);
  if (values.strides() == layout.strides()) return values;
  return at::empty_strided(x.sizes(), layout.strides(), x.options()).copy_(values);
}

Pair composite(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos, const at::Tensor& sin) {
  checkRotary(q, k, cos, sin);
  return {laidOutLike(q, rotated(q, cos, sin)), laidOutLike(k, rotated(k, cos, sin))};
}

at::Tensor rotatedByLoops(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  at::Tensor out = at::empty_like(x);
  if (out.numel() == 0) return out;
  const at::Tensor rows = x.stride(3) == 1 ? x : x.contiguous();
  const int64_t heads = x.size(1), length = x.size(2), size = x.size(3);
  // Where the output's rows are not contiguous, the result is computed in another tensor and copied.
  at::Tensor target = out.stride(3) == 1 ? out : at::empty(x.sizes(), x.options());
  const int64_t item = x.element_size();
  const bool sameForAll = cos.size(0) == 1;
  const char* from = static_cast<const char*>(rows.const_data_ptr());
  char* to = static_cast<char*>(target.mutable_data_ptr());
  at::parallel_for(0, x.size(0) * heads * length, grain(size), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t s = r % length, h = r / length % heads, b = r / (length * heads);
      const int64_t table = ((sameForAll ? 0 : b) * length + s) * size;
      RotaryArgs args;
      args.scalar = scalarOf(x);
      args.x = from + item * (b * rows.stride(0) + h * rows.stride(1) + s * rows.stride(2));
      args.cos = cos.const_data_ptr<float>() + table;
      args.sin = sin.const_data_ptr<float>() + table;
      args.out = to + item * (b * target.stride(0) + h * target.stride(1) + s * target.stride(2));
      args.headSize = size;
      loops().rotaryRow(args);
    }
  });
  if (!target.is_same(out)) out.copy_(target);
  return out;
}

Pair cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos, const at::Tensor& sin) {
  if (!hasLoops(q)) return composite(q, k, cos, sin);
  checkRotary(q, k, cos, sin);
  at::Tensor c = floats(withHeads(cos));
  at::Tensor s = floats(withHeads(sin));
  if (c.size(0) != s.size(0)) {
    c = c.expand({q.size(0), -1, -1, -1}).contiguous();
    s = s.expand({q.size(0), -1, -1, -1}).contiguous();
  }
  return {rotatedByLoops(q, c, s), rotatedByLoops(k, c, s)};
}

Pair meta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos, const at::Tensor& sin) {
  checkRotary(q, k, cos, sin);
  return {at::empty_like(q), at::empty_like(k)};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) { defineOperator<info, composite, rotaryTrained>(m, cpu, meta); }

}  // namespace graft::ops
