// How Python becomes a pattern graph: one construct per test, compared as canonical text.
#include "core/text/text.h"
#include "matcher/lang/rule_file.h"
#include "operators.h"
#include "tests/support/catch.h"

using namespace graft;

namespace {

Rule ruleOf(const std::string& text) {
  auto file = parseRuleText(text, "rules.py", test::operators());
  INFO((file ? "" : file.error().format()));
  REQUIRE(file);
  return file->rules[0];
}

/// The pattern's nodes, one line each, of `def pattern(PARAMETERS): return BODY`.
std::string nodes(const Graph& g) {
  std::string out;
  TextOptions options;
  options.sources = false;
  for (NodeId n : g.order()) {
    std::string line = nodeText(g, n, options);
    out += line.substr(0, line.rfind(" : ")) + "\n";
  }
  return out;
}
std::string pattern(const std::string& parameters, const std::string& body) {
  return nodes(ruleOf("def pattern(" + parameters + "):\n    return " + body + "\n").pattern);
}

}  // namespace

TEST_CASE("functions, methods and operators mean the same operator") {
  const std::string relu = "%relu = aten.relu.default(%x)\n";
  CHECK(pattern("x", "torch.relu(x)") == relu);
  CHECK(pattern("x", "x.relu()") == relu);
  CHECK(pattern("x", "F.relu(x)") == relu);
  CHECK(pattern("x", "torch.nn.functional.relu(x)") == relu);
  CHECK(pattern("x", "torch.relu(input=x)") == relu);
  CHECK(pattern("x", "torch.ops.aten.relu(x)") == relu);
  CHECK(pattern("x", "torch.ops.aten.relu.default(x)") == relu);
  CHECK(pattern("x", "torch.Tensor.relu(x)") == relu);
}

TEST_CASE("defaults are filled in, keywords find their place") {
  CHECK(pattern("x", "torch.softmax(x, -1)") == "%softmax = aten.softmax.int(%x, dim=-1, dtype=None)\n");
  CHECK(pattern("x", "F.softmax(x, dim=-1)") == "%softmax = aten.softmax.int(%x, dim=-1, dtype=None)\n");
  CHECK(pattern("x", "x.softmax(dim=-1)") == "%softmax = aten.softmax.int(%x, dim=-1, dtype=None)\n");
  CHECK(pattern("x", "F.dropout(x)") == "%dropout = aten.dropout.default(%x, p=0.5, train=True)\n");
  CHECK(pattern("x", "F.dropout(x, p=_, training=False)") ==
        "%dropout = aten.dropout.default(%x, p=<_>, train=False)\n");
  CHECK(pattern("x", "F.gelu(x, approximate=\"tanh\")") == "%gelu = aten.gelu.default(%x, approximate=\"tanh\")\n");
  CHECK(pattern("x", "F.embedding(x, _)") ==
        "%embedding = aten.embedding.default(<_>, %x, padding_idx=-1, scale_grad_by_freq=False, sparse=False)\n");
}

TEST_CASE("numbers take the canonical overload") {
  CHECK(pattern("x", "x / 8.0") == "%div = aten.div.Tensor(%x, other=8.0)\n");
  CHECK(pattern("x", "8 * x") == "%mul = aten.mul.Tensor(%x, other=8)\n");
  CHECK(pattern("x, s: float", "x * s") == "%mul = aten.mul.Tensor(%x, %s)\n");
  CHECK(pattern("x", "x + 1") == "%add = aten.add.Tensor(%x, other=1, alpha=1)\n");
  CHECK(pattern("x", "1 - x") == "%sub = aten.sub.Tensor(1, %x, alpha=1)\n");
  CHECK(pattern("x", "-x") == "%neg = aten.neg.default(%x)\n");
  CHECK(pattern("x, y", "x @ y") == "%matmul = aten.matmul.default(%x, %y)\n");
  CHECK(pattern("x", "1 / x") ==
        "%reciprocal = aten.reciprocal.default(%x)\n%mul = aten.mul.Tensor(%reciprocal, other=1)\n");
}

TEST_CASE("sizes are lists, however they are given") {
  CHECK(pattern("x", "x.view(2, -1)") == "%view = aten.view.default(%x, size=[2, -1])\n");
  CHECK(pattern("x", "x.view([2, -1])") == "%view = aten.view.default(%x, size=[2, -1])\n");
  CHECK(pattern("x", "x.view((2, -1))") == "%view = aten.view.default(%x, size=[2, -1])\n");
  CHECK(pattern("x", "x.view(7)") == "%view = aten.view.default(%x, size=[7])\n");
  CHECK(pattern("x, n: int", "x.view(_, n)") == "%view = aten.view.default(%x, size=[<_>, %n])\n");
  CHECK(pattern("x, d: list[int]", "x.view(d)") == "%view = aten.view.default(%x, %d)\n");
  CHECK(pattern("x", "x.permute(0, 2, 1, 3)") == "%permute = aten.permute.default(%x, dims=[0, 2, 1, 3])\n");
  CHECK(pattern("x, w, b", "F.layer_norm(x, 64, w, b)") ==
        "%layer_norm = aten.layer_norm.default(%x, normalized_shape=[64], %w, %b, eps=1e-05, cudnn_enable=True)\n");
}

TEST_CASE("shape arithmetic becomes an expression") {
  const Rule r = ruleOf("def pattern(x):\n    s = x.shape[:-1] + (16, -1)\n    return x.view(s)\n");
  CHECK(nodes(r.pattern) == "%expr = pattern.expr(index=0)\n%view = aten.view.default(%x, %expr)\n");
  REQUIRE(r.patternExpressions.size() == 1);
  CHECK(toString(r.patternExpressions[0]) == "x.shape[:-1] + (16, -1)");
  const Rule n = ruleOf("def pattern(q, d: int):\n    return q / math.sqrt(q.size(-1) * d)\n");
  CHECK(toString(n.patternExpressions[0]) == "sqrt(q.size(-1) * d)");
}

TEST_CASE("a value of an expression is named as the graph names it") {
  const Rule r = ruleOf("def pattern(x):\n    x = x.relu()\n    return x.view(x.shape[0], -1)\n");
  CHECK(toString(r.patternExpressions[0]) == "x_1.shape[0]");
  CHECK(r.pattern.findValue("x_1"));
}

TEST_CASE("lists of tensors are taken apart by getitem, tuples of outputs are outputs") {
  CHECK(
      nodes(ruleOf("def pattern(x):\n    a, b = x.chunk(2, dim=-1)\n    return a * b\n").pattern) ==
      "%chunk = aten.chunk.default(%x, chunks=2, dim=-1)\n%a = prim.getitem(%chunk, 0)\n%b = prim.getitem(%chunk, 1)\n"
      "%mul = aten.mul.Tensor(%a, %b)\n");
  CHECK(nodes(ruleOf("def pattern(x):\n    v, i = torch.max(x, dim=1)\n    return v\n").pattern) ==
        "%v, %i = aten.max.dim(%x, dim=1, keepdim=False)\n");
  CHECK(pattern("x", "x.split([1, 2])[0]") ==
        "%split_with_sizes = aten.split_with_sizes.default(%x, split_sizes=[1, 2], dim=0)\n%getitem = "
        "prim.getitem(%split_with_sizes, 0)\n");
}

TEST_CASE("subscripts of tensors are slices, selections and new dimensions") {
  CHECK(pattern("x", "x[..., 2:]") ==
        "%slice = aten.slice.Tensor(%x, dim=-1, start=2, end=9223372036854775807, step=1)\n");
  CHECK(pattern("x", "x[:, 0]") == "%select = aten.select.int(%x, dim=1, index=0)\n");
  CHECK(pattern("x", "x[:, None, :, 1:5:2]") ==
        "%unsqueeze = aten.unsqueeze.default(%x, dim=1)\n%slice = aten.slice.Tensor(%unsqueeze, dim=3, start=1, end=5, "
        "step=2)\n");
  CHECK(pattern("x, i", "x[i]") == "%index = aten.index.Tensor(%x, indices=[%i])\n");
}

TEST_CASE("modules are matched by name, path, type, or as nn.Module classes") {
  CHECK(pattern("x", "call_module(\"[qkv]_proj\", x)") ==
        "%call_module = pattern.call_module(%x, name=\"[qkv]_proj\")\n");
  CHECK(pattern("x", "call_module(r\"layer\\.0\", x)") ==
        "%call_module = pattern.call_module(%x, path=\"layer\\\\.0\")\n");
  CHECK(pattern("x", "call_module(nn.Linear, x)") ==
        "%call_module = pattern.call_module(%x, type=\"torch.nn.Linear\")\n");
  CHECK(pattern("x", "call_function(r\"aten\\.(relu|gelu)\", x)") ==
        "%call_function = pattern.call_function(%x, name=\"aten\\\\.(relu|gelu)\")\n");
  const Rule r = ruleOf(R"(
class Pattern(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)
        self.activation = torch.nn.Tanh()

    def forward(self, v):
        return self.activation(self.linear(v))

class Replacement(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)
        self.relu = torch.nn.ReLU()

    def forward(self, v):
        return self.relu(self.linear(v))
)");
  CHECK(nodes(r.pattern) ==
        "%linear = pattern.call_module(%v, type=\"torch.nn.Linear\")\n"
        "%activation = pattern.call_module(%linear, type=\"torch.nn.Tanh\")\n");
  CHECK(nodes(*r.replacement) ==
        "%linear = pattern.call_module(%v, keep=\"linear\")\n%relu = aten.relu.default(%linear)\n");
}

TEST_CASE("alternatives and optional operations are any_of") {
  CHECK(pattern("x", "any_of(x.relu(), x.tanh())") ==
        "%relu = aten.relu.default(%x)\n%tanh = aten.tanh.default(%x)\n%any_of = pattern.any_of(%relu, %tanh)\n");
  const std::string expected =
      "%contiguous = aten.contiguous.default(%x, memory_format=0)\n%any_of = pattern.any_of(%contiguous, %x)\n"
      "%relu = aten.relu.default(%any_of)\n";
  CHECK(pattern("x", "torch.relu(optional(torch.Tensor.contiguous, x))") == expected);
  CHECK(pattern("x", "torch.relu(optional(x.contiguous(), x))") == expected);
}

TEST_CASE("functions and constants of the file are pasted in") {
  const Rule r = ruleOf(
      "SCALE = 8.0\ndef scaled(x, by=SCALE):\n    y = x / by\n    return y\ndef pattern(x):\n    return "
      "scaled(scaled(x, by=2))\n");
  CHECK(nodes(r.pattern) == "%y = aten.div.Tensor(%x, other=2)\n%y_1 = aten.div.Tensor(%y, other=8.0)\n");
}

TEST_CASE("a replacement pairs its parameters by name, else by position, and may compute constants and weights") {
  const Rule r = ruleOf(R"(
def pattern(q, k, scale: float):
    return torch.matmul(q, k) / scale

def replacement(k, q, scale: float):
    return kernels.attention(q, k, k, scale=1 / scale)
)");
  CHECK(nodes(*r.replacement) ==
        "%expr = pattern.expr(index=0)\n%attention = graft.attention.default(%q, %k, %k, mask=None, scale=%expr, "
        "causal=False)\n");
  CHECK(toString(r.replacementExpressions[0]) == "1 / scale");
  const Rule p = ruleOf("def pattern(a, b):\n    return a - b\ndef replacement(x, y):\n    return y.neg() + x\n");
  CHECK(nodes(*p.replacement) == "%neg = aten.neg.default(%b)\n%add = aten.add.Tensor(%neg, %a, alpha=1)\n");
}

TEST_CASE("rules share a condition as they share a pattern") {
  const Rule rule = ruleOf(R"(
def flat(x):
    return x.dim() == 2

class First(Rule):
    def pattern(x):
        return torch.relu(x)

    where = flat
)");
  REQUIRE(rule.where);
  CHECK(toString(*rule.where) == "x.dim() == 2");
  const auto wrong = [](const std::string& where) {
    const auto file = parseRuleText(
        "def flat(y):\n    return y.dim() == 2\nclass M(nn.Module):\n    pass\n\nclass First(Rule):\n"
        "    def pattern(x):\n        return torch.relu(x)\n\n    where = " +
            where + "\n",
        "rules.py", test::operators());
    REQUIRE_FALSE(file);
    return file.error().message;
  };
  CHECK(wrong("flat") == "the pattern of `First` has no name `y`; did you mean `x`?");
  CHECK(wrong("flatt") == "`flatt` is not a function or class of this file; did you mean `flat`?");
  CHECK(wrong("M") == "`where` of the rule `First` is a function, not a module");
}

TEST_CASE("every node of a pattern knows where it stands") {
  const Rule r = ruleOf("def pattern(x):\n    y = torch.softmax(x / 8.0, dim=-1)\n    return y.contiguous()\n");
  std::vector<std::pair<std::string, SourceLocation>> at;
  for (NodeId n : r.pattern.order())
    at.emplace_back(r.pattern.node(n).op->baseName(), *r.pattern.sourceOf(r.pattern.node(n)));
  REQUIRE(at.size() == 3);
  const auto word = [](const SourceLocation& s) {
    return s.code.substr(static_cast<size_t>(s.column - 1), static_cast<size_t>(s.endColumn - s.column));
  };
  CHECK(word(at[0].second) == "/");
  CHECK(word(at[1].second) == "torch.softmax");
  CHECK(word(at[2].second) == "contiguous");
  CHECK(at[0].second.line == 2);
  CHECK(at[2].second.line == 3);
}

TEST_CASE("what is computed and not used is no part of the replacement") {
  const Rule r = ruleOf(
      "def pattern(x):\n    return x.relu()\ndef replace(x):\n    y = x.tanh()\n    x.view(2)\n    return x.relu()\n");
  CHECK(nodes(*r.replacement) == "%relu = aten.relu.default(%x)\n");
}

TEST_CASE("a tolerance is one number, or limits by name, and says that numbers change") {
  const auto rule = [](const std::string& tolerance) {
    return ruleOf("class A(Rule):\n    tolerance = " + tolerance + "\n    def pattern(x):\n        return x.relu()\n");
  };
  CHECK(rule("0.02").tolerance == RewriteTolerance{0.02, std::nullopt, std::nullopt});
  CHECK(rule("0.02").changesNumbers);
  CHECK(rule("{\"rtol\": 0.01, \"atol\": 1e-3}").tolerance == RewriteTolerance{std::nullopt, 0.01, 1e-3});
  CHECK(toString(rule("{\"rmse\": 0.5, \"atol\": 1}").tolerance) ==
        "an RMSE of 50 % of the result's and 1 + 0 of the expected at each element");
}

TEST_CASE("a rule without a class has its settings beside it") {
  const Rule rule = ruleOf("tolerance = 0.1\nexact = True\ndef pattern(x):\n    return x.relu()\n");
  CHECK(rule.exact);
  CHECK(rule.tolerance.rmse == 0.1);
}

TEST_CASE("devices are written as Python and torch.fx write them") {
  CHECK(pattern("x", "x.to(device(type='cuda', index=1))") == pattern("x", "x.to(torch.device('cuda:1'))"));
  CHECK(pattern("x", "x.masked_fill(x, -inf)") == pattern("x", "x.masked_fill(x, float('-inf'))"));
  CHECK(pattern("x", "torch.functional.einsum('ij->i', x)") == pattern("x", "torch.einsum('ij->i', x)"));
}

TEST_CASE("types of parameters may be joined") {
  using Kind = PatternParameter::Kind;
  const auto parameter = [](const std::string& type) {
    return ruleOf("def pattern(x, c: " + type + "):\n    return torch.add(x, c)\n").parameters[1];
  };
  for (const char* either : {"Tensor | float", "float | Tensor", "Union[torch.Tensor, int]", "Any"}) {
    CHECK(parameter(either).kind == Kind::Value);
    CHECK(parameter(either).orNumber);
    CHECK_FALSE(parameter(either).orNone);
  }
  CHECK(parameter("float | int").kind == Kind::Float);
  CHECK(parameter("Optional[float]").orNone);
  CHECK(parameter("Tensor | float | None").orNone);
  CHECK(parameter("\"f32[2, 3][3, 1]cpu\"").kind == Kind::Tensor);
}

TEST_CASE("a function that applies its own pattern is a rule") {
  const Rule rule = ruleOf(R"(
def replace_tanh(gm: torch.fx.GraphModule):

    def pattern(x):
        return torch.tanh(x)

    def replace(x):
        return torch.relu(x)

    replace_pattern(gm, pattern, replace)
)");
  CHECK(rule.name == "replace_tanh");
  CHECK(nodes(rule.pattern) == "%tanh = aten.tanh.default(%x)\n");
  REQUIRE(rule.replacement);
  CHECK(nodes(*rule.replacement) == "%relu = aten.relu.default(%x)\n");
}
