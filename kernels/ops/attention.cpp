// graft::attention
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/support.h"
#include "kernels/ops/gradients/gradients.h"
#include "kernels/ops/operator.h"

namespace graft::ops {
namespace {

constexpr OperatorInfo info{
    "attention",
    "attention(Tensor q, Tensor k, Tensor v, Tensor? mask=None, *, float? scale=None, bool causal=False) -> Tensor",
    "softmax(q k^T * scale + mask) v. q is [batch, heads, length, head size]; k and v may have fewer heads "
    "(grouped-query) "
    "and another length; or all three are [batch, length, head size]. A batch of 1 serves every sample of the others. "
    "The mask broadcasts to [batch, heads, length, keys] "
    "and is added, or, where bool, false masks out. causal lets query i see keys 0 to i. The scale defaults to "
    "1/sqrt(head size). A query that sees no key gives zeros. The output's memory is [batch, length, heads, head "
    "size], so "
    "that transpose(1, 2).reshape(...) is free.",
    "head size contiguous in memory; other strides are free. On CUDA fastest on Hopper for float16 and bfloat16, head "
    "sizes that are multiples of 8 up to 128 and strides that are multiples of 8; such sizes up to 256 on the tensor "
    "cores of any GPU; float32 and other sizes up to 256 in plainer kernels; larger ones, and float64, as the "
    "composite"};

// 3-D inputs have one head.
at::Tensor withHeads(const at::Tensor& tensor) { return tensor.dim() == 3 ? tensor.unsqueeze(1) : tensor; }

OptionalTensor maskWithHeads(const OptionalTensor& mask, const at::Tensor& q) {
  if (!given(mask)) return {};
  return q.dim() == 3 && mask->dim() == 3 ? OptionalTensor(mask->unsqueeze(1)) : mask;
}

at::Tensor innermost(const at::Tensor& tensor) { return tensor.stride(-1) == 1 ? tensor : tensor.contiguous(); }

// q, k or v as the loops read it: [batch, heads, length, head size], contiguous in the last dimension.
at::Tensor readable(const at::Tensor& tensor, int64_t batch) { return withBatch(innermost(withHeads(tensor)), batch); }

double scaleOf(std::optional<double> scale, const at::Tensor& q) {
  return scale ? *scale : 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
}

// [batch, kv heads, ...] to [batch, heads, ...], with each head repeated.
at::Tensor repeated(const at::Tensor& tensor, const at::Tensor& q) {
  const c10::SymInt heads = q.sym_size(1), kvHeads = tensor.sym_size(1);
  if (heads == kvHeads) return tensor;
  return tensor.unsqueeze(2)
      .expand_symint({tensor.sym_size(0), kvHeads, heads / kvHeads, tensor.sym_size(2), tensor.sym_size(3)})
      .reshape_symint({tensor.sym_size(0), heads, tensor.sym_size(2), tensor.sym_size(3)});
}

// A copy of the values in the output's memory layout, [batch, length, heads, head size].
at::Tensor laidOut(const at::Tensor& values, const at::Tensor& q3) {
  at::Tensor out =
      at::empty_symint({values.sym_size(0), values.sym_size(2), values.sym_size(1), values.sym_size(3)}, q3.options());
  out.copy_(values.transpose(1, 2));
  return q3.dim() == 3 ? out.squeeze(2) : out.transpose(1, 2);
}

at::Tensor causalMask(const at::Tensor& q, const at::Tensor& k) {
  const at::TensorOptions options = q.options().dtype(at::kLong);
  return at::arange(k.sym_size(2), options).unsqueeze(0) <= at::arange(q.sym_size(2), options).unsqueeze(1);
}

at::Tensor composite(const at::Tensor& q3, const at::Tensor& k3, const at::Tensor& v3, const OptionalTensor& mask3,
                     std::optional<double> scale, bool causal) {
  checkAttention(q3, k3, v3, mask3);
  const at::ScalarType compute = computeType(q3);
  const at::Tensor q = withHeads(q3).to(compute);
  const at::Tensor k = repeated(withHeads(k3).to(compute), q);
  const at::Tensor v = repeated(withHeads(v3).to(compute), q);
  const OptionalTensor mask = maskWithHeads(mask3, q3);
  const double lowest = -std::numeric_limits<double>::infinity();
  at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) * scaleOf(scale, q);
  if (given(mask)) {
    scores =
        mask->scalar_type() == at::kBool ? scores.masked_fill(mask->logical_not(), lowest) : scores + mask->to(compute);
  }
  if (causal) scores = scores.masked_fill(causalMask(q, k).logical_not(), lowest);
  const at::Tensor unseen = (scores == lowest).all(-1, /*keepdim=*/true);
  const at::Tensor weights = at::softmax(scores.masked_fill(unseen, 0.0), -1).masked_fill(unseen, 0.0);
  return laidOut(at::matmul(weights, v), q3);
}

// The mask as fp32 or bool [batch, heads, queries, keys], contiguous over the keys; other strides may be 0.
at::Tensor readableMask(const at::Tensor& given, const at::Tensor& q, const at::Tensor& k) {
  at::Tensor mask = given.scalar_type() == at::kBool ? given : given.to(at::kFloat);
  if (mask.dim() == 0) mask = mask.unsqueeze(0);
  if (mask.size(-1) != k.size(2) || mask.stride(-1) != 1) {
    std::vector<int64_t> sizes = mask.sizes().vec();
    sizes.back() = k.size(2);
    mask = mask.expand(sizes).contiguous();
  }
  return mask.expand({q.size(0), q.size(1), q.size(2), k.size(2)});
}

// Splits the queries of each head into blocks. That happens only where there are too few heads for the threads, because
// each block packs the keys again.
void split(AttentionArgs& args, int64_t heads) {
  const int64_t wanted = 2 * at::get_num_threads();
  args.blocks = heads >= wanted ? 1 : std::min((args.queries + 31) / 32, (wanted + heads - 1) / heads);
  args.block = ((args.queries + args.blocks - 1) / args.blocks + 7) / 8 * 8;
  args.blocks = (args.queries + args.block - 1) / args.block;
}

at::Tensor cpu(const at::Tensor& q3, const at::Tensor& k3, const at::Tensor& v3, const OptionalTensor& mask3,
               std::optional<double> scale, bool causal) {
  if (!hasLoops(q3)) return composite(q3, k3, v3, mask3, scale, causal);
  checkAttention(q3, k3, v3, mask3);
  const int64_t batch = attentionBatch(q3, k3, v3, mask3).expect_int();
  const at::Tensor q = readable(q3, batch), k = readable(k3, batch), v = readable(v3, batch);
  at::Tensor out = at::empty({q.size(0), q.size(2), q.size(1), v.size(3)}, q.options());
  const at::Tensor result = q3.dim() == 3 ? out.squeeze(2) : out.transpose(1, 2);
  if (out.numel() == 0) return result;
  if (k.size(2) == 0) return out.zero_(), result;
  AttentionArgs args;
  args.scalar = scalarOf(q);
  args.q = q.const_data_ptr();
  args.k = k.const_data_ptr();
  args.v = v.const_data_ptr();
  args.out = out.mutable_data_ptr();
  for (int i = 0; i < 3; ++i) {
    args.qStrides[i] = q.stride(i);
    args.kStrides[i] = k.stride(i);
    args.vStrides[i] = v.stride(i);
  }
  at::Tensor mask;
  if (given(mask3)) {
    mask = readableMask(*maskWithHeads(mask3, q3), q, k);
    for (int i = 0; i < 3; ++i) args.maskStrides[i] = mask.stride(i);
    if (mask.scalar_type() == at::kBool) {
      args.keep = reinterpret_cast<const uint8_t*>(mask.const_data_ptr<bool>());
    } else {
      args.mask = mask.const_data_ptr<float>();
    }
  }
  args.heads = q.size(1);
  args.kvHeads = k.size(1);
  args.queries = q.size(2);
  args.keys = k.size(2);
  args.headSize = q.size(3);
  args.valueSize = v.size(3);
  args.scale = static_cast<float>(scaleOf(scale, q));
  args.causal = causal;
  const int64_t heads = q.size(0) * q.size(1);
  split(args, heads);
  const int64_t work = args.block * args.keys * (args.headSize + args.valueSize);  // multiply-adds of an item
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, work));
  at::parallel_for(0, heads * args.blocks, grain, [&](int64_t begin, int64_t end) {
    loops().attention(args, begin, end, scratch(loops().attentionScratch(args)));
  });
  return result;
}

at::Tensor meta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& mask,
                std::optional<double> scale, bool causal) {
  checkAttention(q, k, v, mask);
  const c10::SymInt batch = attentionBatch(q, k, v, mask);
  if (q.dim() == 3) return at::empty_symint({batch, q.sym_size(1), v.sym_size(2)}, q.options());
  return at::empty_symint({batch, q.sym_size(2), q.sym_size(1), v.sym_size(3)}, q.options()).transpose(1, 2);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) { defineOperator<info, composite, attentionTrained>(m, cpu, meta); }

}  // namespace graft::ops
