#include "app/workbench/optimize/group_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "core/compile/fusion/group_text.h"
#include "core/torch/bench.h"
#include "core/torch/joined_sets.h"
#include "matcher/passes/passes.h"

namespace graft::workbench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t mostCollected = size_t{1} << 30;  // bytes of inner values

struct Call {
  NodeId node;
  std::vector<ValueId> inputs;
  const std::string* program = nullptr;
};

/// Calls whose program can be run on its own.
std::vector<Call> callsIn(const Graph& g) {
  std::vector<Call> out;
  for (const NodeId id : g.order()) {
    const Node& n = g.node(id);
    if (n.op->name != kGeneratedOperator) continue;
    Call& call = out.emplace_back(Call{id, {}, n.args.at(1).as<std::string>()});
    const std::vector<Argument>*tensors = n.args.at(0).items(), *sizes = n.args.at(2).items();
    if (!tensors || !sizes || !sizes->empty()) {
      call.program = nullptr;
      continue;
    }
    for (const Argument& a : *tensors) call.inputs.push_back(a.valueId());
  }
  return out;
}

/// A graph of the call alone.
Graph callAlone(const Graph& group, const std::string& program, const OperatorRef& op) {
  Graph out;
  out.name = group.name;
  std::vector<Argument> inputs;
  for (const ValueId v : group.inputs()) inputs.emplace_back(out.addInput(group.value(v).name, group.value(v).type));
  const NodeId call = out.append(
      out.root(), op, {Argument::list(std::move(inputs)), Argument(program), Argument::list({})}, "generated");
  out.setReturns(out.root(), {Argument(out.node(call).outputs.front())});
  return out;
}

struct Sides {
  Program operators, kernel;
  TensorSet inputs;
};

Result<Sides> sidesOf(const Call& call, const std::unordered_map<ValueId, TensorSet>& values, RunOptions options,
                      const Semantics& semantics) {
  std::vector<TensorSet> inputs;
  for (const ValueId v : call.inputs) {
    const auto found = values.find(v);
    if (found == values.end()) return badInput("its inputs were not computed, or are too large to be kept");
    inputs.push_back(found->second);
  }
  Result<Graph> group = parseGroup(*call.program, semantics.operators());
  if (!group) return group.error();
  options.fixedShapes = false;
  auto operators = Program::build(*group, options);
  if (!operators) return operators.error();
  auto kernel =
      Program::build(callAlone(*group, *call.program, semantics.operators().find(kGeneratedOperator)), options);
  if (!kernel) return kernel.error();
  return Sides{std::move(*operators), std::move(*kernel), joined(inputs)};
}

/// What one pair of runs tells, and whether the kernel is slower.
struct Timed {
  SpeedBeside speed;
  double kernel = 0, operators = 0;  ///< microseconds
  bool isSlower() const { return speedOf(speed.ratio, speed.range) == Speed::Slower; }
};

Result<Timed> timeSides(const Sides& sides, double seconds, const Job& job) {
  Job quiet;
  quiet.cancel = job.cancel;
  auto t = timePaired(sides.operators, sides.kernel, sides.inputs, seconds, quiet);
  if (!t) return t.error();
  return Timed{{t->ratio, ratioRange(t->a.samplesMs, t->b.samplesMs)}, t->b.medianMs * 1000, t->a.medianMs * 1000};
}

/// Twice where the first says that the kernel is slower: a busy machine makes equal programs look different.
Result<Timed> timeTwice(const Sides& sides, double seconds, const Job& job) {
  auto first = timeSides(sides, seconds, job);
  if (!first || !first->isSlower()) return first;
  return timeSides(sides, seconds, job);
}

Status takeBack(Graph& graph, const std::vector<TriedGroup>& groups, const Semantics& semantics) {
  std::vector<Argument> names;
  for (const TriedGroup& t : groups)
    if (!t.isKept) names.emplace_back(t.node);
  if (names.empty()) return done();
  Recipe recipe;
  Step& step = recipe.steps.emplace_back();
  step.name = "unfuse";
  step.kwargs.emplace_back("only", Argument::list(std::move(names)));
  auto run = runRecipe(graph, RuleFile(), recipe, semantics);
  if (!run) return run.error();
  return done();
}

}  // namespace

Result<std::vector<TriedGroup>> tryGroups(Graph& graph, const TensorSet& inputs, const RunOptions& options,
                                          double seconds, const Semantics& semantics, const Job& job) {
  std::vector<TriedGroup> out;
  const std::vector<Call> calls = callsIn(graph);
  if (calls.empty()) return out;
  std::unordered_set<ValueId> wanted;
  for (const Call& c : calls) wanted.insert(c.inputs.begin(), c.inputs.end());
  std::unordered_map<ValueId, TensorSet> values;
  {
    auto program = Program::build(graph, options);
    if (!program) return program.error();
    auto ran = program->collect(inputs, &wanted, mostCollected, true, values, job);
    if (!ran) return ran.error();
  }
  const auto begin = Clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  // Half of the time is for building and the first runs, which make code.
  const double each = std::clamp(seconds / 2 / static_cast<double>(calls.size()), 0.03, 0.3);
  std::map<std::string, size_t> known;  // rows by program and the types of its inputs
  for (size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    job.report("timing generated kernels", i, calls.size());
    TriedGroup row;
    row.node = graph.node(call.node).name;
    row.module = std::string(graph.scopeOf(call.node));
    if (!call.program) {
      row.why = "not timed: it takes sizes that the model computes";
      out.push_back(std::move(row));
      continue;
    }
    row.kernel = std::string(groupName(*call.program));
    std::string key = *call.program;
    for (const ValueId v : call.inputs)
      if (const auto found = values.find(v); found != values.end())
        for (const std::string& type : found->second.describe()) key += "\n" + type;
    if (const auto [at, isNew] = known.try_emplace(key, i); !isNew) {
      const TriedGroup& same = out[at->second];
      row.speed = same.speed;
      row.kernelMicroseconds = same.kernelMicroseconds;
      row.operatorsMicroseconds = same.operatorsMicroseconds;
      row.isKept = same.isKept;
      row.why = same.why;
      out.push_back(std::move(row));
      continue;
    }
    if (spent() > seconds) {
      row.why = "not timed: the time for timing kernels was over";
      out.push_back(std::move(row));
      continue;
    }
    auto sides = sidesOf(call, values, options, semantics);
    Result<Timed> timed = sides ? timeTwice(*sides, each, job) : Result<Timed>(sides.error());
    if (!timed) {
      if (timed.error().kind == ErrorKind::Cancelled) return timed.error();
      row.why = "not timed: " + timed.error().message;
      out.push_back(std::move(row));
      continue;
    }
    row.speed = timed->speed;
    row.kernelMicroseconds = timed->kernel;
    row.operatorsMicroseconds = timed->operators;
    if (timed->isSlower()) {
      row.isKept = false;
      row.why = fmt::format("slower in place: {:.1f} µs beside {:.1f} µs", timed->kernel, timed->operators);
    }
    out.push_back(std::move(row));
  }
  job.report("timing generated kernels", 1, 1);
  if (Status s = takeBack(graph, out, semantics); !s) return s.error();
  return out;
}

}  // namespace graft::workbench
