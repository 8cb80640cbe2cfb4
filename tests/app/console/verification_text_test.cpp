#include "app/console/verification_text.h"

#include <string>

#include "tests/support/catch.h"

using namespace graft;

/// A rewrite of layer i that failed its verification on one element, off by `off`.
static RolledBack failed(int i, double off) {
  RolledBack r;
  r.node = "linear_" + std::to_string(i);
  r.scope = "layer." + std::to_string(i);
  r.verification.verdict = RewriteVerification::Verdict::Failed;
  r.verification.inputs = "the model's own values";
  r.verification.output = r.node;
  r.verification.element = "[0,0]";
  r.verification.maxAbs = off;
  r.verification.why = "on the model's own values, `" + r.node + "` (f32[2,2]) differs";
  r.verification.inputShapes = {"x f32[2,4]", "y f32[2]"};
  return r;
}

static StepRun rule(std::vector<RolledBack> back) {
  StepRun s;
  s.name = "Bias";
  s.isRule = true;
  s.rolledBack = std::move(back);
  return s;
}

TEST_CASE("What failed in one way at many places is one line, with how often and the first few places") {
  std::vector<RolledBack> back;
  for (int i = 0; i < 36; ++i) back.push_back(failed(i, i == 7 ? 1.34 : 0.5));
  const auto lines = cli::takenBackLines(rule(back), false);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] ==
        "Bias: 36 rewrites taken back: they compute something else on the model's own values, off by up to 1.3; "
        "at `linear_0` in layer.0, `linear_1` in layer.1, `linear_2` in layer.2, …; "
        "the first: on the model's own values, `linear_0` (f32[2,2]) differs; inputs: x f32[2,4], y f32[2]");
  CHECK(cli::takenBackLines(rule(back), true).size() == 36);
  CHECK(cli::verifiedText(rule(back)) == "0 of 36, 36 taken back");
}

TEST_CASE("Each reason has its line: other numbers, other types, other inputs, what does not run") {
  RolledBack types = failed(2, 0), random = failed(3, 0.5), refused = failed(4, 0);
  types.verification.element = "";
  random.verification.inputs = "random values";
  refused.verification.output = refused.verification.element = "";
  const auto lines = cli::takenBackLines(
      rule({failed(0, 0.5), types, failed(1, 0.5), types, random, random, refused, refused}), false);
  REQUIRE(lines.size() == 4);
  CHECK_THAT(lines[0], ContainsSubstring("2 rewrites taken back: they compute something else on the model's own"));
  CHECK_THAT(lines[0], ContainsSubstring("; at `linear_0` in layer.0, `linear_1` in layer.1; the first: "));
  CHECK_THAT(lines[1], ContainsSubstring("they give values of another type on the model's own values; at "));
  CHECK_THAT(lines[2], ContainsSubstring("they compute something else on random values"));
  CHECK_THAT(lines[3], ContainsSubstring("what replaces them does not run on the model's own values"));
}

TEST_CASE("One rewrite, or a pass as a whole, is told as it is") {
  CHECK(cli::takenBackLines(rule({failed(0, 0.5)}), false) ==
        std::vector<std::string>{"Bias: taken back at `linear_0` in layer.0: on the model's own values, `linear_0` "
                                 "(f32[2,2]) differs; inputs: x f32[2,4], y f32[2]"});
  RolledBack whole = failed(0, 0.5);
  whole.node = whole.scope = "";
  StepRun pass = rule({whole});
  pass.name = "fold_constants";
  pass.isRule = false;
  CHECK_THAT(cli::takenBackLines(pass, false).at(0), StartsWith("fold_constants: taken back on the model's own"));
  CHECK(cli::verifiedText(pass) == "taken back");
  CHECK(cli::takenBackLines(rule({}), false).empty());
}
