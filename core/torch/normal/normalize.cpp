#include <algorithm>
#include <string>
#include <unordered_map>

#include <ATen/ops/item.h>

#include "core/ir/calls/written_arguments.h"
#include "core/ir/normal_form.h"
#include "core/ir/operators/dtype_facts.h"
#include "core/torch/normal/imported_graph.h"
#include "core/torch/normal/normal_steps.h"
#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"

namespace graft {
namespace {

// Tracing writes x * 0.5 with 0.5 as a 0-dim tensor. Beside a tensor with dimensions that is the number: it promotes
// alike.
void foldScalarConstants(Graph& g) {
  DTypeFacts facts(g);
  for (NodeId id : g.order()) {
    const Node& n = g.node(id);
    const bool where = n.op->name == "aten.where.self";
    if (!where && !n.op->is(OperatorFact::NumberOperand)) continue;
    const size_t first = where ? 1 : 0;
    if (n.args.size() < first + 2) continue;
    for (size_t i : {first, first + 1}) {
      if (i == first && (n.op->writes() || n.op->name == "aten.masked_fill.Tensor")) continue;
      const size_t valueIndex = n.op->name == "aten.masked_fill.Tensor" ? 2 : i;
      const Argument& other = g.node(id).args[i == first ? first + 1 : first];
      const auto number = numberOfConstant(g, g.node(id).args[valueIndex]);
      if (!number || !other.isValue() || numberOfConstant(g, other)) continue;
      const Value& o = g.value(other.valueId());
      if (!o.type.isTensor() || o.type.tensorInfo.rank() == 0) continue;
      const auto dtype = facts.of(o.id), own = facts.of(g.node(id).args[valueIndex].valueId());
      const bool floating = number->as<double>() != nullptr;
      // Beside a dtype that nobody knows, a constant of another dtype than numbers have may decide the result's.
      if (dtype ? (floating && !isFloatingPoint(*dtype)) || (!floating && *dtype == DType::Bool)
                : own != (floating ? DType::Float32 : DType::Int64))
        continue;
      g.setArgument(id, valueIndex, *number);
    }
  }
}

// x.relu_() becomes relu(x) where nobody can tell: x is fresh memory of the same block, and nothing that saw it before
// may still look at it.
class Functionaliser {
 public:
  Functionaliser(Graph& g, const OperatorSet& operators, Functionalised* done)
      : g_(g), operators_(operators), facts_(g), done_(done) {}

  void run() {
    for (NodeId id : g_.order())
      if (g_.node(id).op->writes()) tryNode(id);
  }

 private:
  void tryNode(NodeId id) {
    const Node& n = g_.node(id);
    const auto name = functionalForm(n.op->name);
    const OperatorRef functional = name ? operators_.find(*name) : nullptr;
    if (!functional || functional->writes() || functional->parameters.size() != n.op->parameters.size()) return;
    if (n.outputs.size() != 1 || functional->returns.size() != 1 || n.args.empty() || !n.args[0].isValue()) return;
    const ValueId target = n.args[0].valueId();
    if (!isFresh(target, id) || !keepsDType(n, target, *functional)) return;
    for (NodeId user : g_.value(target).users)
      if (user != id && !isAfter(user, id) && mayKeep(user, target)) return;
    if (returnedElsewhere(target, n.parent)) return;

    const ValueId old = g_.output(id);
    const NodeId made = g_.insertAfter(id, functional, g_.node(id).args, functional->baseName());
    const ValueId result = g_.output(made);
    g_.setType(result, g_.value(old).type);
    g_.setModule(made, g_.node(id).module);
    g_.setSource(made, g_.node(id).source);
    const std::vector<NodeId> users = g_.value(target).users;
    for (NodeId user : users)
      if (user != id && user != made && isAfter(user, made)) replaceIn(user, target, result);
    const BlockId block = g_.node(id).parent;
    std::vector<Argument> returns = g_.block(block).returns;
    for (Argument& a : returns)
      a.forEachValueMutable([&](ValueId& v) {
        if (v == target) v = result;
      });
    g_.setReturns(block, std::move(returns));
    g_.replaceAllUses(old, result);
    const std::string oldName = g_.value(old).name;
    g_.erase(id);
    if (!done_) return;
    if (done_->keepName.contains(old)) g_.rename(result, oldName);
    done_->writes.push_back({target, old, result});
  }

  void replaceIn(NodeId user, ValueId from, ValueId to) {
    const auto change = [&](Argument& a) {
      a.forEachValueMutable([&](ValueId& v) {
        if (v == from) v = to;
      });
    };
    std::vector<Argument> args = g_.node(user).args;
    for (Argument& a : args) change(a);
    g_.setArguments(user, std::move(args));
    auto kwargs = g_.node(user).kwargs;
    if (kwargs.empty()) return;
    for (auto& [key, a] : kwargs) change(a);
    g_.setKeywordArguments(user, std::move(kwargs));
  }

  bool isFresh(ValueId v, NodeId writer) const {
    const Value& value = g_.value(v);
    if (value.kind != Value::Kind::Output || !value.type.isTensor()) return false;
    const Node& producer = g_.node(value.producer);
    return producer.op->hasSchema && !producer.op->aliases() && !producer.op->writes() && !producer.op->variadic &&
           producer.blocks.empty() && producer.op->name != "prim.getitem" && !mayReturnArgument(producer) &&
           producer.parent == g_.node(writer).parent;
  }

  bool mayKeep(NodeId user, ValueId target) const {
    const Node& u = g_.node(user);
    if (!u.op->hasSchema || u.op->variadic || !u.blocks.empty() || mayReturnArgument(u)) return true;
    for (size_t i = 0; i < u.args.size(); ++i) {
      bool uses = false;
      u.args[i].forEachValue([&](ValueId v) { uses |= v == target; });
      if (!uses) continue;
      if (i >= u.op->parameters.size() || !u.op->parameters[i].aliasSet.empty()) return true;
    }
    return false;
  }

  bool isAfter(NodeId user, NodeId at) const {
    // A user in a nested block stands where the control flow around it stands.
    NodeId here = user;
    while (here && g_.node(here).parent != g_.node(at).parent) here = g_.block(g_.node(here).parent).owner;
    return here && here != at && g_.isBefore(at, here);
  }

  bool returnedElsewhere(ValueId v, BlockId own) const {
    if (g_.value(v).returnUses == 0) return false;
    for (size_t b = 0; b < g_.blockBound(); ++b) {
      const BlockId id(static_cast<uint32_t>(b));
      if (id == own) continue;
      bool found = false;
      for (const Argument& a : g_.block(id).returns) a.forEachValue([&](ValueId r) { found |= r == v; });
      if (found) return true;
    }
    return false;
  }

  // In place, the result keeps the target's dtype; the functional form promotes, and a comparison gives truth values.
  bool keepsDType(const Node& n, ValueId target, const Operator& functional) {
    const auto own = facts_.of(target);
    if (functional.facts->dtype == DTypeRule::Bool && own != DType::Bool) return false;
    bool same = true;
    for (size_t i = 1; i < n.args.size(); ++i) {
      n.args[i].forEachValue([&](ValueId v) {
        if (!g_.value(v).type.isTensor()) return;
        const auto dtype = facts_.of(v);
        const bool masks = n.op->baseName() == "masked_fill_" && i == 1;
        same &= masks || (own && dtype == own);
      });
    }
    return same;
  }

  Graph& g_;
  const OperatorSet& operators_;
  DTypeFacts facts_;
  Functionalised* done_;
};

// What hands its argument on becomes its argument; copies only where nobody writes.
void removeIdentities(Graph& g) {
  const std::vector<NodeId> order = g.order();
  const bool writes = std::any_of(order.begin(), order.end(), [&](NodeId id) { return g.node(id).op->writes(); });
  for (NodeId id : order) {
    const Node& n = g.node(id);
    if (!n.op->is(OperatorFact::Identity) || n.outputs.size() != 1 || n.args.empty() || !n.args[0].isValue()) continue;
    if (writes && n.op->baseName() == "lift_fresh_copy") continue;
    g.replaceAllUses(n.outputs[0], n.args[0].valueId());
  }
}

// to(x, dtype, device) where x has both already.
void removeRedundantCasts(Graph& g) {
  const std::vector<NodeId> order = g.order();
  const bool writes = std::any_of(order.begin(), order.end(), [&](NodeId id) { return g.node(id).op->writes(); });
  DTypeFacts facts(g);
  for (NodeId id : order) {
    const Node& n = g.node(id);
    const std::string_view op = n.op->name;  // the overloads whose arguments are looked at below
    if (op != "aten.to.dtype" && op != "aten.to.dtype_layout" && op != "aten.to.device" &&
        op != "aten._to_copy.default")
      continue;
    if (!n.args[0].isValue() || n.outputs.size() != 1) continue;
    // to() without copy hands on the tensor itself, whatever is written to it later.
    const Argument* copy = n.findArgument("copy");
    if (writes && !(copy && *copy == Argument(false))) continue;
    const TensorInfo& in = g.value(n.args[0].valueId()).type.tensorInfo;
    const Argument* dtype = n.findArgument("dtype");
    const Argument* device = n.findArgument("device");
    const Argument* format = n.findArgument("memory_format");
    const Argument* layout = n.findArgument("layout");
    const auto has = facts.of(n.args[0].valueId());
    if (dtype && !dtype->isNone() && !(has && *dtype == Argument(*has))) continue;
    if (device && !device->isNone() && (in.device.empty() || !(*device == Argument(DeviceName{in.device})))) continue;
    if (format && !format->isNone() && !(*format == Argument(Named{"torch.preserve_format"}))) continue;
    if (layout && !layout->isNone() && !(*layout == Argument(Named{"torch.strided"}))) continue;
    g.replaceAllUses(n.outputs[0], n.args[0].valueId());
  }
}

// Small tensors that stand in the graph as literals, each content once: archives keep them so.
void mergeConstants(Graph& g) {
  constexpr int64_t largest = 4096;
  std::unordered_map<std::string, ValueId> known;
  for (ValueId w : g.weights()) {
    const Value& v = g.value(w);
    const at::Tensor t = v.isConstant ? weightTensor(v) : at::Tensor();
    if (!t.defined() || t.numel() > largest || t.layout() != c10::kStrided || !t.device().is_cpu()) continue;
    if (t.is_quantized() || !t.is_contiguous()) continue;
    bool written = false;
    for (NodeId user : v.users) written = written || g.node(user).op->writes();
    if (written) continue;
    std::string key = toString(v.type) + '\n';
    key.append(static_cast<const char*>(t.const_data_ptr()), t.nbytes());
    const auto [it, isNew] = known.emplace(std::move(key), w);
    if (!isNew) g.replaceAllUses(w, it->second);
  }
}

bool hasEffects(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  if (n.blocks.empty()) return !n.op->pure();
  for (BlockId b : n.blocks)
    for (NodeId inner : g.order(b))
      if (hasEffects(g, inner)) return true;
  return n.op->sideEffects;
}

void removeDead(Graph& g) {
  const std::vector<NodeId> order = g.order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (!g.isAlive(*it) || hasEffects(g, *it)) continue;
    const Node& n = g.node(*it);
    if (n.op->writes()) continue;
    if (std::all_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return g.isUnused(v); })) g.erase(*it);
  }
  for (ValueId w : g.weights())
    if (g.isUnused(w)) g.eraseWeight(w);
}

}  // namespace

std::optional<Argument> numberOfConstant(const Graph& g, const Argument& a) {
  if (!a.isValue()) return std::nullopt;
  const at::Tensor t = constantNumber(g.value(a.valueId()));
  if (!t.defined()) return std::nullopt;
  if (t.scalar_type() == c10::ScalarType::Long || t.scalar_type() == c10::ScalarType::Int)
    return Argument(t.item().toLong());
  if (t.is_floating_point()) return Argument(t.item().toDouble());
  return std::nullopt;
}

Status normalizeImported(Graph& g, const OperatorSet& operators, Functionalised* functionalised) {
  removeIdentities(g);
  mergeConstants(g);
  removeDead(g);
  settleNumbers(g);
  foldScalarConstants(g);
  rewriteSpellings(g, operators);
  Functionaliser(g, operators, functionalised).run();
  removeRedundantCasts(g);
  // A number that was brought to the dtype that it has already.
  foldScalarConstants(g);
  rewriteSpellings(g, operators);
  removeWholeSlices(g);
  removeIdleMasks(g);
  askSizesEarly(g);
  removeDead(g);
  return done();
}

void normalizeTyped(Graph& g, const OperatorSet& operators) {
  rewriteSpellings(g, operators);
  Functionaliser(g, operators, nullptr).run();
  // Where the last write has become a function now, as an import of the written file would find it.
  removeIdentities(g);
  removeRedundantCasts(g);
  removeWholeSlices(g);
  removeDead(g);
}

SettledBranches normalizeRecorded(Graph& g, const OperatorSet& operators) {
  const SettledBranches settled = settleBranches(g);
  removeDead(g);
  normalizeTyped(g, operators);
  return settled;
}

}  // namespace graft
