#include "app/engine/session.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/engine/methods.h"
#include "core/formats/export.h"
#include "core/formats/model.h"
#include "core/json/graph_json.h"
#include "core/text/diff.h"
#include "core/text/text.h"
#include "core/torch/executor.h"
#include "core/torch/memory.h"
#include "matcher/lang/fix_it.h"
#include "matcher/lang/names.h"
#include "matcher/report/rules_json.h"
#include "matcher/search/search.h"

namespace graft {

using nlohmann::json;

namespace {

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// Places are those in the text that is edited: of an imported rule there are none.
json ruleJson(const Rule& rule, bool isImported) {
  static constexpr const char* kinds[] = {"value", "tensor", "weight",    "float",   "int",
                                          "bool",  "str",    "list[int]", "constant"};
  json parameters = json::array(), lines = json::object();
  for (const PatternParameter& p : rule.parameters)
    parameters.push_back({{"name", p.name}, {"kind", kinds[static_cast<size_t>(p.kind)]}});
  for (NodeId n : isImported ? std::vector<NodeId>() : rule.pattern.order())
    if (const SourceLocation* s = rule.pattern.sourceOf(rule.pattern.node(n)); s && s->file == rule.file)
      lines[rule.pattern.node(n).name] = {{"line", s->line}, {"column", s->column}, {"endColumn", s->endColumn}};
  return {{"name", rule.name},
          {"description", rule.description},
          {"line", isImported ? 0 : rule.line},
          {"parameters", std::move(parameters)},
          {"pattern", toJson(rule.pattern)},
          {"patternLines", std::move(lines)},
          {"finds", !rule.replacement.has_value()}};
}

// Where an editor that shows `file` marks the mistake. One of an imported file is told with its place there, and marked
// where the import stands.
std::pair<std::string, Position> mistakeIn(const std::string& file, std::string_view text, const Error& error) {
  Position p = error.position.value_or(Position{});
  if (p.file == file || p.file.empty()) return {error.message, p};
  const std::filesystem::path other(p.file);
  std::string message = fmt::format("{}:{}:{}: {}", other.filename().string(), p.line, p.column, error.message);
  p = {};
  for (int line = 1; !text.empty(); ++line) {
    const std::string_view here = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(here.size() + 1, text.size()));
    const size_t at = here.find(other.stem().string());
    if (!here.starts_with("from ") || at == std::string_view::npos || here.find(" import ") < at) continue;
    p.line = line;
    p.column = static_cast<int>(at) + 1;
    break;
  }
  return {std::move(message), p};
}

}  // namespace

bool Session::Methods::has(const char* key) const { return params.contains(key) && params[key].is_string(); }

std::string Session::Methods::text(const char* key) const {
  if (!has(key)) throw RpcError{-32602, fmt::format("the parameter {} must be a string", key)};
  return params[key].get<std::string>();
}

const Graph& Session::Methods::reference(const Document& d) const {
  return params.contains("other") ? s.documentOf(params, "other").graph() : d.original();
}

struct Session::Parsed {
  std::string text, file;
  Result<RuleFile> rules;
  std::vector<std::pair<std::string, std::filesystem::file_time_type>> imports;  ///< as they were when they were read

  void noteImports() {
    std::error_code none;
    if (rules)
      for (const std::string& path : rules->imports)
        imports.emplace_back(path, std::filesystem::last_write_time(path, none));
  }
  /// A file that does not parse may be one that it imports: it is read again.
  bool isCurrent() const {
    std::error_code none;
    return rules && std::all_of(imports.begin(), imports.end(), [&](const auto& i) {
             return std::filesystem::last_write_time(i.first, none) == i.second;
           });
  }
};

const Result<RuleFile>& Session::Methods::parsed() const {
  std::string file = params.value("file", std::string("rules.py")), rules = text("text");
  if (!s.parsed_ || s.parsed_->text != rules || s.parsed_->file != file || !s.parsed_->isCurrent()) {
    auto result = parseRuleText(rules, file, s.semantics_.operators());
    s.parsed_ = std::make_unique<Parsed>(Parsed{std::move(rules), std::move(file), std::move(result), {}});
    s.parsed_->noteImports();
  }
  return s.parsed_->rules;
}

const RuleFile& Session::Methods::rules() const {
  if (!parsed()) throw failure(parsed().error());
  return *parsed();
}

const Rule& Session::Methods::rule(const RuleFile& file) const {
  const Rule* r = file.findRule(text("rule"));
  if (!r) throw RpcError{1, fmt::format("there is no rule {}", text("rule"))};
  return *r;
}

json Session::Methods::recordsJson(const std::vector<Record>& records) {
  json out = json::array();
  for (const Record& r : records) out.push_back(recordJson(r));
  return out;
}

json Session::Methods::graphField(const Graph& g) const {
  constexpr size_t partBytes = 256 << 10;
  const std::string wanted = has("graph") ? text("graph") : "whole";
  if (wanted == "none") return nullptr;
  if (wanted == "whole" || (wanted == "parts" && !part)) return toJson(g, JsonForm::Compact);
  if (wanted != "parts")
    throw RpcError{-32602, fmt::format("the parameter graph may be whole, parts or none, not {}", wanted)};
  job.report("sending the graph", 0, 0);
  size_t count = 0;
  const bool all = writeJsonParts(g, partBytes, [&](std::string_view text) {
    if (job.cancelled()) return false;
    part(text);
    ++count;
    return true;
  });
  if (!all) throw RpcError{-32800, "stopped; nothing was changed"};
  return {{"parts", count}};
}

json Session::Methods::initialize() const {
  json list = json::array();
  for (const DeviceInfo& d : devices()) list.push_back({{"name", d.name}, {"description", d.description}});
  return {{"version", 1}, {"devices", std::move(list)}, {"methods", Session::methods()}};
}

json Session::Methods::open() const {
  auto doc = std::make_unique<Document>();
  Model model = take(importModel(text("path"), s.semantics_, {}, job));
  // Formats without shapes get them from inputs where such are given: shapes on edges and conditions on them need it.
  if (has("inputs")) {
    doc->inputs = take(loadTensors(text("inputs")));
    take(recordTypes(model.graph, *doc->inputs, model.format->declaresSizes));
  }
  doc->recordedTypes = has("inputs");
  doc->path = text("path");
  doc->format = model.format;
  doc->snapshots.push_back({std::move(model.graph), "opened", {}});
  json out = {{"document", s.nextDocument_},       {"format", model.format->name},
              {"nodes", doc->graph().nodeCount()}, {"revision", 0},
              {"weightBytes", model.weightBytes},  {"graph", graphField(doc->graph())}};
  s.documents_.emplace(s.nextDocument_++, std::move(doc));
  return out;
}

json Session::Methods::close() const {
  s.document(params);
  s.documents_.erase(params.at("document").get<int>());
  return json::object();
}

json Session::Methods::graph() const {
  const Document& d = s.document(params);
  return shown(d, graphField(d.graph()));
}

json Session::Methods::shown(const Document& d, json graph) {
  return {{"graph", std::move(graph)},
          {"revision", d.revision},
          {"nodes", d.graph().nodeCount()},
          {"position", d.position}};
}

json Session::Methods::check() const {
  const Result<RuleFile>& file = parsed();
  json rules = json::array(), recipes = json::array();
  if (!file) {
    const auto [message, p] = mistakeIn(s.parsed_->file, s.parsed_->text, file.error());
    return {{"ok", false},
            {"rules", rules},
            {"recipes", recipes},
            {"error", {{"message", message}, {"line", p.line}, {"column", p.column}, {"endColumn", p.column + 1}}}};
  }
  for (const Rule& r : file->rules) {
    rules.push_back(ruleJson(r, r.file != file->path));
    if (r.file != file->path) rules.back()["importedFrom"] = r.file;
  }
  for (const Recipe& r : file->recipes) {
    json steps = json::array();
    for (const Step& step : r.steps) steps.push_back(step.name);
    recipes.push_back({{"name", r.name}, {"description", r.description}, {"steps", std::move(steps)}});
  }
  return {{"ok", true}, {"rules", std::move(rules)}, {"recipes", std::move(recipes)}};
}

json Session::Methods::match() const {
  const Document& d = s.document(params);
  const RuleFile& file = rules();
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

json Session::Methods::explain() const {
  const Document& d = s.document(params);
  const RuleFile& file = rules();
  SearchOptions options;
  options.explain = true;
  if (has("at")) options.at = d.graph().findNode(text("at"));
  const Rule& r = rule(file);
  SearchResult found = Matcher(d.graph()).findAll(r, options);
  Healer healer(text("text"), params.value("file", std::string("rules.py")), s.semantics_.operators(), d.graph());
  json misses = json::array();
  for (NearMiss& n : found.nearMisses) {
    n.edits = healer.edits(r, n);
    misses.push_back(nearMissJson(d.graph(), r, n));
  }
  return {{"revision", d.revision}, {"matches", found.matches.size()}, {"nearMisses", std::move(misses)}};
}

/// The canonical texts of the reference and the current graph, as a unified difference.
json Session::Methods::diff() const {
  const Document& d = s.document(params);
  const TextOptions options{.sources = false};
  json lines = json::array();
  for (const DiffLine& l :
       diffLines(toText(reference(d), options), toText(d.graph(), options), params.value("context", size_t{3})))
    lines.push_back({{"kind", std::string(1, l.kind)}, {"old", l.oldLine}, {"new", l.newLine}, {"text", l.text}});
  return {{"lines", std::move(lines)}, {"revision", d.revision}};
}

/// What the rule language can call here, for completion: "torch.softmax(self, dim, dtype)".
json Session::Methods::words() const {
  json out = json::array();
  for (const std::string& name : lang::callableNames()) out.push_back(name);
  return {{"words", std::move(out)}};
}

json Session::Methods::exportModel() const {
  const auto& doc = s.document(params);
  ExportOptions options;
  if (doc.inputs) options.inputs = *doc.inputs;
  take(graft::exportModel(doc.graph(), text("path"), options));
  return {{"path", text("path")}};
}

Session::Session(const Semantics& semantics) : semantics_(semantics) {}
Session::~Session() = default;

Session::Document& Session::documentOf(const json& params, const char* key) {
  const auto it = params.find(key);
  if (it == params.end() || !it->is_number_integer())
    throw RpcError{-32602, fmt::format("the parameter {} must be a number", key)};
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
      {"model/diff", [](const Methods& m) { return m.diff(); }},
      {"model/run", [](const Methods& m) { return m.run(); }},
      {"rules/check", [](const Methods& m) { return m.check(); }},
      {"rules/match", [](const Methods& m) { return m.match(); }},
      {"rules/explain", [](const Methods& m) { return m.explain(); }},
      {"rules/apply", [](const Methods& m) { return m.apply(); }},
      {"rules/words", [](const Methods& m) { return m.words(); }},
      {"node/describe", [](const Methods& m) { return m.describe(); }},
      {"node/source", [](const Methods& m) { return m.source(); }},
      {"node/weight", [](const Methods& m) { return m.weight(); }},
  };
  return rows;
}

std::vector<std::string> Session::methods() {
  std::vector<std::string> out;
  for (const auto& row : table()) out.push_back(row.first);
  return out;
}

json Session::call(const std::string& method, const json& params, const Job& job, const SendPart& part) {
  if (!params.is_object()) throw RpcError{-32602, "parameters must be an object"};
  for (const auto& [name, f] : table())
    if (name == method) return f(Methods{*this, params, job, part});
  throw RpcError{-32601, fmt::format("there is no method {}", method)};
}

}  // namespace graft
