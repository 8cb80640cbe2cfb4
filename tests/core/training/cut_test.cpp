#include "core/training/cut.h"

#include "core/training/halves.h"
#include "tests/core/training/joint_graphs.h"

namespace graft {
namespace {

using test::JointText;

// y = tanh(tanh(x w)) with the gradients of x and w; tanh' is computed from tanh's result.
constexpr std::string_view mlp = R"(graph G {
  weight %w "w" : f32[4,4]
  input %x : f32[8,4]
  input %t : f32[8,4]
  %h = aten.matmul.default(%x, %w) : f32[8,4]
  %a = aten.tanh.default(%h) : f32[8,4]
  %y = aten.tanh.default(%a) : f32[8,4]
  %g1 = aten.mul.Tensor(%t, %y) : f32[8,4]
  %g2 = aten.mul.Tensor(%g1, %a) : f32[8,4]
  %wt = aten.transpose.int(%w, dim0=0, dim1=1) : f32[4,4]
  %gx = aten.matmul.default(%g2, %wt) : f32[8,4]
  %xt = aten.transpose.int(%x, dim0=0, dim1=1) : f32[4,8]
  %gw = aten.matmul.default(%xt, %g2) : f32[4,4]
  return (%y, %gx, %gw)
})";

std::vector<std::string> savedNames(const JointGraph& joint, const Cut& cut) {
  std::vector<std::string> out;
  for (const Saved& s : cut.saved) out.push_back(joint.graph().value(s.value).name);
  return out;
}

std::vector<std::string> againNames(const JointGraph& joint, const Cut& cut) {
  std::vector<std::string> out;
  for (const Recomputed& r : cut.recomputed) out.push_back(joint.graph().node(r.node).name);
  return out;
}

Cut cutOf(const JointGraph& joint, CutOptions options = {}) {
  auto cut = minimumCut(joint, options);
  REQUIRE_RESULT(cut);
  return std::move(*cut);
}

using Names = std::vector<std::string>;

TEST_CASE("without computing anything again all is saved that the backward pass reads") {
  const JointText text(mlp, "ogg");
  const JointGraph joint = text.joint();
  const Cut cut = cutOf(joint, {.looseness = Looseness::Nothing});
  CHECK(savedNames(joint, cut) == Names{"x", "a", "y"});
  CHECK(cut.bytes == 3 * 8 * 4 * 4);
  // Views of weights and inputs are there without being saved, and are not counted as computed again in time.
  CHECK(againNames(joint, cut).empty());
}

TEST_CASE("one value is saved where the others follow from it cheaply") {
  const JointText text(mlp, "ogg");
  const JointGraph joint = text.joint();
  const Cut cut = cutOf(joint, {.looseness = Looseness::Moderate});
  CHECK(savedNames(joint, cut) == Names{"x", "h"});
  CHECK(againNames(joint, cut) == Names{"a", "y"});
  CHECK(cut.saved[1].reason.find("expensive") != std::string::npos);
  CHECK(savedNames(joint, cutOf(joint, {.looseness = Looseness::All})) == Names{"x"});
}

TEST_CASE("pins go before the cut") {
  const JointText text(mlp, "ogg");
  const JointGraph joint = text.joint();
  CutOptions options{.looseness = Looseness::All};
  options.pins.save = {text.graph.findValue("y")};
  const Cut saved = cutOf(joint, options);
  CHECK(savedNames(joint, saved) == Names{"x", "y"});
  CHECK(saved.saved[1].reason == "it was asked for");
  options = {.looseness = Looseness::Nothing};
  options.pins.recompute = {text.graph.findNode("y"), text.graph.findNode("a")};
  const Cut again = cutOf(joint, options);
  CHECK(savedNames(joint, again) == Names{"x", "h"});
  CHECK(again.recomputed[0].reason == "it was asked for");
}

TEST_CASE("a view cannot be saved, and the message says what can") {
  const JointText text(mlp, "ogg");
  const JointGraph joint = text.joint();
  CutOptions options;
  options.pins.save = {text.graph.findValue("xt")};
  const auto cut = minimumCut(joint, options);
  REQUIRE_FALSE(cut);
  CHECK(cut.error().message == "%xt cannot be saved: it is a view; save what it looks into, %x");
}

TEST_CASE("random numbers are drawn once") {
  const JointText text(R"(graph G {
  weight %w "w" : f32[8,4]
  input %t : f32[8,4]
  %r = aten.rand_like.default(%w, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None) : f32[8,4]
  %n = aten.neg.default(%r) : f32[8,4]
  %y = aten.mul.Tensor(%w, %n) : f32[8,4]
  %gw = aten.mul.Tensor(%t, %n) : f32[8,4]
  return (%y, %gw)
})",
                       "og");
  const JointGraph joint = text.joint();
  for (const Looseness looseness : {Looseness::Cheap, Looseness::Moderate, Looseness::All}) {
    const auto halves = splitJoint(joint, cutOf(joint, {.looseness = looseness}), test::jointOperators());
    REQUIRE_RESULT(halves);
    for (NodeId n : halves->backward.graph.order()) CHECK_FALSE(halves->backward.graph.node(n).op->random);
  }
}

TEST_CASE("what follows from a small value is computed again, however far apart its uses are") {
  const JointText text(R"(graph G {
  weight %w "w" : f32[4,4]
  weight %s "s" : f32[1]
  weight %p "p" : f32[8,4]
  weight %q "q" : f32[8,4]
  input %x : f32[8,4]
  input %t : f32[8,4]
  %r = aten.rand_like.default(%s, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None) : f32[1]
  %m1 = aten.mul.Tensor(%p, %r) : f32[8,4]
  %a = aten.mul.Tensor(%x, %m1) : f32[8,4]
  %h = aten.matmul.default(%a, %w) : f32[8,4]
  %m2 = aten.mul.Tensor(%q, %r) : f32[8,4]
  %y = aten.mul.Tensor(%h, %m2) : f32[8,4]
  %gh = aten.mul.Tensor(%t, %m2) : f32[8,4]
  %wt = aten.transpose.int(%w, dim0=0, dim1=1) : f32[4,4]
  %ga = aten.matmul.default(%gh, %wt) : f32[8,4]
  %gx = aten.mul.Tensor(%ga, %m1) : f32[8,4]
  return (%y, %gx)
})",
                       "og");
  const JointGraph joint = text.joint();
  CHECK(savedNames(joint, cutOf(joint)) == Names{"r"});
}

TEST_CASE("an input that the forward pass overwrites is copied before it is kept") {
  const JointText text(R"(graph G {
  input %b : f32[4]
  input %t : f32[4]
  %y = aten.relu.default(%b) : f32[4]
  %new = aten.neg.default(%b) : f32[4]
  %g = aten.mul.Tensor(%t, %b) : f32[4]
  return (%new, %y, %g)
})",
                       "mog");
  const JointGraph joint = text.joint();
  const auto halves = splitJoint(joint, cutOf(joint), test::jointOperators());
  REQUIRE_RESULT(halves);
  CHECK(toText(halves->forward.graph, {.sources = false}).find("%b_kept = aten.clone.default(%b") != std::string::npos);
}

TEST_CASE("the halves: names, order, and what is computed again right before it is read") {
  const JointText text(mlp, "ogg");
  const JointGraph joint = text.joint();
  const auto halves = splitJoint(joint, cutOf(joint, {.looseness = Looseness::Moderate}), test::jointOperators());
  REQUIRE_RESULT(halves);
  CHECK(toText(halves->forward.graph) == R"(graph G {
  weight %w "w" : f32[4,4]
  input %x : f32[8,4]
  %h = aten.matmul.default(%x, %w) : f32[8,4]
  %a = aten.tanh.default(%h) : f32[8,4]
  %y = aten.tanh.default(%a) : f32[8,4]
  return (%y, %x, %h)
}
)");
  CHECK(toText(halves->backward.graph) == R"(graph G {
  weight %w "w" : f32[4,4]
  input %x : f32[8,4]
  input %h : f32[8,4]
  input %t : f32[8,4]
  %a = aten.tanh.default(%h) : f32[8,4]
  %y = aten.tanh.default(%a) : f32[8,4]
  %g1 = aten.mul.Tensor(%t, %y) : f32[8,4]
  %g2 = aten.mul.Tensor(%g1, %a) : f32[8,4]
  %wt = aten.transpose.int(%w, dim0=0, dim1=1) : f32[4,4]
  %gx = aten.matmul.default(%g2, %wt) : f32[8,4]
  %xt = aten.transpose.int(%x, dim0=0, dim1=1) : f32[4,8]
  %gw = aten.matmul.default(%xt, %g2) : f32[4,4]
  return (%gx, %gw)
}
)");
  CHECK(halves->forward.signature.returns.back() == ReturnedRole{ReturnedRole::Kind::Saved, "h"});
  CHECK(halves->backward.signature.tangents == Names{"t"});
  // h and a; then a and y.
  CHECK(mostAlive(liveBytes(halves->forward.graph, joint)) == 3 * 128);
}

TEST_CASE("what is no joint graph, or writes in place, is refused with the place") {
  const Graph g = test::graphOf(mlp);
  const auto none = JointGraph::make(g, {{{}, {}, {}}, {}, {}});
  REQUIRE_FALSE(none);
  CHECK(none.error().message.find("joint=True") != std::string::npos);
  const JointText text(R"(graph G {
  weight %w "w" : f32[4]
  input %t : f32[4]
  %y = aten.relu.default(%w) : f32[4]
  %z = aten.relu_.default(%y) : f32[4] "net.py":7
  %g = aten.mul.Tensor(%t, %z) : f32[4]
  return (%z, %g)
})",
                       "og");
  const auto writes = JointGraph::make(text.graph, text.signature);
  REQUIRE_FALSE(writes);
  CHECK(writes.error().message.find("`z` (aten.relu_.default) of net.py:7 writes in place") == 0);
}

}  // namespace
}  // namespace graft
