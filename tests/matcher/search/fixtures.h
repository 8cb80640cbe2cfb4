// What the matcher's tests share: rules written as two graph texts, graphs from text, and Semantics without LibTorch.
#pragma once

#include "core/ir/verify.h"
#include "core/text/text.h"
#include "matcher/rewrite/rewrite.h"
#include "matcher/search/search.h"
#include "tests/support/catch.h"
#include "tests/support/operators.h"

namespace graft::test {

/// testOperators() and what only the matcher's tests need.
inline OperatorSet& operators() {
  static OperatorSet& set = testOperators();
  static const bool filled = [] {
    for (const char* schema : {
             "aten::sigmoid(Tensor self) -> Tensor",
             "aten::erf(Tensor self) -> Tensor",
             "aten::exp(Tensor self) -> Tensor",
             "aten::rsqrt(Tensor self) -> Tensor",
             "aten::silu(Tensor self) -> Tensor",
             "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
             "aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
             "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
             "aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
             "aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? "
             "memory_format=None) -> Tensor(a)",
             "aten::tanh(Tensor self) -> Tensor",
             "aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)",
             "aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
             "aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
             "aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
             "aten::conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=1, SymInt[1] padding=0, "
             "SymInt[1] dilation=1, SymInt groups=1) -> Tensor",
             "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, "
             "SymInt[2] dilation=1, SymInt groups=1) -> Tensor",
             "aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
             "aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> "
             "Tensor(a)",
             "aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
             "graft::conv_bias_add_relu(Tensor x, Tensor weight, Tensor? bias, Tensor? residual, int[] stride, int[] "
             "padding, int[] dilation, int groups, bool relu=True) -> Tensor",
             "graft::conv_activation(Tensor x, Tensor weight, Tensor? bias, Tensor? residual, int[] stride, int[] "
             "padding, int[] dilation, int groups, str activation=\"none\", float alpha=0.0, float beta=0.0) -> Tensor",
             "aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
             "aten::mul.int(int a, int b) -> int",
             "aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> "
             "Tensor(a)",
             "aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)",
             "aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt "
             "step=1) -> Tensor",
             "aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
             "aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
             "aten::unsqueeze_(Tensor(a!) self, int dim) -> Tensor(a!)",
             "aten::full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? "
             "device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
             "aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
             "aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
             "aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
         })
      set.add(*parseSchema(schema));
    return true;
  }();
  (void)filled;
  return set;
}

/// Knows pointwise shapes only; evaluates every operator to a weight of no known data, so tests see where it was asked.
class FakeSemantics : public Semantics {
 public:
  struct NoData : WeightData {
    size_t byteSize() const override { return 4; }
  };
  const OperatorSet& operators() const override { return test::operators(); }
  Result<std::vector<Type>> inferTypes(const Graph& g, NodeId id) const override {
    const Node& n = g.node(id);
    if (refuse == n.op->name) return badInput("no such shapes");
    std::vector<Type> out;
    for (size_t o = 0; o < n.outputs.size(); ++o) {
      Type t = g.value(n.outputs[o]).type;
      if (t.isTensor() && !n.args.empty() && n.args[0].isValue()) t = g.value(n.args[0].valueId()).type;
      const std::string_view base = n.op->baseName();
      if (base == "matmul" || base == "linear" || base == "transpose" || base == "cat" || base == "attention" ||
          base == "view" || base == "permute")
        t = Type::tensor();
      out.push_back(t);
    }
    return out;
  }
  Result<std::vector<Constant>> evaluate(const Graph& g, NodeId id) const override {
    if (!evaluates) return badInput("no data");
    return std::vector<Constant>(g.node(id).outputs.size(), Constant{Type::tensor(), std::make_shared<NoData>(), {}});
  }
  std::string refuse;
  bool evaluates = true;
};

inline Graph graph(std::string_view body) {
  std::string text(body);
  if (text.find("graph ") == std::string::npos) text = "graph g {\n" + text + "\n}\n";
  auto g = parseText(text, operators());
  INFO((g ? "" : g.error().format()));
  REQUIRE(g);
  return std::move(*g);
}

/// Parameters are the pattern's inputs: "%x : tensor" is a tensor, "%c : float", "%n : int", "%b : bool", "%s : str",
/// "%dims : list[int]" constants, "%w_…" and "%w" weights.
inline Rule rule(std::string_view pattern, std::string_view replacement = {}) {
  Rule r;
  r.name = "R";
  r.pattern = graph(pattern);
  for (ValueId v : r.pattern.inputs()) {
    PatternParameter p;
    const Value& value = r.pattern.value(v);
    p.name = value.name;
    using K = PatternParameter::Kind;
    switch (value.type.kind) {
      case Type::Kind::Float:
        p.kind = K::Float;
        break;
      case Type::Kind::Int:
        p.kind = K::Int;
        break;
      case Type::Kind::Bool:
        p.kind = K::Bool;
        break;
      case Type::Kind::String:
        p.kind = K::String;
        break;
      case Type::Kind::List:
        p.kind = K::IntList;
        break;
      case Type::Kind::Number:
        p.kind = K::Constant;
        break;
      default:
        p.kind = value.name == "w" || value.name.starts_with("w_") ? K::Weight : K::Value;
    }
    r.parameters.push_back(p);
  }
  if (!replacement.empty()) r.replacement = graph(replacement);
  return r;
}

inline size_t count(const Graph& g, const Rule& r) { return Matcher(g).findAll(r).matches.size(); }

inline NearMiss nearest(const Graph& g, const Rule& r) {
  SearchOptions options;
  options.explain = true;
  const SearchResult found = Matcher(g).findAll(r, options);
  REQUIRE_FALSE(found.nearMisses.empty());
  return found.nearMisses.front();
}

/// Applies the rule everywhere; the result verifies.
inline Graph applied(Graph g, const Rule& r, size_t expected) {
  FakeSemantics semantics;
  const auto run = applyRule(g, r, semantics);
  INFO((run ? "" : run.error().format()));
  REQUIRE(run);
  for (const std::string& why : run->refused) UNSCOPED_INFO("refused " << why);
  CHECK(run->records.size() == expected);
  const Status s = verify(g);
  INFO((s ? "" : s.error().format()));
  CHECK(s.ok());
  return g;
}

}  // namespace graft::test
