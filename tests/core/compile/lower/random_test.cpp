// Random groups of lowered operators against LibTorch. GRAFT_RANDOM_GRAPHS says how many (300), GRAFT_RANDOM_SEED with
// which seed the first is made; the others count on from it. The cases of operators.txt stand among random chains of
// the operators that networks have most, so every lowered operator is drawn.

#include <cstdlib>

#include "tests/core/compile/lower/random_group.h"

using namespace graft;

namespace {

size_t fromEnvironment(const char* name, size_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

TEST_CASE("random groups compute what LibTorch computes") {
  const size_t count = fromEnvironment("GRAFT_RANDOM_GRAPHS", 300), first = fromEnvironment("GRAFT_RANDOM_SEED", 1);
  std::set<std::string> drawn, refused;
  size_t refusedByTorch = 0;
  for (size_t seed = first; seed < first + count; ++seed) {
    test::RandomGroup generator(seed);
    Graph g = generator.make();
    for (const NodeId n : g.order()) drawn.insert(std::string(g.node(n).op->name));
    refused.insert(generator.refused().begin(), generator.refused().end());
    std::vector<Type> types;
    for (const ValueId v : g.inputs()) types.push_back(g.value(v).type);
    REQUIRE_RESULT(inferAllTypes(g, types));
    const TensorSet inputs = test::randomInputs(generator.inputs(), seed);
    if (!test::completeTypes(g, inputs)) {
      ++refusedByTorch;
      continue;
    }
    const std::string wrong = test::compareWithTorch(g, inputs, {});
    // Its type inference takes more than its kernels do.
    if (wrong.starts_with("LibTorch refuses it")) {
      ++refusedByTorch;
      continue;
    }
    INFO("GRAFT_RANDOM_SEED=" << seed << " GRAFT_RANDOM_GRAPHS=1\n" << toText(g) << wrong);
    CHECK(wrong.empty());
  }
  CHECK(refusedByTorch * 10 <= count);
  if (count < 5000) return;
  std::string all;
  for (const std::string& why : refused) all += why + "\n";
  WARN("Lines that LibTorch takes, and that were left out:\n" << all);
  for (const lower::LoweredOperator& op : lower::loweredOperators()) {
    INFO("no group had " << op.name);
    CHECK(drawn.contains(op.name));
  }
}
