// Which nodes of a joint graph a cut does not compute again, and why.
#pragma once

#include <string>
#include <vector>

#include "core/training/cut.h"

namespace graft {

struct Bans {
  std::vector<std::string> reasons;  ///< by NodeId::index; empty: it may be computed again
  bool has(NodeId n) const { return !reasons[n.index].empty(); }
};

Bans bansFor(const JointGraph&, const CutOptions&);

/// Whether the value need not reach memory between its node and this user: both can run in one kernel.
bool runsInside(const JointGraph&, NodeId producer, NodeId user);

}  // namespace graft
