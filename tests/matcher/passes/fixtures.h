// What the tests of passes share: one pass run on a graph, heard by a listener that verifies the graph after each
// record.
#pragma once

#include "matcher/passes/passes.h"
#include "tests/matcher/search/fixtures.h"

namespace graft::test {

/// Checks after every record that the graph is sound, and keeps what it heard.
struct VerifyingListener : RewriteListener {
  void onRecord(const Record& r, const Graph& g) override {
    heard.push_back(r);
    const Status s = verify(g);
    INFO((s ? "" : s.error().format()));
    CHECK(s.ok());
  }
  void onRolledBack(const RolledBack& r, const Graph&) override { rolledBack.push_back(r); }
  std::vector<Record> heard;
  std::vector<RolledBack> rolledBack;
};

/// The records of one step of a recipe that is that pass. The listener hears of the same records in the same order.
inline std::vector<Record> runPass(Graph& g, std::string_view name, std::vector<Argument> args = {},
                                   const FakeSemantics& semantics = {}) {
  Recipe recipe;
  recipe.name = "R";
  Step& step = recipe.steps.emplace_back();
  step.name = name;
  step.args = std::move(args);
  VerifyingListener listener;
  auto run = runRecipe(g, RuleFile{}, recipe, semantics, {}, {nullptr, false, &listener});
  INFO((run ? "" : run.error().format()));
  REQUIRE(run);
  REQUIRE(run->steps.size() == 1);
  const std::vector<Record>& records = run->steps[0].records;
  REQUIRE(listener.heard.size() == records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    CHECK(records[i].rule == name);
    CHECK(listener.heard[i].removedNames == records[i].removedNames);
    CHECK(listener.heard[i].addedNames == records[i].addedNames);
    CHECK(listener.heard[i].outputs == records[i].outputs);
  }
  return records;
}

inline std::string errorOf(Graph& g, std::string_view name, std::vector<Argument> args = {},
                           const FakeSemantics& semantics = {}) {
  Recipe recipe;
  recipe.name = "R";
  Step& step = recipe.steps.emplace_back();
  step.name = name;
  step.args = std::move(args);
  auto run = runRecipe(g, RuleFile{}, recipe, semantics);
  return run ? "" : run.error().message;
}

}  // namespace graft::test
