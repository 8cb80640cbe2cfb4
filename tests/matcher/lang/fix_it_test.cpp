// The edit that a near miss offers makes the rule match there; where none is known to, none is offered.
#include "matcher/lang/fix_it.h"

#include "core/text/text.h"
#include "matcher/lang/rule_file.h"
#include "operators.h"
#include "tests/support/catch.h"

using namespace graft;

namespace {

const std::string header = R"(import torch
import torch.nn.functional as F
from graft import Rule, Weight, optional


)";

const std::string attention = header + R"(class Attention(Rule):
    def pattern(q, k, v, mask):
        scores = torch.matmul(q, k.transpose(-1, -2)) / 4.0
        return torch.matmul(torch.softmax(scores + mask, dim=-1), v)


class Other(Rule):
    def pattern(x):
        return torch.tanh(x)
)";

const std::string attentionBody = R"(
  module m0 "encoder.attention" A
  input %q : f32[1,4,8,16]
  input %k : f32[1,4,8,16]
  input %v : f32[1,4,8,16]
  input %mask : f32[1,1,1,8]
  weight %w "w" : f32[4,16]
  %kt = aten.transpose.int(%k, 2, 3) : f32[1,4,16,8] @m0
  %s = aten.matmul.default(%q, %kt) : f32[1,4,8,8] @m0
  %d = aten.div.Tensor(%s, 4.0) : f32[1,4,8,8] @m0
  %m = aten.add.Tensor(%d, %mask) : f32[1,4,8,8] @m0
  %p = aten.softmax.int(%m, -1) : f32[1,4,8,8] @m0
  %o = aten.matmul.default(%p, %v) : f32[1,4,8,16] @m0
  return %o
)";

Graph graphOf(const std::string& body) {
  auto g = parseText("graph g {\n" + body + "\n}\n", test::operators());
  INFO((g ? "" : g.error().format()));
  REQUIRE(g);
  return std::move(*g);
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  INFO(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

struct FixItResult {
  std::vector<TextEdit> edits;
  std::string text, message;
};

/// What is offered at the nearest miss, made: then the first rule of the text matches.
FixItResult fixItFor(const std::string& rules, const Graph& g) {
  const auto file = parseRuleText(rules, "rules.py", test::operators());
  INFO((file ? "" : file.error().format()));
  REQUIRE(file);
  SearchOptions options;
  options.explain = true;
  const SearchResult found = Matcher(g).findAll(file->rules[0], options);
  REQUIRE(found.matches.empty());
  REQUIRE_FALSE(found.nearMisses.empty());
  const NearMiss& miss = found.nearMisses.front();
  FixIts fixIts(rules, "rules.py", test::operators(), g);
  FixItResult out{fixIts.edits(file->rules[0], miss), rules, miss.message};
  if (out.edits.empty()) return out;
  for (const TextEdit& e : out.edits) CHECK(rules.substr(e.begin, e.end - e.begin) == e.before);
  out.text = withEdits(rules, out.edits);
  const auto after = parseRuleText(out.text, "rules.py", test::operators());
  INFO(out.text);
  REQUIRE(after);
  CHECK(Matcher(g).findAll(*after->findRule(file->rules[0].name)).matches.size() == 1);
  return out;
}

}  // namespace

TEST_CASE("one edit lets the rule match again where one thing breaks attention") {
  struct Break {
    std::string from, to;       // in the graph
    std::string before, after;  // in the rule
    std::string message;
  };
  const std::vector<Break> breaks{
      {"softmax.int(%m, -1)", "softmax.int(%m, 1)", "-1", "1", "dim is 1, but the rule wants -1"},
      {"div.Tensor(%s, 4.0)", "div.Tensor(%s, 8.0)", "4.0", "8.0", "other is 8.0, but the rule wants 4.0"},
      {"div.Tensor(%s, 4.0)", "mul.Tensor(%s, 0.125)", "4.0", "8.0", "the rule wants 4.0"},
      {"softmax.int(%m, -1)", "softmax.int(%m, -1, torch.float32)", "", ", dtype=torch.float32",
       "dtype is torch.float32, but the rule wants None"},
      {"aten.softmax.int(%m, -1)", "aten.log_softmax.int(%m, -1)", "softmax", "log_softmax",
       "the operator is aten.log_softmax, but the rule wants aten.softmax"},
      {"aten.add.Tensor(%d, %mask)", "aten.sub.Tensor(%d, %mask)", "+", "-",
       "the operator is aten.sub, but the rule wants aten.add"},
      {"%o = aten.matmul.default(%p, %v)",
       "%u = aten.dropout.default(%p, 0.1, False) : f32[1,4,8,8] @m0\n %o = aten.matmul.default(%u, %v)",
       "torch.softmax(scores + mask, dim=-1)", "optional(F.dropout, torch.softmax(scores + mask, dim=-1), _, _)",
       "the graph has an aten.dropout after the aten.softmax, but the rule does not"},
      {"%p = aten.softmax.int(%m, -1)", "%c = aten.relu.default(%m) : f32[1,4,8,8] @m0\n %p = aten.softmax.int(%c, -1)",
       "scores + mask", "optional(F.relu, scores + mask)",
       "the graph has an aten.relu after the aten.add, but the rule does not"},
  };
  {
    const auto file = parseRuleText(attention, "rules.py", test::operators());
    REQUIRE(file);
    REQUIRE(Matcher(graphOf(attentionBody)).findAll(file->rules[0]).matches.size() == 1);
  }
  for (const Break& b : breaks) {
    INFO(b.from + " → " + b.to);
    const FixItResult h = fixItFor(attention, graphOf(with(attentionBody, b.from, b.to)));
    CHECK(h.message.find(b.message) != std::string::npos);
    INFO(h.message);
    REQUIRE(h.edits.size() == 1);
    CHECK(h.edits[0].before == b.before);
    CHECK(h.edits[0].after == b.after);
    CHECK(h.text.find("class Other(Rule):") != std::string::npos);  // nothing else is touched
  }
}

TEST_CASE("what the graph lacks becomes optional, with its arguments") {
  const std::string rules = header + R"(class Gate(Rule):
    def pattern(x):
        return torch.sigmoid((F.dropout((torch.tanh(x)), p=_, training=False)))
)";
  const std::string body =
      "input %x : f32[4]\n %a = aten.tanh.default(%x) : f32[4]\n %b = aten.sigmoid.default(%a) : f32[4]\n return %b";
  const FixItResult h = fixItFor(rules, graphOf(body));
  CHECK(h.text.find("torch.sigmoid((optional(F.dropout, (torch.tanh(x)), p=_, training=False)))") != std::string::npos);
}

TEST_CASE("parameters are declared as the graph has them, in the pattern and in the replacement") {
  const auto rule = [](const std::string& parameters, const std::string& made) {
    return header + "class Linear(Rule):\n    def pattern(" + parameters + "):\n        return " + made +
           "\n\n    def replacement(" + parameters + "):\n        return " + made + "\n";
  };
  const std::string linear =
      "input %x : f32[2,4]\n weight %w \"w\" : f32[3,4]\n %y = aten.linear.default(%x, %w, None) : f32[2,3]\n "
      "return %y";
  const FixItResult bias = fixItFor(rule("x, w: Weight, b: Weight", "F.linear(x, w, b)"), graphOf(linear));
  REQUIRE(bias.edits.size() == 2);
  CHECK(bias.text.find("def pattern(x, w: Weight, b: Weight | None):") != std::string::npos);
  CHECK(bias.text.find("def replacement(x, w: Weight, b: Weight | None):") != std::string::npos);

  const std::string calculated =
      "input %x : f32[2,4]\n input %w : f32[3,4]\n %y = aten.linear.default(%x, %w, None) : f32[2,3]\n return %y";
  const FixItResult weight = fixItFor(rule("x, w: Weight", "F.linear(x, w)"), graphOf(calculated));
  CHECK(weight.text.find("def pattern(x, w):") != std::string::npos);

  const std::string scaled = "input %x : f32[4]\n %y = aten.mul.Tensor(%x, 0.25) : f32[4]\n return %y";
  const FixItResult number = fixItFor(rule("x: Tensor, c: Tensor", "x * c"), graphOf(scaled));
  CHECK(number.text.find("def pattern(x: Tensor, c: float):") != std::string::npos);
  const FixItResult broader = fixItFor(rule("x, c: int", "x * c"), graphOf(scaled));
  CHECK(broader.text.find("def pattern(x, c: float):") != std::string::npos);
}

TEST_CASE("a scope that is too narrow is widened, a module's name joins the expression") {
  const std::string body =
      "module m0 \"encoder.fc\" L\n input %x : f32[4]\n %y = aten.tanh.default(%x) : f32[4] @m0\n return %y";
  const FixItResult scope = fixItFor(
      header + "class R(Rule):\n    scope = \"decoder.*\"\n\n    def pattern(x):\n        return torch.tanh(x)\n",
      graphOf(body));
  CHECK(scope.text.find("scope = \".*\"") != std::string::npos);
  const FixItResult name =
      fixItFor(header + "class R(Rule):\n    def pattern(x):\n        return torch.relu(call_module(r\"proj\", x))\n",
               graphOf(with(body, "return %y", "%z = aten.relu.default(%y) : f32[4]\n return %z")));
  CHECK(name.text.find("call_module(r\"proj|fc\", x)") != std::string::npos);
}

TEST_CASE("no edit is offered that does not let the rule match") {
  // What the operator reads besides would be lost.
  const FixItResult lost =
      fixItFor(header + "class R(Rule):\n    def pattern(x):\n        return torch.tanh(torch.exp(x))\n",
               graphOf("input %x : f32[4]\n input %y : f32[4]\n %a = aten.exp.default(%x) : f32[4]\n %b = "
                       "aten.add.Tensor(%a, %y) : f32[4]\n %c = aten.tanh.default(%b) : f32[4]\n "
                       "return %c"));
  CHECK(lost.edits.empty());
  // Two things differ.
  const FixItResult two =
      fixItFor(attention, graphOf(with(with(attentionBody, "softmax.int(%m, -1)", "softmax.int(%m, 1)"),
                                       "div.Tensor(%s, 4.0)", "div.Tensor(%s, 8.0)")));
  CHECK(two.edits.empty());
  // Used elsewhere, too.
  const FixItResult escapes = fixItFor(attention, graphOf(with(attentionBody, "return %o", "return %o, %p")));
  CHECK(escapes.edits.empty());
  // A text that cannot be read has no edits.
  const auto file = parseRuleText(attention, "rules.py", test::operators());
  REQUIRE(file);
  const Graph g = graphOf(with(attentionBody, "softmax.int(%m, -1)", "softmax.int(%m, 1)"));
  SearchOptions options;
  options.explain = true;
  const SearchResult found = Matcher(g).findAll(file->rules[0], options);
  FixIts broken("class R(Rule:\n", "rules.py", test::operators(), g);
  CHECK(broken.edits(file->rules[0], found.nearMisses.front()).empty());
  FixIts elsewhere(attention, "another.py", test::operators(), g);
  CHECK(elsewhere.edits(file->rules[0], found.nearMisses.front()).empty());
}
