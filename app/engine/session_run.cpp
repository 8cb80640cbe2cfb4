// The engine's methods that run models: timings, numerical differences outside and inside, memory, weights.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "app/engine/methods.h"
#include "core/base/ratio_range.h"
#include "core/json/finite.h"
#include "core/torch/bench.h"
#include "core/torch/executor.h"
#include "core/torch/memory.h"
#include "core/torch/verification.h"

namespace graft {

using nlohmann::json;

namespace {

/// Enough to draw a distribution: all samples of a fast model would be megabytes over a slow line.
constexpr size_t samplesSent = 400;

json sideJson(const Timing& t) {
  json samples = json::array();
  const size_t n = t.samplesMs.size(), sent = std::min(n, samplesSent);
  for (size_t i = 0; i < sent; ++i) samples.push_back(t.samplesMs[i * n / sent]);
  return {
      {"median", t.medianMs}, {"p10", t.p10Ms}, {"p90", t.p90Ms}, {"samples", std::move(samples)}, {"repetitions", n}};
}

/// How it was measured, and both medians with a flushed cache where there are such.
std::string protocolOf(const PairedTiming& t) {
  if (!t.flushed) return t.protocol;
  return fmt::format("{}; with a flushed L2 cache {:.3f} and {:.3f} ms", t.protocol, t.flushed->a.medianMs,
                     t.flushed->b.medianMs);
}

json differenceJson(const Difference& d) {
  const auto figure = [&](double v) { return d.measured ? finiteJson(v) : json(nullptr); };
  return {{"name", d.name},
          {"type", d.type},
          {"maxAbs", figure(d.maxAbs)},
          {"maxRel", figure(d.maxRel)},
          {"rmse", figure(d.rmse)},
          {"rmseRatio", d.rmseRatio ? figure(*d.rmseRatio) : json(nullptr)},
          {"cosine", figure(d.cosine)},
          {"ulpHistogram", d.ulpHistogram},
          {"passed", d.passed},
          {"why", d.why}};
}

/// What one run of a program executes, by node and by operator.
struct Executed {
  std::map<std::string, double> microseconds;  ///< by node, the median over a few runs; of loops the sum of all rounds
  std::map<std::string, size_t> calls;         ///< by operator, of one run
};

Result<Executed> profileNodes(const Program& program, const Graph& g, const TensorSet& inputs, const Job& job) {
  constexpr int warmUp = 2, runs = 5;
  std::map<std::string, std::vector<double>> samples;
  Executed out;
  for (int i = 0; i < warmUp + runs; ++i) {
    if (job.cancelled()) return Error{ErrorKind::Cancelled, "stopped", {}};
    std::vector<NodeTime> times;
    if (auto run = program.profile(inputs, times); !run) return run.error();
    if (i < warmUp) continue;
    std::map<std::string, double> sums;
    for (const NodeTime& t : times) {
      sums[g.node(t.node).name] += t.microseconds;
      if (i == warmUp) ++out.calls[g.node(t.node).op->name];
    }
    for (const auto& [name, us] : sums) samples[name].push_back(us);
  }
  for (auto& [name, list] : samples) {
    std::nth_element(list.begin(), list.begin() + static_cast<long>(list.size() / 2), list.end());
    out.microseconds[name] = list[list.size() / 2];
  }
  return out;
}

/// Values of the current graph that stand for values of the original, by the rewrites' records, and the nodes that
/// rewrites added: one of those may bear the name of a node that went, and is another node.
struct Correspondence {
  std::vector<std::pair<std::string, std::string>> renamed;
  std::set<std::string> added;
};

template <class Document>
Correspondence correspondence(const Document& document) {
  Correspondence out;
  std::map<std::string, std::string> now;  // an original's value → what stands for it after the steps so far
  const auto& snapshots = document.snapshots;
  for (size_t i = 1; i <= document.position; ++i)
    for (const Record& r : document.recordsOf(i)) {
      for (const std::string& name : r.removedNames) out.added.erase(name);
      out.added.insert(r.addedNames.begin(), r.addedNames.end());
      for (const auto& [before, after] : r.outputs) {
        bool isLater = false;
        for (auto& [original, current] : now)
          if (current == before) current = after, isLater = true;
        if (!isLater) now.emplace(before, after);
      }
    }
  // Never empty: without any pair, values would be paired by their numbers.
  if (const auto inputs = snapshots[0].graph.inputs(); !inputs.empty()) {
    const std::string& name = snapshots[0].graph.value(inputs[0]).name;
    now.emplace(name, name);
  }
  out.renamed.assign(now.begin(), now.end());
  return out;
}

std::string nodeOf(const Graph& g, const std::string& value) {
  const ValueId v = g.findValue(value);
  return v && g.value(v).producer ? g.node(g.value(v).producer).name : value;
}

}  // namespace

Result<TensorSet> Session::Methods::givenInputs(const Document& d) const {
  if (has("inputs")) return loadTensors(text("inputs"));
  std::vector<std::string> specs;
  if (params.contains("inputs") && params["inputs"].is_array())
    specs = params["inputs"].get<std::vector<std::string>>();
  return makeInputs(d.original(), specs, params.value("seed", uint64_t{0}));
}

/// The original's file, where PyTorch can run it as it is.
std::string Session::Methods::frozenFile(const Document& d) const {
  const Document& from = params.contains("other") ? s.documentOf(params, "other") : d;
  if (!from.format->torchJitLoads)
    throw RpcError{1, fmt::format("{} is {}, not TorchScript: PyTorch cannot freeze it. Take Graft's executor as the "
                                  "baseline",
                                  from.path, from.format->name)};
  return from.path;
}

json Session::Methods::run() const {
  const Document& d = s.document(params);
  const bool isOther = params.contains("other");
  const Graph& before = reference(d);
  const std::string device = params.value("device", std::string("cpu"));
  std::optional<DType> dtype;
  if (has("dtype") && !text("dtype").empty()) {
    dtype = parseDType(text("dtype"));
    if (!dtype) throw RpcError{1, fmt::format("{} is no dtype", text("dtype"))};
  }
  if (has("baseline") && text("baseline") != "graft" && text("baseline") != "torchscript")
    throw RpcError{1, fmt::format("{} is no baseline; there are graft and torchscript", text("baseline"))};
  const TensorSet inputs = take(convert(take(givenInputs(d)), device, dtype));
  const RunOptions options{device, dtype, 0, !d.recordedTypes};
  const Program a = take(Program::build(before, options)), b = take(Program::build(d.graph(), options));
  const Verification verification = take(verifyRewrite(before, d.graph(), inputs, job));
  json layers = json::array();
  if (params.value("layers", true)) {
    job.report("comparing inside", 0, 0);
    const Correspondence known = isOther ? Correspondence{} : correspondence(d);
    const std::set<std::pair<std::string, std::string>> replaced(known.renamed.begin(), known.renamed.end());
    for (const LayerDifference& l : take(compareLayers(before, d.graph(), inputs, known.renamed, job))) {
      const std::string node = nodeOf(d.graph(), l.rewritten);
      if (known.added.contains(node) && !replaced.contains({l.original, l.rewritten})) continue;
      json row = differenceJson(l.difference);
      row["original"] = nodeOf(before, l.original);
      row["rewritten"] = node;
      row.erase("ulpHistogram");
      layers.push_back(std::move(row));
    }
  }
  const std::string baseline = has("baseline") ? text("baseline") : "graft";
  const double seconds = params.value("seconds", 2.0);
  const PairedTiming times = take(baseline == "torchscript" ? timeAgainstFrozen(frozenFile(d), b, inputs, seconds, job)
                                                            : timePaired(a, b, inputs, seconds, job));
  const RatioRange range = ratioRange(times.a.samplesMs, times.b.samplesMs);
  job.report("timing each node", 0, 0);
  const Executed inA = take(profileNodes(a, before, inputs, job)), inB = take(profileNodes(b, d.graph(), inputs, job));
  job.report("measuring memory", 0, 0);
  const MemoryUse memoryA = take(memoryUse(before, a, inputs)), memoryB = take(memoryUse(d.graph(), b, inputs));
  const auto memoryJson = [](const MemoryUse& m) {
    return json{{"weights", m.weights}, {"intermediates", m.intermediates}};
  };
  json outputs = json::array();
  for (const Difference& o : verification.outputs) outputs.push_back(differenceJson(o));
  return {{"original", sideJson(times.a)},
          {"rewritten", sideJson(times.b)},
          {"ratio", times.ratio},
          {"ratioLow", range.low},
          {"ratioHigh", range.high},
          {"baseline", baseline},
          {"outputs", std::move(outputs)},
          {"passed", verification.passed},
          {"why", verification.why},
          {"inputSets", verification.inputSets},
          {"layers", std::move(layers)},
          {"nodeTimes", {{"original", inA.microseconds}, {"rewritten", inB.microseconds}}},
          {"calls", {{"original", inA.calls}, {"rewritten", inB.calls}}},
          {"memory", {{"original", memoryJson(memoryA)}, {"rewritten", memoryJson(memoryB)}}},
          {"protocol", protocolOf(times)},
          {"device", device},
          {"dtype", dtype ? text("dtype") : std::string()},
          {"inputs", inputs.describe()},
          {"revision", d.revision}};
}

}  // namespace graft
