#include "core/text/node_names.h"

#include <algorithm>
#include <set>

#include "core/base/suggest.h"

namespace graft {
namespace {

/// Every name that isNamed() accepts for some node.
std::vector<std::string> knownNames(const Graph& g) {
  std::set<std::string> names;
  for (const NodeId id : g.order()) {
    const Node& n = g.node(id);
    names.insert({n.name, n.op->name, std::string(n.op->packetName()), std::string(n.op->baseName())});
  }
  for (const ModuleCall& call : g.moduleCalls()) names.insert({call.path, call.type, std::string(call.shortType())});
  return {names.begin(), names.end()};
}

bool isPathOf(std::string_view wish, std::string_view path) {
  return path.starts_with(wish) && (path.size() == wish.size() || path[wish.size()] == '.');
}

}  // namespace

bool isNamed(const Graph& g, const Node& n, std::string_view wish) {
  if (wish.empty()) return false;
  if (n.name == wish || n.op->name == wish || n.op->packetName() == wish || n.op->baseName() == wish) return true;
  for (ModuleCallId m = n.module; m; m = g.moduleCall(m).parent) {
    const ModuleCall& call = g.moduleCall(m);
    if (isPathOf(wish, call.path) || call.type == wish || call.shortType() == wish) return true;
  }
  return false;
}

bool isNamed(const Graph& g, const Node& n, std::span<const std::string> wishes) {
  return std::any_of(wishes.begin(), wishes.end(), [&](const std::string& wish) { return isNamed(g, n, wish); });
}

std::optional<std::string> nearestNodeName(const Graph& g, std::string_view wish) {
  return nearestName(wish, knownNames(g));
}

std::vector<std::string> namesOfNothing(const Graph& g, std::span<const std::string> wishes) {
  std::vector<std::string> out;
  const std::vector<NodeId> order = g.order();
  for (const std::string& wish : wishes) {
    if (std::any_of(order.begin(), order.end(), [&](NodeId n) { return isNamed(g, g.node(n), wish); })) continue;
    const auto nearest = nearestNodeName(g, wish);
    out.push_back("`" + wish + "`" + (nearest ? " (did you mean `" + *nearest + "`?)" : ""));
  }
  return out;
}

}  // namespace graft
