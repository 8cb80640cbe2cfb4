#include "core/torch/types/meta_rules.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/rnn_tanh.h>
#include <fmt/format.h>

#include <algorithm>

namespace graft {
namespace {

using c10::IValue;

at::Tensor like(const at::Tensor& t, const std::vector<int64_t>& sizes) { return at::empty(sizes, t.options()); }

std::vector<int64_t> ints(const IValue& v, size_t n, int64_t otherwise) {
  std::vector<int64_t> out;
  if (v.isIntList())
    out = v.toIntVector();
  else if (v.isInt())
    out = {v.toInt()};
  if (out.size() == 1) out.assign(n, out[0]);
  out.resize(n, otherwise);
  return out;
}

/// Widens `sizes`, those of an attention's queries, before the last two dimensions to what `other` has there: PyTorch
/// broadcasts them. False where they do not fit.
bool widen(std::vector<int64_t>& sizes, const at::Tensor& other, size_t first, bool isGrouped) {
  const size_t more = std::max(static_cast<size_t>(other.dim()), sizes.size()) - sizes.size();
  sizes.insert(sizes.begin(), more, 1);
  for (size_t d = first; d <= static_cast<size_t>(other.dim()); ++d) {
    if (isGrouped && d == 3) continue;  // heads that several queries share
    int64_t& size = sizes[sizes.size() - d];
    const int64_t its = other.size(-static_cast<int64_t>(d));
    if (size != its && size != 1 && its != 1) return false;
    if (size == 1) size = its;
  }
  return true;
}

MetaRule convolution(const std::vector<IValue>& a, bool general, std::vector<IValue>& results, std::string& why) {
  const at::Tensor x = a[0].toTensor(), w = a[1].toTensor();
  const int64_t spatial = w.dim() - 2;
  if (spatial < 1 || (x.dim() != w.dim() && x.dim() != w.dim() - 1)) {
    why = fmt::format("an input of rank {} for weights of rank {}", x.dim(), w.dim());
    return MetaRule::Refused;
  }
  const auto n = static_cast<size_t>(spatial);
  const bool transposed = general && a[6].toBool();
  const int64_t groups = general ? a[8].toInt() : a[6].toInt();
  const bool same = a[4].isString() && a[4].toStringRef() == "same";  // as "valid" it is no padding
  const auto stride = ints(a[3], n, 1), padding = ints(a[4], n, 0), dilation = ints(a[5], n, 1);
  const auto extra = general ? ints(a[7], n, 0) : std::vector<int64_t>(n, 0);
  const bool batched = x.dim() == w.dim();
  const int64_t channels = x.size(batched ? 1 : 0), wanted = transposed ? w.size(0) : w.size(1) * groups;
  if (channels != wanted) {
    why = fmt::format("{} channels where the weights want {}", channels, wanted);
    return MetaRule::Refused;
  }
  std::vector<int64_t> sizes;
  if (batched) sizes.push_back(x.size(0));
  sizes.push_back(transposed ? w.size(1) * groups : w.size(0));
  for (size_t i = 0; i < n; ++i) {
    const int64_t in = x.size(static_cast<int64_t>(i) + (batched ? 2 : 1)),
                  kernel = w.size(static_cast<int64_t>(i) + 2);
    const int64_t reach = dilation[i] * (kernel - 1) + 1;
    const int64_t out = same            ? in
                        : transposed    ? (in - 1) * stride[i] - 2 * padding[i] + reach + extra[i]
                        : stride[i] > 0 ? (in + 2 * padding[i] - reach) / stride[i] + 1
                                        : 0;
    if (out <= 0) {
      why = "the kernel is larger than the input";
      return MetaRule::Refused;
    }
    sizes.push_back(out);
  }
  results = {IValue(like(x, sizes))};
  return MetaRule::Done;
}

}  // namespace

MetaRule applyMetaRule(const Operator& called, const std::vector<IValue>& a, std::vector<IValue>& results,
                       std::string& why) {
  const std::string_view op = called.baseName();
  if (a.empty() || !a[0].isTensor()) return MetaRule::None;
  const at::Tensor x = a[0].toTensor();
  const auto isTensorOrNumber = [](const IValue& v) { return v.isTensor() || v.isScalar(); };
  if (op == "where" && a.size() == 3 && isTensorOrNumber(a[1]) && isTensorOrNumber(a[2])) {
    const IValue &yes = a[1], &no = a[2];
    try {
      const auto dtype = yes.isTensor() && no.isTensor() ? at::result_type(yes.toTensor(), no.toTensor())
                         : yes.isTensor()                ? at::result_type(yes.toTensor(), no.toScalar())
                         : no.isTensor()                 ? at::result_type(yes.toScalar(), no.toTensor())
                                                         : at::result_type(yes.toScalar(), no.toScalar());
      std::vector<int64_t> sizes = x.sizes().vec();
      for (const IValue* v : {&yes, &no})
        if (v->isTensor()) sizes = at::infer_size(sizes, v->toTensor().sizes());
      results = {IValue(at::empty(sizes, x.options().dtype(dtype)))};
      return MetaRule::Done;
    } catch (const std::exception&) {
      why = "the shapes do not broadcast";
      return MetaRule::Refused;
    }
  }
  // Rounds down, which LibTorch has no meta kernel for; its dtype is that of the operands, as for a product.
  if (op == "floor_divide" && a.size() == 2) {
    try {
      const bool tensor = a[1].isTensor();
      const auto dtype = tensor ? at::result_type(x, a[1].toTensor()) : at::result_type(x, a[1].toScalar());
      const auto sizes = tensor ? at::infer_size(x.sizes(), a[1].toTensor().sizes()) : x.sizes().vec();
      results = {IValue(at::empty(sizes, x.options().dtype(dtype)))};
      return MetaRule::Done;
    } catch (const std::exception&) {
      why = "the shapes do not broadcast";
      return MetaRule::Refused;
    }
  }
  // relu has no meta kernel in C++, tanh has one.
  if (op == "rnn_relu" && a.size() == 9 && a[2].isTensorList()) {
    try {
      const auto [output, hidden] = at::rnn_tanh(x, a[1].toTensor(), a[2].toTensorVector(), a[3].toBool(), a[4].toInt(),
                                                 0.0, false, a[7].toBool(), a[8].toBool());
      results = {IValue(output), IValue(hidden)};
      return MetaRule::Done;
    } catch (const std::exception&) {
      why = "the weights do not fit the input";
      return MetaRule::Refused;
    }
  }
  // What nn.TransformerEncoder and nn.MultiheadAttention become where no gradient is wanted.
  if (op == "_transformer_encoder_layer_fwd") {
    results = {IValue(like(x, x.sizes().vec()))};
    return MetaRule::Done;
  }
  if (op == "_native_multi_head_attention" && a.size() >= 12 && x.dim() == 3 && a[1].isTensor()) {
    at::Tensor weights;  // none where nobody wants them
    const int64_t keys = a[1].toTensor().size(1);
    if (a[10].toBool())
      weights =
          a[11].toBool() ? like(x, {x.size(0), x.size(1), keys}) : like(x, {x.size(0), a[4].toInt(), x.size(1), keys});
    results = {IValue(like(x, x.sizes().vec())), IValue(weights)};
    return MetaRule::Done;
  }
  if (op == "layer_norm" || op == "rms_norm") {
    const auto shape = a[1].toIntVector();
    const auto n = static_cast<int64_t>(shape.size());
    if (n > x.dim() || !std::equal(shape.begin(), shape.end(), x.sizes().end() - n)) {
      why = fmt::format("the input's last dimensions are not the normalised shape");
      return MetaRule::Refused;
    }
  }
  if (called.is(OperatorFact::NoMetaKernel)) {
    if (x.is_complex()) return MetaRule::None;  // abs of a complex number is real
    at::Tensor result = like(x, x.sizes().vec());
    if (called.facts->dtype == DTypeRule::Promotes && x.scalar_type() == at::kBool) result = result.to(at::kLong);
    results = {IValue(std::move(result))};
    return MetaRule::Done;
  }
  if (op == "embedding" && a.size() >= 2 && a[1].isTensor()) {
    std::vector<int64_t> sizes = a[1].toTensor().sizes().vec();
    if (x.dim() != 2) {
      why = "the table of an embedding has two dimensions";
      return MetaRule::Refused;
    }
    sizes.push_back(x.size(1));
    results = {IValue(like(x, sizes))};
    return MetaRule::Done;
  }
  if (op == "index_select" && a.size() == 3 && a[2].isTensor() && x.dim() > 0) {
    std::vector<int64_t> sizes = x.sizes().vec();
    const int64_t dim = a[1].toInt() < 0 ? a[1].toInt() + x.dim() : a[1].toInt();
    if (dim < 0 || dim >= x.dim()) return MetaRule::None;
    sizes[static_cast<size_t>(dim)] = a[2].toTensor().numel();
    results = {IValue(like(x, sizes))};
    return MetaRule::Done;
  }
  if ((op == "conv1d" || op == "conv2d" || op == "conv3d" || op == "_convolution_mode") && a.size() == 7)
    return convolution(a, false, results, why);
  if ((op == "_convolution" || op == "convolution") && a.size() >= 9) return convolution(a, true, results, why);
  if (op.starts_with("adaptive_avg_pool") && a.size() == 2 && a[1].isIntList()) {
    const auto out = a[1].toIntVector();
    std::vector<int64_t> sizes = x.sizes().vec();
    if (out.size() > sizes.size()) return MetaRule::None;
    std::copy(out.begin(), out.end(), sizes.end() - static_cast<std::ptrdiff_t>(out.size()));
    results = {IValue(like(x, sizes))};
    return MetaRule::Done;
  }
  if (op == "scaled_dot_product_attention" && a.size() >= 3) {
    std::vector<int64_t> sizes = x.sizes().vec();
    const at::Tensor v = a[2].toTensor();
    if (sizes.empty() || v.dim() == 0) return MetaRule::None;
    const bool isGrouped = a.size() > 7 && a[7].isBool() && a[7].toBool();
    const bool hasMask = a.size() > 3 && a[3].isTensor();
    if (!widen(sizes, a[1].toTensor(), 3, isGrouped) || !widen(sizes, v, 3, isGrouped) ||
        (hasMask && !widen(sizes, a[3].toTensor(), 2, false))) {
      why = "queries, keys, values and mask do not broadcast";
      return MetaRule::Refused;
    }
    sizes.back() = v.size(-1);
    // Its memory is laid out as the queries' is, where that is dense.
    results = {IValue(x.sizes() == sizes ? at::empty_like(x) : like(x, sizes))};
    return MetaRule::Done;
  }
  return MetaRule::None;
}

}  // namespace graft
