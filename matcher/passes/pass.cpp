#include "matcher/passes/pass.h"

namespace graft {

Record replaceNode(Graph& g, NodeId id, ValueId by, std::string_view pass) {
  const Node& n = g.node(id);
  Record r;
  r.rule = pass;
  r.scope = g.scopeOf(id);
  r.removed.push_back(id);
  r.removedNames.push_back(n.name);
  const ValueId old = n.outputs.front();
  r.inputs.emplace_back(g.value(by).name, g.value(by).name);
  r.outputs.emplace_back(g.value(old).name, g.value(by).name);
  g.replaceAllUses(old, by);
  g.erase(id);
  return r;
}

namespace {

bool substitute(Argument& a, ValueId v, const Argument& literal) {
  if (a.isValue()) {
    if (a.valueId() != v) return false;
    a = literal;
    return true;
  }
  bool changed = false;
  const auto all = [&](std::vector<Argument>& items) {
    for (Argument& i : items) changed = substitute(i, v, literal) || changed;
  };
  if (auto* l = std::get_if<Argument::List>(&a.data)) all(l->items);
  if (auto* t = std::get_if<Argument::Tuple>(&a.data)) all(t->items);
  if (auto* s = std::get_if<Argument::Slice>(&a.data)) all(s->bounds);
  return changed;
}

}  // namespace

void replaceByLiteral(Graph& g, ValueId v, const Argument& literal) {
  const std::vector<NodeId> users = g.value(v).users;
  for (NodeId u : users) {
    std::vector<Argument> args = g.node(u).args;
    for (Argument& a : args) substitute(a, v, literal);
    g.setArguments(u, std::move(args));
    auto kwargs = g.node(u).kwargs;
    bool changed = false;
    for (auto& [key, a] : kwargs) changed = substitute(a, v, literal) || changed;
    if (changed) g.setKeywordArguments(u, std::move(kwargs));
  }
  if (g.value(v).returnUses == 0) return;
  for (uint32_t b = 0; b < g.blockBound(); ++b) {
    std::vector<Argument> returns = g.block(BlockId(b)).returns;
    bool changed = false;
    for (Argument& a : returns) changed = substitute(a, v, literal) || changed;
    if (changed) g.setReturns(BlockId(b), std::move(returns));
  }
}

std::string nameArgument(const Step& step, size_t index) {
  if (index >= step.args.size()) return "";
  const Argument& a = step.args[index];
  std::string text;
  if (const auto* n = a.as<Named>()) text = n->name;
  if (const auto* s = a.as<std::string>()) text = *s;
  const size_t dot = text.rfind('.');
  return dot == std::string::npos ? text : text.substr(dot + 1);
}

NodeBuilder::NodeBuilder(Graph& graph, const Semantics& semantics, NodeId before)
    : graph_(graph), semantics_(semantics), before_(before) {}

Argument NodeBuilder::call(std::string_view name, std::vector<Argument> args) {
  if (error_) return {};
  const OperatorRef op = semantics_.operators().find(name);
  if (!op) {
    error_ = internalError("the operator " + std::string(name) + " is not known to this build");
    return {};
  }
  for (size_t i = args.size(); i < op->parameters.size(); ++i)
    args.push_back(op->parameters[i].defaultValue.value_or(Argument()));
  const NodeId id = graph_.insertBefore(before_, op, std::move(args));
  added_.push_back(id);
  graph_.setModule(id, graph_.node(before_).module);
  graph_.setSource(id, graph_.node(before_).source);
  auto types = semantics_.inferTypes(graph_, id);
  if (!types) {
    error_ = types.error();
    return {};
  }
  for (size_t o = 0; o < types->size() && o < graph_.node(id).outputs.size(); ++o)
    graph_.setType(graph_.node(id).outputs[o], (*types)[o]);
  return Argument(graph_.node(id).outputs.front());
}

void NodeBuilder::undo() {
  for (auto it = added_.rbegin(); it != added_.rend(); ++it) graph_.erase(*it);
  added_.clear();
}

}  // namespace graft
