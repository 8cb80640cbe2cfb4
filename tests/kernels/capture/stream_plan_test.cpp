// Stream plans: which steps run at the same time, and that no step overtakes one that it depends on.
#include "kernels/capture/stream_plan.h"

#include <rapidcheck.h>

#include <cstdlib>
#include <string>

#include "tests/support/catch.h"

using namespace graft;

namespace {

[[maybe_unused]] const int configured = setenv("RC_PARAMS", "max_success=3000 max_size=60", 0);

/// A run of operators with one output each. Memory is numbered as it is allocated.
struct Run {
  std::vector<RunStep> steps;
  uint32_t made = 0;

  uint32_t input() { return made++; }
  uint32_t op(std::vector<uint32_t> reads, uint32_t kernels = 1) {
    steps.push_back({std::move(reads), {made}, kernels});
    return made++;
  }
  void view(uint32_t) { steps.push_back({}); }
  uint32_t chain(uint32_t from, int length) {
    for (int i = 0; i < length; ++i) from = op({from});
    return from;
  }
  /// An encoder layer with separate queries, keys and values, then one chain.
  uint32_t layer(uint32_t x, uint32_t mask) {
    const uint32_t weights = input();
    const uint32_t q = op({x, weights}), k = op({x, weights}), v = op({x, weights});
    view(q), view(k), view(v);
    const uint32_t scores = chain(op({op({q, k}), mask}), 1);
    const uint32_t a = chain(op({scores, v}), 2);
    const uint32_t normed = op({op({a, x})});
    return op({op({chain(normed, 3), normed})});
  }
  uint32_t tower(int layers) {
    uint32_t mask = chain(input(), 3);
    uint32_t x = op({op({op({input()}), op({input()})}), op({input()})});
    for (int i = 0; i < layers; ++i) x = layer(x, mask);
    return x;
  }
};

/// Whether the plan orders `from` before `to`, optionally without the wait of `to` for `without`.
bool ordered(const std::vector<RunStep>& steps, const StreamPlan& plan, uint32_t from, uint32_t to,
             std::optional<uint32_t> without = {}) {
  std::vector<bool> reached(to + 1, false);
  reached[to] = true;
  for (uint32_t i = to + 1; i-- > from;) {
    if (!reached[i]) continue;
    if (i == from) return true;
    for (uint32_t w : plan.assignments[i].waits)
      if (i != to || w != without) reached[w] = true;
    for (uint32_t b = i; b-- > 0;) {
      if (steps[b].idle() || plan.assignments[b].stream != plan.assignments[i].stream) continue;
      reached[b] = true;
      break;
    }
  }
  return false;
}

bool intersect(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  for (uint32_t x : a)
    for (uint32_t y : b)
      if (x == y) return true;
  return false;
}

/// Whether the order of two steps matters: one writes what the other reads or writes.
bool conflict(const RunStep& a, const RunStep& b) {
  if (a.idle() || b.idle()) return false;
  return a.barrier || b.barrier || intersect(a.writes, b.writes) || intersect(a.writes, b.reads) ||
         intersect(a.reads, b.writes);
}

std::string problemOf(const std::vector<RunStep>& steps, const StreamPlan& plan, uint32_t streams) {
  if (plan.assignments.size() != steps.size()) return "not an assignment for each step";
  if (plan.streams == 0 || plan.streams > streams) return "too many streams";
  std::vector<bool> awaited(steps.size(), false);
  for (uint32_t i = 0; i < steps.size(); ++i) {
    const auto& assignment = plan.assignments[i];
    if (assignment.stream >= plan.streams) return "a stream that does not exist";
    if (steps[i].idle() && !assignment.waits.empty()) return "an idle step waits";
    for (uint32_t w : assignment.waits) {
      if (w >= i || steps[w].idle() || plan.assignments[w].stream == assignment.stream)
        return "a wait that makes no sense";
      if (ordered(steps, plan, w, i, w)) return "a wait that is implied";
      awaited[w] = true;
    }
    for (uint32_t j = 0; j < i; ++j)
      if (conflict(steps[j], steps[i]) && !ordered(steps, plan, j, i))
        return "step " + std::to_string(i) + " may overtake " + std::to_string(j);
  }
  for (uint32_t i = 0; i < steps.size(); ++i)
    if (awaited[i] != plan.assignments[i].awaited) return "awaited is wrong";
  return "";
}

size_t waits(const StreamPlan& plan) {
  size_t n = 0;
  for (const auto& assignment : plan.assignments) n += assignment.waits.size();
  return n;
}

}  // namespace

TEST_CASE("two towers use two streams and join once") {
  Run run;
  run.op({run.tower(12), run.tower(12)});
  const auto plan = planStreams(run.steps, {});
  REQUIRE(plan);
  CHECK(problemOf(run.steps, *plan, 4) == "");
  CHECK(plan->streams == 2);
  CHECK(waits(*plan) == 1);
  CHECK(plan->length < plan->total * 0.52);
}

TEST_CASE("towers whose operators alternate are separated too") {
  Run run;
  uint32_t a = run.input(), b = run.input();
  for (int i = 0; i < 10; ++i) a = run.op({a}), b = run.op({b});
  run.op({a, b});
  const auto plan = planStreams(run.steps, {});
  REQUIRE(plan);
  CHECK(problemOf(run.steps, *plan, 4) == "");
  CHECK(plan->streams == 2);
  CHECK(waits(*plan) == 1);
  CHECK(plan->length == 11.5);
}

TEST_CASE("a plain encoder uses one stream, with its mask computed beside the embeddings") {
  Run run;
  run.tower(12);
  CHECK_FALSE(planStreams(run.steps, {}));
  const StreamPlan plan = assignStreams(run.steps, {});
  CHECK(plan.criticalPath > plan.total * 0.8);
}

TEST_CASE("one chain uses one stream") {
  Run run;
  run.chain(run.input(), 100);
  CHECK_FALSE(planStreams(run.steps, {}));
  CHECK(assignStreams(run.steps, {}).streams == 1);
}

TEST_CASE("few kernels are not worth a stream") {
  Run run;
  run.op({run.chain(run.input(), 5), run.chain(run.input(), 5)});
  CHECK_FALSE(planStreams(run.steps, {}));
}

TEST_CASE("five towers share four streams, or use as many as are allowed") {
  Run run;
  std::vector<uint32_t> outputs;
  for (int i = 0; i < 5; ++i) outputs.push_back(run.chain(run.input(), 20));
  run.op(outputs);
  const auto plan = planStreams(run.steps, {});
  REQUIRE(plan);
  CHECK(problemOf(run.steps, *plan, 4) == "");
  CHECK(plan->streams == 4);
  CHECK(plan->length < 42);
  CHECK(planStreams(run.steps, {.streams = 2})->streams == 2);
  CHECK(planStreams(run.steps, {.streams = 8})->streams == 5);
  CHECK_FALSE(planStreams(run.steps, {.streams = 1}));
}

TEST_CASE("what a tower needs early is not queued behind another tower") {
  Run run;
  const uint32_t a = run.chain(run.input(), 20);
  const uint32_t mask = run.chain(run.input(), 2);
  uint32_t b = run.op({run.input()});
  for (int i = 0; i < 20; ++i) b = run.op({b, mask});
  run.op({a, b});
  const auto plan = planStreams(run.steps, {});
  REQUIRE(plan);
  CHECK(problemOf(run.steps, *plan, 4) == "");
  CHECK(plan->length < 26);
}

TEST_CASE("branches that fork and join repeatedly") {
  Run run;
  uint32_t x = run.chain(run.input(), 4);
  for (int i = 0; i < 6; ++i) {
    const uint32_t left = run.chain(x, 8), right = run.chain(x, 8);
    x = run.op({left, right});
  }
  const auto plan = planStreams(run.steps, {});
  REQUIRE(plan);
  CHECK(problemOf(run.steps, *plan, 4) == "");
  CHECK(plan->streams == 2);
  CHECK(waits(*plan) == 12);
}

TEST_CASE("writes in place are ordered after earlier readers and before later ones") {
  Run run;
  const uint32_t x = run.op({run.input()});
  const uint32_t a = run.chain(run.op({x}), 10);
  run.steps.push_back({{run.input()}, {x}, 1});  // conflicts with the readers of x only
  const uint32_t b = run.chain(run.op({x}), 10);
  run.op({a, b});
  const auto plan = planStreams(run.steps, {});
  REQUIRE(plan);
  CHECK(problemOf(run.steps, *plan, 4) == "");
  CHECK(waits(*plan) == 2);  // the write waits for the first reader of x, and the last step
}

TEST_CASE("a barrier runs after all earlier and before all later steps") {
  Run run;
  const uint32_t a = run.chain(run.input(), 10), b = run.chain(run.input(), 10);
  run.steps.push_back({{}, {}, 1, true});
  run.op({run.chain(a, 10), run.chain(b, 10)});
  const StreamPlan plan = assignStreams(run.steps, {});
  CHECK(problemOf(run.steps, plan, 4) == "");
  CHECK(plan.criticalPath == 22);
}

TEST_CASE("no steps, and idle steps only") {
  CHECK(assignStreams({}, {}).streams == 1);
  CHECK(assignStreams({RunStep{}, RunStep{}}, {}).assignments.size() == 2);
  CHECK_FALSE(planStreams({}, {}));
}

TEST_CASE("random steps: none overtakes what it depends on, and no wait is redundant") {
  size_t several = 0, joined = 0;
  CHECK(rc::check([&](const std::vector<uint32_t>& choices, uint8_t streams, uint8_t shortest) {
    std::vector<RunStep> steps;
    const uint32_t memories = 2 + static_cast<uint32_t>(choices.size()) / 3;
    for (uint32_t c : choices) {
      // Each property takes some digits of the number. Most steps read one memory and write one; some do anything else.
      RunStep step;
      const auto take = [&c](uint32_t n) {
        const uint32_t digit = c % n;
        c = c / n * 7 + digit * 31 + 11;
        return digit;
      };
      step.kernels = take(3);
      step.barrier = take(40) == 0;
      for (uint32_t k = take(4); k-- > 0;) step.reads.push_back(take(memories));
      for (uint32_t k = take(5) == 0 ? 2 : take(3) ? 1 : 0; k-- > 0;) step.writes.push_back(take(memories));
      steps.push_back(std::move(step));
    }
    const StreamOptions options{.streams = streams % 6u, .minChainKernels = shortest % 6u};
    const StreamPlan plan = assignStreams(steps, options);
    RC_ASSERT(problemOf(steps, plan, std::max(options.streams, 1u)) == "");
    RC_ASSERT(plan.criticalPath <= plan.total);
    several += plan.streams > 1;
    joined += waits(plan);
  }));
  INFO(several << " plans of several streams, " << joined << " waits");
  CHECK(several > 500);
  CHECK(joined > 1000);
}
