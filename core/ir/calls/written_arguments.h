// What a call writes to, and what else shows it.
#pragma once

#include <array>

#include "core/ir/graph.h"

namespace graft {

/// Norms that keep statistics while they train, which their schemas do not say: the values that they write to.
std::array<ValueId, 2> keptStatistics(const Node&);

/// Whether a result may be one of the arguments, or a view of it, though the schema does not say so.
bool mayReturnArgument(const Node&);

/// Calls f with each value that the node may write to: of an operator without a schema, with all that it is given, and
/// with the weight whose attribute it sets.
template <class F>
void forEachWritten(const Graph& g, const Node& n, F&& f) {
  for (size_t i = 0; i < n.args.size(); ++i)
    if (!n.op->hasSchema || (i < n.op->parameters.size() && n.op->parameters[i].written)) n.args[i].forEachValue(f);
  if (!n.op->hasSchema)
    for (const auto& [key, a] : n.kwargs) a.forEachValue(f);
  for (ValueId v : keptStatistics(n))
    if (v) f(v);
  if (n.op->name == "prim.SetAttr" && !n.args.empty())
    if (const auto* path = n.args[0].as<std::string>())
      if (const ValueId weight = g.findWeight(*path)) f(weight);
}

}  // namespace graft
