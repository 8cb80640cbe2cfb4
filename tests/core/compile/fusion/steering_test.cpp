// Steering: the file that people write, and what it does to a plan.
#include "core/compile/fusion/steering.h"

#include <algorithm>

#include "core/compile/fusion/fusion.h"
#include "tests/support/graphs.h"
#include "tests/support/temp_dir.h"

using namespace graft;
using namespace graft::test;

namespace {

using Names = std::vector<std::string>;

FusionPlan planned(const Graph& g, const std::string& text) {
  auto steering = parseSteering(text, "fusion.json");
  INFO(text);
  if (!steering) FAIL(steering.error().format());
  return planFusion(g, {.steering = *steering});
}

std::vector<Names> groupsOf(const Graph& g, const FusionPlan& plan) {
  std::vector<Names> out;
  for (const FusionGroup& group : plan.groups) {
    Names& names = out.emplace_back();
    for (const NodeId n : group.computing) names.push_back(g.node(n).name);
  }
  return out;
}

Names problemsOf(const FusionPlan& plan) {
  Names out;
  for (const SteeringProblem& p : plan.unapplied) out.push_back(p.entry + ": " + p.why);
  return out;
}

std::string errorOf(const std::string& text) {
  const auto steering = parseSteering(text, "fusion.json");
  return steering ? "" : steering.error().format();
}

// Two chains that a matmul separates.
constexpr const char* chains = R"(graph chains {
  module m0 "first" Block
  module m1 "second" Block
  input %x : f32[64,64]
  %a = aten.relu.default(%x) : f32[64,64] @m0
  %b = aten.tanh.default(%a) : f32[64,64] @m0
  %c = aten.mul.Tensor(%b, %x) : f32[64,64] @m0
  %m = aten.matmul.default(%c, %c) : f32[64,64]
  %d = aten.relu.default(%m) : f32[64,64] @m1
  %t = aten.transpose.int(%d, 0, 1) : f32[64,64] @m1
  %e = aten.tanh.default(%t) : f32[64,64] @m1
  %f = aten.neg.default(%e) : f32[64,64] @m1
  return %f
})";

// A softmax over rows, and one over columns: their rows differ.
constexpr const char* rows = R"(graph rows {
  input %x : f32[64,32]
  %a = aten.relu.default(%x) : f32[64,32]
  %s = aten.softmax.int(%a, 1, None) : f32[64,32]
  %q = aten.softmax.int(%s, 0, None) : f32[64,32]
  %y = aten.tanh.default(%q) : f32[64,32]
  return %y
})";

}  // namespace

TEST_CASE("what is kept apart is in different groups, and the decision says who wants it") {
  const Graph g = graphOf(chains);
  CHECK(groupsOf(g, planned(g, R"({"fusion": 1})")) == std::vector<Names>{{"a", "b", "c"}, {"d", "e", "f"}});
  const FusionPlan plan = planned(g, R"({"fusion": 1, "apart": [["a", "b"]]})");
  CHECK(groupsOf(g, plan) == std::vector<Names>{{"b", "c"}, {"d", "e", "f"}});
  const auto pair = std::find_if(plan.decisions.begin(), plan.decisions.end(),
                                 [](const FusionDecision& d) { return d.producer == "a" && d.consumer == "b"; });
  REQUIRE(pair != plan.decisions.end());
  CHECK_FALSE(pair->isLegal);
  CHECK(pair->why == "they are to stay apart (apart[0])");
  CHECK(plan.unapplied.empty());
}

TEST_CASE("modules and operators name all of their nodes; a node's own name comes first") {
  const Graph g = graphOf(chains);
  CHECK(groupsOf(g, planned(g, R"({"fusion": 1, "apart": [["first"]]})")) == std::vector<Names>{{"d", "e", "f"}});
  CHECK(groupsOf(g, planned(g, R"({"fusion": 1, "apart": [["aten.tanh", "relu"]]})")) ==
        std::vector<Names>{{"b", "c"}, {"e", "f"}});
  CHECK(groupsOf(g, planned(g, R"({"fusion": 1, "automatic": false, "merge": [["second"]]})")) ==
        std::vector<Names>{{"d", "e", "f"}});
}

TEST_CASE("a merge is made whatever it costs") {
  const Graph g = graphOf(chains);
  const FusionPlan plan = planned(g, R"({"fusion": 1, "automatic": false, "merge": [["b", "a"]]})");
  CHECK(groupsOf(g, plan) == std::vector<Names>{{"a", "b"}});
  REQUIRE_FALSE(plan.decisions.empty());
  CHECK(plan.decisions.front().isAsked);
  CHECK(plan.decisions.front().isMerged);
  const auto pair = std::find_if(plan.decisions.begin(), plan.decisions.end(),
                                 [](const FusionDecision& d) { return d.producer == "b" && d.consumer == "c"; });
  REQUIRE(pair != plan.decisions.end());
  CHECK(pair->why == "only what is listed is merged");
}

TEST_CASE("a merge that is not legal is refused with the reason of the decisions") {
  const Graph g = graphOf(rows);
  const FusionPlan plan = planned(g, R"({"fusion": 1, "merge": [["s", "q"]]})");
  const auto pair = std::find_if(plan.decisions.begin(), plan.decisions.end(),
                                 [](const FusionDecision& d) { return d.producer == "s" && d.consumer == "q"; });
  REQUIRE(pair != plan.decisions.end());
  CHECK_FALSE(pair->isMerged);
  CHECK(problemsOf(plan) == Names{"merge[0]: %s and %q: " + pair->why});
  CHECK(groupsOf(g, plan) == std::vector<Names>{{"a", "s"}, {"q", "y"}});
}

TEST_CASE("an operator moves from its group to another") {
  const Graph g = graphOf(R"(graph g {
  input %x : f32[64,64]
  %a = aten.relu.default(%x) : f32[64,64]
  %b = aten.tanh.default(%a) : f32[64,64]
  %c = aten.neg.default(%b) : f32[64,64]
  %d = aten.gelu.default(%c) : f32[64,64]
  return %d
})");
  const std::string apart = R"("apart": [["b", "c"]])";
  CHECK(groupsOf(g, planned(g, "{\"fusion\": 1, " + apart + "}")) == std::vector<Names>{{"a", "b"}, {"c", "d"}});
  const FusionPlan plan = planned(g, R"({"fusion": 1, "merge": [["a", "b"], ["c", "d"]], "automatic": false,
                                         "move": [{"node": "c", "to": "a"}]})");
  CHECK(groupsOf(g, plan) == std::vector<Names>{{"a", "b", "c"}});
  CHECK(problemsOf(plan).size() == 1);  // c and d are to be merged, and to be apart
  const FusionPlan whole = planned(g, R"({"fusion": 1, "move": [{"node": "b", "to": "a"}]})");
  CHECK(problemsOf(whole) == Names{"move[0]: %b is in the kernel of %a already"});
}

TEST_CASE("entries that do not apply are named, each with the reason") {
  const Graph g = graphOf(chains);
  const FusionPlan plan = planned(g, R"({"fusion": 1,
    "merge": [["a", "bb"], ["a", "f"], ["c", "m"], ["d", "t"]],
    "apart": [["firts", "second"], ["first", "a"]],
    "move": [{"node": "b", "to": "nowhere_at_all"}]})");
  CHECK(problemsOf(plan) ==
        Names{"apart[0]: the model has no node, module or operator `firts`; did you mean `first`?",
              "apart[1]: %a has two of its names: it cannot be apart from itself",
              "merge[0]: the model has no node, module or operator `bb`; did you mean `b`?",
              "merge[2]: %m cannot be part of a kernel: kernels with matrix products are generated for GPUs alone",
              "merge[3]: %t only looks at a value: it is part of each kernel that reads through it",
              "move[0]: the model has no node, module or operator `nowhere_at_all`",
              "merge[1]: %a and %f: no value passes between them"});
}

TEST_CASE("a plan that is written gives the same groups again") {
  for (const char* text : {chains, rows}) {
    const Graph g = graphOf(text);
    const FusionPlan plan = planFusion(g);
    const std::string file = printSteering(steeringFor(g, plan));
    const FusionPlan again = planned(g, file);
    CHECK(groupsOf(g, again) == groupsOf(g, plan));
    CHECK(again.unapplied.empty());
    CHECK(printSteering(steeringFor(g, again)) == file);
  }
}

TEST_CASE("what is printed reads back as it was") {
  Steering s;
  s.automatic = false;
  s.merge = {{"a", "quo\"te"}, {"back\\slash", "line\nend", "ü"}};
  s.apart = {{"x"}, {"y", "z"}};
  s.move = {{"n", "m"}};
  s.kernels.push_back(
      {{"a", "b"},
       {.schedule =
            {.lanes = "i1", .order = {"i1", "i0"}, .registers = 2, .block = 64, .threads = 1, .transposes = false}},
       {},
       {}});
  s.kernels.push_back({{"c"}, {.loops = "loops 1\n"}, {}, {}});
  s.kernels.push_back({{"d"}, {}, {}, "d.cpp"});
  const auto again = parseSteering(printSteering(s), "f");
  REQUIRE(again);
  CHECK(*again == s);
  CHECK(parseSteering(printSteering({}), "f")->isEmpty());
}

TEST_CASE("a kernel is chosen by exactly its nodes") {
  const Graph g = graphOf(chains);
  const FusionPlan plan = planned(g, R"({"fusion": 1, "kernels": [
    {"nodes": ["c", "a", "b"], "schedule": {"threads": 2}},
    {"nodes": ["d", "e"], "schedule": {"threads": 2}},
    {"nodes": ["m"], "schedule": {"threads": 2}},
    {"nodes": ["aa"], "schedule": {"threads": 2}},
    {"nodes": ["d", "e", "f"], "schedule": {"lanes": "r9"}}]})");
  REQUIRE(plan.groups.size() == 2);
  CHECK(plan.groups[0].choice.schedule.threads == 2);
  CHECK(plan.groups[0].choiceEntry == "kernels[0]");
  CHECK(plan.groups[1].choice.isEmpty());
  const Names problems = problemsOf(plan);
  REQUIRE(problems.size() == 4);
  CHECK(problems[0] == "kernels[1]: no kernel is of exactly these nodes; the nearest is of %d, %e, %f");
  CHECK(problems[1] == "kernels[2]: none of its nodes is in a kernel");
  CHECK(problems[2].starts_with("kernels[3]: the model has no node, module or operator `aa`"));
  CHECK(problems[3].starts_with("kernels[4]: the kernel has no outer range r9; it has "));
}

TEST_CASE("edited loops read and write what the kernel does") {
  const Graph g = graphOf(chains);
  const auto whyNot = [&](const std::string& loops) {
    Steering s;
    s.kernels.push_back({{"a", "b", "c"}, {.loops = loops}, {}, {}});
    const FusionPlan plan = planFusion(g, {.steering = s});
    return plan.unapplied.empty() ? "" : plan.unapplied.front().why;
  };
  const std::string right =
      "loops 1\ninput x: f32[64, 64]\noutput y: f32[64, 64]\nnest i < 64, j < 64\n  y[i, j] = x[i, j]\n";
  CHECK(whyNot(right).empty());
  CHECK(whyNot("loops 1\noutput y: f32[64, 64]\nnest i < 64, j < 64\n  y[i, j] = 0.0\n") ==
        "the edited loops have 0 inputs, the group has 1");
  CHECK(whyNot("loops 1\ninput x: f32[64, 64]\noutput y: f32[32, 64]\nnest i < 32, j < 64\n  y[i, j] = x[i, j]\n") ==
        "the output y of the edited loops is f32[32, 64], the group's is f32[64, 64]");
  CHECK(
      whyNot("loops 1\ninput x: f32[64, 64]\noutput y: f32[64, 64]\nnest i < 64, j < 64\n  y[i, j] = x[i, j + 1]\n") !=
      "");
}

TEST_CASE("edited loops fit calls of the sizes that they are for") {
  const std::string loops =
      "loops 1\nsize n in 1..8\ninput x: f32[n, 4]\noutput y: f32[n]\nnest i < n\n  y[i] = sum(r < 4: x[i, r])\n";
  const auto fitted = fittedLoops(loops, {{{DType::Float32, {3, 4}}}, {{DType::Float32, {3}}}, {}});
  REQUIRE(fitted);
  CHECK(fitted->sizes == std::vector<int64_t>{3});
  CHECK_FALSE(fittedLoops(loops, {{{DType::Float32, {9, 4}}}, {{DType::Float32, {9}}}, {}}));
  CHECK_FALSE(fittedLoops(loops, {{{DType::Float32, {3, 5}}}, {{DType::Float32, {3}}}, {}}));
  CHECK_FALSE(fittedLoops(loops, {{{DType::Float64, {3, 4}}}, {{DType::Float32, {3}}}, {}}));
  CHECK_FALSE(fittedLoops(loops, {{{DType::Float32, {3, 4}}}, {{DType::Float32, {2}}}, {}}));
  CHECK_FALSE(fittedLoops(loops, {{}, {{DType::Float32, {3}}}, {}}));
  const std::string number =
      "loops 1\nsize k in 0..8\ninput x: f32[4]\noutput y: f32[4]\nnest i < 4\n  y[i] = x[i] * f32(k)\n";
  const auto named = fittedLoops(number, {{{DType::Float32, {4}}}, {{DType::Float32, {4}}}, {{"k", 5}}});
  REQUIRE(named);
  CHECK(named->sizes == std::vector<int64_t>{5});
  CHECK_FALSE(fittedLoops(number, {{{DType::Float32, {4}}}, {{DType::Float32, {4}}}, {}}));
}

TEST_CASE("entries are added and taken away one by one") {
  Steering s;
  s.apart = {{"a", "b"}, {"c", "d"}};
  s.kernels.push_back({{"x"}, {.schedule = {.threads = 1}}, {}, {}});
  Steering more;
  more.merge = {{"e", "f"}};
  more.kernels.push_back({{"x"}, {.schedule = {.threads = 2}}, {}, {}});
  addEntries(s, more);
  REQUIRE(s.kernels.size() == 1);
  CHECK(s.kernels[0].choice.schedule.threads == 2);
  REQUIRE(removeEntry(s, "apart[0]"));
  CHECK(s.apart == std::vector<Names>{{"c", "d"}});
  REQUIRE(removeEntry(s, "merge[0]"));
  REQUIRE(removeEntry(s, "kernels[0]"));
  for (const char* wrong : {"merge[0]", "merge", "merge[", "merge[x]", "merge[0", "merge[0]x", "", "nothing[0]"}) {
    INFO(wrong);
    CHECK_FALSE(removeEntry(s, wrong));
  }
}

TEST_CASE("mistakes are named with their place") {
  CHECK(errorOf("{\"fusion\": 1,\n \"merge\": [[\"a\" \"b\"]]}").find("fusion.json:2:17: no valid JSON: ") == 0);
  CHECK(errorOf(R"({"merge": []})") == "fusion.json: the whole has no fusion");
  CHECK(errorOf(R"({"fusion": 2})").find("its version is 2; this Graft reads 1: a later Graft wrote it") !=
        std::string::npos);
  CHECK(errorOf(R"({"fusion": 1, "merg": []})") ==
        "fusion.json: the whole has a key \"merg\", which means nothing; did you mean \"merge\"?");
  CHECK(errorOf(R"({"fusion": 1, "merge": [["a", 3]]})").find("merge[0][1]") != std::string::npos);
  CHECK(errorOf(R"({"fusion": 1, "move": [{"node": "a"}]})").find("move[0]") != std::string::npos);
  CHECK(errorOf(R"({"fusion": 1, "apart": [[]]})") == "fusion.json: apart[0] needs at least one name");
  CHECK(errorOf(R"({"fusion": 1, "apart": [[""]]})") == "fusion.json: apart[0][0] is an empty name");
  CHECK(errorOf(R"([1])").find("fusion.json: ") == 0);
  CHECK(errorOf(R"({"fusion": 1, "kernels": [{"nodes": ["a"], "schedule": {"registers": 3}}]})") ==
        "fusion.json: kernels[0].schedule.registers is 3; it may be 1, 2 or 4");
  CHECK(errorOf(R"({"fusion": 1, "kernels": [{"nodes": ["a"], "loops": "l", "source": "s"}]})") ==
        "fusion.json: kernels[0] has a C++ source, which no schedule and no loops go with");
  CHECK(errorOf(R"({"fusion": 1, "kernels": [{"nodes": ["a"], "schedule": {"lanes": "i 1"}}]})") ==
        "fusion.json: kernels[0].schedule.lanes is no name of a range");
  TempDir dir;
  writeFile(dir / "fusion.json", R"({"fusion": 1, "kernels": [{"nodes": ["a"], "loopsFile": "a.loops"}]})");
  CHECK(readSteering((dir / "fusion.json").string()).error().message.starts_with("kernels[0]: cannot read "));
  writeFile(dir / "a.loops", "text");
  CHECK(readSteering((dir / "fusion.json").string())->kernels[0].choice.loops == "text");
  const auto missing = readSteering((dir / "no.json").string());
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message.find("cannot read ") == 0);
}

TEST_CASE("a merge may be of siblings, which read one value and do not depend on each other") {
  const Graph g = graphOf(R"(graph g {
  input %x : f32[64,64]
  %a = aten.relu.default(%x) : f32[64,64]
  %b = aten.tanh.default(%x) : f32[64,64]
  %m = aten.matmul.default(%a, %b) : f32[64,64]
  return %m
})");
  const FusionPlan plan = planned(g, R"({"fusion": 1, "automatic": false, "merge": [["a", "b"]]})");
  CHECK(groupsOf(g, plan) == std::vector<Names>{{"a", "b"}});
  CHECK(plan.unapplied.empty());
  REQUIRE_FALSE(plan.decisions.empty());
  CHECK(plan.decisions.front().areSiblings);
  CHECK(plan.decisions.front().isAsked);
  CHECK(groupsOf(g, planned(g, R"({"fusion": 1})")) == std::vector<Names>{{"a", "b"}});
  CHECK(groupsOf(g, planned(g, R"({"fusion": 1, "apart": [["a", "b"]]})")) == std::vector<Names>{{"b"}});
  CHECK(groupsOf(g, planned(g, R"({"fusion": 1, "automatic": false})")).empty());
}

TEST_CASE("a node that is listed by itself has a kernel of its own") {
  const Graph g = graphOf(chains);
  const FusionPlan plan = planned(g, R"({"fusion": 1, "automatic": false, "merge": [["a"], ["e", "f"]]})");
  CHECK(groupsOf(g, plan) == std::vector<Names>{{"a"}, {"e", "f"}});
  CHECK(plan.unapplied.empty());
  CHECK(groupsOf(g, planFusion(g, {.steering = steeringFor(g, plan)})) == groupsOf(g, plan));
  CHECK(groupsOf(g, planned(g, R"({"fusion": 1, "automatic": false, "merge": [["a", "bb"]]})")).empty());
}
