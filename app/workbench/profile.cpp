#include "app/workbench/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "app/workbench/compile/call_origin.h"
#include "app/workbench/compile/roofline.h"
#include "core/compile/fusion/group_text.h"
#include "core/torch/cuda_runner.h"
#include "core/torch/gpu_state.h"

namespace graft::workbench {
namespace {

/// The module that a node belongs to; of models without modules (exported ones are one function) the one whose weights
/// it takes.
std::string moduleOf(const Graph& g, NodeId id) {
  std::string scope(g.scopeOf(id));
  if (!scope.empty()) return scope;
  for (const Argument& a : g.node(id).args)
    a.forEachValue([&](ValueId v) {
      const std::string& path = g.value(v).path;
      const size_t dot = path.rfind('.');
      if (scope.empty() && g.isWeight(v) && !g.value(v).isConstant && dot != path.npos) scope = path.substr(0, dot);
    });
  return scope;
}

bool isGenerated(const Node& n) { return n.op->name == kGeneratedOperator; }

void add(ProfileReport& report, const Graph& g, NodeId id, double microseconds,
         std::vector<CudaRunner::Launch> launches = {}) {
  const Node& n = g.node(id);
  const std::string origin = isGenerated(n) ? "generated" : std::string(originName(originOf(*n.op)));
  report.nodes.push_back({n.name, n.op->name, moduleOf(g, id), microseconds, std::move(launches), origin});
  report.microseconds += microseconds;
}

/// Replays of a captured graph with an event marker before each operator.
Status profileCaptured(ProfileReport& report, const Graph& g, const Program& program, const TensorSet& inputs,
                       int repetitions, const Job& job) {
  auto runner = CudaRunner::make(program);
  if (!runner) return runner.error();
  auto profile = runner->profile(inputs, repetitions, job);
  if (!profile) return profile.error();
  for (CudaRunner::NodeProfile& n : profile->nodes) add(report, g, n.node, n.microseconds, std::move(n.launches));
  const CapturedFacts facts{profile->milliseconds * 1000, profile->labelledMs * 1000, profile->kernels,
                            peakGpuMemory(report.device), gpuStateText(report.device)};
  report.how = fmt::format(
      "medians of {} replays of a CUDA graph with an event marker before each operator, {:.1f} us; without markers the "
      "whole takes {:.1f} us, {} kernels; {} MiB of GPU memory held at most; {}",
      repetitions, facts.withMarkersMicroseconds, facts.wholeMicroseconds, facts.kernels, facts.peakBytes >> 20,
      facts.gpu);
  report.captured = facts;
  return done();
}

std::string kernelName(const Node& n) {
  const auto* program = n.args.size() > 1 ? n.args[1].as<std::string>() : nullptr;
  return program ? std::string(groupName(*program)) : "?";
}

/// Adds the names of generated kernels, what all nodes move and compute, and the least time for that.
void describeWork(ProfileReport& report, const Graph& g, const TensorSet& inputs, const ProfileRequest& request) {
  Roofline roof(report.device, request.options.threads);
  if (roof.bytesPerMicrosecond() > 0) report.bandwidth = roof.bytesPerMicrosecond();
  Graph typed = g;
  const bool areKnown = static_cast<bool>(recordTypes(typed, inputs));
  for (ProfiledNode& n : report.nodes) {
    constexpr OperatorFact notWork = OperatorFact::View | OperatorFact::Structural | OperatorFact::MetadataOnly |
                                     OperatorFact::Identity | OperatorFact::Dropout;
    const NodeId id = typed.findNode(n.name);
    if (!id) continue;
    const Node& node = typed.node(id);
    if (isGenerated(node)) n.generated = kernelName(node);
    if (!areKnown || node.op->is(notWork)) continue;
    const KernelWork work = workOf(typed, id, request.operators);
    n.bytes = static_cast<size_t>(work.bytes());
    n.operations = work.operations;
    n.least = roof.least(work);
  }
  for (const auto& [type, speed] : roof.operationsPerMicrosecond())
    if (speed > 0) report.speeds.emplace(type, speed);
}

}  // namespace

Result<std::vector<NodeTimes>> timeNodes(const Program& program, const TensorSet& inputs, int repetitions,
                                         const Job& job) {
  constexpr int warmUp = 2;
  std::map<NodeId, std::vector<double>> samples;
  std::vector<NodeTimes> out;
  for (int i = 0; i < repetitions + warmUp; ++i) {
    if (job.cancelled()) return Error{ErrorKind::Cancelled, "interrupted", {}};
    job.report("profiling", static_cast<size_t>(i), static_cast<size_t>(repetitions + warmUp - 1));
    std::vector<NodeTime> times;
    if (auto run = program.profile(inputs, times); !run) return run.error();
    if (i < warmUp) continue;
    std::map<NodeId, NodeTimes> sums;  // a node in a loop runs more than once
    for (const NodeTime& t : times) {
      if (!sums.contains(t.node) && !samples.contains(t.node)) out.push_back({t.node});
      NodeTimes& sum = sums[t.node];
      sum.microseconds += t.microseconds;
      ++sum.calls;
    }
    for (const auto& [node, sum] : sums) samples[node].push_back(sum.microseconds);
    if (i == warmUp)
      for (NodeTimes& row : out) row.calls = sums[row.node].calls;
  }
  for (NodeTimes& row : out) {
    auto& s = samples[row.node];
    std::nth_element(s.begin(), s.begin() + static_cast<long>(s.size() / 2), s.end());
    row.microseconds = s[s.size() / 2];
  }
  return out;
}

Result<ProfileReport> profile(const Model& model, const TensorSet& inputs, const ProfileRequest& request,
                              const Job& job) {
  const Graph& g = model.graph;
  auto program = Program::build(g, request.options);
  if (!program) return program.error();
  ProfileReport report;
  const auto addTimeline = [&]() -> Result<ProfileReport> {
    if (!request.timeline) return std::move(report);
    auto timeline = timelineOf(*program, g, inputs, job);
    if (!timeline) return timeline.error();
    report.timeline = std::move(*timeline);
    return std::move(report);
  };
  report.model = model.path;
  report.device = request.options.device;
  if (report.device != "cpu") {
    const Status captured = profileCaptured(report, g, *program, inputs, request.repetitions, job);
    if (captured) {
      describeWork(report, g, inputs, request);
      return addTimeline();
    }
    if (captured.error().kind == ErrorKind::Cancelled) return captured.error();
    report.notCaptured = captured.error().message;
  }
  auto times = timeNodes(*program, inputs, request.repetitions, job);
  if (!times) return times.error();
  for (const NodeTimes& t : *times) add(report, g, t.node, t.microseconds);
  describeWork(report, g, inputs, request);
  report.how = fmt::format("sum of medians of {} runs, timed one by one on {}", request.repetitions, report.device);
  return addTimeline();
}

}  // namespace graft::workbench
