// Files made to break a parser: every one ends soon, with an error or a rule, never with a crash.
#include <fmt/format.h>

#include <chrono>

#include "matcher/lang/rule_file.h"
#include "operators.h"
#include "tests/support/catch.h"

using namespace graft;

namespace {

std::string repeat(std::string_view part, size_t n) {
  std::string out;
  out.reserve(part.size() * n);
  for (size_t i = 0; i < n; ++i) out += part;
  return out;
}

std::string refusal(const std::string& text) {
  const auto start = std::chrono::steady_clock::now();
  const auto file = parseRuleText(text, "h.py", test::operators());
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  return file ? "accepted" : file.error().message;
}
std::string inReturn(const std::string& expression) {
  return refusal("def pattern(x):\n    return " + expression + "\n");
}

}  // namespace

TEST_CASE("nesting is bounded before anything recurses") {
  CHECK_THAT(inReturn(repeat("(", 200000) + "x" + repeat(")", 200000)), StartsWith("brackets are nested deeper"));
  CHECK_THAT(inReturn(repeat("-", 100000) + "x"), StartsWith("too many operators in a row"));
  CHECK_THAT(inReturn(repeat("not ", 100000) + "x"), StartsWith("too many operators in a row"));
  CHECK_THAT(inReturn(repeat("x+", 100000) + "x"), StartsWith("this statement has more than"));
  CHECK_THAT(inReturn(repeat("x+", 900) + "x"), StartsWith("this expression is nested too deeply"));
  CHECK_THAT(inReturn(repeat("x**", 900) + "x"), StartsWith("this expression is nested too deeply"));
  CHECK_THAT(inReturn("x" + repeat(".a", 1500)), StartsWith("this expression is nested too deeply"));
  CHECK_THAT(inReturn("x" + repeat("()", 1300)), StartsWith("this expression is nested too deeply"));
  CHECK_THAT(inReturn(repeat("x if x else ", 900) + "x"), StartsWith("this expression is nested too deeply"));
  std::string classes;
  for (size_t i = 0; i < 1000; ++i) classes += repeat(" ", i) + "class A" + std::to_string(i) + "(Rule):\n";
  CHECK_THAT(refusal(classes), StartsWith("more than 20 levels"));
  CHECK(inReturn(repeat("(", 60) + "x.relu()" + repeat(")", 60)) == "accepted");
}

TEST_CASE("what doubles with every line is stopped") {
  std::string functions = "def f0(x):\n    return x.relu()\n";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "f" + std::to_string(i - 1);
    functions += "def f" + std::to_string(i) + "(x):\n    return " + before + "(" + before + "(x))\n";
  }
  CHECK_THAT(refusal(functions + "def pattern(x):\n    return f15(x)\n"),
             StartsWith("the rule has more than 5000 operations"));
  CHECK_THAT(refusal("def pattern(x):\n    a = (x, x)\n" + repeat("    a = (a, a)\n", 40) + "    return a\n"),
             StartsWith("this value has more than"));
  CHECK_THAT(
      refusal("def pattern(x):\n    a = x.shape[0]\n" + repeat("    a = a + a\n", 40) + "    return x.view(a)\n"),
      StartsWith("this value has more than"));
  CHECK_THAT(refusal("def f(x):\n    return g(x)\ndef g(x):\n    return f(x)\ndef pattern(x):\n    return f(x)\n"),
             ContainsSubstring("calls itself"));
  CHECK_THAT(refusal("A = B\nB = A\ndef pattern(x):\n    return x + A\n"), ContainsSubstring("is defined by itself"));
  CHECK_THAT(refusal("def pattern(x):\n" + repeat("    x = x + 1\n", 20000) + "    return x\n"),
             StartsWith("the rule has more than 5000 operations"));
}

TEST_CASE("modules that hold each other twice, line after line, are refused") {
  std::string init = "        self.m0 = nn.Sequential(nn.Identity(), nn.Identity())\n";
  for (int i = 1; i < 60; ++i)
    init += fmt::format("        self.m{0} = nn.Sequential(self.m{1}, self.m{1})\n", i, i - 1);
  const std::string body = "    def forward(self, x):\n        return self.m59(x).relu()\n";
  CHECK_THAT(refusal("def pattern(x):\n    return x.tanh()\nclass Replacement(nn.Module):\n    def __init__(self):\n" +
                     init + body),
             StartsWith("the rule has more than 5000 operations"));
  std::string classes;
  for (int i = 0; i < 40; ++i)
    classes += fmt::format(
        "class M{0}(nn.Module):\n    def __init__(self):\n        self.a = M{1}()\n        self.b = M{1}()\n"
        "    def forward(self, x):\n        return self.a(self.b(x))\n",
        i, i + 1);
  CHECK_THAT(refusal("def pattern(x):\n    return x.tanh()\nclass Replacement(nn.Module):\n    def __init__(self):\n"
                     "        self.m = M0()\n    def forward(self, x):\n        return self.m(x)\n" +
                     classes + "class M40(nn.Module):\n    def forward(self, x):\n        return x\n"),
             ContainsSubstring("deep") || StartsWith("the rule has more than 5000 operations"));
}

TEST_CASE("bytes that are no text are refused") {
  CHECK_THAT(refusal(std::string(2000000, '#')), StartsWith("the rule file has 2000000 bytes"));
  CHECK_THAT(refusal(std::string("def pattern(x):\n    return x\0\n", 29)), StartsWith("unexpected byte 0x00"));
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  CHECK_THAT(refusal(all), StartsWith("unexpected byte"));
  CHECK_THAT(refusal("def pattern(\xc3\xbc):\n    return \xc3\xbc\n"), StartsWith("only plain ASCII"));
  CHECK_THAT(inReturn("x + 99999999999999999999999"), StartsWith("this integer does not fit 64 bits"));
  CHECK_THAT(refusal("def pattern(x):\n    \"\"\"abc\n"), StartsWith("this string is never closed"));
}

TEST_CASE("every beginning and every damaged byte of a good file is answered") {
  const std::string good =
      "import torch\n\n\nclass A(Rule):\n    \"\"\"D.\"\"\"\n    scope = r\"a\\.b\"\n\n    def pattern(x, s: float, *, "
      "n: int):\n"
      "        q, k = x.chunk(2, dim=-1)\n        y = torch.softmax(q[..., :4] / s, dim=n)\n"
      "        return y @ k.view(x.shape[0], *x.shape[1:-1], -1), k if n else q\n\n    def where(x, n):\n"
      "        return x.dim() not in [2, 3] and n is not None\n\nclass R(Recipe):\n    steps = [A]\n    expect = {A: "
      "1}\n";
  for (size_t i = 0; i <= good.size(); ++i) (void)parseRuleText(good.substr(0, i), "h.py", test::operators());
  for (size_t i = 0; i < good.size(); ++i)
    for (char c : {'(', ')', '"', '\n', ' ', '=', '.', '0', '\\', ':', '*'}) {
      std::string damaged = good;
      damaged[i] = c;
      (void)parseRuleText(damaged, "h.py", test::operators());
    }
  SUCCEED();
}
