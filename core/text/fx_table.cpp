#include "core/text/fx_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/text/literals.h"
#include "core/text/module_tree.h"
#include "core/text/text.h"

namespace graft {
namespace {

// FX shows values by bare name and strings in single quotes.
class Python {
 public:
  Python(const Graph& g, const std::unordered_map<uint32_t, std::string>& names) : g_(g), names_(names) {}

  std::string text(const Argument& a) const {
    if (a.isValue()) return name(a.valueId());
    if (const auto* s = a.as<std::string>()) return "'" + *s + "'";
    if (const auto* l = a.as<Argument::List>()) return "[" + join(l->items) + "]";
    if (const auto* t = a.as<Argument::Tuple>()) return tuple(t->items);
    if (const auto* n = a.as<Named>()) return "torch." + n->name;
    if (const auto* d = a.as<Argument::Dict>()) {
      std::string out = "{";
      for (size_t i = 0; i < d->items.size(); ++i)
        out += (i ? ", " : "") + text(d->items[i].first) + ": " + text(d->items[i].second);
      return out + "}";
    }
    return toText(a, g_);
  }
  std::string tuple(const std::vector<Argument>& items) const {
    return "(" + join(items) + (items.size() == 1 ? ",)" : ")");
  }
  std::string name(ValueId v) const {
    const auto it = names_.find(v.index);
    return it != names_.end() ? it->second : g_.value(v).name;
  }

 private:
  std::string join(const std::vector<Argument>& items) const {
    std::string out;
    for (size_t i = 0; i < items.size(); ++i) out += (i ? ", " : "") + text(items[i]);
    return out;
  }
  const Graph& g_;
  const std::unordered_map<uint32_t, std::string>& names_;
};

bool isLeafModule(const ModuleCall& m) { return m.type.starts_with("torch.nn.") && !m.type.ends_with(".Sequential"); }

// Where one module call's nodes lie together and hand out one value, they are one row.
struct LeafCall {
  std::vector<NodeId> nodes;
  std::vector<ValueId> inputs;
  ValueId output;
  bool whole = true;
};

std::unordered_map<uint32_t, LeafCall> leafCalls(const Graph& g) {
  std::unordered_map<uint32_t, LeafCall> calls;
  for (NodeId id : g.order(g.root())) {
    const Node& n = g.node(id);
    if (!n.module || !isLeafModule(g.moduleCall(n.module))) continue;
    LeafCall& c = calls[n.module.index];
    if (!c.nodes.empty() && n.previous != c.nodes.back()) c.whole = false;
    if (n.origin) c.whole = false;
    c.nodes.push_back(id);
  }
  for (auto& entry : calls) {
    LeafCall& c = entry.second;
    const std::unordered_set<NodeId> own(c.nodes.begin(), c.nodes.end());
    size_t outputs = 0;
    for (NodeId id : c.nodes) {
      for (const Argument& a : g.node(id).args)
        a.forEachValue([&](ValueId v) {
          const Value& value = g.value(v);
          if (value.kind == Value::Kind::Weight || (value.producer && own.contains(value.producer))) return;
          if (std::find(c.inputs.begin(), c.inputs.end(), v) == c.inputs.end()) c.inputs.push_back(v);
        });
      for (ValueId v : g.node(id).outputs) {
        const auto& users = g.value(v).users;
        if (g.value(v).returnUses == 0 &&
            std::all_of(users.begin(), users.end(), [&](NodeId u) { return own.contains(u); }))
          continue;
        c.output = v;
        ++outputs;
      }
    }
    if (outputs != 1) c.whole = false;
  }
  return calls;
}

std::string columns(const std::vector<std::vector<std::string>>& rows) {
  // torch.fx prints by the package tabulate, whose columns are two wider than their heads.
  std::vector<size_t> widths;
  for (const std::string& head : rows[0]) widths.push_back(head.size() + 2);
  for (const auto& r : rows)
    for (size_t i = 0; i < r.size(); ++i) widths[i] = std::max(widths[i], r[i].size());
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string l;
    for (size_t i = 0; i < cells.size(); ++i) l += (i ? "  " : "") + fmt::format("{:<{}}", cells[i], widths[i]);
    while (!l.empty() && l.back() == ' ') l.pop_back();
    out += l + "\n";
  };
  line(rows[0]);
  std::vector<std::string> rule;
  for (size_t w : widths) rule.emplace_back(w, '-');
  line(rule);
  for (size_t i = 1; i < rows.size(); ++i) line(rows[i]);
  return out;
}

// Computed in that module call.
bool isInside(const Graph& g, ValueId v, ModuleCallId call) {
  const NodeId n = g.value(v).producer;
  return n && g.node(n).module && g.isWithin(g.node(n).module, call);
}

}  // namespace

std::vector<FxRow> fxRows(const Graph& g, const CallNames& callNames) {
  std::vector<FxRow> rows;
  std::unordered_map<uint32_t, std::string> names;
  const Python python(g, names);
  const auto calls = leafCalls(g);
  for (ValueId v : g.inputs()) rows.push_back({"placeholder", g.value(v).name, g.value(v).name, "()", "{}", {}, {}});
  std::unordered_set<uint32_t> fetched;
  std::unordered_set<std::string> given;  // by rewrites, each once
  const auto nameOf = [&](const ModuleCall& m, std::string otherwise) {
    const auto named = callNames.find(m.path);
    if (named == callNames.end()) return otherwise;
    std::string name = named->second;
    for (int i = 1; !given.insert(name).second || (g.findValue(name) && !isInside(g, g.findValue(name), m.id)); ++i)
      name = named->second + "_" + std::to_string(i);
    return name;
  };
  const auto fetchWeights = [&](const Argument& a) {
    a.forEachValue([&](ValueId v) {
      if (g.isWeight(v) && fetched.insert(v.index).second)
        rows.push_back({"get_attr", g.value(v).name, g.value(v).path, "()", "{}", {}, {}});
    });
  };
  for (NodeId id : g.order(g.root())) {
    const Node& n = g.node(id);
    if (n.origin) {
      const Origin& o = *n.origin;
      for (const Argument& a : o.args) fetchWeights(a);
      std::string kwargs;
      for (const auto& [k, a] : o.kwargs)
        kwargs += fmt::format("{}'{}': {}", kwargs.empty() ? "" : ", ", k, python.text(a));
      const bool module = o.opcode == "call_module" && n.module;
      const std::string name = module ? nameOf(g.moduleCall(n.module), n.name) : n.name;
      rows.push_back(
          {o.opcode, name, o.target, python.tuple(o.args), "{" + kwargs + "}", id, module ? n.module : ModuleCallId()});
      if (name != n.name && n.outputs.size() == 1) names[n.outputs[0].index] = name;
      continue;
    }
    const auto call = n.module ? calls.find(n.module.index) : calls.end();
    if (call != calls.end() && call->second.whole) {
      if (call->second.nodes.front() != id) continue;
      const ModuleCall& m = g.moduleCall(n.module);
      std::string name = m.path;
      std::replace(name.begin(), name.end(), '.', '_');
      name = nameOf(m, name);
      std::vector<Argument> inputs;
      for (ValueId v : call->second.inputs) inputs.emplace_back(v);
      rows.push_back({"call_module", name, m.path, python.tuple(inputs), "{}", id, n.module});
      names[call->second.output.index] = name;
      continue;
    }
    std::vector<Argument> positional;
    std::string kwargs;
    for (size_t i = 0; i < n.args.size(); ++i) {
      fetchWeights(n.args[i]);
      const bool isDefault = i < n.op->parameters.size() && n.op->parameters[i].defaultValue &&
                             *n.op->parameters[i].defaultValue == n.args[i];
      const bool keyword = i < n.op->parameters.size() && (n.op->parameters[i].keywordOnly || positional.size() < i);
      if (isDefault ||
          (i < n.op->parameters.size() && n.args[i].isNone() && n.op->parameters[i].type.kind == Type::Kind::Optional))
        continue;
      if (keyword)
        kwargs +=
            fmt::format("{}'{}': {}", kwargs.empty() ? "" : ", ", n.op->parameters[i].name, python.text(n.args[i]));
      else
        positional.push_back(n.args[i]);
    }
    for (const auto& [k, a] : n.kwargs)
      kwargs += fmt::format("{}'{}': {}", kwargs.empty() ? "" : ", ", k, python.text(a));
    rows.push_back({"call_function", n.name, n.op->name, python.tuple(positional), "{" + kwargs + "}", id, {}});
  }
  std::vector<Argument> returns(g.returns().begin(), g.returns().end());
  for (const Argument& a : returns) fetchWeights(a);
  rows.push_back({"output", "output", "output", python.tuple(returns), "{}", {}, {}});
  return rows;
}

std::vector<UsedModule> usedModules(const Graph& g, const std::vector<FxRow>& rows) {
  std::vector<UsedModule> out;
  std::unordered_set<std::string> seen;
  for (const FxRow& r : rows) {
    if (!r.module || !seen.insert(g.moduleCall(r.module).path).second) continue;
    const ModuleCall& m = g.moduleCall(r.module);
    out.push_back({m.path, moduleText(g, m)});
  }
  return out;
}

std::string fxReport(const Graph& g, const CallNames& callNames) {
  const std::vector<FxRow> rows = fxRows(g, callNames);
  std::vector<std::vector<std::string>> cells{{"opcode", "name", "target", "args", "kwargs"}};
  for (const FxRow& r : rows) cells.push_back({r.opcode, r.name, r.target, r.args, r.kwargs});
  std::string out = columns(cells);
  const auto modules = usedModules(g, rows);
  if (modules.empty()) return out;
  out += "----------\nUsed modules\n----------\n";
  cells = {{"name", "target_type"}};
  for (const UsedModule& m : modules) cells.push_back({m.path, m.text});
  return out + columns(cells);
}

}  // namespace graft
