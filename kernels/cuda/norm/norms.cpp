// graft::add_layer_norm, add_rms_norm, embedding_layer_norm and masked_softmax on CUDA.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "kernels/cuda/composite_fallback.h"
#include "kernels/cuda/support.h"

namespace graft::cuda {
namespace {

// Launches a norm of x + inputBias + residual into `out`, and that sum into `sum` if it is defined.
void norm(const char* op, const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight,
          const OptionalTensor& bias, const OptionalTensor& inputBias, double eps, bool rms, const at::Tensor& out,
          const at::Tensor& sum) {
  if (out.numel() == 0) return;
  const Rows rows = asRows(x);
  Rows added;
  if (given(residual)) added = asRows(residual->expand_as(x));
  const OptionalTensor w = dense(weight), b = dense(bias), ib = dense(inputBias);
  NormArgs a;
  a.dtype = dtypeOf(op, x);
  a.x = rows.tensor.const_data_ptr();
  a.ldx = rows.stride;
  if (added.tensor.defined()) a.residual = added.tensor.const_data_ptr(), a.ldr = added.stride;
  a.weight = pointer(w), a.bias = pointer(b), a.inputBias = pointer(ib);
  a.out = out.mutable_data_ptr();
  a.sum = sum.defined() ? sum.mutable_data_ptr() : nullptr;
  a.rows = rows.rows, a.n = rows.columns;
  a.eps = static_cast<float>(eps);
  a.rms = rms;
  a.pdl = usesPdl();
  a.constantWeights = a.pdl && options().constantWeights;
  const cudaError_t status = launchNorm(a, c10::cuda::getCurrentCUDAStream());
  TORCH_CHECK(status != cudaErrorNotSupported, "graft::", op, ": ", a.rows,
              " rows are too many for CUDA; up to 2^31 - 1");
  report(op, status);
}

at::Tensor addLayerNorm(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight,
                        const OptionalTensor& bias, double eps, const OptionalTensor& inputBias) {
  if (ops::widerThan(x, residual))
    return addLayerNorm(ops::withRowsOf(residual, x), residual, weight, bias, eps, inputBias);
  ops::checkNorm("add_layer_norm", x, residual, weight, bias, inputBias);
  dtypeOf("add_layer_norm", x);
  const c10::cuda::CUDAGuard guard(x.device());
  at::Tensor out = at::empty(x.sizes(), x.options());
  norm("add_layer_norm", x, residual, weight, bias, inputBias, eps, false, out, {});
  return out;
}

std::tuple<at::Tensor, at::Tensor> addRmsNorm(const at::Tensor& x, const OptionalTensor& residual,
                                              const OptionalTensor& weight, double eps) {
  if (ops::widerThan(x, residual)) return addRmsNorm(ops::withRowsOf(residual, x), residual, weight, eps);
  ops::checkNorm("add_rms_norm", x, residual, weight, {}, {});
  dtypeOf("add_rms_norm", x);
  const c10::cuda::CUDAGuard guard(x.device());
  at::Tensor out = at::empty(x.sizes(), x.options()), sum = at::empty(x.sizes(), x.options());
  norm("add_rms_norm", x, residual, weight, {}, {}, eps, true, out, sum);
  return {out, sum};
}

at::Tensor embeddingLayerNorm(at::TensorList ids, at::TensorList tables, const OptionalTensor& weight,
                              const OptionalTensor& bias, double eps) {
  const char* op = "embedding_layer_norm";
  ops::checkEmbedding(ids, tables, weight, bias);
  TORCH_CHECK(tables.size() <= kMaxTables, "graft::", op, ": ", tables.size(), " tables; CUDA takes up to ",
              kMaxTables);
  const c10::cuda::CUDAGuard guard(tables[0].device());
  EmbeddingArgs a;
  a.dtype = dtypeOf(op, tables[0]);
  std::vector<int64_t> shape = ids[0].sizes().vec();
  for (size_t i = 1; i < ids.size(); ++i) shape = at::infer_size(shape, ids[i].sizes());
  const std::vector<int64_t> idShape = shape;
  shape.push_back(tables[0].size(1));
  at::Tensor out = at::empty(shape, tables[0].options());
  if (out.numel() == 0) return out;
  a.outer = 1, a.inner = 1;
  if (!idShape.empty()) a.inner = idShape.back();
  for (size_t d = 0; d + 1 < idShape.size(); ++d) a.outer *= idShape[d];
  std::vector<at::Tensor> kept;
  for (size_t i = 0; i < ids.size(); ++i) {
    at::Tensor wide = ids[i].scalar_type() == at::kLong ? ids[i] : ids[i].to(at::kLong);
    wide = wide.expand(idShape);
    // The kernel has two strides, enough for [batch, length]; ids with more dimensions are made contiguous.
    if (wide.dim() > 2) wide = wide.contiguous();
    const int64_t last = wide.dim() - 1;
    a.idStride[i][1] = wide.dim() >= 1 ? wide.stride(last) : 0;
    a.idStride[i][0] = wide.dim() == 2 ? wide.stride(0) : wide.dim() > 2 ? a.inner : 0;
    kept.push_back(wide);
    a.ids[i] = wide.const_data_ptr<int64_t>();
    kept.push_back(tables[i].contiguous());
    a.table[i] = kept.back().const_data_ptr();
    a.tableRows[i] = tables[i].size(0);
  }
  const OptionalTensor w = dense(weight), b = dense(bias);
  a.tables = static_cast<int>(tables.size());
  a.weight = pointer(w), a.bias = pointer(b);
  a.out = out.mutable_data_ptr();
  a.n = tables[0].size(1);
  a.eps = static_cast<float>(eps);
  a.pdl = usesPdl();
  const cudaError_t status = launchEmbeddingNorm(a, c10::cuda::getCurrentCUDAStream());
  TORCH_CHECK(status != cudaErrorNotSupported, "graft::", op, ": ", a.outer * a.inner,
              " positions are too many for CUDA");
  report(op, status);
  return out;
}

at::Tensor maskedSoftmax(const at::Tensor& x, const OptionalTensor& mask, double scale, int64_t dim) {
  ops::checkSoftmax(x, mask, dim);
  dtypeOf("masked_softmax", x);
  const c10::cuda::CUDAGuard guard(x.device());
  const int64_t last = x.dim() - 1;
  if (dim < 0) dim += x.dim();
  if (dim != last) {
    const OptionalTensor turned =
        given(mask) ? OptionalTensor(mask->expand(x.sizes()).transpose(dim, last)) : OptionalTensor();
    return maskedSoftmax(x.transpose(dim, last), turned, scale, last).transpose(dim, last).contiguous();
  }
  at::Tensor out = at::empty(x.sizes(), x.options());
  if (out.numel() == 0) return out;
  // The kernel takes 4 dimensions with any strides. More are folded into the first, which may need a copy.
  at::Tensor rows = x;
  at::Tensor wide = given(mask) ? mask->expand(x.sizes()) : at::Tensor();
  const auto fourDims = [&](at::Tensor t) {
    while (t.dim() < 4) t = t.unsqueeze(0);
    if (t.dim() > 4) t = t.reshape({-1, t.size(-3), t.size(-2), t.size(-1)});
    return t;
  };
  rows = fourDims(rows);
  SoftmaxArgs a;
  at::Tensor kept;
  a.mask = maskArg(wide.defined() ? OptionalTensor(fourDims(wide)) : OptionalTensor(), rows.sizes(), kept);
  a.dtype = dtypeOf("masked_softmax", x);
  a.x = rows.const_data_ptr();
  a.out = out.mutable_data_ptr();
  for (int d = 0; d < 4; ++d) a.size[d] = rows.size(d), a.xs[d] = rows.stride(d);
  a.scale = static_cast<float>(scale);
  a.pdl = usesPdl();
  const cudaError_t status = launchSoftmax(a, c10::cuda::getCurrentCUDAStream());
  TORCH_CHECK(status != cudaErrorNotSupported, "graft::masked_softmax: x ", x.sizes(), " has too many rows for CUDA");
  report("masked_softmax", status);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(graft, CUDA, m) {
  m.impl("add_layer_norm", &CompositeFallback<"add_layer_norm", addLayerNorm>::call);
  m.impl("add_rms_norm", &CompositeFallback<"add_rms_norm", addRmsNorm>::call);
  m.impl("embedding_layer_norm", &CompositeFallback<"embedding_layer_norm", embeddingLayerNorm>::call);
  m.impl("masked_softmax", &CompositeFallback<"masked_softmax", maskedSoftmax>::call);
}

}  // namespace graft::cuda
