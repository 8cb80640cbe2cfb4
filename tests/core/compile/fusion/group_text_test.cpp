// The program of graft::generated: text in, graph out, and what is refused.
#include "core/compile/fusion/group_text.h"

#include "tests/support/graphs.h"

using namespace graft;
using namespace graft::test;

namespace {

std::string messageOf(std::string_view text) {
  const auto g = parseGroup(text, testOperators());
  return g ? "" : g.error().format();
}

constexpr std::string_view good = R"(generated 1
graph relu_add {
  input %x : f32[4,8]
  %r = aten.relu.default(%x) : f32[4,8]
  %s = aten.add.Tensor(%r, %x, alpha=1) : f32[4,8]
  return %s
}
)";

std::string with(std::string_view from, std::string_view to) {
  std::string text(good);
  text.replace(text.find(from), from.size(), to);
  return text;
}

}  // namespace

TEST_CASE("a group's text reads back as the same text") {
  const auto g = parseGroup(good, testOperators());
  REQUIRE_RESULT(g);
  CHECK(g->inputs().size() == 1);
  CHECK(groupText(*g) == good);
  CHECK(groupName(good) == "relu_add");
  CHECK(groupName("generated 1\n") == "?");
}

TEST_CASE("without names, groups that differ in names alone have one text") {
  constexpr std::string_view other = R"(generated 1
graph relu_add_7 {
  input %hidden.3 : f32[4,8]
  %relu_7 = aten.relu.default(%hidden.3) : f32[4,8]
  %add = aten.add.Tensor(%relu_7, %hidden.3, alpha=1) : f32[4,8]
  return %add
}
)";
  CHECK(withoutNames(other) == withoutNames(good));
  CHECK(withoutNames(good).find("%1 = aten.relu.default(%0) : f32[4,8]") != std::string::npos);
  CHECK(withoutNames(with("%r, %x", "%x, %r")) != withoutNames(good));
  CHECK(withoutNames(with("f32[4,8]", "f32[4,9]")) != withoutNames(good));
  CHECK(withoutNames("no program") == "no program");
}

TEST_CASE("a later version is refused with a sentence") {
  CHECK(messageOf(with("generated 1", "generated 4")).find("a later Graft wrote it") != std::string::npos);
}

TEST_CASE("text without the first line is no group") {
  for (const char* text :
       {"", "generated", "generated \n", "generated x\n", "generated -1\n", "generated 1", "graph g {}\n"})
    CHECK(messageOf(text).find("begins with the line 'generated 1'") != std::string::npos);
}

TEST_CASE("an error in the graph names its line in the whole text") {
  CHECK(messageOf(with("%r, %x", "%r, %nowhere")).find("5:") != std::string::npos);
}

TEST_CASE("a group may not write, draw random numbers, hold weights or return nothing") {
  CHECK(messageOf(with("aten.relu.default", "aten.relu_.default")).find("may not call aten.relu_.default") !=
        std::string::npos);
  CHECK(messageOf(with("aten.relu.default", "aten.unheard_of.default")).find("no operator aten.unheard_of.default") !=
        std::string::npos);
  CHECK(messageOf(with("input %x : f32[4,8]", "weight %x \"w\" : f32[4,8]")).find("no weights") != std::string::npos);
  CHECK_FALSE(messageOf(with("  return %s\n", "")).empty());
  CHECK(messageOf(with("f32[4,8]\n  %r", "str\n  %r")).find("takes tensors and sizes") != std::string::npos);
}

TEST_CASE("a text of more than a million characters is refused") {
  CHECK(messageOf(std::string(good) + std::string(1'000'000, ' ')).find("million") != std::string::npos);
}

TEST_CASE("what a person has chosen follows the operators, and reads back as it was") {
  const Graph g = graphOf(R"(graph relu {
  input %x : f32[4,8]
  %y = aten.relu.default(%x) : f32[4,8]
  return %y
})");
  KernelChoice choice;
  choice.schedule.lanes = "i1";
  choice.loops = "loops 1\ninput x: f32[4]\noutput y: f32[4]\nnest i < 4\n  y[i] = x[i]\n";
  choice.source = "int run() {\n--- no section\n  return 0;\n}\n";
  const std::string text = groupText(g, choice);
  CHECK(text.starts_with("generated 2\ngraph relu {"));
  const auto again = parseChoice(text);
  REQUIRE(again);
  CHECK(*again == choice);
  const auto graph = parseGroup(text, testOperators());
  REQUIRE(graph);
  CHECK(groupText(*graph) == groupText(g));
  CHECK(groupText(g).starts_with("generated 1\n"));
  CHECK(parseChoice(groupText(g))->isEmpty());
}

TEST_CASE("images that may lie with channels last are said in the first line, with sections and without") {
  const Graph g = graphOf(R"(graph relu {
  input %x : f32[1,4,8,8]
  %y = aten.relu.default(%x) : f32[1,4,8,8]
  return %y
})");
  KernelChoice choice;
  choice.schedule.lanes = "i1";
  for (const KernelChoice& chosen : {KernelChoice(), choice}) {
    const std::string text = groupText(g, chosen, true);
    CHECK(text.starts_with("generated 3\ngraph relu {"));
    CHECK(allowsAnyLayout(text));
    const auto again = parseChoice(text);
    REQUIRE(again);
    CHECK(*again == chosen);
    REQUIRE(parseGroup(text, testOperators()));
    CHECK_FALSE(allowsAnyLayout(groupText(g, chosen)));
  }
}

TEST_CASE("sections that are none, and loops that leave their buffers, are refused") {
  const std::string graph =
      "generated 2\ngraph relu {\n  input %x : f32[4]\n  %y = aten.relu.default(%x) : f32[4]\n  return %y\n}\n";
  CHECK(parseGroup(graph, testOperators()));
  for (const char* section :
       {"--- colours\nred\n", "--- schedule\nlanes\n", "--- loops\nloops 1\n--- schedule\nlanes i\n",
        "--- loops\nloops 1\ninput x: f32[4]\noutput y: f32[4]\nnest i < 4\n  y[i] = x[i + 1]\n"}) {
    INFO(section);
    CHECK_FALSE(parseGroup(graph + section, testOperators()));
  }
}
