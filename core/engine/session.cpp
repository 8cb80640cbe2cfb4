#include "core/engine/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/json/graph_json.h"
#include "core/torch/bench.h"
#include "core/torch/executor.h"
#include "core/torch/export.h"
#include "core/torch/model.h"
#include "core/torch/proof.h"
#include "core/torch/statistics.h"
#include "matcher/lang/rule_file.h"
#include "matcher/passes.h"
#include "matcher/report/rules_json.h"
#include "matcher/search.h"

namespace graft {

using nlohmann::json;

/// An open model: snapshots 0 (as imported) to n, each with what led to it. `position` is the one that is shown.
struct Session::Document {
  struct Snapshot {
    Graph graph;
    std::string label;
    std::vector<Record> records;
  };
  std::vector<Snapshot> snapshots;
  size_t position = 0;
  int revision = 0;

  const Graph& graph() const { return snapshots[position].graph; }
  const Graph& original() const { return snapshots[0].graph; }
};

namespace {

template <class T>
T take(Result<T> r) {
  if (r) return std::move(r).value();
  const ErrorKind k = r.error().kind;
  throw RpcError{k == ErrorKind::Internal ? 2 : k == ErrorKind::Cancelled ? -32800 : 1, r.error().format()};
}

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

json finite(double d) { return std::isfinite(d) ? json(d) : json(fmt::format("{}", d)); }

json recordsJson(const std::vector<Record>& records) {
  json out = json::array();
  for (const Record& r : records) out.push_back(recordJson(r));
  return out;
}

json ruleJson(const Rule& rule) {
  static constexpr const char* kinds[] = {"value", "tensor", "weight",    "float",   "int",
                                          "bool",  "str",    "list[int]", "constant"};
  json parameters = json::array(), lines = json::object();
  for (const PatternParameter& p : rule.parameters)
    parameters.push_back({{"name", p.name}, {"kind", kinds[static_cast<size_t>(p.kind)]}});
  for (NodeId n : rule.pattern.order())
    if (const SourceLocation* s = rule.pattern.sourceOf(rule.pattern.node(n)))
      lines[rule.pattern.node(n).name] = {{"line", s->line}, {"column", s->column}, {"endColumn", s->endColumn}};
  return {{"name", rule.name},
          {"description", rule.description},
          {"line", rule.line},
          {"parameters", std::move(parameters)},
          {"pattern", toJson(rule.pattern)},
          {"patternLines", std::move(lines)},
          {"finds", !rule.replacement.has_value()}};
}

json sideJson(const Timing& t) {
  return {{"median", t.medianMs}, {"p10", t.p10Ms}, {"p90", t.p90Ms}, {"samples", t.samplesMs}};
}

json outputsJson(const Proof& proof) {
  json out = json::array();
  for (const auto& d : proof.outputs)
    out.push_back({{"name", d.name},
                   {"type", d.type},
                   {"maxAbs", finite(d.maxAbs)},
                   {"maxRel", finite(d.maxRel)},
                   {"rmse", finite(d.rmse)},
                   {"rmseRatio", d.rmseRatio ? finite(*d.rmseRatio) : json(nullptr)},
                   {"cosine", finite(d.cosine)},
                   {"ulpHistogram", d.ulpHistogram},
                   {"passed", d.passed},
                   {"why", d.why}});
  return out;
}

/// Median microseconds of each node over a few runs, by name.
json nodeTimes(const Program& program, const Graph& g, const TensorSet& inputs) {
  constexpr int warmUp = 2, runs = 5;
  std::map<std::string, std::vector<double>> samples;
  for (int i = 0; i < warmUp + runs; ++i) {
    std::vector<NodeTime> times;
    take(program.profile(inputs, times));
    if (i < warmUp) continue;
    for (const NodeTime& t : times) samples[g.node(t.node).name].push_back(t.microseconds);
  }
  json out = json::object();
  for (auto& [name, list] : samples) {
    std::nth_element(list.begin(), list.begin() + static_cast<long>(list.size() / 2), list.end());
    out[name] = list[list.size() / 2];
  }
  return out;
}

}  // namespace

struct Session::Methods {
  Session& s;
  const json& params;
  const Job& job;

  bool has(const char* key) const { return params.contains(key) && params[key].is_string(); }
  std::string text(const char* key) const {
    if (!has(key)) throw RpcError{-32602, fmt::format("the parameter {} must be a string", key)};
    return params[key].get<std::string>();
  }
  Result<RuleFile> parseRules() const {
    return parseRuleText(text("text"), params.value("file", std::string("rules.py")), s.semantics_.operators());
  }
  const Rule& rule(const RuleFile& file) const {
    const Rule* r = file.findRule(text("rule"));
    if (!r) throw RpcError{1, fmt::format("there is no rule {}", text("rule"))};
    return *r;
  }

  json initialize() const { return {{"version", 1}, {"device", "cpu"}, {"methods", Session::methods()}}; }

  json open() const {
    auto doc = std::make_unique<Document>();
    Model model = take(importModel(text("path"), s.semantics_, {}, job));
    // Formats without shapes get them from inputs where such are given: shapes on edges and conditions on them need it.
    if (has("inputs")) take(recordTypes(model.graph, take(loadTensors(text("inputs")))));
    doc->snapshots.push_back({std::move(model.graph), "opened", {}});
    json out = {{"document", s.nextDocument_},       {"format", formatName(model.format)},
                {"nodes", doc->graph().nodeCount()}, {"revision", 0},
                {"weightBytes", model.weightBytes},  {"graph", toJson(doc->graph())}};
    s.documents_.emplace(s.nextDocument_++, std::move(doc));
    return out;
  }

  json close() const {
    s.document(params);
    s.documents_.erase(params.at("document").get<int>());
    return json::object();
  }

  json graph() const {
    const Document& d = s.document(params);
    return {{"graph", toJson(d.graph())},
            {"revision", d.revision},
            {"nodes", d.graph().nodeCount()},
            {"position", d.position}};
  }

  json check() const {
    const auto file = parseRules();
    json rules = json::array(), recipes = json::array();
    if (!file) {
      const Position p = file.error().position.value_or(Position{});
      return {
          {"ok", false},
          {"rules", rules},
          {"recipes", recipes},
          {"error",
           {{"message", file.error().message}, {"line", p.line}, {"column", p.column}, {"endColumn", p.column + 1}}}};
    }
    for (const Rule& r : file->rules) rules.push_back(ruleJson(r));
    for (const Recipe& r : file->recipes) {
      json steps = json::array();
      for (const Step& step : r.steps) steps.push_back(step.name);
      recipes.push_back({{"name", r.name}, {"description", r.description}, {"steps", std::move(steps)}});
    }
    return {{"ok", true}, {"rules", std::move(rules)}, {"recipes", std::move(recipes)}};
  }

  json match() const {
    const Document& d = s.document(params);
    const RuleFile file = take(parseRules());
    const auto start = std::chrono::steady_clock::now();
    const Matcher matcher(d.graph());
    json out = json::array();
    for (const Rule& r : file.rules) {
      if (has("rule") && text("rule") != r.name) continue;
      const SearchResult found = matcher.findAll(r);
      out.push_back({{"name", r.name},
                     {"matches", matchesJson(d.graph(), r, found.matches)},
                     {"budgetExceeded", found.budgetExceeded}});
    }
    return {{"revision", d.revision}, {"ms", since(start)}, {"rules", std::move(out)}};
  }

  json explain() const {
    const Document& d = s.document(params);
    const RuleFile file = take(parseRules());
    SearchOptions options;
    options.explain = true;
    if (has("at")) options.at = d.graph().findNode(text("at"));
    const Rule& r = rule(file);
    const SearchResult found = Matcher(d.graph()).findAll(r, options);
    json misses = json::array();
    for (const NearMiss& n : found.nearMisses) misses.push_back(nearMissJson(d.graph(), r, n));
    return {{"revision", d.revision}, {"matches", found.matches.size()}, {"nearMisses", std::move(misses)}};
  }

  struct Applied {
    std::string label;
    std::vector<Record> records;
    std::vector<std::string> refused;
    json steps = json::array();
  };

  Applied applyRecipe(Graph& g, const RuleFile& file) const {
    Applied out{text("recipe"), {}, {}};
    const Recipe* recipe = file.findRecipe(out.label);
    if (!recipe) throw RpcError{1, fmt::format("there is no recipe {}", out.label)};
    const RecipeRun run = take(runRecipe(g, file, *recipe, s.semantics_));
    out.steps = recipeJson(run);
    for (const StepRun& step : run.steps) {
      out.records.insert(out.records.end(), step.records.begin(), step.records.end());
      out.refused.insert(out.refused.end(), step.refused.begin(), step.refused.end());
    }
    return out;
  }

  Applied applyOneRule(Graph& g, const RuleFile& file) const {
    const Rule& r = rule(file);
    if (!r.replacement) throw RpcError{1, fmt::format("{} has no replacement: it only finds", r.name)};
    Applied out{r.name, {}, {}};
    if (!params.contains("only") || !params["only"].is_array()) {
      RuleRun run = take(applyRule(g, r, s.semantics_));
      out.records = std::move(run.records);
      out.refused = std::move(run.refused);
      return out;
    }
    const SearchResult found = Matcher(g).findAll(r);
    Rewriter rewriter(g, s.semantics_);
    for (const json& index : params["only"]) {
      const size_t i = index.get<size_t>();
      if (i >= found.matches.size()) throw RpcError{1, fmt::format("there is no match {}", i)};
      auto record = rewriter.apply(r, found.matches[i]);
      if (record)
        out.records.push_back(std::move(*record));
      else
        out.refused.push_back(record.error().message);
    }
    return out;
  }

  json apply() const {
    Document& d = s.document(params);
    const RuleFile file = take(parseRules());
    Graph g = d.graph();
    const size_t before = g.nodeCount();
    Applied a = has("recipe") ? applyRecipe(g, file) : applyOneRule(g, file);
    json out = {{"graph", toJson(g)},    {"records", recordsJson(a.records)},
                {"refused", a.refused},  {"steps", std::move(a.steps)},
                {"nodesBefore", before}, {"nodesAfter", g.nodeCount()}};
    if (!params.value("preview", false)) {
      d.snapshots.resize(d.position + 1);
      d.snapshots.push_back({std::move(g), a.label, std::move(a.records)});
      ++d.position;
      ++d.revision;
    }
    out["revision"] = d.revision;
    return out;
  }

  json undoTo() const {
    Document& d = s.document(params);
    const size_t step = params.at("step").get<size_t>();
    if (step >= d.snapshots.size()) throw RpcError{-32602, fmt::format("there are {} steps", d.snapshots.size())};
    d.position = step;
    ++d.revision;
    return graph();
  }

  json history() const {
    const Document& d = s.document(params);
    json steps = json::array();
    for (const auto& snapshot : d.snapshots)
      steps.push_back({{"label", snapshot.label},
                       {"nodes", snapshot.graph.nodeCount()},
                       {"records", recordsJson(snapshot.records)}});
    return {{"steps", std::move(steps)}, {"position", d.position}, {"revision", d.revision}};
  }

  json exportModel() const {
    take(exportTorchScript(s.document(params).graph(), text("path")));
    return {{"path", text("path")}};
  }

  json run() const {
    const Document& d = s.document(params);
    const std::string device = params.value("device", std::string("cpu"));
    std::optional<DType> dtype;
    if (has("dtype") && !text("dtype").empty()) {
      dtype = parseDType(text("dtype"));
      if (!dtype) throw RpcError{1, fmt::format("{} is no dtype", text("dtype"))};
    }
    std::vector<std::string> specs;
    if (params.contains("inputs") && params["inputs"].is_array())
      specs = params["inputs"].get<std::vector<std::string>>();
    const TensorSet given = take(has("inputs") ? loadTensors(text("inputs"))
                                               : makeInputs(d.original(), specs, params.value("seed", uint64_t{0})));
    const TensorSet inputs = take(convert(given, device, dtype));
    const Program a = take(Program::build(d.original(), {device, dtype, 0}));
    const Program b = take(Program::build(d.graph(), {device, dtype, 0}));
    job.report("checking numbers", 0, 3);
    const Proof proof = take(proveRewrite(d.original(), d.graph(), inputs, job));
    job.report("timing", 1, 3);
    const PairedTiming times = take(timePaired(a, b, inputs, params.value("seconds", 2.0), job));
    job.report("timing each node", 2, 3);
    json perNode = {{"original", nodeTimes(a, d.original(), inputs)}, {"rewritten", nodeTimes(b, d.graph(), inputs)}};
    job.report("done", 3, 3);
    return {{"original", sideJson(times.a)},
            {"rewritten", sideJson(times.b)},
            {"ratio", times.ratio},
            {"outputs", outputsJson(proof)},
            {"passed", proof.passed},
            {"why", proof.why},
            {"inputSets", proof.inputSets},
            {"nodeTimes", std::move(perNode)},
            {"protocol", times.protocol},
            {"inputs", inputs.describe()},
            {"revision", d.revision},
            {"operators", {{"original", d.original().nodeCount()}, {"rewritten", d.graph().nodeCount()}}}};
  }

  json weight() const {
    const Graph& g = s.document(params).graph();
    const ValueId v = g.findValue(text("name"));
    if (!v || !g.isWeight(v)) throw RpcError{1, fmt::format("there is no weight {}", text("name"))};
    const WeightStatistics w = take(weightStatistics(g, v));
    json first = json::array();
    for (double x : w.first) first.push_back(finite(x));
    return {{"type", toString(g.value(v).type)},
            {"min", finite(w.min)},
            {"max", finite(w.max)},
            {"mean", finite(w.mean)},
            {"std", finite(w.std)},
            {"histogram", {{"edges", w.edges}, {"counts", w.counts}}},
            {"first", std::move(first)},
            {"zeros", w.zeros},
            {"nonFinite", w.nonFinite}};
  }
};

Session::Session(const Semantics& semantics) : semantics_(semantics) {}
Session::~Session() = default;

Session::Document& Session::document(const json& params) {
  const auto it = params.find("document");
  if (it == params.end() || !it->is_number_integer()) throw RpcError{-32602, "the parameter document must be a number"};
  const auto found = documents_.find(it->get<int>());
  if (found == documents_.end()) throw RpcError{1, fmt::format("there is no document {}", it->get<int>())};
  return *found->second;
}

const std::vector<std::pair<std::string, Session::Method>>& Session::table() {
  static const std::vector<std::pair<std::string, Method>> rows{
      {"initialize", [](const Methods& m) { return m.initialize(); }},
      {"model/open", [](const Methods& m) { return m.open(); }},
      {"model/close", [](const Methods& m) { return m.close(); }},
      {"model/graph", [](const Methods& m) { return m.graph(); }},
      {"model/undoTo", [](const Methods& m) { return m.undoTo(); }},
      {"model/history", [](const Methods& m) { return m.history(); }},
      {"model/export", [](const Methods& m) { return m.exportModel(); }},
      {"model/run", [](const Methods& m) { return m.run(); }},
      {"rules/check", [](const Methods& m) { return m.check(); }},
      {"rules/match", [](const Methods& m) { return m.match(); }},
      {"rules/explain", [](const Methods& m) { return m.explain(); }},
      {"rules/apply", [](const Methods& m) { return m.apply(); }},
      {"node/weight", [](const Methods& m) { return m.weight(); }},
  };
  return rows;
}

std::vector<std::string> Session::methods() {
  std::vector<std::string> out;
  for (const auto& row : table()) out.push_back(row.first);
  return out;
}

json Session::call(const std::string& method, const json& params, const Job& job) {
  if (!params.is_object()) throw RpcError{-32602, "parameters must be an object"};
  for (const auto& [name, f] : table())
    if (name == method) return f(Methods{*this, params, job});
  throw RpcError{-32601, fmt::format("there is no method {}", method)};
}

}  // namespace graft
