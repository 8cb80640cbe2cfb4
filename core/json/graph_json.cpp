#include "core/json/graph_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text/text.h"

namespace graft {

using nlohmann::json;

namespace {

/// {KEY: value}. Lists of initialisers are built, checked and copied: too slow for what every node has.
json object(const char* key, json value) {
  json out = json::object();
  out.emplace(key, std::move(value));
  return out;
}

}  // namespace

std::string jsonSafe(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return std::string(text);
  // nlohmann's replacing error handler is the validator; parsing back gives the text.
  const std::string dumped = json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  return json::parse(dumped).get<std::string>();
}

json toJson(const Graph& g, const Argument& a) {
  const auto list = [&](const std::vector<Argument>& items) {
    json out = json::array();
    for (const Argument& i : items) out.push_back(toJson(g, i));
    return out;
  };
  if (a.isNone()) return nullptr;
  if (a.isValue()) return object("v", g.value(a.valueId()).name);
  if (const auto* b = a.as<bool>()) return *b;
  if (const auto* i = a.as<int64_t>()) return *i;
  if (const auto* d = a.as<double>())
    if (std::isfinite(*d)) return *d;
  if (const auto* s = a.as<std::string>()) return object("s", jsonSafe(*s));
  if (const auto* l = a.as<Argument::List>()) return object("l", list(l->items));
  if (const auto* t = a.as<Argument::Tuple>()) return object("t", list(t->items));
  if (const auto* d = a.as<Argument::Dict>()) {
    json out = json::array();
    for (const auto& [k, v] : d->items) out.push_back({toJson(g, k), toJson(g, v)});
    return {{"d", std::move(out)}};
  }
  if (const auto* n = a.as<Named>()) return object("x", n->name);
  return {{"x", jsonSafe(toText(a, g))}};
}

namespace {

json valueJson(const Value& v) {
  json out = object("name", v.name);
  out.emplace("type", toString(v.type));
  return out;
}

json nodeJson(const Graph& g, NodeId id, JsonForm form);

json blockJson(const Graph& g, BlockId id, JsonForm form) {
  json parameters = json::array(), nodes = json::array(), returns = json::array();
  for (ValueId p : g.block(id).parameters) parameters.push_back(valueJson(g.value(p)));
  for (NodeId n : g.order(id)) nodes.push_back(nodeJson(g, n, form));
  for (const Argument& r : g.block(id).returns) returns.push_back(toJson(g, r));
  return {{"parameters", std::move(parameters)}, {"nodes", std::move(nodes)}, {"returns", std::move(returns)}};
}

json sourceJson(const SourceLocation& s) {
  json out = {{"file", jsonSafe(s.file)}, {"line", s.line}};
  if (!s.code.empty()) out["code"] = jsonSafe(s.code);
  if (s.column > 0) {
    out["column"] = s.column;
    out["endColumn"] = s.endColumn;
  }
  return out;
}

json parameterNames(const Operator& op) {
  json names = json::array();
  for (const Parameter& p : op.parameters) names.push_back(p.name);
  return names;
}

json nodeJson(const Graph& g, NodeId id, JsonForm form) {
  const Node& n = g.node(id);
  json args = json::array(), outputs = json::array();
  for (const Argument& a : n.args) args.push_back(toJson(g, a));
  for (ValueId v : n.outputs) outputs.push_back(valueJson(g.value(v)));
  json out = object("name", n.name);
  out.emplace("op", n.op->name);
  out.emplace("args", std::move(args));
  out.emplace("outputs", std::move(outputs));
  out.emplace("module", n.module ? json(n.module.index) : json(nullptr));
  if (!n.kwargs.empty()) {
    json kwargs = json::object();
    for (const auto& [k, a] : n.kwargs) kwargs[k] = toJson(g, a);
    out["kwargs"] = std::move(kwargs);
  }
  if (form == JsonForm::Complete) out["parameters"] = parameterNames(*n.op);
  if (const SourceLocation* s = g.sourceOf(n))
    out["source"] = form == JsonForm::Complete ? sourceJson(*s) : json(n.source);
  if (!n.blocks.empty()) {
    json blocks = json::array();
    for (BlockId b : n.blocks) blocks.push_back(blockJson(g, b, form));
    out["blocks"] = std::move(blocks);
  }
  return out;
}

/// What the nodes of the compact form share.
void addShared(const Graph& g, json& out) {
  json operators = json::object(), sources = json::array();
  for (size_t i = 0; i < g.nodeBound(); ++i) {
    const NodeId n(static_cast<uint32_t>(i));
    if (!g.isAlive(n)) continue;
    if (const Operator& op = *g.node(n).op; !operators.contains(op.name)) operators[op.name] = parameterNames(op);
  }
  for (const SourceLocation& s : g.sources()) sources.push_back(sourceJson(s));
  out["operators"] = std::move(operators);
  out["sources"] = std::move(sources);
}

}  // namespace

json toJson(const Graph& g, NodeId id) { return nodeJson(g, id, JsonForm::Complete); }

json symbolsJson(const Graph& g) {
  json out = json::object();
  for (const Symbol& s : g.symbols())
    out[s.name] = {s.min ? json(*s.min) : json(nullptr), s.max ? json(*s.max) : json(nullptr)};
  return out;
}

json toJson(const Graph& g, JsonForm form) {
  json inputs = json::array(), weights = json::array(), modules = json::array();
  for (ValueId v : g.inputs()) inputs.push_back(valueJson(g.value(v)));
  for (ValueId v : g.weights()) {
    json w = valueJson(g.value(v));
    w["path"] = jsonSafe(g.value(v).path);
    w["buffer"] = g.value(v).isBuffer;
    w["constant"] = g.value(v).isConstant;
    weights.push_back(std::move(w));
  }
  for (const ModuleCall& m : g.moduleCalls()) {
    json constructor = json::object();
    for (const auto& [k, a] : m.constructor) constructor[k] = toJson(g, a);
    json module = object("id", m.id.index);
    module.emplace("parent", m.parent ? json(m.parent.index) : json(nullptr));
    module.emplace("path", jsonSafe(m.path));
    module.emplace("type", jsonSafe(m.type));
    module.emplace("constructor", std::move(constructor));
    modules.push_back(std::move(module));
  }
  json root = blockJson(g, g.root(), form);
  json out = {{"name", jsonSafe(g.name)},
              {"symbols", symbolsJson(g)},
              {"inputs", std::move(inputs)},
              {"weights", std::move(weights)},
              {"modules", std::move(modules)},
              {"nodes", std::move(root["nodes"])},
              {"returns", std::move(root["returns"])}};
  if (form == JsonForm::Compact) addShared(g, out);
  return out;
}

}  // namespace graft
