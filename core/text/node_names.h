// What people call a node of a graph: by its own name, its operator, or a module that it belongs to.
//
//   isNamed(graph, node, "gelu")             // aten.gelu.default, in any module
//   isNamed(graph, node, "encoder.layer.0")  // all nodes of that module and of those below it
//   isNamed(graph, node, "Linear")           // all nodes of modules of that type
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

/// Whether `wish` is the node's name, its operator ("gelu", "aten.gelu", "aten.gelu.default"), or the path or the type
/// ("Linear", "torch.nn.modules.linear.Linear") of a module call that it belongs to. A path names the modules below it
/// too.
bool isNamed(const Graph&, const Node&, std::string_view wish);
/// Whether one of the wishes names it.
bool isNamed(const Graph&, const Node&, std::span<const std::string> wishes);
/// The nearest of all names that isNamed() takes.
std::optional<std::string> nearestNodeName(const Graph&, std::string_view wish);
/// The wishes that name no node of the graph, each with the nearest name that is one: "`geluu` (did you mean `gelu`?)".
std::vector<std::string> namesOfNothing(const Graph&, std::span<const std::string> wishes);

}  // namespace graft
