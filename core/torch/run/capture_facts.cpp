#include "core/torch/run/capture_facts.h"

#include <fmt/format.h>

#include <set>

namespace graft {
namespace {

class Finder {
 public:
  explicit Finder(const Graph& g) : g_(g) {
    for (ValueId v : g.inputs()) lasting_.insert(v);
    for (ValueId v : g.weights()) lasting_.insert(v);
  }

  CaptureFacts find() {
    look(g_.root());
    return std::move(facts_);
  }

 private:
  void obstacle(const Node& n, const char* why) {
    if (facts_.obstacle.empty()) facts_.obstacle = fmt::format("node {} ({}) {}", n.name, n.op->name, why);
  }

  bool touchesLasting(const Argument& a) const {
    bool found = false;
    a.forEachValue([&](ValueId v) { found = found || lasting_.contains(v); });
    return found;
  }

  void look(BlockId block) {
    for (NodeId id : g_.order(block)) {
      const Node& n = g_.node(id);
      if (!n.blocks.empty()) {
        // What goes into a block and comes out of it may be anything that lasts.
        for (BlockId b : n.blocks) {
          for (ValueId p : g_.block(b).parameters) lasting_.insert(p);
          look(b);
        }
        for (ValueId o : n.outputs) lasting_.insert(o);
        continue;
      }
      const Operator& op = *n.op;
      if (!op.hasSchema && !op.variadic) obstacle(n, "is not known to this machine");
      if (op.sideEffects) obstacle(n, "does something outside of tensors");
      bool sharing = op.variadic || !op.hasSchema || op.name.starts_with("prim.");
      for (size_t i = 0; i < n.args.size(); ++i) {
        const Parameter* p = i < op.parameters.size() ? &op.parameters[i] : nullptr;
        if (p && p->written && touchesLasting(n.args[i])) obstacle(n, "writes to a weight or an input");
        if (p && !p->aliasSet.empty()) sharing = sharing || touchesLasting(n.args[i]);
      }
      if (sharing)
        for (ValueId o : n.outputs) lasting_.insert(o);
      if (op.name.starts_with("graft.")) lookAtWeights(n);
    }
  }

  void lookAtWeights(const Node& n) {
    for (size_t i = 0; i < n.args.size() && i < n.op->parameters.size(); ++i) {
      const std::string& name = n.op->parameters[i].name;
      if (!name.ends_with("weight") && !name.ends_with("bias") && name != "tables") continue;
      n.args[i].forEachValue([&](ValueId v) { facts_.constantWeights = facts_.constantWeights && g_.isWeight(v); });
    }
  }

  const Graph& g_;
  std::set<ValueId> lasting_;  ///< inputs, weights, and what may share their memory
  CaptureFacts facts_;
};

}  // namespace

CaptureFacts captureFacts(const Graph& g) { return Finder(g).find(); }

}  // namespace graft
