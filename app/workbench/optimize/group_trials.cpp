#include "app/workbench/optimize/group_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/compile/fusion/fusion_nodes.h"
#include "core/compile/fusion/group_text.h"
#include "core/torch/bench.h"
#include "core/torch/graph_in_dtype.h"
#include "core/torch/joined_sets.h"
#include "core/torch/timing_turn.h"
#include "matcher/passes/passes.h"

namespace graft::workbench {
namespace {

constexpr size_t mostCollected = size_t{1} << 30;  // bytes of inner values

struct Call {
  NodeId node;
  std::vector<ValueId> inputs;  ///< that the model computes, or is given
  const std::string* program = nullptr;
};

std::vector<Call> callsIn(const Graph& g) {
  std::vector<Call> out;
  for (const NodeId id : g.order()) {
    const Node& n = g.node(id);
    if (n.op->name != kGeneratedOperator) continue;
    Call& call = out.emplace_back(Call{id, {}, n.args.at(1).as<std::string>()});
    for (const Argument& a : n.args)
      a.forEachValue([&](ValueId v) {
        if (!g.isWeight(v) && std::find(call.inputs.begin(), call.inputs.end(), v) == call.inputs.end())
          call.inputs.push_back(v);
      });
  }
  return out;
}

/// A graph of the call alone, whose inputs are the call's; weights are its own.
Graph callAlone(const Graph& g, const Call& call) {
  Graph out;
  std::unordered_map<ValueId, ValueId> now;
  for (const ValueId v : call.inputs) now.emplace(v, out.addInput(g.value(v).name, g.value(v).type));
  const Node& n = g.node(call.node);
  std::vector<Argument> args = n.args;
  for (Argument& a : args)
    a.forEachValueMutable([&](ValueId& v) {
      const Value& was = g.value(v);
      if (g.isWeight(v) && !now.contains(v)) now.emplace(v, out.addWeight(was.path, was.type, was.data, true));
      v = now.at(v);
    });
  const NodeId made = out.append(out.root(), n.op, std::move(args), n.name);
  out.setType(out.node(made).outputs.front(), g.value(n.outputs.front()).type);
  std::vector<Argument> items;
  const OperatorRef* item = nullptr;
  std::vector<std::pair<int64_t, ValueId>> taken;  // which results the model takes
  for (const NodeId user : g.value(n.outputs.front()).users) {
    const Node& getitem = g.node(user);
    if (const auto* index = getitem.args.size() > 1 ? getitem.args[1].as<int64_t>() : nullptr) {
      taken.emplace_back(*index, getitem.outputs.front());
      item = &getitem.op;
    }
  }
  std::sort(taken.begin(), taken.end());
  for (const auto& [index, value] : taken) {
    const NodeId got = out.append(out.root(), *item, {Argument(out.node(made).outputs.front()), Argument(index)});
    out.setType(out.node(got).outputs.front(), g.value(value).type);
    items.emplace_back(out.node(got).outputs.front());
  }
  out.setReturns(out.root(), std::move(items));
  return out;
}

/// An empty list: all of them.
Status unfuse(Graph& graph, std::vector<Argument> only, const Semantics& semantics) {
  Recipe recipe;
  Step& step = recipe.steps.emplace_back();
  step.name = "unfuse";
  step.kwargs.emplace_back("only", Argument::list(std::move(only)));
  auto run = runRecipe(graph, RuleFile(), recipe, semantics);
  if (!run) return run.error();
  const std::vector<std::string>& refused = run->steps.front().refused;
  return refused.empty() ? done() : Status(badInput(refused.front()));
}

struct Sides {
  Program operators, kernel;
  TensorSet inputs;
};

Result<Sides> sidesOf(const Graph& g, const Call& call, const std::unordered_map<ValueId, TensorSet>& values,
                      RunOptions options, const Semantics& semantics) {
  std::vector<TensorSet> inputs;
  for (const ValueId v : call.inputs) {
    const auto found = values.find(v);
    if (found == values.end())
      return badInput("%" + g.value(v).name + ", which flows in, was not computed, or is too large to be kept");
    inputs.push_back(found->second);
  }
  options.fixedShapes = false;
  Graph alone = callAlone(g, call);
  auto kernel = Program::build(alone, options);
  if (!kernel) return kernel.error();
  if (Status s = unfuse(alone, {}, semantics); !s) return s.error();
  auto operators = Program::build(alone, options);
  if (!operators) return operators.error();
  return Sides{std::move(*operators), std::move(*kernel), joined(inputs)};
}

/// What one pair of runs tells, and whether the kernel is slower.
struct Timed {
  SpeedBeside speed;
  double kernel = 0, operators = 0;  ///< microseconds
  bool isSlower() const { return speedOf(speed.ratio, speed.range) == Speed::Slower; }
  bool maySlow() const { return speed.ratio < 1 && speedOf(speed.ratio, speed.range) == Speed::Untold; }
};

/// The calls that read most come first: where the time is over before all are tried, they matter most.
std::vector<size_t> largestFirst(const Graph& g, const std::vector<Call>& calls) {
  std::vector<double> bytes(calls.size());
  std::vector<size_t> order(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    order[i] = i;
    for (const ValueId v : calls[i].inputs) bytes[i] += bytesOf(g.value(v).type);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  return order;
}

Result<Timed> timeSides(const Sides& sides, double seconds, const Job& job) {
  Job quiet;
  quiet.cancel = job.cancel;
  auto t = timePaired(sides.operators, sides.kernel, sides.inputs, seconds, quiet);
  if (!t) return t.error();
  return Timed{{t->ratio, ratioRange(t->a.samplesMs, t->b.samplesMs)}, t->b.medianMs * 1000, t->a.medianMs * 1000};
}

/// Twice where the first says that the kernel is slower: a busy machine makes equal programs look different. Longer
/// where it may be and the runs do not tell.
Result<Timed> timeTwice(const Sides& sides, double seconds, const Job& job) {
  auto first = timeSides(sides, seconds, job);
  if (first && first->maySlow()) {
    seconds *= 4;
    first = timeSides(sides, seconds, job);
  }
  if (!first || !first->isSlower()) return first;
  return timeSides(sides, seconds, job);
}

Status takeBack(Graph& graph, const std::vector<TriedGroup>& groups, const Semantics& semantics) {
  std::vector<std::string> names;
  for (const TriedGroup& t : groups)
    if (!t.isKept) names.push_back(t.node);
  return restoreOperators(graph, names, semantics);
}

}  // namespace

Status restoreOperators(Graph& graph, const std::vector<std::string>& calls, const Semantics& semantics) {
  if (calls.empty()) return done();
  return unfuse(graph, std::vector<Argument>(calls.begin(), calls.end()), semantics);
}

Result<std::vector<TriedGroup>> tryGroups(Graph& original, const TensorSet& inputs, const RunOptions& asRun,
                                          double seconds, KnownGroups& known, const Semantics& semantics,
                                          const Job& job) {
  std::vector<TriedGroup> out;
  // A group by itself does not tell which of its inputs stay in float32.
  RunOptions options = asRun;
  std::optional<Graph> cast;
  if (options.dtype)
    if (Result<GraphInDType> made = inDType(original, *options.dtype)) {
      cast = std::move(made->graph);
      options.dtype.reset();
    }
  const Graph& graph = cast ? *cast : original;
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
  const OwnTime spent;
  // Half of the time is for building and the first runs, which make code.
  const double each = std::clamp(seconds / 2 / static_cast<double>(calls.size()), 0.03, 0.3);
  out.resize(calls.size());
  size_t tried = 0;
  for (const size_t i : largestFirst(graph, calls)) {
    const Call& call = calls[i];
    job.report("timing generated kernels", tried++, calls.size());
    TriedGroup& row = out[i];
    row.node = graph.node(call.node).name;
    row.module = std::string(graph.scopeOf(call.node));
    if (!call.program) {
      row.why = "not timed: its program is no literal";
      continue;
    }
    row.kernel = std::string(groupName(*call.program));
    std::string key = withoutNames(*call.program);
    for (const ValueId v : call.inputs)
      if (const auto found = values.find(v); found != values.end())
        for (const std::string& type : found->second.describe()) key += "\n" + type;
    if (const auto at = known.find(key); at != known.end()) {
      const TriedGroup& same = at->second;
      row.speed = same.speed;
      row.kernelMicroseconds = same.kernelMicroseconds;
      row.operatorsMicroseconds = same.operatorsMicroseconds;
      row.isKept = same.isKept;
      row.why = same.why;
      continue;
    }
    if (spent.seconds() > seconds) {
      row.why = "not timed: the time for timing kernels was over";
      continue;
    }
    auto sides = sidesOf(graph, call, values, options, semantics);
    Result<Timed> timed = sides ? timeTwice(*sides, each, job) : Result<Timed>(sides.error());
    if (!timed) {
      if (timed.error().kind == ErrorKind::Cancelled) return timed.error();
      row.why = "not timed: " + timed.error().message;
      continue;
    }
    row.speed = timed->speed;
    row.kernelMicroseconds = timed->kernel;
    row.operatorsMicroseconds = timed->operators;
    if (timed->isSlower()) {
      row.isKept = false;
      row.why = fmt::format("slower in place: {:.1f} µs beside {:.1f} µs", timed->kernel, timed->operators);
    }
    known.emplace(std::move(key), row);
  }
  job.report("timing generated kernels", 1, 1);
  if (Status s = takeBack(original, out, semantics); !s) return s.error();
  return out;
}

}  // namespace graft::workbench
