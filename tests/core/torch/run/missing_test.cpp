// Programs with operators that this machine does not have.
#include "core/torch/executor.h"
#include "core/torch/rewrite_verification.h"
#include "core/torch/verification.h"
#include "tests/support/catch.h"
#include "tests/support/graphs.h"

using namespace graft;
using test::graphOf;

namespace {

TensorSet inputsOf(const Graph& g, const std::string& spec = "f32[3,4]:randn") {
  auto made = makeInputs(g, {spec}, 1);
  REQUIRE_RESULT(made);
  return *made;
}

Program programOf(const Graph& g, Missing missing) {
  RunOptions options;
  options.missing = missing;
  options.fixedShapes = false;
  auto p = Program::build(g, options);
  REQUIRE_RESULT(p);
  return std::move(*p);
}

std::vector<std::string> outputs(const Graph& g, Missing missing, const std::string& spec = "f32[3,4]:randn") {
  auto out = programOf(g, missing).run(inputsOf(g, spec));
  REQUIRE_RESULT(out);
  return out->describe();
}

using Strings = std::vector<std::string>;
const char* const typed =
    "graph g {\n input %x : f32[s0,4]\n %t = aten.tanh.default(%x) : f32[s0,4]\n"
    " %f = my.fused.default(%t) : f32[2*s0,4]\n %r = aten.relu.default(%f) : f32[2*s0,4]\n return %r, %t\n}";
const char* const untyped =
    "graph g {\n input %x : f32[s0,4]\n %t = aten.tanh.default(%x)\n %f = my.fused.default(%t)\n"
    " %r = aten.relu.default(%f)\n return %r, %t\n}";

}  // namespace

TEST_CASE("a program refuses missing operators unless it is asked to leave them out") {
  const Graph g = graphOf(typed);
  const auto refused = Program::build(g);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, ContainsSubstring("my.fused.default") && ContainsSubstring("--library"));
  // What the operator reads follows the outputs.
  CHECK(outputs(g, Missing::LeftOut) == Strings{"None", "f32[3,4]", "f32[3,4]"});
  CHECK(outputs(g, Missing::MadeUp) == Strings{"f32[6,4]", "f32[3,4]", "f32[3,4]"});
  CHECK(outputs(g, Missing::MadeUp, "f32[5,4]:randn") == Strings{"f32[10,4]", "f32[5,4]", "f32[5,4]"});
  CHECK(outputs(graphOf(untyped), Missing::MadeUp) == Strings{"None", "f32[3,4]", "f32[3,4]"});
  const Graph byName = graphOf(
      "graph g {\n input %x : f32[3,4]\n %t = aten.tanh.default(%x) : f32[3,4]\n"
      " %f = my.fused.default(x=%t) : f32[3,4]\n return %f\n}");
  CHECK(outputs(byName, Missing::MadeUp) == Strings{"f32[3,4]", "f32[3,4]"});
  const Program program = programOf(g, Missing::MadeUp);
  CHECK(program.leftOut().operators == Strings{"my.fused.default"});
  CHECK(program.leftOut().nodes == Strings{"f"});
  CHECK(program.leftOut().dependent == std::vector<size_t>{0});
  CHECK(program.leftOut().absent.empty());
  CHECK(programOf(graphOf(untyped), Missing::MadeUp).leftOut().absent == std::vector<size_t>{0});
}

TEST_CASE("types are recorded as far as the model runs") {
  Graph g = graphOf(untyped);
  REQUIRE_RESULT(recordTypes(g, inputsOf(g)));
  CHECK(toString(g.value(g.findValue("t")).type) == "f32[3,4]@cpu");
  CHECK_FALSE(g.value(g.findValue("r")).type.tensorInfo.dtype.has_value());
}

TEST_CASE("the parts around a missing operator are verified") {
  const auto graphWith = [](const std::string& before, const std::string& behind, const std::string& type) {
    return graphOf("graph g {\n input %x : f32[3,4]\n %t = " + before + "(%x)\n %f = my.fused.default(%t) : " + type +
                   "\n %r = " + behind + "(%f)\n return %r\n}");
  };
  const std::string tanh = "aten.tanh.default", relu = "aten.relu.default", sin = "aten.sin.default";
  for (const char* type : {"f32[3,4]", "tensor"}) {
    INFO(type);
    const Graph model = graphWith(tanh, relu, type);
    const auto verified = [&](const std::string& before, const std::string& behind) {
      auto v = verifyRewrite(model, graphWith(before, behind, type), inputsOf(model));
      REQUIRE_RESULT(v);
      CHECK_FALSE(v->notVerified.empty());
      CHECK_FALSE(v->isEmpty());
      return v->passed;
    };
    CHECK(verified(tanh, relu));
    CHECK_FALSE(verified(sin, relu));
    // Without a type nothing behind it can be computed: the verification says so, and passes.
    CHECK(verified(tanh, sin) == (std::string(type) == "tensor"));
  }
  const Graph model = graphWith(tanh, relu, "f32[3,4]");
  const Graph without = graphOf("graph g {\n input %x : f32[3,4]\n %t = aten.tanh.default(%x)\n return %t\n}");
  auto changed = verifyRewrite(model, without, inputsOf(model));
  REQUIRE_RESULT(changed);
  CHECK(changed->isEmpty());
  CHECK_THAT(changed->notVerified.at(0), ContainsSubstring("the rewrites changed calls of my.fused.default"));
}
