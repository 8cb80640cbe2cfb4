// The first near miss names the true cause: each case breaks one thing in a graph or a pattern that fit before.
#include "tests/matcher/search/fixtures.h"

using namespace graft;
using namespace graft::test;

namespace {

const std::string body = R"(
  module m0 "layer.0.attention" A
  input %q : f32[1,4,8,16]
  input %k : f32[1,4,8,16]
  input %v : f32[1,4,8,16]
  input %mask : f32[1,1,1,8]
  %kt = aten.transpose.int(%k, 2, 3) : f32[1,4,16,8] @m0
  %s = aten.matmul.default(%q, %kt) : f32[1,4,8,8] @m0
  %d = aten.div.Tensor(%s, 4.0) : f32[1,4,8,8] @m0
  %m = aten.add.Tensor(%d, %mask) : f32[1,4,8,8] @m0
  %p = aten.softmax.int(%m, -1) : f32[1,4,8,8] @m0
  %o = aten.matmul.default(%p, %v) : f32[1,4,8,16] @m0
  return %o
)";

const std::string pattern = R"(
  input %q : tensor
  input %k : tensor
  input %v : tensor
  input %mask : tensor
  %kt = aten.transpose.int(%k, -1, -2)
  %s = aten.matmul.default(%q, %kt)
  %d = aten.div.Tensor(%s, 4.0)
  %m = aten.add.Tensor(%d, %mask)
  %p = aten.softmax.int(%m, -1)
  %o = aten.matmul.default(%p, %v)
  return %o
)";

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

struct Break {
  std::string from, to;  // in the graph
  Reason reason;
  std::string at;  // pattern node
  std::string message;
};

}  // namespace

TEST_CASE("every way to break attention is named") {
  const std::vector<Break> breaks{
      {"softmax.int(%m, -1)", "softmax.int(%m, 1)", Reason::Literal, "p", "dim is 1, but the rule wants -1"},
      {"div.Tensor(%s, 4.0)", "div.Tensor(%s, 5.0)", Reason::Literal, "d", "other is 5.0, but the rule wants 4.0"},
      {"div.Tensor(%s, 4.0)", "mul.Tensor(%s, 0.5)", Reason::Literal, "d", "the rule wants 4.0"},
      {"aten.softmax.int(%m, -1)", "aten.log_softmax.int(%m, -1)", Reason::Operator, "p",
       "the operator is aten.log_softmax, but the rule wants aten.softmax"},
      {"aten.add.Tensor(%d, %mask)", "aten.sub.Tensor(%d, %mask)", Reason::Operator, "m",
       "the operator is aten.sub, but the rule wants aten.add"},
      {"return %o", "return %o, %p", Reason::Escapes, "p", "an output of the graph"},
      {"return %o", "%z = aten.neg.default(%s)\n return %o, %z", Reason::Escapes, "s", "also used by `z`"},
      {"transpose.int(%k, 2, 3)", "transpose.int(%k, 1, 2)", Reason::Literal, "kt", "dim0"},
      {"matmul.default(%p, %v)", "matmul.default(%v, %p)", Reason::Operand, "o", "the other way round"},
      {"%o = aten.matmul.default(%p, %v) :",
       "%u = aten.relu.default(%p) : f32[1,4,8,8] @m0\n %o = aten.matmul.default(%u, %v) :", Reason::Operator, "p",
       "aten.relu"},
      {"aten.softmax.int(%m, -1)", "aten.softmax.int(%m, -1, torch.float32)", Reason::Literal, "p",
       "dtype is torch.float32, but the rule wants None"},
      {"div.Tensor(%s, 4.0)", "div.Tensor(%s, %mask)", Reason::Literal, "d",
       "other is the input `mask`, but the rule wants 4.0"},
  };
  const Rule r = rule(pattern);
  REQUIRE(count(graph(body), r) == 1);
  for (const Break& b : breaks) {
    INFO(b.from + " → " + b.to);
    const Graph g = graph(with(body, b.from, b.to));
    REQUIRE(count(g, r) == 0);
    const NearMiss m = nearest(g, r);
    INFO(m.message + " (" + std::to_string(m.matched) + " of " + std::to_string(m.total) + ")");
    CHECK(reasonName(m.reason) == reasonName(b.reason));
    CHECK((m.patternNode ? r.pattern.node(m.patternNode).name : "") == b.at);
    CHECK_THAT(m.message, ContainsSubstring(b.message));
  }
}

TEST_CASE("a missing operation is named") {
  const Rule r = rule(pattern);
  const Graph g = graph(with(with(body, "%d = aten.div.Tensor(%s, 4.0) : f32[1,4,8,8] @m0", ""), "aten.add.Tensor(%d,",
                             "aten.add.Tensor(%s,"));
  const NearMiss m = nearest(g, r);
  INFO(m.message);
  CHECK(r.pattern.node(m.patternNode).name == "d");
}

TEST_CASE("a missing last operation is named") {
  const Rule r = rule(
      "input %x : tensor\n %a = aten.relu.default(%x)\n %b = aten.tanh.default(%a)\n %c = aten.neg.default(%b)\n "
      "return %c");
  const NearMiss m = nearest(graph("input %x : tensor\n %a = aten.relu.default(%x)\n %b = aten.tanh.default(%a)\n %c = "
                                   "aten.exp.default(%b)\n return %c"),
                             r);
  CHECK(r.pattern.node(m.patternNode).name == "c");
  CHECK(m.reason == Reason::Operator);
  CHECK(m.matched == 2);
  CHECK(m.total == 3);
}

TEST_CASE("of two faults at one operator the first is named where most of its operands fit") {
  const std::string convolution =
      "input %x : tensor\n input %v : tensor\n %a = aten.relu.default(%x)\n %b = aten.conv2d.default(%a, %v, None, ";
  const Rule r = rule(convolution + "[1, 1], [0, 0], [1, 1], 1)\n return %b");
  const NearMiss m = nearest(graph(convolution + "[2, 2], [1, 1], [1, 1], 1)\n return %b"), r);
  CHECK(r.pattern.node(m.patternNode).name == "b");
  CHECK(m.reason == Reason::Literal);
  CHECK_THAT(m.message, ContainsSubstring("2"));
  CHECK_FALSE(m.complete);
}

TEST_CASE("constants of the wrong kind, scopes, dtypes and conditions are named") {
  const Graph g = graph(
      "module m0 \"a.b\" A\n input %x : f32[2,2]\n %y = aten.mul.Tensor(%x, 3) : f32[2,2] @m0\n %z = "
      "aten.relu.default(%y) : f32[2,2] @m0\n return %z");
  const std::string base = "input %x : tensor\n %y = aten.mul.Tensor(%x, %c)\n %z = aten.relu.default(%y)\n return %z";
  CHECK(nearest(g, rule("input %c : bool\n" + base)).reason == Reason::ConstantKind);
  CHECK(nearest(g, rule("input %c : tensor\n" + base)).reason == Reason::ConstantKind);
  CHECK_THAT(nearest(g, rule("input %c : tensor\n" + base)).suggestion, ContainsSubstring("float"));
  Rule scoped = rule("input %c : int\n" + base);
  scoped.scope = "a\\.c";
  CHECK(nearest(g, scoped).reason == Reason::Scope);
  CHECK(
      nearest(
          g,
          rule(
              "input %c : int\ninput %x : f16\n %y = aten.mul.Tensor(%x, %c)\n %z = aten.relu.default(%y)\n return %z"))
          .reason == Reason::DType);
  Rule conditional = rule("input %c : int\n" + base);
  Expression three, name, compare;
  three.literal = Argument(int64_t{4});
  name.kind = Expression::Kind::Name;
  name.name = "c";
  compare.kind = Expression::Kind::Binary;
  compare.name = "==";
  compare.operands = {name, three};
  conditional.where = compare;
  const NearMiss m = nearest(g, conditional);
  CHECK(m.reason == Reason::Where);
  CHECK(m.matched == m.total);
  CHECK_THAT(m.message, ContainsSubstring("c is 3"));
}

TEST_CASE("explaining does not change what matches, and places that match are no near misses") {
  SearchOptions options;
  options.explain = true;
  const auto found = Matcher(graph(body)).findAll(rule(pattern), options);
  CHECK(found.matches.size() == 1);
  for (const NearMiss& m : found.nearMisses) CHECK(m.anchor != found.matches[0].anchor);
}

TEST_CASE("an operator with fewer results than the pattern wants is explained") {
  const Graph g = graph("input %x : tensor\n%a = my.op(%x)\n%c = aten.relu.default(%a)\nreturn %c");
  const NearMiss m = nearest(g, rule("input %x : tensor\n%a, %b = my.op(%x)\n%c = aten.relu.default(%b)\nreturn %c"));
  CHECK(m.reason == Reason::Arity);
  CHECK_THAT(m.message, ContainsSubstring("output 0 of 1"));
}
