#include "core/torch/run/last_uses.h"

namespace graft {

LastUses::LastUses(const Graph& g) : g_(g) {
  last_.assign(g.valueBound(), NodeId());
  returned_.assign(g.valueBound(), false);
  inside_.assign(g.valueBound(), false);
  for (NodeId id : g.order()) {
    const Node& n = g.node(id);
    for (const Argument& a : n.args) a.forEachValue([&](ValueId v) { note(v, id, false); });
    for (const auto& [key, a] : n.kwargs) a.forEachValue([&](ValueId v) { note(v, id, false); });
    for (BlockId b : n.blocks) noteReturns(b);
  }
  noteReturns(g.root());
}

BlockId LastUses::home(ValueId v) const {
  const Value& value = g_.value(v);
  return value.kind == Value::Kind::Output ? g_.node(value.producer).parent : value.block;
}

void LastUses::note(ValueId v, NodeId user, bool inside) {
  if (g_.isWeight(v)) return;
  const BlockId at = home(v);
  while (g_.node(user).parent != at) {
    user = g_.block(g_.node(user).parent).owner;
    inside = true;
  }
  if (last_[v.index] != user) inside_[v.index] = false;
  last_[v.index] = user;
  if (inside) inside_[v.index] = true;
}

void LastUses::noteReturns(BlockId b) {
  for (const Argument& a : g_.block(b).returns)
    a.forEachValue([&](ValueId v) {
      if (g_.isWeight(v)) return;
      if (home(v) == b)
        returned_[v.index] = true;
      else
        note(v, g_.block(b).owner, true);
    });
}

}  // namespace graft
