#include "core/text/module_tree.h"

#include <fmt/format.h>

#include <map>
#include <unordered_set>
#include <vector>

#include "core/text/text.h"

namespace graft {
namespace {

struct Line {
  std::string name, text;
  ModuleCallId module;  ///< none for an operator
};

bool isTorchModule(const ModuleCall& m) { return m.type.starts_with("torch.nn."); }

// What an operator shows of itself: the sizes of the matrix it multiplies with, and settings that are not the defaults.
std::string operatorText(const Graph& g, const Node& n) {
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
  for (size_t i = 0; i < n.args.size() && i < n.op->parameters.size(); ++i) {
    const Parameter& p = n.op->parameters[i];
    const Argument& a = n.args[i];
    if (a.isValue() && p.name == "weight") {
      const auto& shape = g.value(a.valueId()).type.tensorInfo.shape;
      if (shape && shape->size() == 2)  // [out, in], as linear layers keep it
        add(fmt::format("in_features={}, out_features={}", (*shape)[1].size, (*shape)[0].size));
    } else if (p.keywordOnly && !(p.defaultValue && *p.defaultValue == a) && !a.isNone()) {
      if (!a.holdsValue()) add(p.name + "=" + (a.as<std::string>() ? "'" + *a.as<std::string>() + "'" : toText(a, g)));
    }
  }
  return std::string(n.op->packetName()) + "(" + out + ")";
}

// A layer of its own, like linear(x, weight): not a view of a table.
bool hasWeight(const Graph& g, const Node& n) {
  for (size_t i = 0; i < n.args.size() && i < n.op->parameters.size(); ++i)
    if (n.op->parameters[i].name == "weight" && n.args[i].isValue() && g.isWeight(n.args[i].valueId())) return true;
  return false;
}

class TreePrinter {
 public:
  explicit TreePrinter(const Graph& g) : g_(g) {
    for (NodeId id : g.order()) {
      const Node& n = g.node(id);
      // Every module around the node, the innermost last; each stands where its first node does.
      std::vector<ModuleCallId> around;
      for (ModuleCallId m = n.module; m; m = g.moduleCall(m).parent) around.insert(around.begin(), m);
      ModuleCallId parent;
      for (ModuleCallId m : around) {
        if (seen_.insert(g.moduleCall(m).path).second)
          children_[key(parent)].push_back({nameIn(parent, g.moduleCall(m).path), moduleText(g, g.moduleCall(m)), m});
        parent = m;
      }
      const bool inside = n.module && isTorchModule(g.moduleCall(n.module));
      if (n.op->name.starts_with("graft.") || (!inside && hasWeight(g, n)))
        children_[key(n.module)].push_back({n.name, operatorText(g, n), {}});
    }
  }

  std::string print(ModuleCallId of, int depth) const {
    const auto it = children_.find(key(of));
    if (it == children_.end()) return "";
    const std::string indent(static_cast<size_t>(depth) * 2, ' ');
    std::string out;
    for (const Line& l : it->second) {
      const std::string inner = l.module ? print(l.module, depth + 1) : "";
      // A module with parts shows these instead of what it was built with.
      const std::string text =
          inner.empty() ? l.text : l.text.substr(0, l.text.find('(')) + "(\n" + inner + indent + ")";
      out += fmt::format("{}({}): {}\n", indent, l.name, text);
    }
    return out;
  }

 private:
  std::string key(ModuleCallId m) const { return m ? g_.moduleCall(m).path : ""; }
  std::string nameIn(ModuleCallId parent, const std::string& path) const {
    const std::string prefix = parent ? g_.moduleCall(parent).path + "." : "";
    return !prefix.empty() && path.starts_with(prefix) ? path.substr(prefix.size()) : path;
  }

  const Graph& g_;
  std::map<std::string, std::vector<Line>> children_;  // by the path of the module around them
  std::unordered_set<std::string> seen_;
};

}  // namespace

std::string moduleText(const Graph& g, const ModuleCall& m) {
  std::string text = std::string(m.shortType()) + "(";
  for (size_t i = 0; i < m.constructor.size(); ++i) {
    const auto& [key, value] = m.constructor[i];
    const std::string v = value.as<std::string>() ? "'" + *value.as<std::string>() + "'" : toText(value, g);
    // torch.nn's own extra_repr gives what has no name first (Dropout's p is named, LayerNorm's shape is not).
    text += (i ? ", " : "") + (key.empty() ? v : key + "=" + v);
  }
  return text + ")";
}

std::string moduleTree(const Graph& g) {
  return (g.name.empty() ? "Model" : g.name) + "(\n" + TreePrinter(g).print({}, 1) + ")\n";
}

}  // namespace graft
