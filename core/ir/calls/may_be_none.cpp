#include "core/ir/calls/may_be_none.h"

#include <algorithm>
#include <set>

namespace graft {
namespace {

bool search(const Graph& g, const Argument& a, std::set<ValueId>& seen) {
  if (a.isNone()) return true;
  if (!a.isValue() || !seen.insert(a.valueId()).second) return false;
  const Value& v = g.value(a.valueId());
  const bool isParameter = v.kind == Value::Kind::BlockParameter && v.block;
  const NodeId by = isParameter ? g.block(v.block).owner : v.producer;
  if (!by || g.node(by).blocks.empty()) return false;
  const Node& n = g.node(by);
  const auto& places = isParameter ? g.block(v.block).parameters : n.outputs;
  const auto at = static_cast<size_t>(std::find(places.begin(), places.end(), v.id) - places.begin());
  if (n.blocks.size() > 1)
    return std::any_of(n.blocks.begin(), n.blocks.end(), [&](BlockId b) {
      return at < g.block(b).returns.size() && search(g, g.block(b).returns[at], seen);
    });
  // Of a loop: the parameters begin with the turn, its arguments with turns and condition, what its body gives with the
  // condition.
  if (isParameter && at == 0) return false;
  const size_t carried = isParameter ? at - 1 : at;
  const auto& again = g.block(n.blocks[0]).returns;
  return (carried + 2 < n.args.size() && search(g, n.args[carried + 2], seen)) ||
         (carried + 1 < again.size() && search(g, again[carried + 1], seen));
}

}  // namespace

bool mayBeNone(const Graph& g, ValueId v) {
  std::set<ValueId> seen;
  return search(g, Argument(v), seen);
}

}  // namespace graft
