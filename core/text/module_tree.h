// The tree of module calls as Python prints a module, with what rewriting put beside the modules: operators of the
// graft library and layers (operators with a weight) outside a torch.nn module.
//
//   Attention(
//     (self_attn): SelfAttention(
//       (linear): aten.linear(in_features=64, out_features=192)
//       (attention): graft.attention(scale=0.25)
//     )
//   )
#pragma once

#include <string>

#include "core/ir/graph.h"

namespace graft {

/// "Linear(in_features=4, out_features=5, bias=True)": the type's short name and what it was built with, where known.
std::string moduleText(const Graph&, const ModuleCall&);

/// Modules that no node is left of are left out; one that is called several times stands once.
std::string moduleTree(const Graph&);

}  // namespace graft
