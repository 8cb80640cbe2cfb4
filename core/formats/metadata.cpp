#include "core/formats/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/formats/calling.h"
#include "core/ir/size_expression.h"
#include "core/ir/used_symbols.h"
#include "core/text/literals.h"
#include "core/text/text.h"
#include "core/torch/normal/imported_graph.h"

namespace graft {
namespace {

using nlohmann::json;

constexpr size_t largestMetadata = 64'000'000;

std::string nameOfPath(std::string path) {
  std::replace(path.begin(), path.end(), '.', '_');
  return path;
}

std::string moduleText(const ModuleCall& call, const Graph& g) {
  std::string out = call.type.empty() ? "_" : graft::quoted(call.type);
  for (size_t i = 0; i < call.constructor.size(); ++i)
    out += fmt::format("{}{}={}", i ? ", " : "(", call.constructor[i].first, toText(call.constructor[i].second, g));
  return call.constructor.empty() ? out : out + ")";
}

Type withoutDetails(Type t) {
  t.tensorInfo = {};
  for (Type& e : t.elements) e = withoutDetails(std::move(e));
  return t;
}

void fill(TreeSpec& tree, const Graph& said, const Graph& g) {
  if (tree.leaf.isValue())
    for (size_t i = 0; i < g.inputs().size(); ++i)
      if (tree.leaf.valueId() == said.inputs()[i]) {
        tree.leaf = Argument(g.inputs()[i]);
        break;
      }
  for (TreeSpec& child : tree.children) fill(child, said, g);
}

/// `text` names the graph's inputs.
void applyCalling(const std::string& text, Graph& g) {
  std::string inputs;
  for (ValueId v : g.inputs()) inputs += fmt::format("input %{} : tensor\n", g.value(v).name);
  auto parsed = parseText("graph _ {\n" + inputs + text + "return\n}\n", OperatorSet());
  if (!parsed || !parsed->calling) return;
  CallingConvention calling = *parsed->calling;
  fill(calling.arguments, *parsed, g);
  setCalling(g, std::move(calling));
}

}  // namespace

std::string metadataJson(const ArchiveMetadata& n) {
  json out{{"writer", "graft"}, {"version", 1}, {"inputs", n.inputs}};
  const auto put = [&](const char* key, const auto& value) {
    if (!value.empty()) out[key] = value;
  };
  put("operatorLibrary", n.operatorLibrary);
  for (const UserLibrary& l : n.libraries) out["libraries"].push_back({{"path", l.path}, {"operators", l.operators}});
  put("model", n.model);
  put("blockParameters", n.blockParameters);
  put("blockResults", n.blockResults);
  put("names", n.names);
  put("result", n.result);
  put("weights", n.weights);
  put("constants", n.constants);
  put("placedConstants", n.placedConstants);
  put("device", n.device);
  put("types", n.types);
  put("aliases", n.aliases);
  put("calls", n.calls);
  put("calling", n.calling);
  put("modules", n.modules);
  for (const Symbol& s : n.symbols)
    out["symbols"][s.name] = {s.min ? json(*s.min) : json(nullptr), s.max ? json(*s.max) : json(nullptr)};
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<ArchiveMetadata> readMetadata(const ZipDirectory& zip) {
  const ZipRecord* record = zip.find("extra/graft.json");
  if (!record || record->size > largestMetadata) return std::nullopt;
  const json document = json::parse(zip.bytes(*record), nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return std::nullopt;
  ArchiveMetadata out;
  const auto take = [&](const char* key, auto& value) {
    try {
      if (const auto it = document.find(key); it != document.end()) it->get_to(value);
    } catch (const json::exception&) {
      value = {};
    }
  };
  take("operatorLibrary", out.operatorLibrary);
  std::vector<json> libraries;
  take("libraries", libraries);
  for (const json& l : libraries) {
    try {
      out.libraries.push_back({l.at("path").get<std::string>(), l.at("operators").get<std::vector<std::string>>()});
    } catch (const json::exception&) {
      continue;
    }
  }
  int version = 0;
  take("version", version);
  if (version != 1) return out;
  take("model", out.model);
  take("inputs", out.inputs);
  take("blockParameters", out.blockParameters);
  take("blockResults", out.blockResults);
  take("names", out.names);
  take("result", out.result);
  take("weights", out.weights);
  take("constants", out.constants);
  take("placedConstants", out.placedConstants);
  take("device", out.device);
  take("types", out.types);
  take("aliases", out.aliases);
  take("calls", out.calls);
  take("calling", out.calling);
  take("modules", out.modules);
  std::map<std::string, std::array<json, 2>> ranges;
  take("symbols", ranges);
  const auto bound = [](const json& v) {
    return v.is_number_integer() ? std::optional(v.get<int64_t>()) : std::nullopt;
  };
  for (const auto& [name, range] : ranges) out.symbols.push_back({name, bound(range[0]), bound(range[1])});
  return out;
}

void collectFacts(const Graph& g, const std::map<std::string, std::string>& typeInCode, ArchiveMetadata& metadata) {
  metadata.symbols = usedSymbols(g);
  metadata.calling = callingText(g);
  metadata.libraries = userLibrariesOf(g);
  for (ValueId v : g.inputs()) metadata.inputs.push_back(toString(g.value(v).type));
  for (ValueId w : g.weights())
    if (const Value& v = g.value(w); v.name != nameOfPath(v.path)) metadata.weights[v.path] = v.name;

  Graph bare = g;
  for (NodeId n : g.order()) {
    for (ValueId v : g.node(n).outputs) bare.setType(v, withoutDetails(g.value(v).type));
    for (BlockId b : g.node(n).blocks) {
      for (ValueId v : g.block(b).parameters) {
        metadata.blockParameters.push_back(g.value(v).name);
        bare.setType(v, withoutDetails(g.value(v).type));
      }
      for (const Argument& a : g.block(b).returns)
        metadata.blockResults.push_back(a.isValue() ? g.value(a.valueId()).name : std::string());
    }
  }
  inferMissingTypes(bare);
  for (size_t i = 0; i < g.valueBound(); ++i) {
    const Value& v = g.value(ValueId(static_cast<uint32_t>(i)));
    if (v.alive && v.kind != Value::Kind::Weight && !g.isInput(v.id) && !(bare.value(v.id).type == v.type))
      metadata.types[v.name] = toString(v.type);
  }

  for (size_t i = 0; i < bare.moduleCalls().size(); ++i)
    bare.mutableModuleCall(ModuleCallId(static_cast<uint32_t>(i))).constructor.clear();
  inferConstructors(bare);
  for (const ModuleCall& call : g.moduleCalls()) {
    const auto code = typeInCode.find(call.path);
    if (code == typeInCode.end() || code->second != call.type ||
        bare.moduleCall(call.id).constructor != call.constructor)
      metadata.modules[call.path] = moduleText(call, g);
  }
}

void applyFacts(const ArchiveMetadata& metadata, Graph& g) {
  if (!metadata.model.empty()) g.name = metadata.model;
  for (const Symbol& s : metadata.symbols)
    if (isSymbolName(s.name) && !(s.min && s.max && *s.min > *s.max)) g.setSymbol(s);
  for (const auto& [name, text] : metadata.types) {
    const ValueId v = g.findValue(name);
    const auto type = parseType(text);
    if (v && type && !g.isWeight(v) && type->kind == g.value(v).type.kind) g.setType(v, *type);
  }
  if (!metadata.calling.empty()) applyCalling(metadata.calling, g);
  if (metadata.modules.empty()) return;
  std::string text = "graph _ {\n";
  size_t i = 0;
  for (const auto& [path, module] : metadata.modules)
    text += fmt::format("module m{} {} {}\n", i++, graft::quoted(path), module);
  const auto parsed = parseText(text + "return\n}\n", OperatorSet());
  if (!parsed) return;
  std::map<std::string_view, const ModuleCall*> byPath;
  for (const ModuleCall& m : parsed->moduleCalls()) byPath[m.path] = &m;
  for (size_t c = 0; c < g.moduleCalls().size(); ++c) {
    ModuleCall& call = g.mutableModuleCall(ModuleCallId(static_cast<uint32_t>(c)));
    const auto said = byPath.find(call.path);
    if (said == byPath.end()) continue;
    call.type = said->second->type;
    call.constructor = said->second->constructor;
  }
}

void applyNames(Graph& g, const std::vector<std::pair<ValueId, std::string>>& names) {
  // The last name given to a value counts. All values give up their names first, because one may take another's.
  std::map<ValueId, const std::string*> last;
  for (const auto& [v, name] : names)
    if (v.index < g.valueBound() && g.value(v).alive && !name.empty()) last[v] = &name;
  std::erase_if(last, [&](const auto& entry) { return g.value(entry.first).name == *entry.second; });
  const std::vector<std::pair<ValueId, const std::string*>> alive(last.begin(), last.end());
  for (const auto& [v, name] : alive) g.rename(v, "graft.unnamed");
  for (const auto& [v, name] : alive) g.rename(v, *name);
}

}  // namespace graft
