// Checks of each operator's inputs, which the CPU, CUDA and Meta versions all make before they access memory. They
// throw c10::Error with a message that names the shapes. They read no values of tensors, and use symbolic sizes, so
// that the Meta versions can be traced with unknown dimensions.
//
//   checkLinear("linear", x, weight, bias);     // "graft::linear: x [4, 5] does not fit weight [3, 6]; ..."
//
// Semantics that the schemas do not express:
// - attention: causal keeps key j for query i where j <= i, aligned at the top left as in PyTorch's own attention.
//   A query whose keys are all masked out (by false or -Inf) gives zeros, as there. A mask and causal apply together.
//   A batch of 1, of q, k, v or the mask, serves every sample of the others, as in matmul.
// - masked_softmax: a row with every element masked out gives NaN, as softmax(x + mask) does.
// - linear and the norms: what is computed of x and the residual broadcast together, so that the output may have more
//   rows than x (widerThan).
#pragma once

#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace graft::ops {

using OptionalTensor = std::optional<at::Tensor>;

inline bool given(const OptionalTensor& tensor) { return tensor.has_value() && tensor->defined(); }

// Same dtype and device: "graft::linear: weight is Half but x is Float; convert one of them".
inline void checkLike(const char* op, const at::Tensor& like, const char* likeName, const OptionalTensor& tensor,
                      const char* what) {
  if (!given(tensor)) return;
  TORCH_CHECK(tensor->scalar_type() == like.scalar_type(), "graft::", op, ": ", what, " is ", tensor->scalar_type(),
              " but ", likeName, " is ", like.scalar_type(), "; convert one of them");
  TORCH_CHECK(tensor->device() == like.device(), "graft::", op, ": ", what, " is on ", tensor->device(), " but ",
              likeName, " is on ", like.device());
}

inline void checkFloating(const char* op, const at::Tensor& tensor, const char* what) {
  const at::ScalarType type = tensor.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16, "graft::", op,
              ": ", what, " is ", type, "; float32, float64, float16 and bfloat16 are supported");
}

inline bool broadcastable(c10::SymIntArrayRef from, c10::SymIntArrayRef to) {
  if (from.size() > to.size()) return false;
  for (size_t i = 1; i <= from.size(); ++i) {
    const c10::SymInt& size = from[from.size() - i];
    if (size != to[to.size() - i] && size != 1) return false;
  }
  return true;
}

inline void checkBroadcast(const char* op, const OptionalTensor& tensor, const char* what, c10::SymIntArrayRef to,
                           const char* toName) {
  if (!given(tensor)) return;
  TORCH_CHECK(broadcastable(tensor->sym_sizes(), to), "graft::", op, ": ", what, " ", tensor->sym_sizes(),
              " does not broadcast to ", toName, " ", to);
}

// What a size of 1 becomes beside another one: that, as they broadcast.
inline void widen(c10::SymInt& size, const c10::SymInt& other) {
  if (size != other && size == 1) size = other;
}

// Widens the sizes before the last to those of a residual.
inline void takeRowsOf(const at::Tensor& residual, std::vector<c10::SymInt>& sizes) {
  for (int64_t i = 2; i <= std::min<int64_t>(residual.dim(), static_cast<int64_t>(sizes.size())); ++i)
    widen(sizes[sizes.size() - i], residual.sym_size(-i));
}

// Whether a residual has more rows than x, because x has one sample for all, or a dimension less.
inline bool widerThan(const at::Tensor& x, const OptionalTensor& residual) {
  if (!given(residual)) return false;
  if (residual->dim() > x.dim()) return true;
  for (int64_t i = 2; i <= residual->dim(); ++i)
    if (residual->sym_size(-i) != x.sym_size(-i) && x.sym_size(-i) == 1) return true;
  return false;
}

// x for all rows that it and the residual have together: a view. Then widerThan does not hold any more.
inline at::Tensor withRowsOf(const OptionalTensor& residual, const at::Tensor& x) {
  std::vector<c10::SymInt> sizes = x.sym_sizes().vec();
  if (static_cast<size_t>(residual->dim()) > sizes.size())
    sizes.insert(sizes.begin(), residual->dim() - sizes.size(), c10::SymInt(1));
  takeRowsOf(*residual, sizes);
  return x.expand_symint(sizes);
}

inline void checkVector(const char* op, const OptionalTensor& tensor, const char* what, const c10::SymInt& size) {
  if (!given(tensor)) return;
  TORCH_CHECK(tensor->dim() == 1 && tensor->sym_size(0) == size, "graft::", op, ": ", what, " ", tensor->sym_sizes(),
              " should be [", size, "]");
}

inline void checkMask(const char* op, const OptionalTensor& mask, const at::Tensor& like, c10::SymIntArrayRef to,
                      const char* toName) {
  if (!given(mask)) return;
  TORCH_CHECK(mask->scalar_type() == at::kBool || at::isFloatingType(mask->scalar_type()), "graft::", op, ": mask is ",
              mask->scalar_type(), "; it should be bool (false is masked out) or floating point (added)");
  TORCH_CHECK(mask->device() == like.device(), "graft::", op, ": mask is on ", mask->device(), " but the input is on ",
              like.device());
  checkBroadcast(op, mask, "mask", to, toName);
}

// The batch that those of q, k, v and the mask broadcast to; a mask with fewer dimensions has none.
inline c10::SymInt attentionBatch(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const OptionalTensor& mask) {
  c10::SymInt batch = q.sym_size(0);
  widen(batch, k.sym_size(0));
  widen(batch, v.sym_size(0));
  if (given(mask) && mask->dim() == q.dim()) widen(batch, mask->sym_size(0));
  return batch;
}

// q, k or v for that batch: a view.
inline at::Tensor withBatch(const at::Tensor& tensor, const c10::SymInt& batch) {
  if (tensor.sym_size(0) == batch) return tensor;
  c10::SymDimVector sizes(tensor.sym_sizes().begin(), tensor.sym_sizes().end());
  sizes[0] = batch;
  return tensor.expand_symint(sizes);
}

inline void checkAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& mask) {
  checkFloating("attention", q, "q");
  checkLike("attention", q, "q", k, "k");
  checkLike("attention", q, "q", v, "v");
  const auto shapes = [&] { return c10::str("q ", q.sym_sizes(), ", k ", k.sym_sizes(), ", v ", v.sym_sizes()); };
  TORCH_CHECK(
      (q.dim() == 4 || q.dim() == 3) && k.dim() == q.dim() && v.dim() == q.dim(),
      "graft::attention: q, k and v should all have 4 dimensions [batch, heads, length, head size], or all 3; got ",
      shapes());
  const int64_t d = q.dim();
  const c10::SymInt batch = attentionBatch(q, k, v, mask);
  const auto hasBatch = [&](const at::Tensor& t) { return t.sym_size(0) == batch || t.sym_size(0) == 1; };
  TORCH_CHECK(hasBatch(q) && hasBatch(k) && hasBatch(v), "graft::attention: batch sizes differ: ", shapes());
  TORCH_CHECK(q.sym_size(-1) == k.sym_size(-1), "graft::attention: q and k differ in head size: ", shapes());
  TORCH_CHECK(k.sym_size(-2) == v.sym_size(-2), "graft::attention: k and v differ in length: ", shapes());
  if (d == 4) {
    TORCH_CHECK(k.sym_size(1) == v.sym_size(1), "graft::attention: k and v differ in heads: ", shapes());
    TORCH_CHECK(k.sym_size(1) == q.sym_size(1) || (k.sym_size(1) > 0 && q.sym_size(1) % k.sym_size(1) == 0),
                "graft::attention: the heads of k and v should divide those of q: ", shapes());
    const c10::SymInt scores[] = {batch, q.sym_size(1), q.sym_size(2), k.sym_size(2)};
    checkMask("attention", mask, q, scores, "the scores");
  } else {
    const c10::SymInt scores[] = {batch, q.sym_size(1), k.sym_size(1)};
    checkMask("attention", mask, q, scores, "the scores");
  }
}

inline void checkActivation(std::string_view activation) {
  TORCH_CHECK(activation == "none" || activation == "relu" || activation == "gelu" || activation == "gelu_tanh" ||
                  activation == "silu",
              "graft::linear: unknown activation '", activation, "'; known are none, relu, gelu, gelu_tanh, silu");
}

inline void checkConvActivation(std::string_view activation) {
  for (const std::string_view known : {"none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "hardswish",
                                       "hardsigmoid", "hardtanh", "leaky_relu"}) {
    if (activation == known) return;
  }
  TORCH_CHECK(false, "graft::conv_activation: unknown activation '", activation,
              "'; known are none, relu, gelu, gelu_tanh, silu, sigmoid, tanh, hardswish, hardsigmoid, hardtanh and "
              "leaky_relu");
}

inline void checkLinear(const char* op, const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias) {
  checkFloating(op, x, "x");
  checkLike(op, x, "x", weight, "weight");
  checkLike(op, x, "x", bias, "bias");
  TORCH_CHECK(x.dim() >= 1 && weight.dim() == 2 && x.sym_size(-1) == weight.sym_size(1), "graft::", op, ": x ",
              x.sym_sizes(), " does not fit weight ", weight.sym_sizes(),
              "; x [..., in] and weight [out, in] are expected");
  checkVector(op, bias, "bias", weight.sym_size(0));
}

// The shape of x weight^T, for inputs that have passed checkLinear.
inline std::vector<c10::SymInt> linearShape(const at::Tensor& x, const at::Tensor& weight) {
  std::vector<c10::SymInt> shape = x.sym_sizes().vec();
  shape.back() = weight.sym_size(0);
  return shape;
}

inline void checkBatchedLinear(const char* op, const at::Tensor& x, const at::Tensor& weight) {
  checkFloating(op, x, "x");
  checkLike(op, x, "x", weight, "weight");
  const auto fitsBatch = [&] {
    return x.sym_size(0) == weight.sym_size(0) || weight.sym_size(0) == 1 || x.sym_size(0) == 1;
  };
  const bool fits =
      weight.dim() == 3 && (x.dim() == 2 || (x.dim() == 3 && fitsBatch())) && x.sym_size(-1) == weight.sym_size(1);
  TORCH_CHECK(fits, "graft::", op, ": x ", x.sym_sizes(), " does not fit weight ", weight.sym_sizes(),
              "; x [rows, in] or [batch, rows, in] and weight [batch, in, out] are expected");
}

inline void checkQkv(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias, int64_t heads,
                     int64_t kvHeads) {
  checkLinear("qkv_projection", x, weight, bias);
  TORCH_CHECK(x.dim() == 3, "graft::qkv_projection: x ", x.sym_sizes(), " should be [batch, length, features]");
  TORCH_CHECK(heads > 0 && kvHeads > 0 && heads % kvHeads == 0, "graft::qkv_projection: kv_heads (", kvHeads,
              ") should divide heads (", heads, ")");
  TORCH_CHECK(weight.sym_size(0) % (heads + 2 * kvHeads) == 0, "graft::qkv_projection: weight ", weight.sym_sizes(),
              " does not divide into ", heads, " + 2 * ", kvHeads, " heads");
}

inline void checkNorm(const char* op, const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight,
                      const OptionalTensor& bias, const OptionalTensor& inputBias) {
  checkFloating(op, x, "x");
  TORCH_CHECK(x.dim() >= 1, "graft::", op, ": x has no dimension to normalise over");
  checkLike(op, x, "x", residual, "residual");
  checkLike(op, x, "x", weight, "weight");
  checkLike(op, x, "x", bias, "bias");
  checkLike(op, x, "x", inputBias, "input_bias");
  checkBroadcast(op, residual, "residual", x.sym_sizes(), "x");
  checkVector(op, weight, "weight", x.sym_size(-1));
  checkVector(op, bias, "bias", x.sym_size(-1));
  checkVector(op, inputBias, "input_bias", x.sym_size(-1));
}

// The residual that is added to a tensor of `shape`, and weight and bias of the norm of the sum over its last
// dimension.
inline void checkAddedNorm(const char* op, const at::Tensor& like, const char* likeName, c10::SymIntArrayRef shape,
                           const OptionalTensor& residual, const OptionalTensor& normWeight,
                           const OptionalTensor& normBias) {
  checkLike(op, like, likeName, residual, "residual");
  checkLike(op, like, likeName, normWeight, "norm_weight");
  checkLike(op, like, likeName, normBias, "norm_bias");
  checkBroadcast(op, residual, "residual", shape, "the output");
  checkVector(op, normWeight, "norm_weight", shape.back());
  checkVector(op, normBias, "norm_bias", shape.back());
}

inline void checkLinearNorm(const char* op, const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                            const OptionalTensor& residual, const OptionalTensor& normWeight,
                            const OptionalTensor& normBias) {
  checkLinear(op, x, weight, bias);
  checkAddedNorm(op, x, "x", linearShape(x, weight), residual, normWeight, normBias);
}

// The product after a norm of x weight^T, whose inputs have passed their checks.
inline void checkNormLinear(const char* op, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& nextWeight,
                            const OptionalTensor& nextBias) {
  checkLike(op, x, "x", nextWeight, "next_weight");
  checkLike(op, x, "x", nextBias, "next_bias");
  TORCH_CHECK(nextWeight.dim() == 2 && nextWeight.sym_size(1) == weight.sym_size(0), "graft::", op, ": next_weight ",
              nextWeight.sym_sizes(), " does not fit the output of weight ", weight.sym_sizes());
  checkVector(op, nextBias, "next_bias", nextWeight.sym_size(0));
}

// The shape of the first product of attention_norm_linear with its residual added.
inline std::vector<c10::SymInt> attentionNormShape(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                   const OptionalTensor& mask, const at::Tensor& weight,
                                                   const OptionalTensor& residual) {
  std::vector<c10::SymInt> shape{attentionBatch(q, k, v, mask), q.sym_size(2), weight.sym_size(0)};
  if (given(residual)) takeRowsOf(*residual, shape);
  return shape;
}

inline void checkAttentionNormLinear(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                     const OptionalTensor& mask, const at::Tensor& weight, const OptionalTensor& bias,
                                     const OptionalTensor& residual, const OptionalTensor& normWeight,
                                     const OptionalTensor& normBias, const at::Tensor& nextWeight,
                                     const OptionalTensor& nextBias) {
  const char* op = "attention_norm_linear";
  checkAttention(q, k, v, mask);
  checkLike(op, q, "q", weight, "weight");
  checkLike(op, q, "q", bias, "bias");
  TORCH_CHECK(q.dim() == 4, "graft::", op, ": q ", q.sym_sizes(), " should be [batch, heads, length, head size]");
  TORCH_CHECK(weight.dim() == 2 && weight.sym_size(1) == q.sym_size(1) * v.sym_size(3), "graft::", op, ": weight ",
              weight.sym_sizes(), " does not fit the heads of q ", q.sym_sizes(), " and the head size of v ",
              v.sym_sizes());
  checkVector(op, bias, "bias", weight.sym_size(0));
  checkAddedNorm(op, q, "q", attentionNormShape(q, k, v, mask, weight, residual), residual, normWeight, normBias);
  checkNormLinear(op, q, weight, nextWeight, nextBias);
}

inline void checkSoftmax(const at::Tensor& x, const OptionalTensor& mask, int64_t dim) {
  checkFloating("masked_softmax", x, "x");
  TORCH_CHECK(x.dim() >= 1 && dim >= -x.dim() && dim < x.dim(), "graft::masked_softmax: dim ", dim,
              " is not a dimension of x ", x.sym_sizes());
  checkMask("masked_softmax", mask, x, x.sym_sizes(), "x");
}

inline void checkRotary(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos, const at::Tensor& sin) {
  checkFloating("rotary_embedding", q, "q");
  checkLike("rotary_embedding", q, "q", k, "k");
  const auto shapes = [&] {
    return c10::str("q ", q.sym_sizes(), ", k ", k.sym_sizes(), ", cos ", cos.sym_sizes(), ", sin ", sin.sym_sizes());
  };
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && q.sym_size(0) == k.sym_size(0) && q.sym_size(2) == k.sym_size(2) &&
                  q.sym_size(3) == k.sym_size(3) && q.sym_size(3) % 2 == 0,
              "graft::rotary_embedding: q and k should be [batch, heads, length, head size] with an even head size: ",
              shapes());
  TORCH_CHECK(cos.device() == q.device() && sin.device() == q.device() && at::isFloatingType(cos.scalar_type()) &&
                  at::isFloatingType(sin.scalar_type()),
              "graft::rotary_embedding: cos and sin should be floating point, on q's device");
  const auto fits = [&](const at::Tensor& table) {
    if (table.dim() < 2 || table.dim() > 4) return false;
    if (table.dim() == 4 && table.sym_size(1) != 1) return false;
    return table.sym_size(-1) == q.sym_size(3) && table.sym_size(-2) == q.sym_size(2) &&
           (table.dim() == 2 || table.sym_size(0) == 1 || table.sym_size(0) == q.sym_size(0));
  };
  TORCH_CHECK(fits(cos) && fits(sin),
              "graft::rotary_embedding: cos and sin should be [length, head size] or [batch or 1, ",
              "length, head size], perhaps with a 1 for the heads: ", shapes());
}

// Whether two tensors of different shapes broadcast.
inline bool areToBroadcast(const at::Tensor& a, const at::Tensor& b) {
  bool differ = a.dim() != b.dim();
  for (int64_t i = 1; i <= std::min(a.dim(), b.dim()); ++i) {
    if (a.sym_size(-i) == b.sym_size(-i)) continue;
    if (a.sym_size(-i) != 1 && b.sym_size(-i) != 1) return false;
    differ = true;
  }
  return differ;
}

// Both of the shape that they have together: views.
inline std::pair<at::Tensor, at::Tensor> broadcastTogether(const at::Tensor& a, const at::Tensor& b) {
  const auto shape = at::infer_size_symdimvector(a.sym_sizes(), b.sym_sizes());
  return {a.expand_symint(shape), b.expand_symint(shape)};
}

inline void checkSwiglu(const at::Tensor& gate, const at::Tensor& up) {
  checkFloating("swiglu", gate, "gate");
  checkLike("swiglu", gate, "gate", up, "up");
  TORCH_CHECK(gate.sym_sizes() == up.sym_sizes(), "graft::swiglu: gate ", gate.sym_sizes(), " and up ", up.sym_sizes(),
              " differ in shape");
}

// Checks everything but the values of the ids.
inline void checkEmbedding(at::TensorList ids, at::TensorList tables, const OptionalTensor& weight,
                           const OptionalTensor& bias) {
  const char* op = "embedding_layer_norm";
  TORCH_CHECK(!tables.empty() && ids.size() == tables.size(), "graft::", op, ": ", ids.size(), " ids for ",
              tables.size(), " tables; one for each is expected");
  for (size_t i = 0; i < tables.size(); ++i) {
    checkFloating(op, tables[i], "a table");
    checkLike(op, tables[0], "the first table", tables[i], "a table");
    TORCH_CHECK(tables[i].dim() == 2 && tables[i].sym_size(1) == tables[0].sym_size(1), "graft::", op, ": table ", i,
                " ", tables[i].sym_sizes(), " should be [entries, ", tables[0].sym_size(-1), "]");
    TORCH_CHECK(ids[i].scalar_type() == at::kLong || ids[i].scalar_type() == at::kInt, "graft::", op, ": ids ", i,
                " are ", ids[i].scalar_type(), "; int64 or int32 is expected");
    TORCH_CHECK(ids[i].device() == tables[0].device(), "graft::", op, ": ids ", i, " are on ", ids[i].device(),
                " but the tables are on ", tables[0].device());
  }
  checkLike(op, tables[0], "the first table", weight, "weight");
  checkLike(op, tables[0], "the first table", bias, "bias");
  checkVector(op, weight, "weight", tables[0].sym_size(1));
  checkVector(op, bias, "bias", tables[0].sym_size(1));
}

// The shape of a convolution's output, for inputs that have passed checkConv.
inline std::vector<c10::SymInt> convShape(const char* op, const at::Tensor& x, const at::Tensor& weight,
                                          at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation) {
  std::vector<c10::SymInt> shape{x.sym_size(0), weight.sym_size(0)};
  for (int64_t d = 0; d + 2 < x.dim(); ++d) {
    TORCH_CHECK(stride[d] > 0 && dilation[d] > 0 && padding[d] >= 0, "graft::", op, ": stride ", stride,
                " and dilation ", dilation, " should be positive and padding ", padding, " not negative");
    const c10::SymInt extent = (weight.sym_size(d + 2) - 1) * dilation[d] + 1;
    const c10::SymInt positions = x.sym_size(d + 2) + 2 * padding[d] - extent;
    TORCH_CHECK(positions >= 0, "graft::", op, ": the kernel ", weight.sym_sizes(), " is larger than the padded x ",
                x.sym_sizes());
    shape.push_back(positions / stride[d] + 1);
  }
  return shape;
}

// The memory format of a convolution's output: channels-last if its input or its weight is.
inline at::MemoryFormat convFormat(const at::Tensor& x, const at::Tensor& weight) {
  const at::MemoryFormat format = x.suggest_memory_format();
  return format == at::MemoryFormat::Contiguous ? weight.suggest_memory_format() : format;
}

inline void checkConv(const char* op, const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                      const OptionalTensor& residual, size_t strides, size_t paddings, size_t dilations,
                      int64_t groups) {
  checkFloating(op, x, "x");
  checkLike(op, x, "x", weight, "weight");
  checkLike(op, x, "x", bias, "bias");
  checkLike(op, x, "x", residual, "residual");
  const size_t spatial = weight.dim() >= 3 ? weight.dim() - 2 : 0;
  TORCH_CHECK(spatial >= 1 && spatial <= 3 && x.dim() == weight.dim(), "graft::", op, ": x ", x.sym_sizes(),
              " does not fit weight ", weight.sym_sizes(),
              "; x [batch, in, ...] and weight [out, in / groups, ...] with 1 to 3 spatial dimensions are expected");
  TORCH_CHECK(groups > 0 && weight.sym_size(0) % groups == 0 && x.sym_size(1) == weight.sym_size(1) * groups,
              "graft::", op, ": x ", x.sym_sizes(), ", weight ", weight.sym_sizes(), " and groups ", groups,
              " do not fit together");
  TORCH_CHECK(strides == spatial && paddings == spatial && dilations == spatial, "graft::", op,
              ": stride, padding and dilation should have ", spatial, " numbers each");
  checkVector(op, bias, "bias", weight.sym_size(0));
}

}  // namespace graft::ops
