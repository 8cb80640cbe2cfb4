// graft compare and bench: two models, or a model and its rewritten self, side by side.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/baselines.h"
#include "app/cli.h"
#include "app/differences.h"
#include "app/models.h"
#include "app/timing.h"
#include "app/timing_text.h"
#include "core/base/words.h"
#include "core/torch/executor.h"
#include "core/torch/verification.h"
#include "matcher/passes/passes.h"

namespace graft::cli {
namespace {

using nlohmann::json;

struct Options : Common {
  std::vector<std::string> models;
  std::string rules, recipe, against, python;
  double seconds = 3;
  bool layers = false;
};

json layersJson(const std::vector<LayerDifference>& layers) {
  json out = json::array();
  for (const LayerDifference& l : layers)
    out.push_back({{"a", l.original}, {"b", l.rewritten}, {"difference", differencesJson({l.difference})[0]}});
  return out;
}

/// What corresponds inside the models, up to a little behind the first place where the numbers part.
void printLayers(const Console& console, const std::vector<LayerDifference>& layers) {
  const auto first = std::find_if(layers.begin(), layers.end(),
                                  [](const auto& l) { return !l.difference.passed && !l.difference.dtypeAlone; });
  const bool dtypesDiffer =
      std::any_of(layers.begin(), layers.end(), [](const auto& l) { return l.difference.dtypeAlone; });
  std::vector<std::vector<std::string>> rows{{"in A", "in B", "type", "max abs", "rmse", "rmse ratio", ""}};
  constexpr std::ptrdiff_t behind = 5;
  const auto end = first + std::min<std::ptrdiff_t>(behind, layers.end() - first);
  for (auto l = layers.begin(); l != end; ++l) {
    const Difference& d = l->difference;
    rows.push_back({l->original, l->rewritten, d.type, figure(d, d.maxAbs), figure(d, d.rmse), ratioText(d),
                    d.passed       ? "ok"
                    : d.dtypeAlone ? "ok but for its dtype"
                                   : d.why});
  }
  console.print(table(rows));
  console.print(first == layers.end()
                    ? fmt::format("{} values inside correspond, and all agree{}", layers.size(),
                                  dtypesDiffer ? " but for their dtypes" : "")
                    : fmt::format("the numbers part at {} ({} in B)", first->original, first->rewritten));
}

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

struct NamedProgram {
  std::string name;  ///< whose a failure is
  Program program;
  Result<TensorSet> run(const TensorSet& inputs, const Job& job) const {
    auto out = program.run(inputs, job);
    return out ? std::move(out) : failure(name, out.error());
  }
  static Error failure(const std::string& name, Error e) {
    if (e.kind == ErrorKind::BadInput) e.message = name + ": " + e.message;
    return e;
  }
  static Result<NamedProgram> build(const std::string& name, const Graph& g, const RunOptions& options) {
    auto program = Program::build(g, options);
    if (!program) return failure(name, program.error());
    return NamedProgram{name, std::move(*program)};
  }
};

/// What the two compute on the inputs. The judge computes `original` in double precision, so that neither side's
/// rounding is the measure of the other.
Result<std::vector<Difference>> differencesOf(const Graph& original, const NamedProgram& a, const NamedProgram& b,
                                              const TensorSet& inputs, const RunOptions& options, const Job& job) {
  auto outA = a.run(inputs, job);
  if (!outA) return outA.error();
  auto outB = b.run(inputs, job);
  if (!outB) return outB.error();
  std::optional<TensorSet> reference;
  // On the GPU where there is room for it: a large model takes minutes on a CPU.
  std::vector<std::string> devices{options.device};
  if (options.device != "cpu") devices.push_back("cpu");
  for (const std::string& device : devices) {
    if (reference) break;
    if (auto p64 = Program::build(original, {device, DType::Float64}))
      if (auto in64 = convert(inputs, device, DType::Float64))
        if (auto out64 = p64->run(*in64, job)) reference = *out64;
  }
  return compareTensors(*outA, *outB, reference ? &*reference : nullptr);
}

Status compare(const Options& o) {
  const Console console(o);
  const Job job = console.job();
  auto options = runOptions(o);
  if (!options) return options.error();
  // Both in --dtype from here on, so that outputs, layers and times are of the same two graphs.
  auto a = openModel(o.models[0], o, {}, job);
  if (!a) return a.error();
  auto b = openModel(o.models[1], o, {}, job);
  if (!b) return b.error();
  auto inputs = commandInputs(a->graph, o);
  if (!inputs) return inputs.error();
  auto pa = NamedProgram::build(o.models[0], a->graph, *options);
  if (!pa) return pa.error();
  auto pb = NamedProgram::build(o.models[1], b->graph, *options);
  if (!pb) return pb.error();
  const std::string hint = options->dtype ? "" : "; --dtype brings both to one dtype";
  auto compared = differencesOf(a->graph, *pa, *pb, *inputs, *options, job);
  if (!compared) {
    Error e = compared.error();
    if (inputsDifferInDType(a->graph, b->graph)) e.message += hint;
    return e;
  }
  const std::vector<Difference>& differences = *compared;
  console.print(differencesTable(differences));
  json layerDocument;
  if (o.layers) {
    auto layers = compareLayers(a->graph, b->graph, *inputs, {}, job);
    if (!layers) return layers.error();
    printLayers(console, *layers);
    layerDocument = layersJson(*layers);
  }
  auto times = timePaired(pa->program, pb->program, *inputs, o.seconds, job);
  if (!times) return times.error();
  console.print(timingText(*times, o.models[0], o.models[1]));
  json document{{"a", o.models[0]},
                {"b", o.models[1]},
                {"outputs", differencesJson(differences)},
                {"timing", timingJson(*times)},
                {"nodes", {a->graph.nodeCount(), b->graph.nodeCount()}}};
  if (o.layers) document["layers"] = std::move(layerDocument);
  console.document(document);
  if (!allPassed(differences)) {
    // Their own rounding is then no difference between the models.
    const bool dtypesDiffer = std::any_of(differences.begin(), differences.end(),
                                          [](const Difference& d) { return d.measured && !d.actualType.empty(); });
    return Error{
        ErrorKind::Verification, "the models differ: " + firstFailure(differences) + (dtypesDiffer ? hint : ""), {}};
  }
  return done();
}

Status bench(const Options& o) {
  const Console console(o);
  auto options = runOptions(o);
  if (!options) return options.error();
  auto rules = loadRecipe(o.rules, o.recipe);
  if (!rules) return rules.error();
  std::vector<std::string> ways;
  std::string python;
  if (!o.against.empty()) {
    auto parsed = parseWays(o.against);
    if (!parsed) return parsed.error();
    ways = std::move(*parsed);
    auto found = findPython(o.python, console.job());
    if (!found) return found.error();
    python = std::move(*found);
  }
  json documents = json::array();
  const Status status = forEachModel(o.models, console, [&](const std::string& path) -> Status {
    const Job job = console.job();
    auto m = importModel(path, semantics(), {}, job);
    if (!m) return m.error();
    // Rules see the dtypes of the file; --dtype is what both sides then run in.
    Common inFile = o;
    inFile.dtype.clear();
    auto declared = typedInputs(*m, inFile);
    if (!declared) return declared.error();
    auto inputs = convert(*declared, options->device, options->dtype);
    if (!inputs) return inputs.error();
    Graph rewritten = m->graph;
    auto run = runRecipe(rewritten, rules->file, rules->recipe, semantics());
    if (!run) return run.error();
    size_t rewrites = 0;
    for (const StepRun& s : run->steps) rewrites += s.records.size();
    // Rewrites are not proven one by one here, and a wrong model may well be a fast one: what it computes is compared.
    auto differences = [&]() -> Result<std::vector<Difference>> {  // whose programs leave the memory to those timed
      auto a = NamedProgram::build(path, m->graph, *options);
      if (!a) return a.error();
      auto b = NamedProgram::build(path + ", rewritten", rewritten, *options);
      if (!b) return b.error();
      return differencesOf(m->graph, *a, *b, *inputs, *options, job);
    }();
    if (!differences) return differences.error();
    console.print(fmt::format("{} {}\n{}, nodes: {} before, {} after", console.bold(path),
                              fmt::join(inputs->describe(), " "), counted(rewrites, "rewrite"), m->graph.nodeCount(),
                              rewritten.nodeCount()));
    if (rewrites == 0)
      console.warn("nothing was rewritten: this times the model against itself; " + whyHint(path, *rules));
    console.print(differencesTable(*differences));
    auto timing = timeAgainstOriginal(*m, rewritten, *inputs, *options, o.seconds, job);
    if (!timing) return timing.error();
    console.print(timingText(timing->times, timing->original, "rewritten"));
    documents.push_back({{"model", path},
                         {"inputs", inputs->describe()},
                         {"rewrites", rewrites},
                         {"nodes", {m->graph.nodeCount(), rewritten.nodeCount()}},
                         {"outputs", differencesJson(*differences)},
                         {"against", timing->original},
                         {"timing", timingJson(timing->times)}});
    if (!ways.empty()) {
      auto peers = timeAgainstPeers(rewritten, *inputs, *options, {ways, path, &m->graph, python}, o.seconds, job);
      if (!peers) return peers.error();
      console.print(peersTable(*peers));
      documents.back()["peers"] = peersJson(*peers);
    }
    if (allPassed(*differences)) return done();
    if (const std::string changing = changingSteps(*run); !changing.empty()) {
      console.warn(fmt::format("the numbers differ, as {} may change them", changing));
      return done();
    }
    return Error{
        ErrorKind::Verification,
        fmt::format("{}: the rewritten model computes something else: {}. `graft apply` finds the rewrites that "
                    "do and takes them back.",
                    path, firstFailure(*differences)),
        {}};
  });
  console.document(documents.size() == 1 ? documents[0] : documents);
  return status;
}

}  // namespace

void addCompare(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("compare", "Run two models side by side: timings and numerical differences");
  auto o = std::make_shared<Options>();
  c->add_option("models", o->models, "The two models")->required()->expected(2)->type_name("MODEL");
  c->add_option("--seconds", o->seconds, "How long to time both")->capture_default_str();
  c->add_flag("--layers", o->layers, "Compare what is computed inside too, and say where the numbers part");
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return compare(*o); }; });
}

void addBench(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("bench", "Latency of the original and the rewritten model, interleaved");
  auto o = std::make_shared<Options>();
  c->add_option("models", o->models, "Models, or folders of them")->required()->type_name("MODEL");
  c->add_option("--rules", o->rules, "The rule file")->required()->type_name("FILE");
  c->add_option("--recipe", o->recipe, "The recipe to run");
  c->add_option("--against", o->against,
                "Also PyTorch's own ways, each in a Python process of its own: of eager, jit, compile, "
                "compile-max-autotune, and exported (the rewritten model in Python), with commas between")
      ->type_name("WAYS");
  c->add_option("--python", o->python, "The Python with PyTorch that --against runs")->type_name("PROGRAM");
  c->add_option("--seconds", o->seconds, "How long to time both")->capture_default_str();
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return bench(*o); }; });
}

}  // namespace graft::cli
