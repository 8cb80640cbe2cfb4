#include "operators.h"

#include <torch/csrc/jit/runtime/operator.h>

#include <sstream>

namespace graft::test {
namespace {

class TorchOperators : public OperatorSet {
 public:
  TorchOperators() {
    for (const char* schema : {
             "graft::attention(Tensor q, Tensor k, Tensor v, Tensor? mask=None, *, float? scale=None, bool "
             "causal=False) -> Tensor",
             "graft::linear(Tensor x, Tensor weight, Tensor? bias=None, *, str activation=\"none\", Tensor? "
             "residual=None) -> Tensor",
             "graft::qkv_projection(Tensor x, Tensor weight, Tensor? bias=None, *, int heads, int kv_heads) -> (Tensor "
             "q, Tensor k, Tensor v)",
             "graft::add_layer_norm(Tensor x, Tensor? residual, Tensor? weight, Tensor? bias, float eps=1e-05, *, "
             "Tensor? input_bias=None) -> Tensor",
             "graft::linear_add_layer_norm(Tensor x, Tensor weight, Tensor? bias, Tensor residual, Tensor? "
             "norm_weight, "
             "Tensor? norm_bias, float eps=1e-05) -> Tensor",
             "graft::linear_norm_linear(Tensor x, Tensor weight, Tensor? bias, Tensor residual, Tensor? norm_weight, "
             "Tensor? norm_bias, Tensor next_weight, Tensor? next_bias, float eps=1e-05, *, str activation=\"none\") "
             "-> "
             "(Tensor normed, Tensor out)",
             "graft::attention_norm_linear(Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor weight, Tensor? bias, "
             "Tensor residual, Tensor? norm_weight, Tensor? norm_bias, Tensor next_weight, Tensor? next_bias, float "
             "eps=1e-05, *, float? scale=None, bool causal=False, str activation=\"none\") -> (Tensor normed, Tensor "
             "out)",
             "graft::add_rms_norm(Tensor x, Tensor? residual, Tensor? weight, float eps=1e-06) -> (Tensor normed, "
             "Tensor sum)",
             "graft::masked_softmax(Tensor x, Tensor? mask=None, *, float scale=1.0, int dim=-1) -> Tensor",
             "graft::rotary_embedding(Tensor q, Tensor k, Tensor cos, Tensor sin) -> (Tensor, Tensor)",
             "graft::swiglu(Tensor gate, Tensor up) -> Tensor",
             "graft::embedding_layer_norm(Tensor[] ids, Tensor[] tables, Tensor? weight, Tensor? bias, float "
             "eps=1e-05) -> Tensor",
             "graft::conv_bias_add_relu(Tensor x, Tensor weight, Tensor? bias, Tensor? residual, int[] stride, int[] "
             "padding, int[] dilation, int groups, bool relu=True) -> Tensor",
         }) {
      auto op = parseSchema(schema);
      if (!op) throw std::runtime_error(op.error().message);
      add(*op);
    }
  }

 protected:
  std::vector<OperatorRef> load(std::string_view packet) const override {
    const size_t dot = packet.find('.');
    if (dot == std::string_view::npos) return {};
    const std::string name = std::string(packet.substr(0, dot)) + "::" + std::string(packet.substr(dot + 1));
    std::vector<OperatorRef> out;
    for (const auto& op : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(name))) {
      std::ostringstream text;
      text << op->schema();
      if (auto parsed = parseSchema(text.str())) out.push_back(*parsed);
    }
    return out;
  }
};

}  // namespace

const OperatorSet& operators() {
  static const TorchOperators set;
  return set;
}

}  // namespace graft::test
