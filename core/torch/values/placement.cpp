#include "core/torch/values/placement.h"

#include <numeric>
#include <set>

namespace graft {
namespace {

template <class F>
void forEachDevice(const Argument& a, F&& f) {
  if (const auto* d = a.as<DeviceName>()) f(*d);
  if (const auto* items = a.items())
    for (const Argument& i : *items) forEachDevice(i, f);
}

std::set<std::string> devicesHeld(const Graph& g, bool inputsToo) {
  std::set<std::string> held;
  const auto hold = [&](ValueId v) {
    const Value& value = g.value(v);
    if (value.isConstant || !value.type.isTensor()) return;
    if (const std::string& device = value.type.tensorInfo.device; !device.empty()) held.insert(device);
  };
  if (inputsToo)
    for (ValueId v : g.inputs()) hold(v);
  for (ValueId v : g.weights()) hold(v);
  return held;
}

std::string modelDevice(const Graph& g) {
  std::set<std::string> named;
  for (NodeId id : g.order()) {
    const Node& n = g.node(id);
    const auto add = [&](const DeviceName& d) { named.insert(d.name); };
    for (const Argument& a : n.args) forEachDevice(a, add);
    for (const auto& [key, a] : n.kwargs) forEachDevice(a, add);
  }
  if (named.empty()) return {};
  // Weights of TorchScript files are read to the CPU, wherever they were: that they are there says nothing.
  std::set<std::string> held = devicesHeld(g, true);
  held.erase("cpu");
  if (named.size() == 1) {
    held.erase(*named.begin());
    return held.empty() ? *named.begin() : std::string();
  }
  if (held.size() == 1 && named.contains(*held.begin())) return *held.begin();
  named.erase("cpu");  // beside one GPU's name, that of the CPU is meant
  return held.empty() && named.size() == 1 ? *named.begin() : std::string();
}

/// Which values operators want on one device.
class Groups {
 public:
  explicit Groups(const Graph& g) : g_(g), parent_(g.valueBound()), model_(g.valueBound()), read_(g.valueBound()) {
    std::iota(parent_.begin(), parent_.end(), 0u);
    for (NodeId id : g.order()) join(g.node(id));
    for (ValueId v : g.inputs()) model_[find(v)] = 1;
    for (ValueId w : g.weights())
      if (!liesAnywhere(w)) model_[find(w)] = 1;
    for (const Argument& a : g.returns()) a.forEachValue([&](ValueId v) { read_[find(v)] = 1; });
    for (NodeId id : g.order())
      if (readsOnHost(g.node(id)))
        for (const Argument& a : g.node(id).args) a.forEachValue([&](ValueId v) { read_[find(v)] = 1; });
  }

  uint32_t find(ValueId v) const {
    uint32_t at = v.index;
    while (parent_[at] != at) at = parent_[at] = parent_[parent_[at]];
    return at;
  }
  bool isModel(ValueId v) const { return model_[find(v)]; }
  bool isRead(ValueId v) const { return read_[find(v)]; }

  /// The name of the device that the node's results are on, apart from its operands; null where they lie with these.
  static const DeviceName* ownDevice(const Node& n) {
    const Argument* a = n.findArgument("device");
    return a ? a->as<DeviceName>() : nullptr;
  }

 private:
  /// Whether it is a tensor or may hold some.
  bool isTensor(ValueId v) const {
    switch (g_.value(v).type.kind) {
      case Type::Kind::Any:
      case Type::Kind::Tensor:
      case Type::Kind::List:
      case Type::Kind::Tuple:
      case Type::Kind::Dict:
      case Type::Kind::Optional:
      case Type::Kind::Object:
        return true;
      default:
        return false;
    }
  }
  /// Operators of every device take it: a literal without dimensions.
  bool liesAnywhere(ValueId v) const {
    const Value& value = g_.value(v);
    return value.isConstant && value.type.tensorInfo.shape && value.type.tensorInfo.shape->empty();
  }
  bool readsOnHost(const Node& n) const {
    if (n.op->is(OperatorFact::MetadataOnly) || n.outputs.empty() || !n.blocks.empty()) return false;
    for (ValueId v : n.outputs)
      if (isTensor(v)) return false;
    return true;
  }

  void join(const Node& n) {
    ValueId first;
    const auto together = [&](ValueId v) {
      if (!isTensor(v) || liesAnywhere(v)) return;
      if (first)
        parent_[find(v)] = find(first);
      else
        first = v;
    };
    for (ValueId v : n.outputs) together(v);
    for (BlockId b : n.blocks) {
      for (ValueId p : g_.block(b).parameters) together(p);
      for (const Argument& a : g_.block(b).returns) a.forEachValue(together);
    }
    // Reading sizes, or numbers, leaves the tensor where it is.
    if (ownDevice(n) || (!first && n.blocks.empty())) return;
    for (size_t i = 0; i < n.args.size(); ++i) {
      // These copy from wherever the other tensor is.
      if (i > 0 && (n.op->baseName() == "copy_" || n.op->baseName() == "copy")) break;
      n.args[i].forEachValue(together);
    }
    for (const auto& [key, a] : n.kwargs) a.forEachValue(together);
  }

  const Graph& g_;
  mutable std::vector<uint32_t> parent_;
  std::vector<char> model_, read_;  ///< by a group's first value
};

}  // namespace

Placement::Placement(const Graph& g) : model_(modelDevice(g)), host_(g.valueBound()) {
  if (model_.empty()) return;
  const Groups groups(g);
  std::vector<char> hostGroup(g.valueBound()), ofModel(g.valueBound());
  const std::vector<NodeId> order = g.order();
  const auto comesFromModel = [&](const Node& n) {
    bool found = false;
    for (const Argument& a : n.args)
      a.forEachValue([&](ValueId v) { found = found || groups.isModel(v) || ofModel[groups.find(v)]; });
    return found;
  };
  for (NodeId id : order) {
    const Node& n = g.node(id);
    const DeviceName* device = Groups::ownDevice(n);
    if (!device || device->name != "cpu" || n.outputs.empty()) continue;
    const uint32_t group = groups.find(n.outputs[0]);
    const bool meant = model_ != "cpu";  // a model on a GPU that names the CPU
    if (groups.isModel(n.outputs[0]) && !meant) continue;
    const bool copies = n.op->facts->family == OperatorFamily::Cast && comesFromModel(n);
    if (copies) ofModel[group] = 1;
    if (!meant && !(copies && groups.isRead(n.outputs[0]))) continue;
    hostGroup[group] = !groups.isModel(n.outputs[0]);
    if (copies) copies_.push_back(id);
  }
  for (NodeId id : order)
    for (ValueId v : g.node(id).outputs) host_[v.index] = hostGroup[groups.find(v)];
}

bool Placement::onHost(const Node& n) const { return !n.outputs.empty() && host_[n.outputs[0].index]; }

bool Placement::follows(const Node& n, const DeviceName& d) const {
  return !model_.empty() && d.name == model_ && !(d.name == "cpu" && onHost(n));
}

DeviceName Placement::placed(const Node& n, const DeviceName& d, const std::string& device) const {
  return d.name == "cpu" && !follows(n, d) ? d : DeviceName{device};
}

std::string homeDevice(const Graph& g) {
  if (std::string named = modelDevice(g); !named.empty()) return named;
  const std::set<std::string> held = devicesHeld(g, false);
  return held.size() == 1 ? *held.begin() : std::string();
}

}  // namespace graft
