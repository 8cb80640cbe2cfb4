// graft::embedding_layer_norm
#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>

#include "kernels/cpu/support.h"
#include "kernels/ops/gradients/gradients.h"
#include "kernels/ops/operator.h"

namespace graft::ops {
namespace {

constexpr OperatorInfo info{
    "embedding_layer_norm",
    "embedding_layer_norm(Tensor[] ids, Tensor[] tables, Tensor? weight, Tensor? bias, float eps=1e-05) -> Tensor",
    "layer_norm(tables[0][ids[0]] + tables[1][ids[1]] + ...) * weight + bias: the embedding block of BERT (words, "
    "positions, "
    "token types) in one pass. The ids broadcast against each other; the output is [ids' shape..., features], "
    "contiguous.",
    "up to 8 tables", "row_major"};

at::Tensor composite(at::TensorList ids, at::TensorList tables, const OptionalTensor& weight,
                     const OptionalTensor& bias, double eps) {
  checkEmbedding(ids, tables, weight, bias);
  const at::ScalarType compute = computeType(tables[0]);
  const auto widened = [&](const OptionalTensor& tensor) {
    return given(tensor) ? OptionalTensor(tensor->to(compute)) : OptionalTensor();
  };
  at::Tensor sum = at::embedding(tables[0], ids[0]).to(compute);
  for (size_t i = 1; i < tables.size(); ++i) sum = sum + at::embedding(tables[i], ids[i]).to(compute);
  const c10::SymInt columns[] = {tables[0].sym_size(1)};
  return at::layer_norm_symint(sum, columns, widened(weight), widened(bias), eps)
      .to(tables[0].scalar_type())
      .contiguous();
}

std::vector<c10::SymInt> outputShape(at::TensorList ids, at::TensorList tables) {
  std::vector<c10::SymInt> shape = ids[0].sym_sizes().vec();
  for (size_t i = 1; i < ids.size(); ++i) {
    const auto merged = at::infer_size_symdimvector(shape, ids[i].sym_sizes());
    shape.assign(merged.begin(), merged.end());
  }
  shape.push_back(tables[0].sym_size(1));
  return shape;
}

at::Tensor cpu(at::TensorList ids, at::TensorList tables, const OptionalTensor& weight, const OptionalTensor& bias,
               double eps) {
  checkEmbedding(ids, tables, weight, bias);
  if (!hasLoops(tables[0]) || tables.size() > EmbeddingArgs::kMaxTables) {
    return composite(ids, tables, weight, bias, eps);
  }
  std::vector<int64_t> shape;
  for (const c10::SymInt& size : outputShape(ids, tables)) shape.push_back(size.expect_int());
  at::Tensor out = at::empty(shape, tables[0].options());
  if (out.numel() == 0) return out;
  const at::IntArrayRef idShape(shape.data(), shape.size() - 1);
  std::vector<at::Tensor> kept;  // what the pointers below point into
  EmbeddingArgs args;
  args.scalar = scalarOf(out);
  args.tables = static_cast<int>(tables.size());
  const int64_t rows = out.numel() / out.size(-1);
  for (size_t i = 0; i < tables.size(); ++i) {
    at::Tensor wide = ids[i].scalar_type() == at::kLong ? ids[i] : ids[i].to(at::kLong);
    kept.push_back(dense(wide.expand(idShape)));
    args.ids[i] = kept.back().const_data_ptr<int64_t>();
    const int64_t entries = tables[i].size(0);
    for (int64_t r = 0; r < rows; ++r) {
      TORCH_CHECK_INDEX(args.ids[i][r] >= 0 && args.ids[i][r] < entries, "graft::embedding_layer_norm: id ",
                        args.ids[i][r], " in ids ", i, " is outside its table of ", entries, " entries");
    }
    kept.push_back(dense(tables[i]));
    args.table[i] = kept.back().const_data_ptr();
  }
  const at::Tensor w = floats(weight), b = floats(bias);
  args.norm.weight = floatsOf(w);
  args.norm.bias = floatsOf(b);
  args.norm.out = out.mutable_data_ptr();
  args.norm.columns = out.size(-1);
  args.norm.eps = static_cast<float>(eps);
  at::parallel_for(0, rows, grain(args.norm.columns), [&](int64_t begin, int64_t end) {
    EmbeddingArgs mine = args;
    mine.norm.scratch = scratch(args.norm.columns);
    loops().embeddingLayerNorm(mine, begin, end);
  });
  return out;
}

at::Tensor meta(at::TensorList ids, at::TensorList tables, const OptionalTensor& weight, const OptionalTensor& bias,
                double eps) {
  checkEmbedding(ids, tables, weight, bias);
  return at::empty_symint(outputShape(ids, tables), tables[0].options());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) { defineOperator<info, composite, embeddingLayerNormTrained>(m, cpu, meta); }

}  // namespace graft::ops
