// Joint graphs for the tests of cuts.
#pragma once

#include "core/training/joint.h"
#include "tests/support/graphs.h"

namespace graft::test {

/// The operators of other tests, and aten.clone, which copies what would be overwritten.
inline const OperatorSet& jointOperators() {
  static const bool isAdded = [] {
    testOperators().add(*parseSchema("aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"));
    return true;
  }();
  (void)isAdded;
  return testOperators();
}

/// A graph and what it says of its results: "o" an output, "g" a gradient, one letter for each result.
struct JointText {
  Graph graph;
  TrainingSignature signature;

  JointText(std::string_view text, std::string_view kinds, std::vector<std::string> tangents = {"t"})
      : graph(graphOf(text, jointOperators())) {
    signature.tangents = std::move(tangents);
    for (const char k : kinds)
      signature.returns.push_back({k == 'g'   ? ReturnedRole::Kind::Gradient
                                   : k == 'm' ? ReturnedRole::Kind::Mutation
                                              : ReturnedRole::Kind::Output,
                                   k == 'm' ? "b" : ""});
  }
  JointGraph joint() const {
    auto made = JointGraph::make(graph, signature);
    REQUIRE_RESULT(made);
    return std::move(*made);
  }
};

}  // namespace graft::test
