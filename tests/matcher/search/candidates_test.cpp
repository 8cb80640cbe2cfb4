// How much a search looks at, counted: it must grow as the graph does, also where one value is read by every layer.
#include <algorithm>
#include <random>

#include "matcher/search/candidates.h"
#include "tests/matcher/search/fixtures.h"

using namespace graft;
using namespace graft::test;

namespace {

/// Layers that each make keys and values of one input, as a decoder's do of what its encoder gave.
Graph decoder(int layers, const std::string& keyBias, const std::string& valueBias) {
  std::string weights = "weight %b \"b\" : f32[4]\n", t;
  for (int l = 0; l < layers; ++l) {
    const std::string n = std::to_string(l);
    for (const std::string p : {"k", "v"}) {
      weights += "weight %w" + p + n + " \"w" + p + n + "\" : f32[4,4]\n";
      t += "%" + p + n + " = aten.linear.default(%e, %w" + p + n + ", " + (p == "k" ? keyBias : valueBias) + ")\n%t" +
           p + n + " = aten.transpose.int(%" + p + n + ", 1, 2)\n";
    }
    t += "%p" + n + " = aten.matmul.default(%x" + n + ", %tk" + n + ")\n%x" + std::to_string(l + 1) +
         " = aten.matmul.default(%p" + n + ", %tv" + n + ")\n";
  }
  return graph(weights + "input %e : tensor\ninput %x0 : tensor\n" + t + "return %x" + std::to_string(layers));
}

Rule threeOfOne(const std::string& firstBias) {
  return rule(
      "input %x : tensor\ninput %w_q : tensor\ninput %w_k : tensor\ninput %w_v : tensor\n"
      "input %w_bq : tensor\ninput %w_bk : tensor\ninput %w_bv : tensor\n"
      "%q = aten.linear.default(%x, %w_q, " +
      firstBias +
      ")\n%k = aten.linear.default(%x, %w_k, %w_bk)\n%v = aten.linear.default(%x, %w_v, %w_bv)\n"
      "%tq = aten.transpose.int(%q, 1, 2)\n%tk = aten.transpose.int(%k, 1, 2)\n"
      "%tv = aten.transpose.int(%v, 1, 2)\nreturn %tq, %tk, %tv");
}

struct Work {
  size_t matches;
  uint64_t steps, looked;
};

Work workFor(int layers, const Rule& r, const std::string& keyBias, const std::string& valueBias) {
  const SearchResult found = Matcher(decoder(layers, keyBias, valueBias)).findAll(r);
  CHECK_FALSE(found.budgetExceeded);
  return {found.matches.size(), found.steps, found.looked};
}

}  // namespace

TEST_CASE("three linears of a value that all layers read are looked for in time linear in the layers") {
  const auto grows = [](const Rule& r, const std::string& keyBias, const std::string& valueBias, size_t matches) {
    const Work few = workFor(30, r, keyBias, valueBias), many = workFor(240, r, keyBias, valueBias);
    INFO("steps " << few.steps << " and " << many.steps << ", looked at " << few.looked << " and " << many.looked);
    CHECK(few.matches == matches);
    CHECK(many.matches == matches * 8);
    CHECK(many.steps <= few.steps * 9);
    CHECK(many.looked <= few.looked * 9);
  };
  grows(threeOfOne("%w_bq"), "%b", "%b", 20);  // all of them, three at a time
  grows(threeOfOne("%w_bq"), "None", "None", 0);
  grows(threeOfOne("None"), "None", "None", 0);  // each can be the first, none the second
  grows(threeOfOne("None"), "%b", "%b", 0);
  grows(threeOfOne("None"), "None", "%b", 15);  // half of the firsts find two others
}

TEST_CASE("places come as if they were sorted by module, side and distance, without those that are taken") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Graph g;
    const ValueId x = g.addInput("x", Type::tensor());
    std::vector<ModuleCallId> modules{ModuleCallId()};
    for (int m = 0; m < 6; ++m)
      modules.push_back(g.addModuleCall(modules[random() % modules.size()], "m" + std::to_string(m), "M"));
    std::vector<NodeId> nodes;
    std::vector<ValueId> values;
    for (int i = 0; i < 40; ++i) {
      nodes.push_back(g.append(g.root(), operators().find("aten.relu.default"), {Argument(x)}));
      g.setModule(nodes.back(), modules[random() % modules.size()]);
      if (random() % 3) values.push_back(g.output(nodes.back()));
    }
    const GraphIndex index(g);
    std::vector<uint8_t> taken(g.nodeBound(), 0);
    const CandidateRoots places(index, values);
    for (int walk = 0; walk < 30; ++walk) {
      const NodeId last = nodes[random() % nodes.size()];
      taken[last.index] = 1;
      std::vector<std::pair<std::tuple<int, bool, uint32_t>, ValueId>> wanted;
      for (ValueId v : values) {
        const NodeId n = g.value(v).producer;
        if (taken[n.index]) continue;
        int depth = 0;
        for (ModuleCallId m = g.commonModule(g.node(n).module, g.node(last).module); m; m = g.moduleCall(m).parent)
          ++depth;
        const uint32_t a = index.position[n.index], b = index.position[last.index];
        wanted.push_back({{-depth, a < b, a < b ? b - a : a - b}, v});
      }
      std::sort(wanted.begin(), wanted.end());
      CandidateRootWalk nearest(places, last, taken);
      for (const auto& [key, v] : wanted) REQUIRE(nearest.next() == v);
      REQUIRE_FALSE(nearest.next());
    }
  }
}
