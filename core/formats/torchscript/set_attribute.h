// `self.name = value`, as a node of a graph.
#pragma once

#include <string>

#include "core/ir/graph.h"

namespace graft {

/// The path of the attribute that the node sets; null where it sets none.
inline const std::string* setAttributePath(const Node& n) {
  return n.op->name == "prim.SetAttr" && n.args.size() >= 2 ? n.args[0].as<std::string>() : nullptr;
}

/// Whether the run read the attribute while it was None, as a third argument says: the next run computes something
/// else.
inline bool wasNoneBefore(const Node& n) { return setAttributePath(n) && n.args.size() == 3; }

}  // namespace graft
