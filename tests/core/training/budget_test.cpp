#include "core/training/budget.h"

#include <random>

#include "tests/core/training/joint_graphs.h"

namespace graft {
namespace {

using test::JointText;

TEST_CASE("the knapsack's choice is the best that fits") {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const size_t n = 1 + random() % 8, capacity = random() % 40;
    std::vector<size_t> weights(n);
    std::vector<double> worths(n);
    for (size_t i = 0; i < n; ++i) weights[i] = random() % 15, worths[i] = 1 + random() % 20;
    double best = 0;
    for (size_t set = 0; set < (size_t{1} << n); ++set) {
      size_t weight = 0;
      double worth = 0;
      for (size_t i = 0; i < n; ++i)
        if (set >> i & 1) weight += weights[i], worth += worths[i];
      if (weight <= capacity) best = std::max(best, worth);
    }
    const std::vector<char> taken = knapsack(weights, worths, capacity);
    size_t weight = 0;
    double worth = 0;
    for (size_t i = 0; i < n; ++i)
      if (taken[i]) weight += weights[i], worth += worths[i];
    CHECK(weight <= capacity);
    CHECK(worth == best);
  }
}

/// A chain of products, each followed by a tanh whose result the backward pass reads.
std::string chain(int layers) {
  std::string text = "graph G {\n  input %x : f32[64,8]\n  input %t : f32[64,8]\n", backward;
  std::string last = "x", gradient = "t";
  for (int i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i);
    text += "  weight %w" + n + " \"w" + n + "\" : f32[8,8]\n";
  }
  for (int i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i);
    text += "  %h" + n + " = aten.matmul.default(%" + last + ", %w" + n + ") : f32[64,8]\n";
    text += "  %a" + n + " = aten.tanh.default(%h" + n + ") : f32[64,8]\n";
    last = "a" + n;
  }
  for (int i = layers; i-- > 0;) {
    const std::string n = std::to_string(i);
    backward += "  %m" + n + " = aten.mul.Tensor(%" + gradient + ", %a" + n + ") : f32[64,8]\n";
    backward += "  %g" + n + " = aten.matmul.default(%m" + n + ", %w" + n + ") : f32[64,8]\n";
    gradient = "g" + n;
  }
  return text + backward + "  return (%" + last + ", %" + gradient + ")\n}";
}

TEST_CASE("smaller budgets save less and compute more again, and each is met") {
  const JointText text(chain(12), "og");
  const JointGraph joint = text.joint();
  double before = -1;
  for (const double budget : {1.0, 0.75, 0.5, 0.25, 0.1}) {
    const auto cuts = cutWithin(joint, budget, {});
    REQUIRE_RESULT(cuts);
    CHECK(static_cast<double>(cuts->chosen.bytes) <= budget * static_cast<double>(cuts->byDefault.bytes));
    CHECK(cuts->chosen.microseconds >= before);
    before = cuts->chosen.microseconds;
  }
  const auto half = cutWithin(joint, 0.5, {});
  CHECK(static_cast<double>(half->chosen.bytes) >= 0.4 * static_cast<double>(half->byDefault.bytes));
}

TEST_CASE("results that nobody reads weigh nothing: small ones beside them are kept") {
  std::string text = "graph G {\n  input %x : f32[512,8]\n  input %t : f32[512,8]\n  weight %w \"w\" : f32[8,8]\n";
  std::string last = "x", gradient = "t", backward;
  for (int i = 0; i < 6; ++i) {
    const std::string n = std::to_string(i);
    text += "  %h" + n + " = aten.matmul.default(%" + last + ", %w) : f32[512,8]\n";
    text += "  %y" + n + ", %i" + n + " = aten.native_statistics.default(%h" + n + ") : f32[512,8], f32[8]\n";
    text += "  %e" + n + " = aten.mul.Tensor(%h" + n + ", %i" + n + ") : f32[512,8]\n";
    text += "  %a" + n + " = aten.tanh.default(%e" + n + ") : f32[512,8]\n";
    last = "a" + n;
  }
  for (int i = 6; i-- > 0;) {
    const std::string n = std::to_string(i);
    backward += "  %m" + n + " = aten.mul.Tensor(%" + gradient + ", %a" + n + ") : f32[512,8]\n";
    backward += "  %s" + n + " = aten.mul.Tensor(%m" + n + ", %i" + n + ") : f32[512,8]\n";
    backward += "  %g" + n + " = aten.matmul.default(%s" + n + ", %w) : f32[512,8]\n";
    gradient = "g" + n;
  }
  testOperators().add(*parseSchema("aten::native_statistics(Tensor input) -> (Tensor, Tensor)"));
  const JointText joints(text + backward + "  return (%" + last + ", %" + gradient + ")\n}", "og");
  const JointGraph joint = joints.joint();
  const auto cuts = cutWithin(joint, 0.5, {});
  REQUIRE_RESULT(cuts);
  CHECK(!cuts->chosen.recomputed.empty());
  for (const auto& r : cuts->chosen.recomputed)
    CHECK(joint.graph().node(r.node).op->name != "aten.native_statistics.default");
}

TEST_CASE("a budget out of reach is refused with what can be met") {
  const JointText text(chain(4), "og");
  const JointGraph joint = text.joint();
  const auto cuts = cutWithin(joint, 0.01, {});
  REQUIRE_FALSE(cuts);
  CHECK(cuts.error().message.find("a memory budget of 1 % cannot be met") == 0);
  CHECK(cuts.error().message.find("--memory 25%") != std::string::npos);
}

}  // namespace
}  // namespace graft
