#include "core/formats/calling.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/ir/verify.h"

namespace graft {
namespace {

using nlohmann::json;

constexpr int deepest = 50;

bool readNode(const json& spec, TreeSpec& out, int depth) {
  if (depth > deepest || !spec.is_object() || !spec.contains("type") || !spec.contains("children_spec")) return false;
  if (spec["type"].is_null()) return true;
  if (!spec["type"].is_string() || !spec["children_spec"].is_array()) return false;
  out.type = spec["type"].get<std::string>();
  if (out.type.empty()) return false;
  if (const auto context = spec.find("context"); context != spec.end() && context->is_string())
    out.context = context->get<std::string>();
  for (const json& child : spec["children_spec"])
    if (!readNode(child, out.children.emplace_back(), depth + 1)) return false;
  return true;
}

json nodeJson(const TreeSpec& t) {
  if (t.isLeaf()) return {{"type", nullptr}, {"context", nullptr}, {"children_spec", json::array()}};
  json children = json::array();
  for (const TreeSpec& c : t.children) children.push_back(nodeJson(c));
  return {{"type", t.type}, {"context", t.context}, {"children_spec", children}};
}

Argument structuredFrom(const TreeSpec& t, const std::vector<Argument>& leaves, size_t& at) {
  if (t.isLeaf()) return at < leaves.size() ? leaves[at++] : Argument();
  std::vector<Argument> items;
  for (const TreeSpec& c : t.children) items.push_back(structuredFrom(c, leaves, at));
  if (t.type == "builtins.list") return Argument::list(std::move(items));
  if (t.type == "builtins.dict" || t.type == "collections.OrderedDict") {
    const std::vector<Argument> keys = t.keys();
    if (keys.size() == items.size()) {
      std::vector<std::pair<Argument, Argument>> pairs;
      for (size_t i = 0; i < items.size(); ++i) pairs.emplace_back(keys[i], std::move(items[i]));
      return Argument::dict(std::move(pairs));
    }
  }
  return Argument::tuple(std::move(items));
}

void fillFrom(TreeSpec& t, const std::vector<Argument>& leaves, size_t& at) {
  if (t.isLeaf()) t.leaf = leaves[at++];
  for (TreeSpec& child : t.children) fillFrom(child, leaves, at);
}

}  // namespace

bool fillLeaves(TreeSpec& tree, const std::vector<Argument>& leaves) {
  if (tree.leafCount() != leaves.size()) return false;
  size_t at = 0;
  fillFrom(tree, leaves, at);
  return true;
}

std::optional<TreeSpec> parseTreeSpec(std::string_view text) {
  const json tree = json::parse(text, nullptr, /*allow_exceptions=*/false);
  TreeSpec out;
  if (!tree.is_array() || tree.size() != 2 || !readNode(tree[1], out, 0)) return std::nullopt;
  return out;
}

std::string treeSpecJson(const TreeSpec& t) {
  return json::array({1, nodeJson(t)}).dump(-1, ' ', false, json::error_handler_t::replace);
}

Argument structured(const TreeSpec& tree, const std::vector<Argument>& leaves) {
  size_t at = 0;
  return structuredFrom(tree, leaves, at);
}

std::optional<TreeSpec> containersOf(const Argument& a) {
  TreeSpec out;
  const auto add = [&](const Argument& part) {
    auto child = containersOf(part);
    if (child) out.children.push_back(std::move(*child));
    return child.has_value();
  };
  if (const auto* dict = a.as<Argument::Dict>()) {
    out.type = "builtins.dict";
    json keys = json::array();
    for (const auto& [k, value] : dict->items) {
      if (const auto* text = k.as<std::string>())
        keys.push_back(*text);
      else if (const auto* number = k.as<int64_t>())
        keys.push_back(*number);
      else
        return std::nullopt;
      if (!add(value)) return std::nullopt;
    }
    out.context = keys.dump(-1, ' ', false, json::error_handler_t::replace);
  } else if (const auto* items = a.items()) {
    out.type = a.isList() ? "builtins.list" : "builtins.tuple";
    out.context = "null";
    for (const Argument& i : *items)
      if (!add(i)) return std::nullopt;
  }
  return out;
}

std::optional<TreeSpec> containersOf(const Graph& g) {
  if (g.returns().size() == 1) return containersOf(g.returns()[0]);
  return containersOf(Argument::tuple(std::vector<Argument>(g.returns().begin(), g.returns().end())));
}

TreeSpec positional(const std::vector<Argument>& leaves) {
  TreeSpec all{"builtins.tuple", "null", {}, {}}, args = all;
  for (const Argument& a : leaves) args.children.push_back({"", "", {}, a});
  all.children = {std::move(args), {"builtins.dict", "[]", {}, {}}};
  return all;
}

void setCalling(Graph& g, CallingConvention calling) {
  CallingConvention plain;
  std::vector<Argument> inputs;
  for (ValueId v : g.inputs()) {
    inputs.emplace_back(v);
    plain.names.push_back(g.value(v).name);
  }
  plain.arguments = positional(inputs);
  if (!calling.result.isLeaf()) plain.result = containersOf(g).value_or(TreeSpec());
  if (calling == plain) return;
  // A file may say anything.
  const auto before = std::exchange(g.calling, std::make_shared<const CallingConvention>(std::move(calling)));
  if (!verifyCalling(g)) g.calling = before;
}

}  // namespace graft
