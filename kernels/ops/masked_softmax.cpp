// graft::masked_softmax
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/softmax.h>

#include <limits>

#include "kernels/cpu/support.h"
#include "kernels/ops/gradients/gradients.h"
#include "kernels/ops/operator.h"

namespace graft::ops {
namespace {

constexpr OperatorInfo info{
    "masked_softmax", "masked_softmax(Tensor x, Tensor? mask=None, *, float scale=1.0, int dim=-1) -> Tensor",
    "softmax(x * scale + mask) over one dimension, in fp32 throughout. A floating-point mask is added, a bool mask "
    "sets "
    "elements that are false to -Inf; either broadcasts to x. A row with nothing left gives NaN, as softmax does. The "
    "output is contiguous.",
    "fast over the last dimension; others are transposed first"};

at::Tensor composite(const at::Tensor& x, const OptionalTensor& mask, double scale, int64_t dim) {
  checkSoftmax(x, mask, dim);
  const at::ScalarType compute = computeType(x);
  at::Tensor scores = x.to(compute);
  if (scale != 1.0) scores = scores * scale;
  if (given(mask)) {
    scores = mask->scalar_type() == at::kBool
                 ? scores.masked_fill(mask->logical_not(), -std::numeric_limits<double>::infinity())
                 : scores + mask->to(compute);
  }
  return at::softmax(scores, dim).to(x.scalar_type()).contiguous();
}

// Iterates over the rows of a tensor of x's shape, whose strides may be 0: offset() is where the current row begins.
class RowWalk {
 public:
  RowWalk(at::IntArrayRef sizes, at::IntArrayRef strides, int64_t row)
      : sizes_(sizes.slice(0, sizes.size() - 1)), strides_(strides), index_(sizes_.size()) {
    for (int64_t d = static_cast<int64_t>(sizes_.size()) - 1; d >= 0; --d) {
      index_[d] = row % sizes_[d];
      row /= sizes_[d];
      offset_ += index_[d] * strides_[d];
    }
  }
  int64_t offset() const { return offset_; }
  void next() {
    for (int64_t d = static_cast<int64_t>(sizes_.size()) - 1; d >= 0; --d) {
      offset_ += strides_[d];
      if (++index_[d] < sizes_[d]) return;
      offset_ -= sizes_[d] * strides_[d];
      index_[d] = 0;
    }
  }

 private:
  at::IntArrayRef sizes_, strides_;
  c10::SmallVector<int64_t, 6> index_;
  int64_t offset_ = 0;
};

at::Tensor overLastDimension(const at::Tensor& x, const OptionalTensor& mask, double scale) {
  at::Tensor out = at::empty(x.sizes(), x.options());
  if (out.numel() == 0) return out;
  const at::Tensor rows = dense(x);
  at::Tensor wide;
  if (given(mask)) {
    wide = mask->scalar_type() == at::kBool ? *mask : mask->to(at::kFloat);
    // The loop reads a mask row by row, so it must be contiguous over the columns.
    if (wide.dim() == 0) wide = wide.unsqueeze(0);
    std::vector<int64_t> rowSizes = wide.sizes().vec();
    rowSizes.back() = x.size(-1);
    wide = wide.expand(rowSizes);
    if (wide.stride(-1) != 1) wide = wide.contiguous();
    wide = wide.expand_as(x);
  }
  const bool keeps = wide.defined() && wide.scalar_type() == at::kBool;
  const float* added = wide.defined() && !keeps ? wide.const_data_ptr<float>() : nullptr;
  const uint8_t* keep = keeps ? reinterpret_cast<const uint8_t*>(wide.const_data_ptr<bool>()) : nullptr;
  SoftmaxArgs args;
  args.scalar = scalarOf(x);
  args.x = rows.const_data_ptr();
  args.out = out.mutable_data_ptr();
  args.columns = x.size(-1);
  args.scale = static_cast<float>(scale);
  at::parallel_for(0, out.numel() / args.columns, grain(args.columns), [&](int64_t begin, int64_t end) {
    SoftmaxArgs mine = args;
    mine.scratch = scratch(args.columns);
    if (!wide.defined()) {
      for (int64_t r = begin; r < end; ++r) loops().softmaxRow(mine, r, nullptr, nullptr);
      return;
    }
    RowWalk walk(x.sizes(), wide.strides(), begin);
    for (int64_t r = begin; r < end; ++r, walk.next()) {
      loops().softmaxRow(mine, r, added ? added + walk.offset() : nullptr, keep ? keep + walk.offset() : nullptr);
    }
  });
  return out;
}

at::Tensor cpu(const at::Tensor& x, const OptionalTensor& mask, double scale, int64_t dim) {
  if (!hasLoops(x)) return composite(x, mask, scale, dim);
  checkSoftmax(x, mask, dim);
  if (dim == -1 || dim == x.dim() - 1) return overLastDimension(x, mask, scale);
  const OptionalTensor turned = given(mask) ? OptionalTensor(mask->expand_as(x).transpose(dim, -1)) : OptionalTensor();
  return overLastDimension(x.transpose(dim, -1), turned, scale).transpose(dim, -1).contiguous();
}

at::Tensor meta(const at::Tensor& x, const OptionalTensor& mask, double scale, int64_t dim) {
  checkSoftmax(x, mask, dim);
  return at::empty_symint(x.sym_sizes(), x.options());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) { defineOperator<info, composite, maskedSoftmaxTrained>(m, cpu, meta); }

}  // namespace graft::ops
