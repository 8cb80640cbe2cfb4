// graft::qkv_projection
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>

#include <tuple>

#include "kernels/cpu/packed_linear.h"
#include "kernels/cpu/support.h"
#include "kernels/ops/gradients/gradients.h"
#include "kernels/ops/operator.h"

namespace graft::ops {
namespace {

constexpr OperatorInfo info{
    "qkv_projection",
    "qkv_projection(Tensor x, Tensor weight, Tensor? bias=None, *, int heads, int kv_heads) -> (Tensor q, Tensor k, "
    "Tensor "
    "v)",
    "The three projections of attention as one product: weight is q's, k's and v's weights on top of each other, "
    "[(heads + 2 * kv_heads) * head size, features]. q is [batch, heads, length, head size], k and v have kv_heads "
    "heads. "
    "All three lie interleaved in one block of memory, as [batch, length, heads + 2 * kv_heads, head size]; they do "
    "not "
    "overlap, and graft::attention reads them in place.",
    "as linear"};

using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Triple composite(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias, int64_t heads,
                 int64_t kvHeads) {
  checkQkv(x, weight, bias, heads, kvHeads);
  const at::ScalarType compute = computeType(x);
  OptionalTensor addend;
  if (given(bias)) addend = bias->to(compute);
  const at::Tensor all = at::linear(x.to(compute), weight.to(compute), addend).to(x.scalar_type());
  const c10::SymInt size = weight.sym_size(0) / (heads + 2 * kvHeads);
  const at::Tensor split = all.view_symint({x.sym_size(0), x.sym_size(1), heads + 2 * kvHeads, size}).transpose(1, 2);
  return {split.narrow(1, 0, heads), split.narrow(1, heads, kvHeads), split.narrow(1, heads + kvHeads, kvHeads)};
}

// A tensor over part of `whole`'s memory, with a storage of its own that keeps `whole` alive: outputs of an operator
// must not share a storage. The parts do not overlap.
at::Tensor part(const at::Tensor& whole, int64_t offset, at::IntArrayRef sizes, at::IntArrayRef strides) {
  char* data = static_cast<char*>(whole.mutable_data_ptr()) + offset * whole.element_size();
  return at::for_blob(data, sizes).strides(strides).deleter([whole](void*) {}).options(whole.options()).make_tensor();
}

Triple cpu(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias, int64_t heads, int64_t kvHeads) {
  checkQkv(x, weight, bias, heads, kvHeads);
  const at::Tensor all =
      hasLoops(x) ? linearForward(x, weight, bias, Activation::None, {}) : dense(at::linear(x, weight, bias));
  const int64_t batch = x.size(0), length = x.size(1);
  const int64_t slots = heads + 2 * kvHeads;
  const int64_t size = weight.size(0) / slots;
  const int64_t strides[] = {length * slots * size, size, slots * size, 1};
  const int64_t qSizes[] = {batch, heads, length, size};
  const int64_t kvSizes[] = {batch, kvHeads, length, size};
  return {part(all, 0, qSizes, strides), part(all, heads * size, kvSizes, strides),
          part(all, (heads + kvHeads) * size, kvSizes, strides)};
}

Triple meta(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias, int64_t heads, int64_t kvHeads) {
  checkQkv(x, weight, bias, heads, kvHeads);
  const c10::SymInt batch = x.sym_size(0), length = x.sym_size(1);
  const int64_t slots = heads + 2 * kvHeads;
  const c10::SymInt size = weight.sym_size(0) / slots;
  const c10::SymInt strides[] = {length * slots * size, size, size * slots, 1};
  const c10::SymInt qSizes[] = {batch, heads, length, size};
  const c10::SymInt kvSizes[] = {batch, kvHeads, length, size};
  return {at::empty_strided_symint(qSizes, strides, x.options()),
          at::empty_strided_symint(kvSizes, strides, x.options()),
          at::empty_strided_symint(kvSizes, strides, x.options())};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) { defineOperator<info, composite, qkvTrained>(m, cpu, meta); }

}  // namespace graft::ops
