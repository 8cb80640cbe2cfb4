// What a call writes to.
#pragma once

#include "core/ir/graph.h"

namespace graft {

/// Calls f with each value that the node may write to: of an operator without a schema, with all that it is given.
template <class F>
void forEachWritten(const Node& n, F&& f) {
  for (size_t i = 0; i < n.args.size(); ++i)
    if (!n.op->hasSchema || (i < n.op->parameters.size() && n.op->parameters[i].written)) n.args[i].forEachValue(f);
  if (!n.op->hasSchema)
    for (const auto& [key, a] : n.kwargs) a.forEachValue(f);
}

}  // namespace graft
