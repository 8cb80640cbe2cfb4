#include "core/torch/run/capture_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/ir/calls/written_arguments.h"
#include "core/ir/operators/operator_facts.h"

namespace graft {
namespace {

/// Operators, by packet, whose results have as many elements as the elements of their arguments say.
constexpr std::string_view sizedByElements[] = {
    "aten.nonzero",    "aten.nonzero_numpy", "aten.argwhere",          "aten.masked_select",
    "aten._unique",    "aten._unique2",      "aten.unique_dim",        "aten.unique_consecutive",
    "aten.bincount",   "aten.combinations",  "aten.repeat_interleave", "aten.unique_dim_consecutive",
    "torchvision.nms",
};

bool isNumber(const Return& r) {
  const Type::Kind kind = r.type.kind;
  return kind == Type::Kind::Int || kind == Type::Kind::Float || kind == Type::Kind::Bool || kind == Type::Kind::Number;
}

/// Whether a tensor of truth values chooses the elements, so that it says how many there are.
bool isIndexedByMask(const Graph& g, const Node& n) {
  const std::string_view packet = n.op->packetName();
  if (packet != "aten.index" && packet != "aten.index_put") return false;
  const Argument* indices = n.findArgument("indices");
  bool found = false;
  if (indices)
    indices->forEachValue([&](ValueId v) {
      const Type& type = g.value(v).type;
      found =
          found || (type.isTensor() && (type.tensorInfo.dtype == DType::Bool || type.tensorInfo.dtype == DType::UInt8));
    });
  return found;
}

/// Why the CPU waits for the GPU at this node, its blocks aside; null where it does not.
const char* whyItWaits(const Graph& g, const Node& n) {
  const Operator& op = *n.op;
  const bool takesTensor =
      std::any_of(op.parameters.begin(), op.parameters.end(), [](const Parameter& p) { return p.type.isTensor(); });
  const bool asks = op.is(OperatorFact::MetadataOnly) || (op.name.starts_with("prim.") && op.baseName() != "tolist");
  if (takesTensor && !asks && std::any_of(op.returns.begin(), op.returns.end(), isNumber))
    return "reads a number out of a tensor";
  constexpr const char* kSized = "has a result whose size depends on the numbers in a tensor";
  const std::string_view packet = op.packetName();
  if (packet == "aten.repeat_interleave") {
    const Argument* size = n.findArgument("output_size");
    const Argument* repeats = n.findArgument("repeats");
    return repeats && repeats->isValue() && g.value(repeats->valueId()).type.isTensor() && (!size || size->isNone())
               ? kSized
               : nullptr;
  }
  if (std::find(std::begin(sizedByElements), std::end(sizedByElements), packet) != std::end(sizedByElements))
    return kSized;
  if (op.name == "aten.where.default" || isIndexedByMask(g, n)) return kSized;
  if (packet == "aten.one_hot") {
    const Argument* classes = n.findArgument("num_classes");
    const auto* count = classes ? std::get_if<int64_t>(&classes->data) : nullptr;
    if (!classes || (count && *count < 0)) return kSized;
  }
  return nullptr;
}

/// Changes a list or a dictionary, and no tensor in it.
bool changesContainer(const Operator& op) {
  static const std::set<std::string_view> names{"append",    "insert",     "extend", "clear",      "pop",
                                                "_set_item", "reverse",    "sort",   "remove",     "Delete",
                                                "popitem",   "setdefault", "update", "__setitem__"};
  return !op.parameters.empty() && op.parameters[0].written && !op.parameters[0].type.isTensor() &&
         names.contains(op.baseName());
}

/// Which nodes see lists and dictionaries that some node writes, as a loop does that gathers results. They are shared
/// by whoever holds them, and what stands in a CUDA graph would work on a copy. Those that a node takes and gives may
/// be the same one.
class WrittenContainers {
 public:
  explicit WrittenContainers(const Graph& g) : g_(g) {
    for (NodeId id : g.order()) {
      const Node& n = g.node(id);
      const std::vector<ValueId> seen = containersOf(n);
      for (ValueId v : seen) same_[find(v)] = find(seen[0]);
    }
    for (NodeId id : g.order()) forEachWritten(g, g.node(id), [&](ValueId v) { written_.insert(find(v)); });
  }
  bool touches(const Node& n) const {
    const std::vector<ValueId> seen = containersOf(n);
    return std::any_of(seen.begin(), seen.end(), [&](ValueId v) { return written_.contains(find(v)); });
  }

 private:
  static bool mayHoldContainer(const Type& type) {
    switch (type.kind) {
      case Type::Kind::List:
      case Type::Kind::Dict:
      case Type::Kind::Any:
      case Type::Kind::Object:
        return true;
      default:
        return std::any_of(type.elements.begin(), type.elements.end(), mayHoldContainer);
    }
  }
  /// What may be one or hold one, and the node takes, gives, or hands into its blocks and out of them.
  std::vector<ValueId> containersOf(const Node& n) const {
    std::vector<ValueId> out;
    const auto add = [&](ValueId v) {
      if (mayHoldContainer(g_.value(v).type)) out.push_back(v);
    };
    for (const Argument& a : n.args) a.forEachValue(add);
    for (ValueId v : n.outputs) add(v);
    for (BlockId b : n.blocks) {
      for (ValueId p : g_.block(b).parameters) add(p);
      for (const Argument& r : g_.block(b).returns) r.forEachValue(add);
    }
    return out;
  }
  ValueId find(ValueId v) const {
    ValueId last = v;
    for (auto it = same_.find(last); it != same_.end() && it->second != last; it = same_.find(last)) last = it->second;
    for (auto it = same_.find(v); it != same_.end() && it->second != last; it = same_.find(v))
      v = std::exchange(it->second, last);
    return last;
  }

  const Graph& g_;
  mutable std::map<ValueId, ValueId> same_;  ///< of a container, another one that may be the same; itself at the end
  std::set<ValueId> written_;
};

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
    // A loop's results may be what it begins with; a branch's condition is no tensor.
    if (n.blocks.size() == 1)
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
    const bool sharesAll = op.variadic || !op.hasSchema || op.name.starts_with("prim.");
    Origins shared;
    for (size_t i = 0; i < n.args.size(); ++i) {
      const Parameter* p = i < op.parameters.size() ? &op.parameters[i] : nullptr;
      const Origins origins = originsOf(n.args[i]);
      if (p && p->written && !(i == 0 && changesContainer(op))) written_.insert(origins.begin(), origins.end());
      if (sharesAll || (p && !p->aliasSet.empty())) shared.insert(origins.begin(), origins.end());
    }
    for (ValueId v : keptStatistics(n))
      if (v) written_.insert(origins_[v].begin(), origins_[v].end());
    for (ValueId o : n.outputs) add(o, shared);
    if (const char* why = whyItWaits(g_, n); why && facts_.waits.empty())
      facts_.waits = fmt::format("node {} ({}) {}", n.name, op.name, why);
    if (op.name.starts_with("graft.")) noteWeights(n);
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

std::optional<CapturePieces> capturePieces(const Graph& g, const CaptureFacts& facts) {
  if (!facts.obstacle.empty() || facts.waits.empty() || facts.writes()) return std::nullopt;
  for (NodeId id : g.order()) {
    const Node& n = g.node(id);
    bool writesTensor = false;
    if (!changesContainer(*n.op)) forEachWritten(g, n, [&](ValueId) { writesTensor = true; });
    if (writesTensor) return std::nullopt;
  }
  const WrittenContainers containers(g);
  CapturePieces out{std::vector<bool>(g.nodeBound()), std::vector<bool>(g.nodeBound())};
  for (NodeId id : g.order()) {
    const Node& n = g.node(id);
    const bool apart = whyItWaits(g, n) || containers.touches(n);
    out.work[id.index] =
        n.blocks.empty() &&
        !n.op->is(OperatorFact::Structural | OperatorFact::MetadataOnly | OperatorFact::View | OperatorFact::Reshape) &&
        std::any_of(n.op->returns.begin(), n.op->returns.end(),
                    [](const Return& r) { return r.type.isTensor() || r.type.kind == Type::Kind::List; });
    // What holds for a node in a block holds for the nodes that own the block, too.
    for (NodeId at = id; apart && at && !out.apart[at.index]; at = g.block(g.node(at).parent).owner)
      out.apart[at.index] = true;
  }
  return out;
}

}  // namespace graft
