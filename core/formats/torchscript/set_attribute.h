// `self.name = value`, as a node of a graph.
#pragma once

#include <string>

#include "core/ir/graph.h"

namespace graft {

/// The path of the attribute that the node sets; null where it sets none.
inline const std::string* setAttributePath(const Node& n) {
  return n.op->name == "prim.SetAttr" && n.args.size() == 2 ? n.args[0].as<std::string>() : nullptr;
}

}  // namespace graft
