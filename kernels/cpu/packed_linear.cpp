#include "kernels/cpu/packed_linear.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>

#include <algorithm>

#include "kernels/cpu/packed_weights.h"
#include "kernels/cpu/support.h"
#include "kernels/library/kept_memory.h"

namespace graft::ops {
namespace {

at::Tensor matrix(const at::Tensor& weight) {
  return weight.dim() == 2 ? weight : weight.reshape({weight.size(0), weight.size(1)});
}

at::Tensor oneDnnWeight(const at::Tensor& weight) {
  return packedWeight(weight, {PackedKind::OneDnnLinear}, {}, [&] {
    static const auto reorder = c10::Dispatcher::singleton()
                                    .findSchemaOrThrow("mkldnn::_reorder_linear_weight", "")
                                    .typed<at::Tensor(const at::Tensor&, std::optional<c10::SymInt>)>();
    // The layout for 128 rows serves all larger numbers of rows within a few percent.
    return reorder.call(matrix(floats(weight)), 128);
  });
}

at::Tensor panelWeight(const at::Tensor& weight) {
  return packedWeight(weight, {PackedKind::Panels}, {}, [&] {
    const at::Tensor wide = floats(weight);
    at::Tensor packed = at::empty({loops().packedWeightSize(wide.size(0), wide.size(1))}, wide.options());
    loops().packWeight(wide.const_data_ptr<float>(), wide.size(0), wide.size(1), packed.mutable_data_ptr<float>());
    return packed;
  });
}

// [batch, floats of a packed matrix] of [batch, in, out].
at::Tensor batchedPanels(const at::Tensor& weight) {
  return packedWeight(weight, {PackedKind::BatchedPanels}, {}, [&] {
    const at::Tensor wide = floats(weight.transpose(1, 2));
    const int64_t batch = wide.size(0), outputs = wide.size(1), depth = wide.size(2);
    const int64_t each = loops().packedWeightSize(outputs, depth);
    at::Tensor packed = at::empty({batch, each}, wide.options());
    for (int64_t i = 0; i < batch; ++i)
      loops().packWeight(wide.const_data_ptr<float>() + i * outputs * depth, outputs, depth,
                         packed.mutable_data_ptr<float>() + i * each);
    return packed;
  });
}

at::Tensor linearByOneDnn(const at::Tensor& x, const at::Tensor& packed, const OptionalTensor& bias) {
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&, std::string_view,
                               c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);
  static const auto pointwise =
      c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "").typed<Signature>();
  static const c10::List<std::optional<at::Scalar>>& none = *new c10::List<std::optional<at::Scalar>>;
  return pointwise.call(x, packed, bias, "none", none, "");
}

// Our loops are the faster ones up to here. They also round off half as much where rows are long, because oneDNN adds
// up all products of a row in one chain.
constexpr int64_t kFewRows = 256;
constexpr int64_t kBlockRows = 64;  // of one piece of work

void linearByLoops(LinearArgs args, const at::Tensor& packed) {
  args.packed = packed.const_data_ptr<float>();
  const int64_t panels = (args.outputs + loops().weightPanel - 1) / loops().weightPanel;
  const int64_t blocks = (args.rows + kBlockRows - 1) / kBlockRows;
  const int64_t rowBytes = args.outputs * (args.scalar == Scalar::F32 ? 4 : 2);
  // A thread should get at least about 100,000 weights.
  const int64_t work = loops().weightPanel * args.depth * std::max<int64_t>(1, std::min(args.rows, kBlockRows) / 4);
  at::parallel_for(0, panels * blocks, std::max<int64_t>(1, 100000 / work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {  // a panel's blocks one after the other, while the panel lies in the cache
      const int64_t panel = i / blocks, first = i % blocks * kBlockRows;
      LinearArgs part = args;
      part.rows = std::min(args.rows - first, kBlockRows);
      part.x += first * args.depth;
      part.out = static_cast<char*>(args.out) + first * rowBytes;
      if (args.residual) part.residual = static_cast<const char*>(args.residual) + first * rowBytes;
      loops().linear(part, panel, panel + 1);
    }
  });
}

// Bias, activation and residual of rows from `first` on, whose products are given.
void finishRows(const LinearArgs& args, const at::Tensor& product, int64_t first, int64_t rows) {
  const int64_t size = args.scalar == Scalar::F32 ? 4 : 2, at = first * args.outputs * size;
  const void* residual = args.residual ? static_cast<const char*>(args.residual) + at : nullptr;
  void* out = static_cast<char*>(args.out) + at;
  at::parallel_for(0, rows, grain(args.outputs), [&](int64_t begin, int64_t end) {
    loops().epilogue(args.scalar, args.activation, product.const_data_ptr<float>(), nullptr, residual, out,
                     args.outputs, begin, end);
  });
}

// How many rows' products stay in the second-level caches until they are finished.
int64_t rowsTogether(int64_t outputs) {
  constexpr int64_t cached = 131072;  // floats of one thread
  return std::max<int64_t>(kFewRows, at::get_num_threads() * cached / std::max<int64_t>(1, outputs));
}

// oneDNN's products of some rows at a time, each finished before the next: of a large image with few channels, going
// over all products once more would take as long as the products.
void linearInPieces(const LinearArgs& args, const at::Tensor& x, const at::Tensor& packed, const at::Tensor& bias) {
  const int64_t pieces = (args.rows + rowsTogether(args.outputs) - 1) / rowsTogether(args.outputs);
  const int64_t each = (args.rows + pieces - 1) / pieces;
  for (int64_t first = 0; first < args.rows; first += each) {
    const int64_t rows = std::min(each, args.rows - first);
    finishRows(args, linearByOneDnn(x.narrow(0, first, rows), packed, bias), first, rows);
  }
}

}  // namespace

at::Tensor linearForward(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                         Activation activation, const OptionalTensor& residual) {
  const KeptMemory kept;
  const bool wide = x.scalar_type() == at::kFloat;
  const at::Tensor input = dense(wide ? x : x.to(at::kFloat));
  at::DimVector shape(x.sizes());
  shape.back() = weight.size(0);
  LinearArgs args;
  args.scalar = scalarOf(x);
  args.activation = activation;
  args.outputs = weight.size(0);
  args.depth = weight.size(1);
  const at::Tensor b = floats(bias);
  args.bias = floatsOf(b);
  at::Tensor added;
  if (given(residual)) {
    added = residual->sizes() == at::IntArrayRef(shape) ? dense(*residual) : dense(residual->expand(shape));
    args.residual = added.const_data_ptr();
  }
  const bool packs = x.numel() > 0 && mayPack(weight);
  args.rows = packs ? x.numel() / args.depth : 0;
  if (packs && args.rows <= kFewRows) {
    const at::Tensor packed = panelWeight(weight);
    if (packed.defined()) {
      const at::Tensor out = at::empty(shape, x.options());
      args.x = input.const_data_ptr<float>();
      args.out = out.mutable_data_ptr();
      linearByLoops(args, packed);
      return out;
    }
  }
  const bool isPlain = activation == Activation::None && !args.residual;
  at::Tensor packed;
  if (packs && at::globalContext().userEnabledMkldnn()) packed = oneDnnWeight(weight);
  if (packed.defined() && !isPlain && args.rows > rowsTogether(args.outputs)) {
    const at::Tensor out = at::empty(shape, x.options());
    args.out = out.mutable_data_ptr();
    linearInPieces(args, input.view({args.rows, args.depth}), packed, b);
    return out;
  }
  at::Tensor product;
  if (packed.defined()) product = linearByOneDnn(input, packed, b);
  if (!product.defined()) product = dense(at::linear(input, matrix(wide ? weight : weight.to(at::kFloat)), b));
  // oneDNN could apply the activation too. But its ReLU turns NaN into 0, and its GELU turns -Inf into 0 where PyTorch
  // gives NaN.
  if ((wide && isPlain) || product.numel() == 0) return product.to(x.scalar_type());
  const at::Tensor out = wide ? product : at::empty(shape, x.options());
  args.out = out.mutable_data_ptr();
  finishRows(args, product, 0, out.numel() / args.outputs);
  return out;
}

at::Tensor batchedLinearForward(const at::Tensor& x, const at::Tensor& weight) {
  const KeptMemory kept;
  const int64_t rows = x.size(-2);
  if (rows > kFewRows || x.numel() == 0 || !mayPack(weight)) return {};
  const at::Tensor packed = batchedPanels(weight);
  if (!packed.defined()) return {};
  const at::Tensor input = dense(x.scalar_type() == at::kFloat ? x : x.to(at::kFloat));
  const at::Tensor out = at::empty({weight.size(0), rows, weight.size(2)}, x.options());
  LinearArgs args;
  args.scalar = scalarOf(x);
  args.rows = rows;
  args.depth = weight.size(1);
  args.outputs = weight.size(2);
  for (int64_t i = 0; i < weight.size(0); ++i) {
    args.x = input.const_data_ptr<float>() + (x.dim() == 3 ? i * rows * args.depth : 0);
    args.out = static_cast<char*>(out.mutable_data_ptr()) + i * rows * args.outputs * out.element_size();
    linearByLoops(args, packed[i]);
  }
  return out;
}

}  // namespace graft::ops
