// Random groups of lowered operators against LibTorch. GRAFT_RANDOM_GRAPHS says how many (300), GRAFT_RANDOM_SEED with
// which seed the first is made; the others count on from it.

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
  for (size_t seed = first; seed < first + count; ++seed) {
    test::RandomGroup generator(seed);
    Graph g = generator.make();
    std::vector<Type> types;
    for (const ValueId v : g.inputs()) types.push_back(g.value(v).type);
    REQUIRE_RESULT(inferAllTypes(g, types));
    const TensorSet inputs = test::randomInputs(generator.inputs(), seed);
    const std::string wrong = test::compareWithTorch(g, inputs, {});
    INFO("GRAFT_RANDOM_SEED=" << seed << " GRAFT_RANDOM_GRAPHS=1\n" << toText(g) << wrong);
    CHECK(wrong.empty());
  }
}
