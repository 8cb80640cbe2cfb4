// Verification against rules that are wrong on purpose: a dropped bias, another epsilon, swapped operands, tanh
// for erf. Each matches its model and is applied; verification must notice.
#include <sstream>

#include "case_model.h"
#include "core/text/text.h"
#include "core/torch/rewrite_verification.h"
#include "core/torch/verification.h"
#include "matcher/lang/rule_file.h"
#include "matcher/rewrite/rewrite.h"
#include "tests/support/catch.h"

using namespace graft;
using test::take;

namespace {

struct Group {
  const char* given;
  const char* pattern;
  std::vector<const char*> wrong;
};

const std::vector<Group>& groups() {
  static const std::vector<Group> all{
      {"x: f32[2,4,8]; w: weight f32[16,8]; b: weight f32[16]",
       "F.gelu(F.linear(x, w, b))",
       {"F.gelu(F.linear(x, w))", "F.gelu(F.linear(x, w, b), approximate=\"tanh\")", "F.relu(F.linear(x, w, b))",
        "F.silu(F.linear(x, w, b))", "kernels.linear(x, w, b, activation=\"gelu_tanh\")", "kernels.linear(x, w, b)",
        "kernels.linear(x, w, activation=\"gelu\")", "F.gelu(F.linear(x, w, -b))", "F.gelu(F.linear(x, w, b)) * 1.001",
        "F.gelu(F.linear(x, w, b + 0.001))", "F.linear(F.gelu(x), w, b)"}},
      {"x: f32[2,4,8]; r: f32[2,4,8]; w: weight f32[8]; b: weight f32[8]",
       "F.layer_norm(x + r, [8], w, b, 1e-5)",
       {"F.layer_norm(x + r, [8], w, b, 1e-3)", "F.layer_norm(x + r, [8], w, b, 1e-2)",
        "F.layer_norm(x + r, [8], w, None, 1e-5)", "F.layer_norm(x + r, [8], None, b, 1e-5)",
        "F.layer_norm(x - r, [8], w, b, 1e-5)", "F.layer_norm(x, [8], w, b, 1e-5)",
        "F.layer_norm(x + r, [8], b, w, 1e-5)", "kernels.add_layer_norm(x, None, w, b)",
        "kernels.add_layer_norm(x, r, w, None)", "F.layer_norm(x, [8], w, b, 1e-5) + r"}},
      {"q: f32[2,3,5,8]; k: f32[2,3,5,8]; v: f32[2,3,5,8]; m: f32[2,1,5,5]",
       "torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / 4.0 + m, dim=-1), v)",
       {"kernels.attention(q, k, v, m, scale=0.125)", "kernels.attention(q, k, v, None, scale=0.25)",
        "kernels.attention(q, k, v, m)", "kernels.attention(k, q, v, m, scale=0.25)",
        "kernels.attention(q, v, k, m, scale=0.25)", "kernels.attention(q, k, v, m, scale=0.25, causal=True)",
        "kernels.attention(q, k, v, m * 4.0, scale=0.25)",
        "torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / 4.0 + m, dim=-2), v)",
        "torch.matmul(torch.softmax((torch.matmul(q, k.transpose(-1, -2)) + m) / 4.0, dim=-1), v)",
        "torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / 4.0, dim=-1) + m, v)"}},
      {"x: f32[2,4,8]; w: weight f32[8]",
       "w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))",
       {"w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-3))",
        "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)",
        "w * (x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6))",
        "(w + 1) * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))",
        "w * (x / (x.pow(2).mean(-1, keepdim=True) + 1e-6))", "F.layer_norm(x, [8], w, None, 1e-6)"}},
      {"x: f32[3,8]; y: f32[3,8]",
       "x - y",
       {"y - x", "x + y", "x - 2 * y", "torch.sub(x, y, alpha=2)", "x - F.relu(y)"}},
      {"x: f32[3,8]",
       "torch.tanh(x)",
       {"torch.sigmoid(x)", "F.hardtanh(x)", "x", "F.gelu(x)", "torch.clamp(x, -1.0, 1.0)"}},
      {"x: f32[3,8]; y: f32[3,8]",
       "x / y",
       {"x * y", "y / x", "torch.floor_divide(x, y)", "x / (y + 0.001)", "torch.addcdiv(y, x, y)"}},
      {"x: f32[3,8]",
       "torch.softmax(x, dim=-1)",
       {"torch.softmax(x, dim=0)", "torch.log_softmax(x, dim=-1)", "torch.softmax(x * 1.01, dim=-1)",
        "torch.sigmoid(x)", "torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)"}},
      {"x: f32[3,8]",
       "F.relu(x)",
       {"F.leaky_relu(x)", "F.gelu(x)", "torch.abs(x)", "torch.clamp(x, min=0.001)", "F.relu6(x)"}},
      {"x: f32[2,8,3,3]; w: weight f32[8,8,1,1]; m: weight f32[8]; v: weight f32[8]; g: weight f32[8]; b: weight "
       "f32[8]",
       "F.batch_norm(F.conv2d(x, w), m, F.relu(v) + 0.5, g, b, False, 0.1, 1e-5)",
       {"F.conv2d(x, w * (g / torch.sqrt(F.relu(v) + 0.5 + 1e-5))[:, None, None, None], b)",
        "F.conv2d(x, w * g[:, None, None, None], b - m * g / torch.sqrt(F.relu(v) + 0.5 + 1e-5))",
        "F.conv2d(x, w * (g / (F.relu(v) + 0.5 + 1e-5))[:, None, None, None], b - m * g / (F.relu(v) + 0.5 + 1e-5))",
        "F.conv2d(x, w * (g / torch.sqrt(F.relu(v) + 0.5 + 1e-5))[None, :, None, None], "
        "b - m * g / torch.sqrt(F.relu(v) + 0.5 + 1e-5))"}},
      {"x: f32[2,4,4]; w: weight f32[4,4]",  // square, so that the wrong way round fits too
       "torch.matmul(x, w)",
       {"F.linear(x, w)", "torch.matmul(x.transpose(1, 2), w)", "torch.matmul(x.half(), w.half()).float()",
        "torch.matmul(x, w.transpose(0, 1)).transpose(1, 2)"}},
      {"x: f32[2,4,4]",
       "x.reshape(2, 4, 2, 2).transpose(1, 2)",
       {"x.reshape(2, 2, 4, 2)", "x.reshape(2, 4, 2, 2).transpose(1, 3).transpose(2, 3)"}},
      {"x: i64[3,8]", "x // 3", {"torch.div(x, 3, rounding_mode=\"trunc\")", "(x + 1) // 3"}},
      // Right for the integers that are given, and for no others.
      {"x: i64[3,8]:randint(-1,2)", "x // 3", {"x >> 1", "torch.clamp(x, -1, 0)"}},
      {"x: i64[3,8]:randint(0,4)", "torch.remainder(x, 5)", {"x", "x * 1"}},
      {"x: i64[3,8]:randint(0,6)", "torch.clamp(x, max=5)", {"x", "torch.remainder(x, 6)"}},
      {"x: i64[3,8]:randint(1,3)", "x * x", {"3 * x - 2", "x * 2 - (x == 1) * 1"}},
      {"x: i64[3,8]:randint(0,3); y: f32[3,8]", "y * (x > 1)", {"y * (x == 2)", "y * (x // 2)"}},
      {"x: f32[3,8]; y: f32[3,8]",
       "torch.where(x > y, x, y)",
       {"torch.where(x > y, y, x)", "torch.minimum(x, y)", "torch.where(x > 0, x, y)"}},
      {"x: f32[3,8]", "torch.remainder(x, 2.0)", {"torch.fmod(x, 2.0)", "x - 2.0 * torch.round(x / 2.0)"}},
  };
  return all;
}

struct Caught {
  bool byWhole = false;  // by verifying the whole model
  bool alone = false;    // by verifying the rewrite, which is then taken back
};

/// Whether verification notices; the rule must match, and apply.
Caught caught(const Group& g, const std::string& wrong) {
  test::Case c;
  c.file = "wrong.py";
  std::istringstream text(std::string("given ") + g.given + "\nmatches 1\n    return " + g.pattern + "\n");
  c = test::readCases(text, "wrong.py", 1).at(0);
  const Graph model = test::modelOf(c);
  std::string source = "def pattern(", names;
  for (const test::Given& v : c.given) names += (names.empty() ? "" : ", ") + v.name + (v.isWeight ? ": Weight" : "");
  source += names + "):\n    return " + g.pattern + "\ndef replacement(" + names + "):\n    return " + wrong + "\n";
  const RuleFile rules = take(parseRuleText(source, "wrong.py", test::semantics().operators()));
  const TensorSet inputs = test::inputsOf(c, model);
  Caught out;
  Graph after = model;
  const RuleRun run = take(applyRule(after, rules.rules[0], test::semantics()));
  REQUIRE(run.records.size() >= 1);
  out.byWhole = !take(verifyRewrite(model, after, inputs)).passed;
  Graph verified = model;
  const auto check = makeRewriteCheck(inputs);
  const RuleRun alone = take(applyRule(verified, rules.rules[0], test::semantics(), {check.get(), false}));
  out.alone = alone.records.empty() && !alone.rolledBack.empty() && toText(verified) == toText(model);
  return out;
}

}  // namespace

namespace {

/// A model that takes an integer, or whose sizes are symbols, and a rule that is right for the given one alone.
struct OneInteger {
  const char* what;
  const char* graph;
  int64_t given;  ///< each symbol and each integer
  const char* pattern;
  std::vector<const char*> wrong, right;
};

const std::vector<OneInteger>& integers() {
  static const std::vector<OneInteger> all{
      {"a factor",
       "input %x : f32[3,8]@cpu\ninput %n : int\n%t = aten.tanh.default(%x) : f32[3,8]@cpu\n"
       "%m = aten.mul.Tensor(%t, %n) : f32[3,8]@cpu\nreturn %m",
       2,
       "def pattern(x, n):\n    return torch.tanh(x) * n\ndef replacement(x, n):\n    return ",
       {"torch.tanh(x) + torch.tanh(x)", "torch.tanh(x) * 2", "torch.tanh(x) * n * n / 2"},
       {"n * torch.tanh(x)", "-(torch.tanh(-x) * n)"}},
      {"how many",
       "input %x : f32[6,4]@cpu\ninput %n : int\n%s = aten.narrow.default(%x, 0, 0, %n) : f32[n,4]@cpu\n"
       "%r = aten.relu.default(%s) : f32[n,4]@cpu\nreturn %r",
       4,
       "def pattern(x, n: int):\n    return torch.relu(x.narrow(0, 0, n))\ndef replacement(x, n: int):\n    return ",
       {"torch.relu(x[:4])", "torch.relu(x[: x.shape[0] - 2])", "torch.relu(x[: x.shape[1]])"},
       {"torch.relu(x[:n])", "torch.relu(x).narrow(0, 0, n)"}},
      {"a size that is twice another",
       "input %x : f32[s0,8]@cpu\n%c = aten.cat.default([%x, %x]) : f32[2*s0,8]@cpu\n"
       "%r = aten.relu.default(%c) : f32[2*s0,8]@cpu\nreturn %r",
       4,
       "def pattern(x):\n    return torch.relu(x)\ndef replacement(x):\n    return ",
       {"torch.relu(x[:8])", "torch.relu(x.view(8, 8))", "torch.relu(x.expand(8, 8))"},
       {"torch.clamp(x, min=0)", "torch.relu(x[: x.shape[0]])"}},
      {"a size that only shrinks",
       "input %x : f32[s0,8]@cpu\n%r = aten.relu.default(%x) : f32[s0,8]@cpu\nreturn %r",
       12,
       "def pattern(x):\n    return torch.relu(x)\ndef replacement(x):\n    return ",
       {"torch.relu(x[:12])", "torch.relu(x)[-12:]"},
       {"torch.clamp(x, min=0)"}},
  };
  return all;
}

}  // namespace

TEST_CASE("a rule that is right for the given integer alone is taken back") {
  for (const OneInteger& c : integers()) {
    const Graph model = take(parseText("graph g {\n" + std::string(c.graph) + "\n}\n", test::semantics().operators()));
    const TensorSet inputs = take(makeInputs(model, {}, 3, c.given));
    for (const bool isWrong : {true, false})
      for (const char* body : isWrong ? c.wrong : c.right) {
        INFO(c.what << ": " << body);
        const RuleFile rules =
            take(parseRuleText(std::string(c.pattern) + body + "\n", "wrong.py", test::semantics().operators()));
        Graph after = model;
        const auto check = makeRewriteCheck(inputs);
        const RuleRun run = take(applyRule(after, rules.rules[0], test::semantics(), {check.get(), false}));
        for (const std::string& why : run.refused) UNSCOPED_INFO("refused: " << why);
        for (const RolledBack& r : run.rolledBack) UNSCOPED_INFO("taken back: " << toString(r));
        CHECK(run.rolledBack.size() == (isWrong ? 1 : 0));
        CHECK(run.records.size() == (isWrong ? 0 : 1));
        // The model as a whole shows it too.
        Graph unverified = model;
        const RuleRun all = take(applyRule(unverified, rules.rules[0], test::semantics()));
        REQUIRE(all.records.size() == 1);
        CHECK(take(verifyRewrite(model, unverified, inputs)).passed != isWrong);
      }
  }
}

TEST_CASE("sizes are tried within the ranges that the model declares") {
  const std::string body = "input %x : f32[s0,8]@cpu\n%r = aten.relu.default(%x) : f32[s0,8]@cpu\nreturn %r\n}\n";
  const RuleFile rules = take(
      parseRuleText("def pattern(x):\n    return torch.relu(x)\ndef replacement(x):\n    return torch.relu(x[:4])\n",
                    "few.py", test::semantics().operators()));
  for (const bool narrow : {true, false}) {
    Graph model = take(parseText("graph g {\n" + body, test::semantics().operators()));
    if (narrow) model.setSymbol({"s0", 2, 4});
    const auto check = makeRewriteCheck(take(makeInputs(model, {}, 3, 4)));
    const RuleRun run = take(applyRule(model, rules.rules[0], test::semantics(), {check.get(), false}));
    INFO((narrow ? "2 to 4" : "any"));
    CHECK(run.records.size() == (narrow ? 1 : 0));
  }
}

TEST_CASE("verification catches rules that are wrong on purpose") {
  size_t tried = 0, found = 0, alone = 0;
  std::string missed;
  for (const Group& g : groups())
    for (const char* wrong : g.wrong) {
      INFO(g.pattern << " -> " << wrong);
      ++tried;
      const Caught c = caught(g, wrong);
      found += c.byWhole;
      alone += c.alone;
      if (!c.byWhole) missed += std::string("\n  by the whole: ") + g.pattern + " -> " + wrong;
      if (!c.alone) missed += std::string("\n  alone: ") + g.pattern + " -> " + wrong;
    }
  INFO("not noticed:" << missed);
  CHECK(tried >= 50);
  CHECK(static_cast<double>(found) >= 0.98 * static_cast<double>(tried));
  CHECK(static_cast<double>(alone) >= 0.98 * static_cast<double>(tried));
}
