// graft apply: rewrites a model by a rule file, proves that it still computes the same, exports it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli.h"
#include "app/differences.h"
#include "app/models.h"
#include "app/timing.h"
#include "app/timing_text.h"
#include "app/verification_text.h"
#include "core/base/atomic_file.h"
#include "core/base/words.h"
#include "core/formats/export.h"
#include "core/torch/executor.h"
#include "core/torch/operator_library.h"
#include "core/torch/rewrite_verification.h"
#include "core/torch/semantics.h"
#include "core/torch/verification.h"
#include "matcher/passes/passes.h"
#include "matcher/report/rules_json.h"

namespace graft::cli {
namespace {

using nlohmann::json;

struct Options : Common {
  std::vector<std::string> models;
  std::string rules, recipe, output, report, failingInputs;
  std::vector<std::string> expect;
  bool noVerify = false, wholeOnly = false, noTiming = false, noCapture = false, strict = false, verbose = false;
  double seconds = 3;
};

using Verdict = RewriteVerification::Verdict;

/// A row for each step; rules that found nothing are one line below it, of which the first few are named, unless all
/// are wanted.
std::string stepsTable(const RecipeRun& run, bool all) {
  constexpr size_t kNamed = 4;
  std::vector<std::vector<std::string>> rows{{"step", "rewrites", "proven", "ms", "where"}};
  std::vector<std::string> idle;
  for (const StepRun& s : run.steps) {
    if (!all && s.isRule && foundNothing(s)) {
      idle.push_back(s.name);
      continue;
    }
    std::string where;
    size_t shown = 0;
    for (const Record& r : s.records) {
      if (r.scope.empty() || shown == 2) continue;
      where += (shown++ ? ", " : "") + r.scope;
    }
    if (s.records.size() > shown && shown > 0) where += ", …";
    rows.push_back(
        {s.name, std::to_string(s.records.size()), verifiedText(s), fmt::format("{:.2f}", s.milliseconds), where});
  }
  if (idle.empty()) return table(rows);
  return table(rows) + fmt::format("{} matched nothing: {}{}\n", counted(idle.size(), "rule"), firstFew(idle, kNamed),
                                   idle.size() > kNamed ? " (--verbose lists them)" : "");
}

/// What was taken back and what could not be proven: never silent.
void tellVerifications(const RecipeRun& run, bool each, const Console& console) {
  size_t back = 0;
  for (const StepRun& s : run.steps) {
    back += s.rolledBack.size();
    for (const std::string& line : takenBackLines(s, each)) console.warn(line);
    std::map<std::string, size_t> unverified, aside;
    for (const RewriteVerification& p : verificationsOf(s))
      if (p.verdict == Verdict::Unverified)
        ++unverified[p.why];
      else if (p.verdict == Verdict::Verified && !p.why.empty())
        ++aside[p.why];
    for (const auto& [why, count] : aside) console.note(fmt::format("{}: {} proven, but {}", s.name, count, why));
    for (const auto& [why, count] : unverified)
      console.warn(fmt::format("{}: {} not proven{}: {}", s.name,
                               s.isRule ? fmt::format("{} rewrite{}", count, count == 1 ? "" : "s") : "the step",
                               s.isRule ? " on its own" : "", why));
  }
  if (back > 0)
    console.warn(fmt::format("{} taken back, the rest stays; --strict makes that an error{}",
                             back == 1 ? "one rewrite was" : fmt::format("{} rewrites were", back),
                             back == 1 || each ? "" : ", --verbose and --report tell of each"));
}

/// A path from the current folder, where it lies below.
std::string fromHere(const std::string& path) {
  std::error_code e;
  const auto near = std::filesystem::proximate(path, e).string();
  return e || near.starts_with("..") ? path : near;
}

/// Where each model's result goes: the given path, or a file of the model's name in the given folder. Nothing is ever
/// written over another result or over a model that was given.
Result<std::map<std::string, std::string>> outputPaths(const Options& o, const std::vector<std::string>& models) {
  const auto refuse = [&](const std::string& why) {
    return Error{ErrorKind::Usage, fmt::format("-o {}: {}", o.output, why), {}};
  };
  std::error_code e;
  const bool folder = std::filesystem::is_directory(o.output, e);
  if (models.size() > 1 && !folder)
    return refuse(fmt::format("the results of {} models go into a folder; make one first", models.size()));
  if (!folder)
    if (Status s = checkModelOutput(o.output); !s) return s.error();
  std::map<std::string, std::string> out, modelOf;
  for (const std::string& m : models) {
    const auto file = std::filesystem::path(m).stem().string() + ".pt";
    const std::string path = folder ? (std::filesystem::path(o.output) / file).string() : o.output;
    for (const std::string& given : models)
      if (std::filesystem::equivalent(path, given, e)) return refuse(given + " itself would be overwritten");
    const auto [other, first] = modelOf.emplace(path, m);
    if (!first && other->second != m)
      return refuse(fmt::format("{} and {} would both be written to {}; apply them into folders of their own",
                                other->second, m, path));
    out[m] = path;
  }
  return out;
}

using Sizes = std::optional<std::vector<Dim>>;

/// The sizes of the inputs that tracing left open, by input; empty where it left none.
std::vector<Sizes> openSizes(const Graph& g) {
  std::vector<Sizes> out;
  bool open = false;
  for (ValueId v : g.inputs()) {
    const auto& shape = g.value(v).type.tensorInfo.shape;
    if (g.value(v).type.isTensor() && !shape) return {};
    out.push_back(shape);
    if (shape) open = open || std::any_of(shape->begin(), shape->end(), [](const Dim& d) { return !d.isStatic(); });
  }
  return open ? out : std::vector<Sizes>();
}

/// Types fixed at the inputs given for the proof would make a torch.export program that takes no others. The same graph
/// with the sizes that tracing left open, where all others follow from these.
std::optional<Graph> withOpenSizes(Graph g, const std::vector<Sizes>& sizes) {
  if (sizes.size() != g.inputs().size()) return std::nullopt;
  const std::vector<NodeId> order = g.order();
  for (NodeId id : order) {
    if (!g.node(id).blocks.empty()) return std::nullopt;
    for (ValueId v : g.node(id).outputs) {
      const Type had = g.value(v).type;
      if (!had.isTensor()) continue;
      Type open = Type::tensor();
      open.tensorInfo.dtype = had.tensorInfo.dtype;
      open.tensorInfo.device = had.tensorInfo.device;
      g.setType(v, open);
    }
  }
  std::vector<Type> types;
  for (size_t i = 0; i < sizes.size(); ++i) {
    types.push_back(g.value(g.inputs()[i]).type);
    types.back().tensorInfo.shape = sizes[i];
  }
  if (!inferAllTypes(g, types)) return std::nullopt;
  for (NodeId id : order)
    for (ValueId v : g.node(id).outputs) {
      const Type& t = g.value(v).type;
      if (!t.isTensor()) continue;
      const auto& shape = t.tensorInfo.shape;
      if (!shape || !std::all_of(shape->begin(), shape->end(), [](const Dim& d) { return d.isKnown(); }))
        return std::nullopt;
    }
  return g;
}

/// Writes the rewritten model. A torch.export program of a traced model takes the sizes that the trace takes.
Status writeModel(const Graph& rewritten, const std::string& out, const ExportOptions& options,
                  const std::vector<Sizes>& sizes, const Console& console) {
  if (!out.ends_with(".pt2") || sizes.empty()) return exportModel(rewritten, out, options);
  if (const auto open = withOpenSizes(rewritten, sizes))
    if (exportModel(*open, out, options)) return done();
  console.note("torch.export has to know how sizes follow from each other, and here it cannot: " + out +
               " takes inputs of these sizes only; TorchScript (-o OUT.pt) takes what the traced model takes");
  return exportModel(rewritten, out, options);
}

Status applyOne(const Options& o, const std::string& path, const std::string& out, const ChosenRecipe& rules,
                const Console& console, json& documents) {
  const Job job = console.job();
  // A place that cannot be written is said before the work, not after it.
  if (auto probe = AtomicFile::beside(out); !probe) return probe.error();
  auto model = openModel(path, o, {}, job);
  if (!model) return model.error();
  Graph& original = model->graph;
  std::vector<Sizes> sizes;
  if (!model->format->declaresSizes) sizes = openSizes(original);
  auto inputs = commandInputs(original, o);
  if (!inputs) {
    if (!o.noVerify || o.givesInputs()) return inputs.error();
    console.note("no inputs: shapes stay unknown, conditions on them will not hold");
  } else if (Status s = recordTypes(original, *inputs, model->format->declaresSizes); !s) {
    return s;
  }

  Graph rewritten = original;
  std::unique_ptr<RewriteCheck> check;
  if (inputs && !o.noVerify && !o.wholeOnly)
    check = makeRewriteCheck(*inputs, job, o.failingInputs, !model->format->declaresSizes);
  auto run = runRecipe(rewritten, rules.file, rules.recipe, semantics(), {}, {check.get(), o.strict});
  if (job.cancelled()) return Error{ErrorKind::Cancelled, "interrupted; nothing was written", {}};
  if (!run) return run.error();
  for (const StepRun& s : run->steps)
    for (const std::string& why : s.refused) {
      if (o.strict)
        return Error{
            ErrorKind::Verification, fmt::format("{}: a match was not rewritten: {} (--strict)", s.name, why), {}};
      console.warn(fmt::format("{}: a match was left as it was: {}", s.name, why));
    }
  console.print(fmt::format("{}: {} with {}\n", console.bold(path), rules.recipe.name, rules.file.path));
  console.print(stepsTable(*run, o.verbose));
  tellVerifications(*run, o.verbose, console);
  console.print(fmt::format("nodes: {} before, {} after\n", original.nodeCount(), rewritten.nodeCount()));
  if (rewroteNothing(*run)) console.warn("nothing was rewritten; " + whyHint(path, rules));
  json doc = {{"model", path},
              {"format", model->format->name},
              {"nodes", original.nodeCount()},
              {"nodes_after", rewritten.nodeCount()},
              {"recipe", rules.recipe.name},
              {"steps", recipeJson(*run)}};
  json ofRules = json::array();
  for (const StepRun& s : run->steps) {
    if (!s.isRule) continue;
    json at = json::array();
    for (const Record& r : s.records) at.push_back({{"scope", r.scope}, {"nodes", r.removedNames}});
    ofRules.push_back({{"name", s.name},
                       {"matches", s.records.size()},
                       {"at", std::move(at)},
                       {"rolled_back", rolledBackJson(s.rolledBack)}});
  }
  doc["rules"] = std::move(ofRules);

  Status verdict = done();
  if (o.noVerify) {
    doc["verify"] = notVerifiedJson();
    console.print("not verified (--no-verify)");
  } else {
    auto verification = verifyRewrite(original, rewritten, *inputs, job);
    if (!verification) return verification.error();
    console.print(
        verification->passed
            ? fmt::format("differences on the {} inputs (fp64 reference), and on {} further sets of inputs:",
                          o.givesInputs() ? "given" : "random", verification->inputSets - 1)
            : fmt::format("differences where set {} of inputs failed (fp64 reference):", verification->inputSets));
    console.print(differencesTable(verification->outputs));
    doc["verify"] = {{"passed", verification->passed},
                     {"inputs", verification->inputSets},
                     {"outputs", differencesJson(verification->outputs)}};
    // Numbers may differ on purpose; a model that does not run on the inputs has none.
    const std::string changing = changingSteps(*run);
    if (!verification->passed && !changing.empty() && !verification->outputs.empty()) {
      console.warn(fmt::format("the numbers differ, as {} may change them: {}", changing, verification->why));
    } else if (!verification->passed) {
      verdict = Error{ErrorKind::Verification,
                      fmt::format("{}: the rewritten model computes something else: {}. Nothing was written.", path,
                                  verification->why),
                      {}};
    }
    if (verdict && !o.noTiming) {
      auto options = runOptions(o);
      if (!options) return options.error();
      auto timing = timeAgainstOriginal(*model, rewritten, *inputs, *options, o.seconds, job);
      if (!timing) return timing.error();
      console.print(timingText(timing->times, timing->original, "rewritten"));
      doc["timing"] = timingJson(timing->times);
      doc["timing"]["against"] = timing->original;
    }
  }
  if (verdict) {
    if (job.cancelled()) return Error{ErrorKind::Cancelled, "interrupted; nothing was written", {}};
    ExportOptions exported;
    if (inputs) exported.inputs = *inputs;
    exported.capture = !o.noCapture;
    if (Status s = writeModel(rewritten, out, exported, sizes, console); !s) return s;
    const std::string obstacle = o.noCapture             ? "--no-capture"
                                 : out.ends_with(".pt2") ? "torch.export's format holds no runner"
                                                         : captureObstacle(rewritten);
    doc["output"] = out;
    doc["captured"] = obstacle.empty();
    console.print(
        fmt::format("written {}\non a GPU it runs {}", out,
                    obstacle.empty() ? "as CUDA graphs, one for each shape" : "operator by operator: " + obstacle));
    if (const auto library = findOperatorLibrary(); library && usesGraftOperators(rewritten))
      console.print(fmt::format("in Python, before it is loaded: torch.ops.load_library(\"{}\")", fromHere(*library)));
  }
  documents.push_back(std::move(doc));
  return verdict;
}

Status apply(const Options& o) {
  const Console console(o);
  auto rules = loadRecipe(o.rules, o.recipe);
  if (!rules) return rules.error();
  auto& expected = rules->recipe.expect;
  for (const std::string& e : o.expect) {
    auto wanted = parseExpectation(e, rules->file);
    if (!wanted) return wanted.error();
    std::erase_if(expected, [&](const auto& x) { return x.first == wanted->first; });
    expected.push_back(std::move(*wanted));
  }
  auto models = modelFiles(o.models, console);
  if (!models) return models.error();
  auto outputs = outputPaths(o, *models);
  if (!outputs) return outputs.error();
  if (!o.report.empty())
    if (auto probe = AtomicFile::beside(o.report); !probe) return probe.error();
  json documents = json::array();
  const Status status = forEachModel(*models, console, [&](const std::string& path) {
    return applyOne(o, path, outputs->at(path), *rules, console, documents);
  });
  const json doc = documents.size() == 1 ? documents[0] : documents;
  if (!o.report.empty() && !documents.empty()) {
    if (Status s = writeFileAtomically(o.report, doc.dump(2, ' ', false, json::error_handler_t::replace) + "\n"); !s)
      return s;
    console.print("report  " + o.report);
  }
  console.document(doc);
  return status;
}

}  // namespace

void addApply(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("apply",
                               "Rewrite, verify against the original on inputs, export as TorchScript or torch.export");
  auto o = std::make_shared<Options>();
  c->add_option("models", o->models, "Models, or folders of them")->required()->type_name("MODEL");
  c->add_option("--rules", o->rules, "The rule file")->required()->type_name("FILE");
  c->add_option("--recipe", o->recipe, "The recipe to run; without it all rules of the file, in its order");
  c->add_option(
       "-o,--output", o->output,
       "Where the rewritten model goes: TorchScript, or torch.export for *.pt2; a folder when there are several models")
      ->required()
      ->type_name("OUT.pt");
  c->add_option("--report", o->report, "Write the whole report as JSON")->type_name("R.json");
  c->add_option("--expect", o->expect, "RULE=COUNT: exit with 4 when the rule rewrites another number of times");
  c->add_option("--seconds", o->seconds, "How long to time both")->capture_default_str();
  c->add_flag("--no-verify", o->noVerify, "Do not compare numbers; the report says so");
  c->add_flag("--whole-only", o->wholeOnly,
              "Compare the whole model only, not each rewrite on its own: a wrong one fails the model instead of being "
              "taken back");
  c->add_flag("-v,--verbose", o->verbose,
              "A row for each rule, also for those that matched nothing, and a line for each rewrite taken back");
  c->add_option("--failing-inputs", o->failingInputs,
                "Write the inputs that broke a rewrite here, as RULE-OUTPUT.pt, for torch.load")
      ->type_name("FOLDER")
      ->check(!CLI::ExistingFile);
  c->add_flag("--no-timing", o->noTiming, "Do not time both");
  c->add_flag("--no-capture", o->noCapture, "The written model shall not run as CUDA graphs on a GPU");
  c->add_flag("--strict", o->strict,
              "Stop at the first match that cannot be rewritten, or whose rewrite computes something else");
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return apply(*o); }; });
}

}  // namespace graft::cli
