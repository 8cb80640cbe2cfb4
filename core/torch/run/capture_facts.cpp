#include "core/torch/run/capture_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/ir/operators/operator_facts.h"

namespace graft {
namespace {

class Finder {
 public:
  explicit Finder(const Graph& g) : g_(g) {
    for (ValueId v : g.inputs()) origins_[v] = {v};
    for (ValueId v : g.weights()) origins_[v] = {v};
  }

  CaptureFacts find() {
    look(g_.root());
    for (ValueId v : g_.weights())
      if (written_.contains(v)) facts_.writtenWeights.push_back(v);
    for (size_t i = 0; i < g_.inputs().size(); ++i)
      if (written_.contains(g_.inputs()[i])) facts_.writtenInputs.push_back(i);
    const auto isConstant = [&](ValueId v) { return g_.isWeight(v) && !written_.contains(v); };
    facts_.constantWeights = std::all_of(operatorWeights_.begin(), operatorWeights_.end(), isConstant);
    return std::move(facts_);
  }

 private:
  /// Inputs and weights whose memory a value may lie in.
  using Origins = std::set<ValueId>;

  void obstacle(const Node& n, const std::string& why) {
    if (facts_.obstacle.empty()) facts_.obstacle = fmt::format("node {} ({}) {}", n.name, n.op->name, why);
  }

  Origins originsOf(const Argument& a) const {
    Origins out;
    a.forEachValue([&](ValueId v) {
      if (const auto known = origins_.find(v); known != origins_.end())
        out.insert(known->second.begin(), known->second.end());
    });
    return out;
  }

  void add(ValueId v, const Origins& origins) {
    if (!origins.empty()) origins_[v].insert(origins.begin(), origins.end());
  }

  void look(BlockId block) {
    for (NodeId id : g_.order(block)) {
      const Node& n = g_.node(id);
      if (n.blocks.empty())
        lookAt(n);
      else
        lookIntoBlocks(n);
    }
  }

  /// What goes into a block and comes out of it may be any of what goes in, and of what the blocks return.
  void lookIntoBlocks(const Node& n) {
    Origins origins;
    const auto include = [&](const Argument& a) {
      const Origins some = originsOf(a);
      origins.insert(some.begin(), some.end());
    };
    for (const Argument& a : n.args) include(a);
    for (int round = 0; round < 2; ++round) {  // a loop's second round begins with what the first one returns
      for (BlockId b : n.blocks) {
        for (ValueId p : g_.block(b).parameters) add(p, origins);
        look(b);
        for (const Argument& r : g_.block(b).returns) include(r);
      }
    }
    for (ValueId o : n.outputs) add(o, origins);
  }

  void lookAt(const Node& n) {
    const Operator& op = *n.op;
    if (op.name == "prim.SetAttr")
      obstacle(n, "replaces an attribute of the model; write into a buffer instead (copy_, index_copy_)");
    else if (!op.hasSchema && !op.variadic && !op.is(OperatorFact::Structural))
      obstacle(n, "is not known to this machine; load the library that defines it");
    if (op.sideEffects && !op.is(OperatorFact::Structural))
      obstacle(n, "does something outside of tensors; take it out of the model");
    bool takesTensor = false;
    const bool sharesAll = op.variadic || !op.hasSchema || op.name.starts_with("prim.");
    Origins shared;
    for (size_t i = 0; i < n.args.size(); ++i) {
      const Parameter* p = i < op.parameters.size() ? &op.parameters[i] : nullptr;
      const Origins origins = originsOf(n.args[i]);
      if (p && p->written) written_.insert(origins.begin(), origins.end());
      if (sharesAll || (p && !p->aliasSet.empty())) shared.insert(origins.begin(), origins.end());
      takesTensor = takesTensor || (p && p->type.isTensor());
    }
    for (ValueId o : n.outputs) add(o, shared);
    if (takesTensor && !op.is(OperatorFact::MetadataOnly) &&
        std::any_of(op.returns.begin(), op.returns.end(), isNumber) && facts_.waits.empty())
      facts_.waits = fmt::format("node {} ({}) reads a number out of a tensor", n.name, op.name);
    if (op.name.starts_with("graft.")) noteWeights(n);
  }

  static bool isNumber(const Return& r) {
    const Type::Kind kind = r.type.kind;
    return kind == Type::Kind::Int || kind == Type::Kind::Float || kind == Type::Kind::Bool ||
           kind == Type::Kind::Number;
  }

  void noteWeights(const Node& n) {
    for (size_t i = 0; i < n.args.size() && i < n.op->parameters.size(); ++i) {
      const std::string& name = n.op->parameters[i].name;
      if (!name.ends_with("weight") && !name.ends_with("bias") && name != "tables") continue;
      n.args[i].forEachValue([&](ValueId v) { operatorWeights_.insert(v); });
    }
  }

  const Graph& g_;
  std::map<ValueId, Origins> origins_;
  Origins written_;
  std::set<ValueId> operatorWeights_;  ///< what graft:: operators take as weights and biases
  CaptureFacts facts_;
};

}  // namespace

CaptureFacts captureFacts(const Graph& g) { return Finder(g).find(); }

}  // namespace graft
