#include "app/workbench/history.h"

#include "tests/support/catch.h"
#include "tests/support/graphs.h"

using graft::ErrorKind;
using graft::Graph;
using graft::Record;
using graft::workbench::History;
using graft::workbench::SubSteps;

/// A graph of so many operators in a row.
static Graph graphOf(size_t nodes) {
  std::string text = "graph g {\n input %x : f32[4]\n";
  for (size_t i = 0; i < nodes; ++i)
    text += " %v" + std::to_string(i) + " = aten.relu.default(%" + (i ? "v" + std::to_string(i - 1) : "x") + ")\n";
  return graft::test::graphOf(text + " return %" + (nodes ? "v" + std::to_string(nodes - 1) : "x") + "\n}\n");
}

static std::vector<Record> records(size_t n) { return std::vector<Record>(n); }

/// A recipe's sub-steps: how many rewrites each of its steps makes. Its graphs lose a node with each rewrite.
static SubSteps recipe(const std::vector<size_t>& rewrites, size_t nodes, size_t mostNodes = SubSteps::mostNodes) {
  SubSteps out(mostNodes);
  for (const size_t n : rewrites) out.add(n, graphOf(nodes -= n));
  out.finish();
  return out;
}

/// A history of 9 nodes, then 8 (one rule), then a recipe of five steps that leaves 5: its second and fourth change
/// something.
static History withRecipe() {
  History h(graphOf(9));
  h.add({graphOf(8), "Rule", records(1)});
  h.add({graphOf(5), "Recipe", records(3), recipe({0, 1, 0, 2, 0}, 8)});
  return h;
}

static size_t nodesAt(const History& h, size_t step, std::optional<size_t> subStep = {}) {
  const auto place = h.find(step, subStep);
  REQUIRE(place);
  return h.graphAt(*place).nodeCount();
}

TEST_CASE("A new history shows the model as it was opened") {
  const History h(graphOf(9));
  CHECK(h.graph().nodeCount() == 9);
  CHECK(h.place() == History::Place{0});
  CHECK(h.revision() == 0);
  CHECK(h.steps().size() == 1);
  CHECK(h.steps()[0].label == "opened");
  CHECK(h.records(0).empty());
}

TEST_CASE("Undo and redo show other steps, and forget none") {
  History h = withRecipe();
  CHECK(h.revision() == 2);
  h.show(*h.find(0));
  CHECK(h.graph().nodeCount() == 9);
  CHECK(h.steps().size() == 3);
  h.show(*h.find(2));
  CHECK(h.graph().nodeCount() == 5);
  CHECK(h.original().nodeCount() == 9);
  CHECK(h.revision() == 4);
}

TEST_CASE("What is added stands behind what is shown; the rest is forgotten") {
  History h = withRecipe();
  h.show(*h.find(0));
  h.add({graphOf(7), "Other", records(2)});
  REQUIRE(h.steps().size() == 2);
  CHECK(h.place() == History::Place{1});
  CHECK(h.graph().nodeCount() == 7);
  CHECK(h.records(1).size() == 2);
  CHECK_FALSE(h.find(2));
}

TEST_CASE("A step that is not there is an error that names the last one") {
  const History h = withRecipe();
  const auto place = h.find(3);
  REQUIRE_FALSE(place);
  CHECK(place.error().kind == ErrorKind::Usage);
  CHECK(place.error().message == "there is no step 3; the last one is 2");
}

TEST_CASE("A sub-step shows the graph behind so many of the recipe's steps") {
  const History h = withRecipe();
  CHECK(nodesAt(h, 2, 1) == 8);  // nothing has changed yet: the step before
  CHECK(nodesAt(h, 2, 2) == 7);
  CHECK(nodesAt(h, 2, 3) == 7);
  CHECK(nodesAt(h, 2, 4) == 5);
  CHECK(nodesAt(h, 2, 5) == 5);
  // Where nothing changes any more it is the whole step.
  CHECK_FALSE(h.find(2, 4)->subStep);
  CHECK(h.find(2, 3)->subStep == 3);
}

TEST_CASE("Sub-steps that a step does not have are errors") {
  const History h = withRecipe();
  for (const size_t none : {0, 6}) {
    const auto place = h.find(2, none);
    REQUIRE_FALSE(place);
    CHECK(place.error().kind == ErrorKind::Usage);
    CHECK_THAT(place.error().message, StartsWith("step 2 is a recipe of 5 steps and has no sub-step"));
  }
  CHECK_THAT(h.find(1, 1).error().message, StartsWith("step 1 is a recipe of 0 steps"));
}

TEST_CASE("The records of a recipe that is shown in part are those up to there") {
  History h = withRecipe();
  CHECK(h.records(2).size() == 3);
  h.show(*h.find(2, 3));
  CHECK(h.records(2).size() == 1);
  CHECK(h.records(1).size() == 1);
  h.show(*h.find(2, 1));
  CHECK(h.records(2).empty());
  h.show(*h.find(1));
  CHECK(h.records(2).size() == 3);
}

TEST_CASE("What is added inside a recipe ends the recipe there") {
  History h = withRecipe();
  h.show(*h.find(2, 3));
  h.add({graphOf(6), "Rule", records(1)});
  REQUIRE(h.steps().size() == 4);
  CHECK(h.place() == History::Place{3});
  CHECK(nodesAt(h, 2) == 7);
  CHECK(h.records(2).size() == 1);
  CHECK(h.steps()[2].subSteps.count() == 3);
  CHECK(nodesAt(h, 2, 1) == 8);
  CHECK_FALSE(h.find(2, 2)->subStep);  // the last change of what is left
  CHECK_THAT(h.find(2, 4).error().message, StartsWith("step 2 is a recipe of 3 steps"));
}

TEST_CASE("What is added before a recipe has changed anything leaves a step without a change") {
  History h = withRecipe();
  h.show(*h.find(2, 1));
  h.add({graphOf(6), "Rule", records(2)});
  CHECK(nodesAt(h, 2) == 8);
  CHECK(h.records(2).empty());
  CHECK(h.steps()[2].subSteps.count() == 1);
}

TEST_CASE("Graphs inside a recipe are kept up to a limit; its result always is") {
  History h(graphOf(9));
  // Graphs of 8, 7, 6 and 5 nodes, of which two fit into 16.
  h.add({graphOf(5), "Large", records(4), recipe({1, 1, 1, 1}, 9, 16)});
  CHECK(nodesAt(h, 1, 1) == 8);
  CHECK(nodesAt(h, 1, 2) == 7);
  const auto place = h.find(1, 3);
  REQUIRE_FALSE(place);
  CHECK(place.error().kind == ErrorKind::BadInput);
  CHECK_THAT(place.error().message, ContainsSubstring("too large to be kept"));
  CHECK(nodesAt(h, 1, 4) == 5);
  CHECK(nodesAt(h, 1) == 5);
}

TEST_CASE("A state that is looked at is not shown before it is asked for") {
  History h = withRecipe();
  const auto place = h.find(2, 2);
  CHECK(h.graphAt(*place).nodeCount() == 7);
  CHECK(h.graph().nodeCount() == 5);
  CHECK(h.revision() == 2);
}
