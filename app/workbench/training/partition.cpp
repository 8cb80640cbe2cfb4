#include "app/workbench/training/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "app/workbench/compare.h"
#include "app/workbench/profile.h"
#include "core/base/suggest.h"
#include "core/base/words.h"
#include "core/formats/export.h"
#include "core/ir/used_symbols.h"
#include "core/torch/split_run.h"
#include "core/training/budget.h"
#include "core/training/halves.h"

namespace graft::workbench {
namespace {

/// The symbols' values that follow from the inputs' sizes.
std::map<std::string, int64_t, std::less<>> sizesOf(const Graph& g, const TensorSet& inputs) {
  std::map<std::string, int64_t, std::less<>> out;
  const std::vector<std::string> types = inputs.describe();
  for (size_t i = 0; i < types.size() && i < g.inputs().size(); ++i) {
    const auto& declared = g.value(g.inputs()[i]).type.tensorInfo.shape;
    const auto given = parseType(types[i]);
    if (!declared || !given || !given->tensorInfo.shape || given->tensorInfo.shape->size() != declared->size())
      continue;
    for (size_t d = 0; d < declared->size(); ++d)
      if (!(*declared)[d].symbol.empty()) out.emplace((*declared)[d].symbol, (*given->tensorInfo.shape)[d].size);
  }
  return out;
}

std::vector<std::string> forwardNames(const Graph& g, bool modules) {
  std::vector<std::string> out;
  if (modules)
    for (const ModuleCall& m : g.moduleCalls()) out.push_back(m.path);
  for (NodeId n : g.order()) out.push_back(g.node(n).name);
  return out;
}

Error unknownName(const std::string& name, const char* flag, const char* what, const std::vector<std::string>& names) {
  const auto near = nearestName(name, names);
  return {ErrorKind::Usage,
          fmt::format("{} {}: the graph has no {} of that name{}", flag, name, what,
                      near ? ", did you mean " + *near + "?" : ""),
          {}};
}

Result<Pins> pinsOf(const PartitionRequest& request, const JointGraph& joint, std::vector<std::string>& notes) {
  const Graph& g = joint.graph();
  Pins pins;
  for (const std::string& name : request.wishes.save) {
    const ValueId v = g.findValue(name);
    if (!v) return unknownName(name, "--save", "value", forwardNames(g, false));
    if (!joint.isForward(v))
      return Error{
          ErrorKind::Usage, fmt::format("--save {}: it is made from gradients, in the backward pass alone", name), {}};
    pins.save.push_back(v);
  }
  for (const std::string& name : request.wishes.recompute) {
    std::vector<NodeId> found;
    if (const ValueId v = g.findValue(name); v && g.value(v).producer) found.push_back(g.value(v).producer);
    if (found.empty())
      for (NodeId n : joint.order()) {
        const std::string_view scope = g.scopeOf(n);
        if (joint.isForward(n) && (scope == name || (scope.starts_with(name) && scope.substr(name.size(), 1) == ".")))
          found.push_back(n);
      }
    if (found.empty()) return unknownName(name, "--recompute", "node or module", forwardNames(g, true));
    for (NodeId n : found) {
      if (const std::string why = whyNeverAgain(g.node(n)); !why.empty())
        notes.push_back(fmt::format("{} is not computed again: it {}", g.node(n).name, why));
      pins.recompute.push_back(n);
    }
  }
  for (ValueId v : pins.save)
    for (NodeId n : pins.recompute)
      if (g.value(v).producer == n)
        return Error{
            ErrorKind::Usage, fmt::format("--save and --recompute both name {}; decide for one", g.value(v).name), {}};
  return pins;
}

std::string roleText(const ReturnedRole& role, size_t output) {
  switch (role.kind) {
    case ReturnedRole::Kind::Mutation:
      return "new value of " + role.of;
    case ReturnedRole::Kind::Gradient:
      return "gradient of " + role.of;
    default:
      return fmt::format("output {}", output);
  }
}

PeakBytes peakOf(const JointGraph& joint, const Cut& cut, const Halves& halves) {
  return {mostAlive(liveBytes(halves.forward.graph, joint)),
          cut.bytes + mostAlive(liveBytes(halves.backward.graph, joint))};
}

SavedKind kindOf(const JointGraph& joint, ValueId value, const Pins& pins) {
  const NodeId by = joint.graph().value(value).producer;
  if (!by || joint.isMutated(value) || joint.recomputing(by) == Recomputing::Never) return SavedKind::Must;
  if (std::find(pins.save.begin(), pins.save.end(), value) != pins.save.end()) return SavedKind::Asked;
  const Recomputing again = joint.recomputing(by);
  return again == Recomputing::Expensive || again == Recomputing::Moderate ? SavedKind::Dear : SavedKind::Cheap;
}

void describeCut(PartitionReport& report, const JointGraph& joint, const BudgetedCut& cuts, const Pins& pins,
                 const Halves& halves) {
  const Graph& g = joint.graph();
  const Graph& backward = halves.backward.graph;
  for (const Saved& s : cuts.chosen.saved) {
    const Value& v = g.value(s.value);
    SavedTensor row{v.name, toString(v.type), joint.bytes(s.value),        "", "", {},
                    0,      s.reason,         kindOf(joint, s.value, pins)};
    if (v.producer) {
      row.producer = g.node(v.producer).op->name;
      row.module = g.scopeOf(v.producer);
      row.microseconds = joint.microseconds(v.producer);
    }
    if (const ValueId there = backward.findValue(v.name)) {
      std::vector<NodeId> users = backward.value(there).users;
      std::sort(users.begin(), users.end(), [&](NodeId a, NodeId b) { return backward.isBefore(a, b); });
      for (NodeId n : users) row.consumers.push_back(backward.node(n).name);
    }
    report.saved.push_back(std::move(row));
  }
  for (const Recomputed& r : cuts.chosen.recomputed) {
    const Node& n = g.node(r.node);
    RecomputedNode row{n.name, n.op->name, std::string(g.scopeOf(r.node)), 0, joint.microseconds(r.node), r.reason};
    if (joint.recomputing(r.node) != Recomputing::Free)
      for (ValueId v : n.outputs) row.bytes += joint.bytes(v);
    report.recomputed.push_back(std::move(row));
  }
  report.savedBytes = cuts.chosen.bytes;
  report.defaultBytes = cuts.byDefault.bytes;
  report.nothingBytes = cuts.nothing;
  report.leastBytes = cuts.least;
  report.recomputedMicroseconds = cuts.chosen.microseconds;
  for (const auto& [half, live, held] : {std::tuple(&halves.forward, &report.liveForward, size_t{0}),
                                         std::tuple(&halves.backward, &report.liveBackward, cuts.chosen.bytes)})
    for (const LiveBytes& l : liveBytes(half->graph, joint))
      live->push_back({half->graph.node(l.node).name, held + l.bytes});
  report.simulated = peakOf(joint, cuts.chosen, halves);
}

/// Cuts for budgets from the default cut's down to the least that can be met.
Result<std::vector<BudgetPoint>> budgetCurve(const JointGraph& joint, const BudgetedCut& known, const Pins& pins,
                                             const OperatorSet& operators, const Job& job) {
  constexpr int points = 10;
  std::vector<BudgetPoint> out;
  if (known.byDefault.bytes == 0) return out;
  const double least = static_cast<double>(known.least) / static_cast<double>(known.byDefault.bytes);
  for (int i = 0; i <= points; ++i) {
    const double memory = least >= 1 ? 1 : 1 - (1 - least) * i / points;
    job.report("cutting for other budgets", static_cast<size_t>(i), points + 1);
    // Rounding must not put the least budget out of reach.
    auto cuts = cutWithin(joint, std::min(1.0, memory * (1 + 1e-9)), pins, job);
    if (!cuts) return cuts.error();
    const Cut& cut = cuts->chosen;
    const bool isKnown =
        !out.empty() && out.back().savedBytes == cut.bytes && out.back().recomputedMicroseconds == cut.microseconds;
    if (isKnown) continue;
    auto halves = splitJoint(joint, cut, operators);
    if (!halves) return halves.error();
    out.push_back({memory, cut.bytes, cut.microseconds, peakOf(joint, cut, *halves)});
  }
  return out;
}

WrittenHalf described(const Half& half) {
  WrittenHalf out;
  out.nodes = half.graph.nodeCount();
  for (ValueId v : half.graph.inputs()) out.inputs.push_back(half.graph.value(v).name);
  out.returns = half.signature.returns;
  return out;
}

void runBoth(PartitionReport& report, const JointGraph& joint, const Halves& halves, const TensorSet& inputs,
             const PartitionRequest& request, const Job& job) {
  const RunOptions options{.device = request.inputs.device, .fixedShapes = false};
  auto run = runSplit({joint.graph(), halves.forward.graph, halves.backward.graph, joint.results().size()}, inputs,
                      options, job);
  if (!run) {
    report.notRun = run.error().message;
    return;
  }
  report.measured = PeakBytes{run->firstPeak, report.savedBytes + run->secondPeak};
  for (const size_t i : run->notFinite)
    if (i < report.names.size()) report.notFinite.push_back(report.names[i]);
  if (!allPassed(run->differences))
    report.failure = Error{ErrorKind::Verification,
                           fmt::format("the halves compute something else than {}: {}; nothing was written",
                                       report.method, firstFailure(run->differences)),
                           {}};
  report.differences = std::move(run->differences);
}

std::string halfPath(const std::string& output, const char* half) {
  const size_t dot = output.rfind('.');
  return output.substr(0, dot) + "." + half + output.substr(dot);
}

}  // namespace

bool isJoint(const TrainingSignature& s) {
  const auto has = [&](ReturnedRole::Kind kind) {
    return std::any_of(s.returns.begin(), s.returns.end(), [&](const ReturnedRole& r) { return r.kind == kind; });
  };
  using enum ReturnedRole::Kind;
  return has(Gradient) && (has(Output) || has(Mutation));
}

Result<PartitionReport> partition(const PartitionRequest& request, const Semantics& semantics, const Job& job) {
  if (!request.output.empty())
    if (auto format = exportFormat(request.output); !format) return format.error();
  auto model = open(request.model, semantics, job);
  if (!model) return model.error();
  if (!model->signature)
    return badInput(
        fmt::format("{} ({}) is no joint graph: it does not say which of its results are gradients; "
                    "graft_fx.capture(model, inputs, path, joint=True) captures one",
                    request.model.path, request.model.method));
  return partition(model->graph, *model->signature, request, semantics, job);
}

Result<PartitionReport> partition(const Graph& g, const TrainingSignature& signature, const PartitionRequest& request,
                                  const Semantics& semantics, const Job& job) {
  PartitionReport report;
  report.model = request.model.path;
  report.method = request.model.method;
  report.memory = request.wishes.memory;

  std::optional<TensorSet> inputs;
  if (request.verify || request.measure || request.inputs.isGiven()) {
    auto found = inputsFor(g, request.inputs);
    if (found) {
      inputs = std::move(found->tensors);
      report.random = std::move(found->random);
    } else if (request.inputs.isGiven()) {
      return found.error();
    } else {
      report.notRun = found.error().message;
    }
  }
  const auto sizes = inputs ? sizesOf(g, *inputs) : std::map<std::string, int64_t, std::less<>>();
  auto joint = JointGraph::make(g, signature, [&](std::string_view symbol) -> std::optional<int64_t> {
    const auto it = sizes.find(symbol);
    return it == sizes.end() ? std::nullopt : std::optional(it->second);
  });
  if (!joint) return joint.error();
  if (!request.inputs.isGiven())
    for (const Symbol& s : usedSymbols(g))
      report.notes.push_back(
          fmt::format("bytes are those of {} = {}; --input gives other sizes", s.name,
                      sizes.contains(s.name) ? sizes.at(s.name) : std::max<int64_t>(2, s.min.value_or(2))));
  if (request.measure && inputs) {
    auto program = Program::build(g, {.device = request.inputs.device, .fixedShapes = false});
    if (!program) return program.error();
    auto times = timeNodes(*program, *inputs, 5, job);
    if (!times) return times.error();
    for (const NodeTimes& t : *times) joint->setMicroseconds(t.node, t.microseconds);
    report.timesAreMeasured = true;
  }
  auto pins = pinsOf(request, *joint, report.notes);
  if (!pins) return pins.error();
  auto cuts = cutWithin(*joint, request.wishes.memory, *pins, job);
  if (!cuts) return cuts.error();
  auto halves = splitJoint(*joint, cuts->chosen, semantics.operators());
  if (!halves) return halves.error();

  size_t outputs = 0;
  for (const ReturnedRole& role : signature.returns)
    report.names.push_back(roleText(role, role.kind == ReturnedRole::Kind::Output ? outputs++ : 0));
  describeCut(report, *joint, *cuts, *pins, *halves);
  if (request.curve) {
    auto curve = budgetCurve(*joint, *cuts, *pins, semantics.operators(), job);
    if (!curve) return curve.error();
    report.curve = std::move(*curve);
  }
  report.forward = described(halves->forward);
  report.backward = described(halves->backward);
  if (request.verify && inputs) runBoth(report, *joint, *halves, *inputs, request, job);
  if (job.cancelled()) return Error{ErrorKind::Cancelled, "interrupted; nothing was written", {}};
  if (request.output.empty() || report.failure) return report;
  for (auto [half, graph, name] : {std::tuple(&report.forward, &halves->forward.graph, "forward"),
                                   std::tuple(&report.backward, &halves->backward.graph, "backward")}) {
    half->path = halfPath(request.output, name);
    if (Status s = exportModel(*graph, half->path); !s) return s.error();
  }
  return report;
}

}  // namespace graft::workbench
