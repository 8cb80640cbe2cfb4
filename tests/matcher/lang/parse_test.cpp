// What a rule file may hold and how it is read: forms, settings, recipes, strings, imports.
#include "matcher/lang/rule_file.h"
#include "operators.h"
#include "tests/support/catch.h"

using namespace graft;

namespace {

RuleFile parsed(std::string_view text) {
  auto file = parseRuleText(text, "rules.py", test::operators());
  INFO((file ? "" : file.error().format()));
  REQUIRE(file);
  return *file;
}

}  // namespace

TEST_CASE("a class with a pattern is a rule with its docstring and line") {
  const RuleFile f = parsed(R"("""A file."""
import torch
from graft import Rule


class Relu(Rule):
    """Twice is once."""

    def pattern(x):
        return torch.relu(torch.relu(x))

    def replacement(x):
        return torch.relu(x)
)");
  REQUIRE(f.rules.size() == 1);
  const Rule& r = f.rules[0];
  CHECK(r.name == "Relu");
  CHECK(r.description == "Twice is once.");
  CHECK(r.line == 6);
  CHECK(r.file == "rules.py");
  CHECK(r.pattern.nodeCount() == 2);
  CHECK(r.replacement->nodeCount() == 1);
  CHECK(f.findRule("Relu") == &f.rules[0]);
  CHECK(f.findRule("relu") == nullptr);
  CHECK(r.cases.empty());
}

TEST_CASE("what stands deeper than a line `cases:` of a docstring is the rule's cases, not its description") {
  const RuleFile f = parsed(R"(class Relu(Rule):
    """Twice is once.

    cases:
        given x: f32[2]
        matches 1

            return torch.relu(torch.relu(x))

    It is the same function.
    """

    def pattern(x):
        return torch.relu(torch.relu(x))


class None_(Rule):
    """
    cases:
    nothing is indented
    """

    def pattern(x):
        return torch.tanh(torch.tanh(x))
)");
  CHECK(f.rules[0].description == "Twice is once.\n\n    It is the same function.");
  CHECK(f.rules[0].casesLine == 5);
  CHECK(f.rules[0].cases ==
        "        given x: f32[2]\n        matches 1\n\n            return torch.relu(torch.relu(x))\n\n");
  CHECK(f.rules[1].cases.empty());
  CHECK(f.rules[1].description == "\n    cases:\n    nothing is indented\n    ");
}

TEST_CASE("two bare functions are one rule named after the file") {
  for (const char* name : {"replacement", "replace"}) {
    const RuleFile f =
        parsed(std::string("def pattern(x):\n    return x.relu()\ndef ") + name + "(x):\n    return x.tanh()\n");
    REQUIRE(f.rules.size() == 1);
    CHECK(f.rules[0].name == "rules");
    CHECK(f.rules[0].replacement);
  }
}

TEST_CASE("settings of a rule are read") {
  const RuleFile f = parsed(R"(
class A(Rule):
    scope = r"encoder\.layer\.\d+"
    exact = True
    changes_numbers = True
    def pattern(x): return x.relu()
)");
  CHECK(f.rules[0].scope == "encoder\\.layer\\.\\d+");
  CHECK(f.rules[0].exact);
  CHECK(f.rules[0].changesNumbers);
  CHECK_FALSE(f.rules[0].replacement);
}

TEST_CASE("a pattern may be a function or a class that stands elsewhere in the file") {
  const RuleFile f = parsed(R"(
def attention(q, k):
    return torch.matmul(q, k.transpose(-1, -2))

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(1, 1)
    def forward(self, x):
        return self.fc(x)

class A(Rule):
    pattern = attention

class B(Rule):
    pattern = Layer
)");
  CHECK(f.rules[0].pattern.nodeCount() == 2);
  CHECK(f.rules[1].pattern.nodeCount() == 1);
}

TEST_CASE("parameters have the kinds of their annotations") {
  const RuleFile f = parsed(R"(
def pattern(x, t: torch.Tensor, o: Optional[Tensor], w: Weight, s: float, n: int, b: bool, m: str, d: list[int], c: Constant):
    return F.linear(x, w).transpose(n, 1).sum(d, keepdim=b) * s + t + o + c
)");
  using K = PatternParameter::Kind;
  const std::vector<K> kinds{K::Value, K::Tensor, K::Tensor, K::Weight,  K::Float,
                             K::Int,   K::Bool,   K::String, K::IntList, K::Constant};
  REQUIRE(f.rules[0].parameters.size() == kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) CHECK(f.rules[0].parameters[i].kind == kinds[i]);
}

TEST_CASE("a parameter with a default is that value") {
  const RuleFile f = parsed("def pattern(x, p=0.1):\n    return F.dropout(x, p)\n");
  CHECK(f.rules[0].parameters.size() == 1);
}

TEST_CASE("a recipe names rules and passes with arguments, and what it expects") {
  const RuleFile f = parsed(R"(
from torch import nn

class A(Rule):
    def pattern(x):
        return x.relu()

class R(Recipe):
    """Both."""
    steps = [normalize, A, decompose(nn.Linear), swap_module(nn.GELU, nn.ReLU), half(), decompose(op="gelu")]
    expect = {A: 12}
)");
  REQUIRE(f.recipes.size() == 1);
  const Recipe& r = f.recipes[0];
  CHECK(r.description == "Both.");
  REQUIRE(r.steps.size() == 6);
  CHECK(r.steps[1].name == "A");
  CHECK(r.steps[2].args[0] == Argument(Named{"torch.nn.Linear"}));
  CHECK(r.steps[3].args.size() == 2);
  CHECK(r.steps[5].kwargs[0] == std::pair<std::string, Argument>{"op", Argument(std::string("gelu"))});
  CHECK(r.steps[0].line == 10);
  REQUIRE(r.expect.size() == 1);
  CHECK(r.expect[0] == std::pair<std::string, size_t>{"A", 12});
}

TEST_CASE("code that torch.fx prints can be pasted") {
  const RuleFile f = parsed(R"(
torch.fx.wrap("attention_forward")

@torch.fx.wrap
def pattern(q, k, attention_mask, v):
    transpose = k.transpose(-1, -2);  k = None
    matmul = torch.matmul(q, transpose);  q = transpose = None
    truediv = matmul / 8.0;  matmul = None
    add_1 = truediv + attention_mask
    softmax = torch.nn.functional.softmax(add_1, dim = -1)
    matmul_1 = torch.matmul(softmax, v)
    return matmul_1
)");
  CHECK(f.rules[0].pattern.nodeCount() == 6);
  CHECK(f.rules[0].pattern.findValue("truediv"));
}

TEST_CASE("strings are read as Python reads them") {
  const auto scope = [](const std::string& literal) {
    return parsed("class A(Rule):\n    scope = " + literal + "\n    def pattern(x): return x.relu()\n").rules[0].scope;
  };
  CHECK(scope(R"("a\\.b")") == "a\\.b");
  CHECK(scope(R"(r"a\.b")") == "a\\.b");
  CHECK(scope(R"("a\.b")") == "a\\.b");  // an unknown escape stays
  CHECK(scope(R"('a"b')") == "a\"b");
  CHECK(scope(R"("a\"b")") == "a\"b");
  CHECK(scope(R"("a" 'b' r"\d")") == "ab\\d");
  CHECK(scope(R"("""a#b""")") == "a#b");
  CHECK(scope("\"gr\xc3\xbc\xc3\x9f\"") == "gr\xc3\xbc\xc3\x9f");
}

TEST_CASE("line ends, tabs, a byte-order mark and a missing last line end make no difference") {
  const auto count = [](const char* text) { return parsed(text).rules[0].pattern.nodeCount(); };
  CHECK(count("def pattern(x):\r\n    y = torch.add(x,\r\n  x)\r\n    return y\r\n") == 1);
  CHECK(count("def pattern(x):\n\treturn x.relu()\n") == 1);
  CHECK(count("\xef\xbb\xbf"
              "def pattern(x):\n    return x.relu()\n") == 1);
  CHECK(count("def pattern(x):\n    return x.relu()") == 1);
  CHECK(count("def pattern(x):  # a note\n    # another\n\n    return x.relu()  # \"quoted\n") == 1);
  CHECK(count("def pattern(x):\n    return torch.add(\n        x,  # first\n        x.relu(),\n    )\n") == 2);
  CHECK(count("def pattern(x):\n    y = x + \\\n        x\n    return y\n") == 1);
}

TEST_CASE("`not in` and names that begin with `in` keep apart") {
  const RuleFile f = parsed(
      "def pattern(inputs):\n    return inputs.relu()\ndef where(inputs):\n"
      "    return inputs.dim() not   in [2, 3] and not inputs.is_cuda and inputs is  not None\n");
  CHECK(toString(*f.rules[0].where) == "inputs.dim() not in [2, 3] and not inputs.is_cuda and inputs is not None");
}
