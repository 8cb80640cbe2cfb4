#include "core/ir/declaration_order.h"

#include <algorithm>
#include <unordered_map>

namespace graft {
namespace {

class CallOrder {
 public:
  explicit CallOrder(const Graph& g) : g_(g), owns_(g.moduleCalls().size(), false) {}

  std::vector<ModuleCallId> find() {
    std::vector<ModuleCallId> used;
    for (NodeId n : g_.order()) enter(g_.node(n).module, used);
    // Of each caller: the calls that own nothing, by the call that followed them (none: they came last).
    std::unordered_map<uint32_t, std::vector<ModuleCallId>> waiting;
    for (const ModuleCall& m : g_.moduleCalls()) {
      auto& idle = waiting[m.parent.index];
      if (!owns_[m.id.index]) {
        idle.push_back(m.id);
      } else if (!idle.empty()) {
        before_[m.id.index] = std::move(idle);
        idle.clear();
      }
    }
    last_ = std::move(waiting);
    for (size_t i = 0; i < used.size(); ++i) {
      for (ModuleCallId m : before_[used[i].index]) addIdle(m);
      out_.push_back(used[i]);
      // Calls that end here: the next one lies outside of them.
      const ModuleCallId next = i + 1 < used.size() ? used[i + 1] : ModuleCallId();
      for (ModuleCallId m = used[i]; m && !(next && g_.isWithin(next, m)); m = g_.moduleCall(m).parent) addLast(m);
    }
    addLast(ModuleCallId());
    return std::move(out_);
  }

 private:
  void enter(ModuleCallId m, std::vector<ModuleCallId>& used) {
    std::vector<ModuleCallId> chain;
    for (; m && !owns_[m.index]; m = g_.moduleCall(m).parent) {
      owns_[m.index] = true;
      chain.push_back(m);
    }
    used.insert(used.end(), chain.rbegin(), chain.rend());
  }
  void addIdle(ModuleCallId m) {
    out_.push_back(m);
    addLast(m);
  }
  void addLast(ModuleCallId caller) {
    const auto it = last_.find(caller.index);
    if (it == last_.end()) return;
    const std::vector<ModuleCallId> idle = std::move(it->second);
    last_.erase(it);
    for (ModuleCallId m : idle) addIdle(m);
  }

  const Graph& g_;
  std::vector<bool> owns_;  // by call: itself or what it calls has nodes
  std::unordered_map<uint32_t, std::vector<ModuleCallId>> before_, last_;
  std::vector<ModuleCallId> out_;
};

std::vector<ValueId> weightOrder(const Graph& g) {
  std::vector<bool> seen(g.valueBound(), false);
  std::vector<ValueId> out;
  const auto use = [&](ValueId v) {
    if (!g.isWeight(v) || seen[v.index]) return;
    seen[v.index] = true;
    out.push_back(v);
  };
  const auto block = [&](const auto& self, BlockId b) -> void {
    for (NodeId id = g.block(b).first; id; id = g.node(id).next) {
      const Node& n = g.node(id);
      for (const Argument& a : n.args) a.forEachValue(use);
      for (const auto& [key, a] : n.kwargs) a.forEachValue(use);
      for (BlockId inner : n.blocks) self(self, inner);
    }
    for (const Argument& a : g.block(b).returns) a.forEachValue(use);
  };
  block(block, g.root());
  for (ValueId w : g.weights()) use(w);
  return out;
}

}  // namespace

void orderDeclarations(Graph& g) {
  g.setModuleCallOrder(CallOrder(g).find());
  g.setWeightOrder(weightOrder(g));
}

}  // namespace graft
