#include "tests/views/support/sample_graphs.h"

#include <fmt/format.h>

#include <cassert>
#include <random>

namespace graft::test {
namespace {

class Maker {
 public:
  Graph g;

  OperatorRef op(std::string_view schema) {
    Result<OperatorRef> r = parseSchema(schema);
    assert(r.ok());
    return *r;
  }

  ValueId call(std::string_view schema, std::vector<Argument> args, std::vector<int64_t> shape,
               ModuleCallId module = {}) {
    return typed(schema, std::move(args), Type::tensor(DType::Float32, dims(shape)), module);
  }

  ValueId typed(std::string_view schema, std::vector<Argument> args, Type type, ModuleCallId module = {}) {
    OperatorRef o = op(schema);
    for (size_t i = args.size(); i < o->parameters.size(); ++i)
      args.push_back(o->parameters[i].defaultValue ? *o->parameters[i].defaultValue : Argument());
    NodeId n = g.append(g.root(), o, std::move(args), o->baseName());
    g.setModule(n, module);
    g.setType(g.output(n), std::move(type));
    return g.output(n);
  }

  Argument weight(const std::string& path, std::vector<int64_t> shape) {
    return Argument(g.addWeight(path, Type::tensor(DType::Float32, dims(shape)), nullptr));
  }

  static std::vector<Dim> dims(const std::vector<int64_t>& shape) {
    std::vector<Dim> d;
    for (int64_t n : shape) d.push_back(Dim(n));
    return d;
  }

  ValueId linear(ValueId x, ModuleCallId parent, const std::string& path, int64_t in, int64_t out,
                 std::vector<int64_t> shape) {
    ModuleCallId m = g.addModuleCall(parent, path, "torch.nn.modules.linear.Linear");
    return call("aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
                {Argument(x), weight(path + ".weight", {out, in}), weight(path + ".bias", {out})}, shape, m);
  }

  ValueId norm(ValueId x, ModuleCallId parent, const std::string& path) {
    ModuleCallId m = g.addModuleCall(parent, path, "torch.nn.modules.normalization.LayerNorm");
    return call(
        "aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float "
        "eps=1e-05, "
        "bool cudnn_enable=True) -> Tensor",
        {Argument(x), Argument::ints({384}), weight(path + ".weight", {384}), weight(path + ".bias", {384}),
         Argument(1e-12)},
        {1, 128, 384}, m);
  }

  ValueId add(ValueId a, ValueId b, ModuleCallId m, std::vector<int64_t> shape = {1, 128, 384}) {
    return call("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", {Argument(a), Argument(b)},
                shape, m);
  }
};

}  // namespace

Graph manyEnds(int ends) {
  Maker m;
  const Type type = Type::tensor(DType::Float32, Maker::dims({4}));
  const ValueId x = m.g.addInput("x", type);
  std::vector<Argument> sums;
  for (int i = 0; i < ends; ++i) {
    const ValueId p = m.g.addInput(fmt::format("p_{}", i), type);
    sums.emplace_back(m.call("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
                             {Argument(x), Argument(p)}, {4}));
  }
  m.g.setReturns(m.g.root(), std::move(sums));
  return std::move(m.g);
}

Graph encoder(int layers) {
  Maker k;
  Graph& g = k.g;
  g.name = "MiniLM";
  auto ids = [](std::vector<int64_t> s) { return Type::tensor(DType::Int64, Maker::dims(s)); };
  ValueId input = g.addInput("input_ids", ids({1, 128}));
  ValueId maskIn = g.addInput("attention_mask", ids({1, 128}));
  ModuleCallId emb = g.addModuleCall({}, "embeddings", "transformers.models.bert.modeling_bert.BertEmbeddings");
  auto embed = [&](Argument index, const std::string& name, int64_t rows) {
    ModuleCallId m = g.addModuleCall(emb, "embeddings." + name, "torch.nn.modules.sparse.Embedding");
    return k.call(
        "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool "
        "sparse=False) -> Tensor",
        {k.weight("embeddings." + name + ".weight", {rows, 384}), index}, {1, 128, 384}, m);
  };
  ValueId mask =
      k.call("aten::unsqueeze(Tensor self, int dim) -> Tensor", {Argument(maskIn), Argument(int64_t{1})}, {1, 1, 128});
  mask = k.call("aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
                {Argument(mask), Argument(1.0)}, {1, 1, 128});
  mask = k.call("aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", {Argument(mask), Argument(-3.4028e38)},
                {1, 1, 1, 128});
  Type integer(Type::Kind::Int);
  ValueId size =
      k.typed("aten::size.int(Tensor self, int dim) -> SymInt", {Argument(input), Argument(int64_t{1})}, integer, emb);
  ValueId word = embed(Argument(input), "word_embeddings", 30522);
  ValueId slice = k.call(
      "aten::slice.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
      {k.weight("embeddings.position_ids", {1, 512}), Argument(int64_t{1}), Argument(int64_t{0}), Argument(size)},
      {1, 128}, emb);
  ValueId x = k.add(word, embed(Argument(slice), "position_embeddings", 512), emb);
  x = k.norm(x, emb, "embeddings.LayerNorm");
  ModuleCallId enc = g.addModuleCall({}, "encoder", "transformers.models.bert.modeling_bert.BertEncoder");
  for (int l = 0; l < layers; ++l) {
    std::string p = fmt::format("encoder.layer.{}", l);
    ModuleCallId layer = g.addModuleCall(enc, p, "transformers.models.bert.modeling_bert.BertLayer");
    ModuleCallId attention =
        g.addModuleCall(layer, p + ".attention", "transformers.models.bert.modeling_bert.BertAttention");
    ModuleCallId self =
        g.addModuleCall(attention, p + ".attention.self", "transformers.models.bert.modeling_bert.BertSelfAttention");
    auto heads = [&](const std::string& name) {
      ValueId v = k.linear(x, self, p + ".attention.self." + name, 384, 384, {1, 128, 384});
      v = k.call("aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
                 {Argument(v), Argument::ints({1, -1, 12, 32})}, {1, 128, 12, 32}, self);
      return k.call("aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
                    {Argument(v), Argument(int64_t{1}), Argument(int64_t{2})}, {1, 12, 128, 32}, self);
    };
    ValueId q = heads("query"), key = heads("key"), value = heads("value");
    key = k.call("aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
                 {Argument(key), Argument(int64_t{2}), Argument(int64_t{3})}, {1, 12, 32, 128}, self);
    auto product = "aten::matmul(Tensor self, Tensor other) -> Tensor";
    ValueId s = k.call(product, {Argument(q), Argument(key)}, {1, 12, 128, 128}, self);
    s = k.call("aten::div.Tensor(Tensor self, Tensor other) -> Tensor", {Argument(s), Argument(5.656854249492381)},
               {1, 12, 128, 128}, self);
    s = k.add(s, mask, self, {1, 12, 128, 128});
    s = k.call("aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
               {Argument(s), Argument(int64_t{-1})}, {1, 12, 128, 128}, self);
    s = k.call(product, {Argument(s), Argument(value)}, {1, 12, 128, 32}, self);
    s = k.call("aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
               {Argument(s), Argument(int64_t{1}), Argument(int64_t{2})}, {1, 128, 12, 32}, self);
    s = k.call("aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
               {Argument(s), Argument::ints({1, 128, 384})}, {1, 128, 384}, self);
    ModuleCallId out =
        g.addModuleCall(attention, p + ".attention.output", "transformers.models.bert.modeling_bert.BertSelfOutput");
    s = k.linear(s, out, p + ".attention.output.dense", 384, 384, {1, 128, 384});
    x = k.norm(k.add(s, x, out), out, p + ".attention.output.LayerNorm");
    ModuleCallId mid =
        g.addModuleCall(layer, p + ".intermediate", "transformers.models.bert.modeling_bert.BertIntermediate");
    s = k.linear(x, mid, p + ".intermediate.dense", 384, 1536, {1, 128, 1536});
    ModuleCallId gelu =
        g.addModuleCall(mid, p + ".intermediate.intermediate_act_fn", "transformers.activations.GELUActivation");
    s = k.call("aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor", {Argument(s)}, {1, 128, 1536}, gelu);
    ModuleCallId output = g.addModuleCall(layer, p + ".output", "transformers.models.bert.modeling_bert.BertOutput");
    s = k.linear(s, output, p + ".output.dense", 1536, 384, {1, 128, 384});
    x = k.norm(k.add(s, x, output), output, p + ".output.LayerNorm");
  }
  g.setReturns(g.root(), {Argument(x)});
  return std::move(k.g);
}

Graph randomGraph(int nodes, unsigned seed) {
  Maker k;
  std::mt19937 random(seed);
  Type t = Type::tensor(DType::Float32, {Dim(8), Dim(64)});
  std::vector<ValueId> values = {k.g.addInput("x", t)};
  OperatorRef relu = k.op("aten::relu(Tensor self) -> Tensor");
  OperatorRef add = k.op("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
  for (int i = 0; i < nodes; ++i) {
    auto pick = [&] { return Argument(values[values.size() - 1 - random() % std::min<size_t>(values.size(), 40)]); };
    NodeId n = random() % 3 ? k.g.append(k.g.root(), relu, {pick()})
                            : k.g.append(k.g.root(), add, {pick(), pick(), Argument(int64_t{1})});
    k.g.setType(k.g.output(n), t);
    values.push_back(k.g.output(n));
  }
  k.g.setReturns(k.g.root(), {Argument(values.back())});
  return std::move(k.g);
}

Graph trainingStep(int layers) {
  Graph g;
  const OperatorRef relu = *parseSchema("aten::relu(Tensor self) -> Tensor");
  const OperatorRef mul = *parseSchema("aten::mul.Tensor(Tensor self, Tensor other) -> Tensor");
  const Type type = Type::tensor(DType::Float32, {Dim(4)});
  const auto call = [&](const OperatorRef& op, std::vector<Argument> args, ModuleCallId module) {
    const NodeId node = g.append(g.root(), op, std::move(args));
    g.setModule(node, module);
    g.setType(g.output(node), type);
    return g.output(node);
  };
  const ValueId input = g.addInput("x", type);
  ValueId last = input;
  std::vector<std::vector<ValueId>> kept;
  const ModuleCallId model = g.addModuleCall({}, "model", "Net");
  for (int i = 0; i < layers; ++i) {
    const ModuleCallId layer = g.addModuleCall(model, "model.layer." + std::to_string(i), "Layer");
    auto& own = kept.emplace_back();
    for (int k = 0; k < 3; ++k) {
      own.push_back(last);
      last = call(relu, {Argument(last)}, layer);
    }
  }
  std::vector<Argument> returns{Argument(last)};
  last = g.addInput("tangents_1", type);
  const ModuleCallId back = g.addModuleCall({}, "model", "Net");
  for (int i = layers; i-- > 0;) {
    const ModuleCallId layer = g.addModuleCall(back, "model.layer." + std::to_string(i), "Layer");
    for (int k = 3; k-- > 0;)
      last = call(mul, {Argument(last), Argument(kept[static_cast<size_t>(i)][static_cast<size_t>(k)])}, layer);
    returns.emplace_back(last);
  }
  g.setReturns(g.root(), std::move(returns));
  return g;
}

}  // namespace graft::test
