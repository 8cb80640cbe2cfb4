// What a pass needs. A pass is one file of this folder, named as recipes name it:
//
//   // remove_dropout: dropouts that are switched off hand their input on, so they go.
//   namespace graft {
//   namespace {
//   Status removeDropout(GraphEditor& editor, const Step&) {
//     const Graph& g = editor.graph();
//     for (NodeId n : g.order())
//       if (isOff(g.node(n))) editor.replaceNode(n, g.node(n).args[0].valueId());
//     return done();
//   }
//   }  // namespace
//   GRAFT_PASS(remove_dropout, "", "dropouts that are switched off go", removeDropout)
//   }  // namespace graft
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ir/graph.h"
#include "core/ir/semantics.h"
#include "matcher/passes/passes.h"
#include "matcher/rewrite/graph_editor.h"

/// Defines the pass that passes.cpp lists: the build makes the list from the names of the files in matcher/passes. The
/// last arguments are its function and Pass::checksEdits and Pass::rewrites, where these are true.
#define GRAFT_PASS(name, arguments, help, ...) \
  extern const Pass pass_##name;               \
  const Pass pass_##name{#name, arguments, help, __VA_ARGS__};

namespace graft {

/// The step's argument at that place as the last part of a name: "gelu" for F.gelu, "GELU" for nn.GELU; "" where
/// absent.
std::string nameArgument(const Step&, size_t index);

/// The step's switch of that name, True or False; nothing where it is not given.
std::optional<bool> switchOf(const Step&, std::string_view name);

/// The place of a value that one of PyTorch's convolutions, with one result, takes for that parameter.
std::optional<size_t> convolutionOperand(const Node&, std::string_view parameter);

/// The tensor's dimensions; null where it is no tensor, or its rank is not known.
const std::vector<Dim>* shapeOf(const Graph&, ValueId);

/// The dtype of a tensor; nothing where it is not known, or the argument is none.
std::optional<DType> dtypeOf(const Graph&, const Argument&);

/// Whether an operator computed the value. Of a view, or of what a caller gave, even `x + 0` makes a copy.
bool isComputed(const Graph&, ValueId);

/// Whether what the step makes is for a GPU: its argument `gpu` says so, or the types of the graph do.
bool isForGpu(const Graph&, const Step&);

/// Asks the editor's check, where it has one, about the open edit of a pass, which replaces the nodes `before`, of
/// which `last` comes last, and their outputs. An edit that fails is cancelled and noted as taken back, with `blamed`
/// in front of the reason: false then.
bool passesCheck(GraphEditor&, std::string_view pass, NodeId last, const std::vector<NodeId>& before,
                 const std::vector<std::pair<ValueId, ValueId>>& outputs, const std::string& blamed = {});

/// An edit: erases nodes that no output and no effect of the model depends on, and weights that nobody uses.
void eliminateDeadNodes(GraphEditor& editor);

}  // namespace graft
