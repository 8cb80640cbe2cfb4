// The FX-style view of a graph: the table that torch.fx users know (opcode, name, target, args, kwargs) and the table
// of used modules. Nodes that came from FX print as FX spelled them; for others, calls of leaf torch.nn modules are one
// row.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

struct FxRow {
  std::string opcode, name, target, args, kwargs;
  NodeId node;          ///< none for placeholders, weights and the output
  ModuleCallId module;  ///< for call_module
};
/// What rewrites called the modules that they kept, by path: in torch.fx such a call goes by the replacement's name
/// from then on, and its target stays.
using CallNames = std::map<std::string, std::string, std::less<>>;
std::vector<FxRow> fxRows(const Graph&, const CallNames& = {});

struct UsedModule {
  std::string path;
  std::string text;  ///< "Linear(in_features=4, out_features=5, bias=True)"
};
/// The modules that rows of call_module name, each once, in order of use.
std::vector<UsedModule> usedModules(const Graph&, const std::vector<FxRow>&);

/// Both tables as text.
std::string fxReport(const Graph&, const CallNames& = {});

}  // namespace graft
