#include "app/workbench/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "app/workbench/profile.h"
#include "core/torch/written_state.h"

namespace graft::workbench {
namespace {

/// Whether an input of one model has another floating-point dtype than that of the other.
bool inputsDifferInDType(const Graph& a, const Graph& b) {
  const size_t n = std::min(a.inputs().size(), b.inputs().size());
  for (size_t i = 0; i < n; ++i) {
    const Type &x = a.value(a.inputs()[i]).type, &y = b.value(b.inputs()[i]).type;
    if (!x.isTensor() || !y.isTensor()) continue;
    const auto s = x.tensorInfo.dtype, t = y.tensorInfo.dtype;
    if (s && t && s != t && isFloatingPoint(*s) && isFloatingPoint(*t)) return true;
  }
  return false;
}

Error named(const std::string& name, Error e) {
  if (e.kind == ErrorKind::BadInput) e.message = name + ": " + e.message;
  return e;
}

std::string nodeOf(const Graph& g, const std::string& value) {
  const ValueId v = g.findValue(value);
  return v && g.value(v).producer ? g.node(g.value(v).producer).name : value;
}

Result<std::vector<LayerRow>> layersOf(const Graph& original, const Graph& rewritten, const Correspondence& known,
                                       const TensorSet& inputs, const Job& job) {
  auto layers = compareLayers(original, rewritten, inputs, known.renamed, job);
  if (!layers) return layers.error();
  const std::set<std::pair<std::string, std::string>> replaced(known.renamed.begin(), known.renamed.end());
  const std::set<std::string> added(known.added.begin(), known.added.end());
  std::vector<LayerRow> out;
  for (LayerDifference& l : *layers) {
    std::string node = nodeOf(rewritten, l.rewritten);
    if (added.contains(node) && !replaced.contains({l.original, l.rewritten})) continue;
    out.push_back({nodeOf(original, l.original), std::move(node), std::move(l.difference)});
  }
  return out;
}

Result<MeasuredSide> measureSide(const Graph& g, const Program& program, const TensorSet& inputs, const Job& job) {
  constexpr int runs = 5;
  auto times = timeNodes(program, inputs, runs, job);
  if (!times) return times.error();
  MeasuredSide out;
  for (const NodeTimes& t : *times) {
    const Node& n = g.node(t.node);
    out.nodeMicroseconds[n.name] = t.microseconds;
    out.calls[n.op->name] += t.calls;
  }
  return out;
}

/// Both files as torch.jit.load gives them. An error where PyTorch does not run them so: other formats, dtypes that are
/// asked for, GPUs, where graphs are captured.
Result<PairedTiming> timeFiles(const Model& a, const Model& b, const TensorSet& inputs, const CompareRequest& request,
                               const Job& job) {
  const auto isFile = [](const Model& m) { return m.format->torchJitLoads && m.method == "forward"; };
  if (!isFile(a) || !isFile(b) || request.options.dtype || request.options.device != "cpu")
    return badInput("PyTorch runs other files");
  auto first = loadedTorchScript(a.path, inputs, request.options);
  auto second = loadedTorchScript(b.path, inputs, request.options);
  for (auto* run : {&first, &second}) {
    if (!*run) return run->error();
    if (Status s = (**run)(); !s) return s.error();
  }
  return timePaired(*first, *second, request.seconds, job, "both files in TorchScript, cpu, default threads");
}

}  // namespace

Result<NamedProgram> NamedProgram::build(const std::string& name, const Graph& g, const RunOptions& options) {
  auto program = Program::build(g, options);
  if (!program) return named(name, program.error());
  return NamedProgram{name, std::move(*program)};
}

Result<std::vector<Difference>> differencesOf(const Graph& original, const NamedProgram& a, const NamedProgram& b,
                                              const TensorSet& inputs, const RunOptions& options, const Job& job) {
  const WrittenState state({&a.program, &b.program});
  auto outA = state.run(a.program, inputs, job);
  if (!outA) return named(a.name, outA.error());
  auto outB = state.run(b.program, inputs, job);
  if (!outB) return named(b.name, outB.error());
  std::optional<TensorSet> reference;
  // On the GPU where there is room for it: a large model takes minutes on a CPU.
  std::vector<std::string> devices{options.device};
  if (options.device != "cpu") devices.push_back("cpu");
  for (const std::string& device : devices) {
    if (reference) break;
    if (auto p64 = Program::build(original, {device, DType::Float64}))
      if (auto in64 = graft::convert(inputs, device, DType::Float64))
        if (auto out64 = state.run(*p64, *in64, job)) reference = *out64;
  }
  return state.named(compareTensors(*outA, *outB, reference ? &*reference : nullptr), *outA);
}

bool allPassed(const std::vector<Difference>& differences) {
  return std::all_of(differences.begin(), differences.end(), [](const Difference& d) { return d.passed; });
}

std::string firstFailure(const std::vector<Difference>& differences) {
  for (const Difference& d : differences)
    if (!d.passed) return fmt::format("{}: {}", titleOf(d), d.why);
  return "";
}

Result<Comparison> compare(const Model& a, const Model& b, const TensorSet& inputs, const CompareRequest& request,
                           const OnCompareStage& onStage, const Job& job) {
  Comparison out;
  out.a = a.path;
  out.b = b.path;
  out.nodesA = a.graph.nodeCount();
  out.nodesB = b.graph.nodeCount();
  const auto reached = [&](CompareStage stage) {
    if (onStage) onStage(stage, out);
  };
  auto pa = NamedProgram::build(a.path, a.graph, request.options);
  if (!pa) return pa.error();
  auto pb = NamedProgram::build(b.path, b.graph, request.options);
  if (!pb) return pb.error();
  const std::string hint = request.options.dtype ? "" : "; --dtype brings both to one dtype";
  auto outputs = differencesOf(a.graph, *pa, *pb, inputs, request.options, job);
  if (!outputs) {
    Error e = outputs.error();
    if (inputsDifferInDType(a.graph, b.graph)) e.message += hint;
    return e;
  }
  out.outputs = std::move(*outputs);
  if (std::ranges::any_of(out.outputs, [](const Difference& d) { return d.overflowed > 0; }))
    out.overflow = findOverflow(a.graph, inputs);
  reached(CompareStage::Outputs);
  if (request.layers) {
    auto layers = compareLayers(a.graph, b.graph, inputs, {}, job);
    if (!layers) return layers.error();
    out.layers = std::move(*layers);
    reached(CompareStage::Layers);
  }
  auto times = timeFiles(a, b, inputs, request, job);
  if (!times && times.error().kind != ErrorKind::Cancelled)
    times = timePaired(pa->program, pb->program, inputs, request.seconds, job);
  if (!times) return times.error();
  out.timing = std::move(*times);
  reached(CompareStage::Timed);
  if (!allPassed(out.outputs)) {
    // Their own rounding is then no difference between the models.
    const bool dtypesDiffer = std::any_of(out.outputs.begin(), out.outputs.end(),
                                          [](const Difference& d) { return d.measured && !d.actualType.empty(); });
    out.failure = Error{
        ErrorKind::Verification, "the models differ: " + firstFailure(out.outputs) + (dtypesDiffer ? hint : ""), {}};
  } else if (nothingCompared(out.outputs)) {
    out.failure = Error{ErrorKind::Verification, notCompared(out.outputs).front(), {}};
  }
  return out;
}

Correspondence correspondenceOf(const History& history) {
  std::map<std::string, std::string> now;  // an original's value → what stands for it after the steps so far
  std::set<std::string> added;
  for (size_t i = 1; i <= history.place().step; ++i)
    for (const Record& r : history.records(i)) {
      for (const std::string& name : r.removedNames) added.erase(name);
      added.insert(r.addedNames.begin(), r.addedNames.end());
      for (const auto& [before, after] : r.outputs) {
        bool isLater = false;
        for (auto& [original, current] : now)
          if (current == before) current = after, isLater = true;
        if (!isLater) now.emplace(before, after);
      }
    }
  // Never empty: without any pair, values would be paired by their numbers.
  const Graph& original = history.original();
  if (const auto inputs = original.inputs(); !inputs.empty()) {
    const std::string& name = original.value(inputs[0]).name;
    now.emplace(name, name);
  }
  return {{now.begin(), now.end()}, {added.begin(), added.end()}};
}

Result<Measurement> measure(const Graph& original, const Graph& rewritten, const Correspondence* correspondence,
                            const TensorSet& inputs, const MeasureRequest& request, const Job& job) {
  auto a = Program::build(original, request.options);
  if (!a) return a.error();
  auto b = Program::build(rewritten, request.options);
  if (!b) return b.error();
  Measurement out;
  auto verification = verifyRewrite(original, rewritten, inputs, job);
  if (!verification) return verification.error();
  out.verification = std::move(*verification);
  if (request.layers) {
    job.report("comparing inside", 0, 0);
    auto layers = layersOf(original, rewritten, correspondence ? *correspondence : Correspondence(), inputs, job);
    if (!layers) return layers.error();
    out.layers = std::move(*layers);
  }
  auto times = request.frozen.empty() ? timePaired(*a, *b, inputs, request.seconds, job)
                                      : timeAgainstFrozen(request.frozen, *b, inputs, request.seconds, job);
  if (!times) return times.error();
  out.timing = std::move(*times);
  job.report("timing each node", 0, 0);
  auto sideA = measureSide(original, *a, inputs, job);
  if (!sideA) return sideA.error();
  auto sideB = measureSide(rewritten, *b, inputs, job);
  if (!sideB) return sideB.error();
  out.original = std::move(*sideA);
  out.rewritten = std::move(*sideB);
  job.report("measuring memory", 0, 0);
  auto memoryA = memoryUse(original, *a, inputs);
  if (!memoryA) return memoryA.error();
  auto memoryB = memoryUse(rewritten, *b, inputs);
  if (!memoryB) return memoryB.error();
  out.original.memory = *memoryA;
  out.rewritten.memory = *memoryB;
  return out;
}

}  // namespace graft::workbench
