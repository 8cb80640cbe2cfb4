// Random joint graphs: the loosest cut is the smallest there is, and every cut gives halves that hold together.
#include <random>
#include <set>

#include "core/ir/verify.h"
#include "core/training/budget.h"
#include "core/training/halves.h"
#include "tests/core/training/joint_graphs.h"

namespace graft {
namespace {

using test::JointText;

struct RandomJoint {
  std::string text;
  std::string kinds;
};

RandomJoint randomJoint(std::mt19937& random) {
  const auto size = [&] { return std::to_string(1 + random() % 9); };
  std::vector<std::string> values{"x"}, sizes{size()};
  std::string text = "graph G {\n  input %x : f32[" + sizes[0] + "]\n  input %t : f32[1]\n";
  const size_t nodes = 2 + random() % 7;
  for (size_t i = 0; i < nodes; ++i) {
    const std::string name = "v" + std::to_string(i), a = "%" + values[random() % values.size()],
                      b = "%" + values[random() % values.size()];
    switch (random() % 4) {
      case 0:
        text += "  %" + name + " = aten.matmul.default(" + a + ", " + b + ")";
        break;
      case 1:
        text += "  %" + name + " = aten.rand_like.default(" + a +
                ", dtype=None, layout=None, device=None, pin_memory=None, memory_format=None)";
        break;
      case 2:
        text += "  %" + name + " = aten.tanh.default(" + a + ")";
        break;
      default:
        text += "  %" + name + " = aten.mul.Tensor(" + a + ", " + b + ")";
    }
    sizes.push_back(size());
    text += " : f32[" + sizes.back() + "]\n";
    values.push_back(name);
  }
  std::string gradient = "t";
  const size_t reads = 1 + random() % 4;
  for (size_t i = 0; i < reads; ++i) {
    const std::string name = "g" + std::to_string(i);
    text +=
        "  %" + name + " = aten.mul.Tensor(%" + gradient + ", %" + values[random() % values.size()] + ") : f32[1]\n";
    gradient = name;
  }
  return {text + "  return (%" + values.back() + ", %" + gradient + ")\n}", "og"};
}

/// The fewest bytes with which the gradients can be computed without drawing random numbers again: all sets tried.
size_t fewestBytes(const JointGraph& joint) {
  const Graph& g = joint.graph();
  std::vector<ValueId> values;
  for (ValueId v : g.inputs())
    if (joint.isForward(v)) values.push_back(v);
  for (NodeId n : joint.order())
    if (joint.isForward(n)) values.push_back(g.output(n));
  size_t best = SIZE_MAX;
  for (size_t set = 0; set < (size_t{1} << values.size()); ++set) {
    std::set<ValueId> there;
    size_t bytes = 0;
    for (size_t i = 0; i < values.size(); ++i)
      if (set >> i & 1) there.insert(values[i]), bytes += joint.bytes(values[i]);
    if (bytes >= best) continue;
    for (NodeId n : joint.order()) {
      if (joint.isForward(n) && joint.recomputing(n) == Recomputing::Never) continue;
      bool isPossible = true;
      for (ValueId v : joint.operands(n)) isPossible = isPossible && (there.contains(v) || g.value(v).name == "t");
      if (isPossible) there.insert(g.output(n));
    }
    bool isDone = true;
    for (const auto& r : joint.gradients())
      r.value.forEachValue([&](ValueId v) { isDone = isDone && there.contains(v); });
    if (isDone) best = bytes;
  }
  return best;
}

TEST_CASE("the loosest cut keeps the fewest bytes, and every cut gives halves that hold together") {
  std::mt19937 random(3);
  for (int round = 0; round < 250; ++round) {
    const RandomJoint made = randomJoint(random);
    INFO(made.text);
    const JointText text(made.text, made.kinds);
    const JointGraph joint = text.joint();
    for (const Looseness looseness : {Looseness::Nothing, Looseness::Cheap, Looseness::Moderate, Looseness::All}) {
      const auto cut = minimumCut(joint, CutOptions{looseness, {}, {}});
      REQUIRE_RESULT(cut);
      if (looseness == Looseness::All) CHECK(cut->bytes == fewestBytes(joint));
      const auto halves = splitJoint(joint, *cut, test::jointOperators());
      REQUIRE_RESULT(halves);
      REQUIRE_RESULT(verify(halves->forward.graph));
      REQUIRE_RESULT(verify(halves->backward.graph));
      size_t draws = 0, once = 0;
      for (const Graph* g : {&halves->forward.graph, &halves->backward.graph})
        for (NodeId n : g->order()) draws += g->node(n).op->random;
      for (NodeId n : joint.order())
        once += text.graph.node(n).op->random && (joint.isRequired(n) || joint.isWanted(n));
      CHECK(draws <= once);
    }
  }
}

}  // namespace
}  // namespace graft
