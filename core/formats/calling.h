// How a model is called, as torch.export and torch.compile write it: trees of containers (torch.utils._pytree) in JSON.
//
//   auto tree = parseTreeSpec("[1, {\"type\": \"builtins.dict\", ...}]");
//   const Argument result = structured(*tree, leaves);                          // {"y": %y}
//   treeSpecJson(*tree);                                                          // the same text again
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

/// What PyTorch calls the type of a named tuple in a tree; its context is its class's name in quotes. Classes of
/// TorchScript have names that begin with "__torch__.".
constexpr const char* namedTupleType = "collections.namedtuple";

/// PyTorch's text of a tree (treespec_dumps). Nothing where the text is no tree, or one nested deeper than any model's.
std::optional<TreeSpec> parseTreeSpec(std::string_view json);
std::string treeSpecJson(const TreeSpec&);

/// Puts the leaves into the tree; false where it has another number of them.
bool fillLeaves(TreeSpec&, const std::vector<Argument>& leaves);
/// The leaves in the tree's containers: lists, dicts and tuples as such, all others as tuples. `leaves` must be as many
/// as the tree has.
Argument structured(const TreeSpec&, const std::vector<Argument>& leaves);
/// The containers around a result, without its leaves. Nothing where the keys of a dict are neither texts nor whole
/// numbers.
std::optional<TreeSpec> containersOf(const Argument& result);
/// The same for all that the graph returns.
std::optional<TreeSpec> containersOf(const Graph&);

/// A tuple of the leaves and no keyword arguments.
TreeSpec positional(const std::vector<Argument>& leaves);
/// Keeps the convention in the graph where it fits the graph's inputs and results, and says more than they do.
void setCalling(Graph&, CallingConvention);

}  // namespace graft
