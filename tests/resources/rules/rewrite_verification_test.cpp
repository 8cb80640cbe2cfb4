// Each rewrite is verified on its own: what computes something else is taken back and the rest stays.
#include "core/torch/rewrite_verification.h"

#include <sstream>

#include "case_model.h"
#include "core/ir/verify.h"
#include "core/text/text.h"
#include "core/torch/verification.h"
#include "matcher/lang/rule_file.h"
#include "matcher/passes/passes.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace graft;
using test::take;
using Verdict = RewriteVerification::Verdict;

namespace {

struct Fixture {
  Graph model;
  TensorSet inputs;
  RuleFile rules;

  Fixture(const std::string& given, const std::string& body, const std::string& source)
      : rules(take(parseRuleText(source, "rules.py", test::semantics().operators()))) {
    std::istringstream text("given " + given + "\nmatches 1\n" + body);
    const test::Case c = test::readCases(text, "case.py", 1).at(0);
    model = test::modelOf(c);
    inputs = test::inputsOf(c, model);
  }
  RuleRun run(Graph& g, bool strict = false) const {
    const auto check = makeRewriteCheck(inputs);
    return take(applyRule(g, rules.rules[0], test::semantics(), {check.get(), strict}));
  }
};

const char* const dropBias = R"(
def pattern(x, w: Weight, b: Weight):
    return F.linear(x, w, b)

def replacement(x, w: Weight, b: Weight):
    return F.linear(x, w)
)";

/// The weight of that name with every element the same.
void fill(Graph& g, const char* name, double value) {
  const ValueId w = g.findWeight(name);
  const OperatorSet& ops = test::semantics().operators();
  Graph made;
  const OperatorRef full = ops.find("aten.full_like.default");
  std::vector<Argument> args{Argument(made.addWeight("w", g.value(w).type, g.value(w).data)), Argument(value)};
  while (args.size() < full->parameters.size())
    args.push_back(full->parameters[args.size()].defaultValue.value_or(Argument()));
  g.mutableWeight(w).data =
      take(test::semantics().evaluate(made, made.append(made.root(), full, std::move(args))))[0].data;
}

}  // namespace

TEST_CASE("of three places of one structure, the one whose numbers change is taken back") {
  Fixture f("x: f32[2,8]; w: weight f32[8,8]; a: weight f32[8]; b: weight f32[8]; c: weight f32[8]",
            "    return F.linear(torch.tanh(F.linear(torch.tanh(F.linear(x, w, a)), w, b)), w, c)\n", dropBias);
  // The rule is right where the bias is zero, and only there.
  fill(f.model, "a", 0);
  fill(f.model, "c", 0);
  Graph after = f.model;
  const RuleRun run = f.run(after);
  CHECK(verify(after));
  CHECK(run.records.size() == 2);
  for (const Record& r : run.records) CHECK(r.verification.verdict == Verdict::Verified);
  REQUIRE(run.rolledBack.size() == 1);
  const RewriteVerification& verification = run.rolledBack[0].verification;
  CHECK(run.rolledBack[0].node == "linear_1");
  CHECK(verification.verdict == Verdict::Failed);
  CHECK(verification.inputs == "the model's own values");
  CHECK(verification.output == "linear_1");
  CHECK(verification.element == "[0,0]");
  CHECK_FALSE(verification.expected.empty());
  CHECK(verification.expected != verification.actual);
  REQUIRE_FALSE(verification.inputShapes.empty());
  CHECK(verification.inputShapes[0] == "tanh f32[2,8]");
  const Verification whole = take(verifyRewrite(f.model, after, f.inputs));
  INFO(whole.why);
  CHECK(whole.passed);
}

TEST_CASE("what is taken back leaves the graph as it was; strict makes it an error") {
  Fixture f("x: f32[2,8]; w: weight f32[8,8]; b: weight f32[8]", "    return F.linear(x, w, b).relu()\n", dropBias);
  Graph after = f.model;
  const RuleRun run = f.run(after);
  CHECK(run.records.empty());
  CHECK(run.rolledBack.size() == 1);
  CHECK(toText(after) == toText(f.model));
  const auto check = makeRewriteCheck(f.inputs);
  const auto strict = applyRule(after, f.rules.rules[0], test::semantics(), {check.get(), true});
  REQUIRE_FALSE(strict);
  CHECK(strict.error().kind == ErrorKind::Verification);
  CHECK_THAT(strict.error().message, ContainsSubstring("linear"));
}

TEST_CASE("what the model's own values hide, other values show") {
  const auto kind = [](const std::string& given, const std::string& pattern, const std::string& replacement) {
    const std::string head = "def pattern(x):\n    return ", middle = "\ndef replacement(x):\n    return ";
    Fixture f(given, "    return " + pattern + "\n", head + pattern + middle + replacement + "\n");
    Graph after = f.model;
    const RuleRun run = f.run(after);
    INFO(pattern << " -> " << replacement);
    REQUIRE(run.rolledBack.size() == 1);
    return run.rolledBack[0].verification.inputs;
  };
  CHECK(kind("x: f32[4,4]:rand", "torch.relu(x)", "torch.abs(x)") == "random values");
  CHECK(kind("x: f32[4,4]:rand", "torch.relu(x)", "torch.clamp(x, 0.0, 6.0)") == "random values ten times as large");
  CHECK(kind("x: f32[4,4]", "torch.reciprocal(x)", "torch.reciprocal(x + 1e-30)") == "zeros of both signs");
}

namespace {

/// A graph whose first input dimension may differ from call to call, and a rule that is right for two rows alone.
RuleRun onSymbolicRows(const std::string& replacement, const std::string& failingInputs = {}) {
  Graph g =
      take(parseText("graph rows {\n  input %x : f32[rows,8]@cpu\n  %r = aten.relu.default(%x) : f32[rows,8]@cpu\n"
                     "  %n = aten.neg.default(%r) : f32[rows,8]@cpu\n  return %n\n}\n",
                     test::semantics().operators()));
  const RuleFile rules = take(parseRuleText(
      "def pattern(x):\n    return torch.relu(x)\n\ndef replacement(x):\n    return " + replacement + "\n", "rows.py",
      test::semantics().operators()));
  const TensorSet inputs = take(makeInputs(g, {"f32[2,8]"}, 1));
  const auto check = makeRewriteCheck(inputs, {}, failingInputs);
  return take(applyRule(g, rules.rules[0], test::semantics(), {check.get(), false}));
}

}  // namespace

TEST_CASE("where sizes may differ, others are tried: one row, an odd number of rows, none") {
  const RuleRun right = onSymbolicRows("torch.clamp(x, min=0)");
  REQUIRE(right.records.size() == 1);
  CHECK(right.records[0].verification.verdict == Verdict::Verified);
  const size_t fixed = 7;  // the model's own values, random ones, … as for a graph without symbols
  CHECK(right.records[0].verification.inputSets == fixed + 3);
  const RuleRun two = onSymbolicRows("torch.relu(x.reshape(2, 8))");
  REQUIRE(two.rolledBack.size() == 1);
  CHECK_THAT(two.rolledBack[0].verification.why, ContainsSubstring("other sizes, rows = 1"));
  CHECK(two.rolledBack[0].verification.inputShapes == std::vector<std::string>{"x f32[1,8]"});
  const RuleRun few = onSymbolicRows("torch.relu(x[:2])");
  REQUIRE(few.rolledBack.size() == 1);
  CHECK_THAT(few.rolledBack[0].verification.why, ContainsSubstring("other sizes, rows = 3"));
  const RuleRun some = onSymbolicRows("torch.relu(x.reshape(x.shape[0], 2, -1)).reshape(x.shape[0], 8)");
  REQUIRE(some.rolledBack.size() == 1);
  CHECK_THAT(some.rolledBack[0].verification.why, ContainsSubstring("other sizes, rows = 0"));
}

namespace {

/// A traced model: its file says nothing of sizes, and the graph has those of the example. `before` is what stands
/// before the ReLU that the rule takes. `pass`: one was verified before.
RuleRun onTracedRows(const std::string& before, const std::string& replacement, bool pass = false) {
  Graph g = take(parseText("graph rows {\n  input %x : f32[2,8]@cpu\n" + before +
                               "  %r = aten.relu.default(%y) : f32[2,8]@cpu\n  return %r\n}\n",
                           test::semantics().operators()));
  const RuleFile rules = take(parseRuleText(
      "def pattern(x):\n    return torch.relu(x)\n\ndef replacement(x):\n    return " + replacement + "\n", "rows.py",
      test::semantics().operators()));
  const auto check = makeRewriteCheck(take(makeInputs(g, {"f32[2,8]"}, 1)), {}, {}, true);
  if (pass) CHECK(check->checkWhole(g, g, false).verdict == Verdict::Verified);
  return take(applyRule(g, rules.rules[0], test::semantics(), {check.get(), false}));
}

}  // namespace

TEST_CASE("of a traced model, sizes are tried that the model itself accepts") {
  const std::string free = "  %y = aten.neg.default(%x) : f32[2,8]@cpu\n",
                    fixed = "  %y = aten.view.default(%x, [2, 8]) : f32[2,8]@cpu\n";
  const size_t ofOneSize = 7;
  const RuleRun right = onTracedRows(free, "torch.clamp(x, min=0)");
  REQUIRE(right.records.size() == 1);
  CHECK(right.records[0].verification.verdict == Verdict::Verified);
  CHECK(right.records[0].verification.why.empty());
  CHECK(right.records[0].verification.inputSets == ofOneSize + 6);  // 1, 3 and 0 rows; 7 and 9 columns; one of each

  const RuleRun few = onTracedRows(free, "torch.relu(x[:2])");
  REQUIRE(few.rolledBack.size() == 1);
  CHECK_THAT(few.rolledBack[0].verification.why, ContainsSubstring("other sizes, size 2 = 3"));
  CHECK(few.rolledBack[0].verification.inputShapes == std::vector<std::string>{"y f32[3,8]"});

  // Refusing other sizes is not computing something else, and is told.
  const RuleRun two = onTracedRows(free, "torch.relu(x.reshape(2, 8))");
  REQUIRE(two.records.size() == 1);
  CHECK(two.records[0].verification.verdict == Verdict::Verified);
  CHECK_THAT(two.records[0].verification.why,
             ContainsSubstring("size 2 = 1, the original runs and the replacement does not"));

  // A pass before keeps what it computes of the given inputs; other sizes are tried all the same.
  const RuleRun later = onTracedRows(free, "torch.clamp(x, min=0)", true);
  REQUIRE(later.records.size() == 1);
  CHECK(later.records[0].verification.inputSets == ofOneSize + 6);
  CHECK(onTracedRows(free, "torch.relu(x[:2])", true).rolledBack.size() == 1);

  // What the model refuses cannot be held against a rule.
  const RuleRun baked = onTracedRows(fixed, "torch.relu(x[:2])");
  REQUIRE(baked.records.size() == 1);
  CHECK(baked.records[0].verification.verdict == Verdict::Verified);
  CHECK(baked.records[0].verification.inputSets == ofOneSize);
}

TEST_CASE("the inputs that broke a rewrite can be kept") {
  const test::TempDir folder;
  const auto kept = folder.path() / "kept" / "here";  // made where it is not there
  const RuleRun run = onSymbolicRows("torch.relu(x[:2])", kept.string());
  REQUIRE(run.rolledBack.size() == 1);
  const std::string path = (kept / "rows-r.pt").string();
  CHECK_THAT(run.rolledBack[0].verification.why, EndsWith("these inputs are in " + path));
  CHECK(take(loadTensors(path)).describe() == std::vector<std::string>{"f32[3,8]"});
}

TEST_CASE("a rule that changes numbers on purpose is measured and stays") {
  Fixture f("x: f32[2,8]", "    return torch.tanh(x)\n", R"(
class Rectify(Rule):
    changes_numbers = True

    def pattern(x):
        return torch.tanh(x)

    def replacement(x):
        return torch.relu(x)
)");
  Graph after = f.model;
  const RuleRun run = f.run(after);
  REQUIRE(run.records.size() == 1);
  CHECK(run.records[0].verification.verdict == Verdict::Measured);
  CHECK(run.records[0].verification.maxAbs > 0.1);
}

TEST_CASE("what cannot be verified says why") {
  const char* const identity =
      "def pattern(x):\n    return torch.tanh(x)\ndef replacement(x):\n    return -torch.tanh(-x)\n";
  const RuleFile rules = take(parseRuleText(identity, "rules.py", test::semantics().operators()));
  // A branch that these inputs do not take.
  Graph g = take(parseText(R"(graph g {
  input %c : bool
  input %x : f32[2,2]
  %i = prim.If(%c) : tensor {
    %n = aten.neg.default(%x) : f32[2,2]
    %t = aten.tanh.default(%n) : f32[2,2]
    return %t
  } {
    return %x
  }
  return %i
})",
                           test::semantics().operators()));
  const auto run = [&](const std::vector<std::string>& specs) {
    const auto check = makeRewriteCheck(take(makeInputs(g, specs, 1)));
    Graph after = g;
    return take(applyRule(after, rules.rules[0], test::semantics(), {check.get(), false}));
  };
  const RuleRun untaken = run({"b8[]:zeros", "f32[2,2]:randn"});
  REQUIRE(untaken.records.size() == 1);
  CHECK(untaken.records[0].verification.verdict == Verdict::Unverified);
  CHECK_THAT(untaken.records[0].verification.why, ContainsSubstring("`n`"));
  const RuleRun taken = run({"b8[]:ones", "f32[2,2]:randn"});
  REQUIRE(taken.records.size() == 1);
  INFO(taken.records[0].verification.why);
  CHECK(taken.records[0].verification.verdict == Verdict::Verified);
  // An operator that this machine does not have: what comes before it is verified, what follows from it is not.
  const Graph foreign = take(parseText(
      "graph g {\n  input %x : f32[2,2]\n  %t = aten.tanh.default(%x) : f32[2,2]\n  %u = mine.op(%t) : tensor\n  "
      "%v = aten.tanh.default(%u) : tensor\n  return %v\n}",
      test::semantics().operators()));
  const auto check = makeRewriteCheck(take(makeInputs(foreign, {}, 1)));
  Graph after = foreign;
  const RuleRun unknown = take(applyRule(after, rules.rules[0], test::semantics(), {check.get(), false}));
  REQUIRE(unknown.records.size() == 2);
  INFO(unknown.records[0].verification.why);
  CHECK(unknown.records[0].verification.verdict == Verdict::Verified);
  CHECK(unknown.records[1].verification.verdict == Verdict::Unverified);
  CHECK_THAT(unknown.records[1].verification.why, ContainsSubstring("mine.op"));
}

TEST_CASE("a pass is verified as a whole") {
  Fixture f("x: f32[2,8]; w: weight f32[8,8]; b: weight f32[8]", "    return F.linear(x, w, b).relu()\n",
            "class R(Recipe):\n    steps = [decompose(nn.Linear), half()]\n");
  Graph after = f.model;
  const auto check = makeRewriteCheck(f.inputs);
  const RecipeRun run =
      take(runRecipe(after, f.rules, f.rules.recipes[0], test::semantics(), {}, {check.get(), false}));
  CHECK(run.steps[0].verification.verdict == Verdict::Verified);
  CHECK(run.steps[1].verification.verdict == Verdict::Measured);
}
