#include "core/torch/values/model_device.h"

#include <set>

namespace graft {
namespace {

void collect(const Argument& a, std::set<std::string>& devices) {
  if (const auto* d = a.as<DeviceName>()) devices.insert(d->name);
  if (const auto* items = a.items())
    for (const Argument& i : *items) collect(i, devices);
}

}  // namespace

std::string modelDevice(const Graph& g) {
  std::set<std::string> named, held;
  for (NodeId id : g.order()) {
    const Node& n = g.node(id);
    for (const Argument& a : n.args) collect(a, named);
    for (const auto& [key, a] : n.kwargs) collect(a, named);
  }
  const auto hold = [&](ValueId v) {
    const Value& value = g.value(v);
    if (value.isConstant || !value.type.isTensor()) return;
    if (const std::string& device = value.type.tensorInfo.device; !device.empty()) held.insert(device);
  };
  for (ValueId v : g.inputs()) hold(v);
  for (ValueId v : g.weights()) hold(v);
  if (named.empty()) return {};
  if (named.size() > 1) return held.size() == 1 && named.contains(*held.begin()) ? *held.begin() : std::string();
  // Weights of TorchScript files are read to the CPU, wherever they were: that they are there says nothing.
  held.erase("cpu");
  held.erase(*named.begin());
  return held.empty() ? *named.begin() : std::string();
}

bool meansModel(const DeviceName& d, const std::string& model) { return !model.empty() && d.name == model; }

DeviceName placed(const DeviceName& d, const std::string& model, const std::string& device) {
  return d.name == "cpu" && !meansModel(d, model) ? d : DeviceName{device};
}

}  // namespace graft
