#include "matcher/rewrite/graph_editor.h"

#include <algorithm>
#include <cassert>

namespace graft {
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

std::string placeOf(const RolledBack& r) { return "`" + r.node + "`" + (r.scope.empty() ? "" : " in " + r.scope); }

std::string toString(const RolledBack& r) {
  return r.node.empty() ? r.verification.why : "at " + placeOf(r) + ": " + r.verification.why;
}

// Edits
// ---------------------------------------------------------------------------------------------------------------------

std::vector<Record> GraphEditor::takeRecords() {
  assert(!isOpen_);
  return std::exchange(records_, {});
}

Record& GraphEditor::begin(NodeId place) { return begin(name_, place ? graph_.scopeOf(place) : std::string_view()); }

Record& GraphEditor::begin(std::string_view name, std::string_view scope) {
  assert(!isOpen_);
  isOpen_ = true;
  newWeights_.clear();
  Record& r = records_.emplace_back();
  r.rule = name;
  r.scope = scope;
  return r;
}

Record& GraphEditor::record() {
  assert(isOpen_);
  return records_.back();
}

void GraphEditor::commit() {
  assert(isOpen_);
  isOpen_ = false;
  if (listener_) listener_->onRecord(records_.back(), graph_);
}

void GraphEditor::noteRolledBack(RolledBack r) {
  rolledBack_.push_back(std::move(r));
  if (listener_) listener_->onRolledBack(rolledBack_.back(), graph_);
}

void GraphEditor::cancel() {
  const Record& r = record();
  assert(r.removed.empty() && r.outputs.empty());
  for (auto it = r.added.rbegin(); it != r.added.rend(); ++it) graph_.erase(*it);
  for (auto it = newWeights_.rbegin(); it != newWeights_.rend(); ++it) graph_.eraseWeight(*it);
  records_.pop_back();
  isOpen_ = false;
}

void GraphEditor::replaceNode(NodeId node, ValueId by) {
  const std::string name = graph_.value(by).name;
  begin(node).inputs.emplace_back(name, name);
  replaceValue(graph_.node(node).outputs.front(), by);
  erase(node);
  commit();
}

// Inserting
// ---------------------------------------------------------------------------------------------------------------------

NodeId GraphEditor::insert(BlockId block, NodeId before, OperatorRef op, std::vector<Argument> args,
                           std::string_view name) {
  assert(!before || graph_.node(before).parent == block);
  const NodeId made = before ? graph_.insertBefore(before, std::move(op), std::move(args), name)
                             : graph_.append(block, std::move(op), std::move(args), name);
  Record& r = record();
  r.added.push_back(made);
  r.addedNames.push_back(graph_.node(made).name);
  return made;
}

NodeId GraphEditor::prepend(BlockId block, OperatorRef op, std::vector<Argument> args, std::string_view name) {
  const NodeId made = graph_.prepend(block, std::move(op), std::move(args), name);
  Record& r = record();
  r.added.push_back(made);
  r.addedNames.push_back(graph_.node(made).name);
  return made;
}

void GraphEditor::takeBack(NodeId inserted) {
  Record& r = record();
  const auto at = std::find(r.added.begin(), r.added.end(), inserted);
  assert(at != r.added.end());
  r.addedNames.erase(r.addedNames.begin() + (at - r.added.begin()));
  r.added.erase(at);
  graph_.erase(inserted);
}

ValueId GraphEditor::addOutput(NodeId node, std::string_view name, Type type) {
  assert(isOpen_);
  return graph_.addOutput(node, name, std::move(type));
}

ValueId GraphEditor::addWeight(std::string_view path, Type type, std::shared_ptr<const WeightData> data,
                               bool isBuffer) {
  const ValueId w = graph_.addWeight(path, std::move(type), std::move(data), isBuffer);
  newWeights_.push_back(w);
  record().newWeights.push_back(graph_.value(w).path);
  return w;
}

void GraphEditor::dropUnusedWeights() {
  std::erase_if(newWeights_, [&](ValueId w) {
    if (!graph_.value(w).alive || !graph_.isUnused(w)) return false;
    std::erase(record().newWeights, graph_.value(w).path);
    graph_.eraseWeight(w);
    return true;
  });
}

ModuleCallId GraphEditor::addModuleCall(ModuleCallId parent, std::string path, std::string type) {
  assert(isOpen_);
  return graph_.addModuleCall(parent, std::move(path), std::move(type));
}

// Replacing and erasing
// ---------------------------------------------------------------------------------------------------------------------

void GraphEditor::replaceValue(ValueId old, ValueId by) {
  record().outputs.emplace_back(graph_.value(old).name, graph_.value(by).name);
  graph_.replaceAllUses(old, by);
}

void GraphEditor::replaceByLiteral(ValueId v, const Argument& literal) {
  assert(isOpen_ && !literal.isValue());
  const std::vector<NodeId> users = graph_.value(v).users;
  for (NodeId u : users) {
    std::vector<Argument> args = graph_.node(u).args;
    for (Argument& a : args) substitute(a, v, literal);
    graph_.setArguments(u, std::move(args));
    auto kwargs = graph_.node(u).kwargs;
    bool changed = false;
    for (auto& [key, a] : kwargs) changed = substitute(a, v, literal) || changed;
    if (changed) graph_.setKeywordArguments(u, std::move(kwargs));
  }
  if (graph_.value(v).returnUses == 0) return;
  for (uint32_t b = 0; b < graph_.blockBound(); ++b) {
    std::vector<Argument> returns = graph_.block(BlockId(b)).returns;
    bool changed = false;
    for (Argument& a : returns) changed = substitute(a, v, literal) || changed;
    if (changed) graph_.setReturns(BlockId(b), std::move(returns));
  }
}

void GraphEditor::erase(NodeId node) {
  Record& r = record();
  r.removed.push_back(node);
  r.removedNames.push_back(graph_.node(node).name);
  graph_.erase(node);
}

void GraphEditor::eraseWeight(ValueId weight) {
  assert(isOpen_ && graph_.isUnused(weight));
  graph_.eraseWeight(weight);
}

void GraphEditor::setWeight(ValueId weight, const Semantics::Constant& c) {
  assert(c.data);
  Value& v = graph_.mutableWeight(weight);
  v.data = c.data;
  v.type = c.type;
  record().newWeights.push_back(v.path);
}

void GraphEditor::replaceModule(ModuleCallId call, std::string_view shortType) {
  assert(isOpen_);
  ModuleCall& changed = graph_.mutableModuleCall(call);
  const size_t dot = changed.type.rfind('.');
  changed.type = (dot == std::string::npos ? "" : changed.type.substr(0, dot + 1)) + std::string(shortType);
  changed.constructor.clear();
}

// In place
// ---------------------------------------------------------------------------------------------------------------------

void GraphEditor::noteChanged(NodeId node) {
  Record& r = record();
  const std::string& name = graph_.node(node).name;
  r.removed.push_back(node);
  r.removedNames.push_back(name);
  r.added.push_back(node);
  r.addedNames.push_back(name);
}

void GraphEditor::setOperator(NodeId node, OperatorRef op) {
  assert(isOpen_ && op);
  graph_.setOperator(node, std::move(op));
}

void GraphEditor::setArguments(NodeId node, std::vector<Argument> args) {
  assert(isOpen_);
  graph_.setArguments(node, std::move(args));
}

void GraphEditor::setKeywordArguments(NodeId node, std::vector<std::pair<std::string, Argument>> kwargs) {
  assert(isOpen_);
  graph_.setKeywordArguments(node, std::move(kwargs));
}

void GraphEditor::setReturns(BlockId block, std::vector<Argument> returns) {
  assert(isOpen_);
  graph_.setReturns(block, std::move(returns));
}

void GraphEditor::redirectUses(ValueId from, ValueId to) {
  assert(isOpen_);
  graph_.replaceAllUses(from, to);
}

void GraphEditor::setType(ValueId value, Type type) {
  assert(isOpen_);
  graph_.setType(value, std::move(type));
}

void GraphEditor::setModule(NodeId node, ModuleCallId module) {
  assert(isOpen_);
  graph_.setModule(node, module);
}

void GraphEditor::moveModuleCall(ModuleCallId call, ModuleCallId parent) {
  assert(isOpen_ && !graph_.isWithin(parent, call));
  graph_.mutableModuleCall(call).parent = parent;
}

void GraphEditor::sortModuleCalls() {
  assert(!isOpen_);
  std::vector<ModuleCallId> order;
  std::vector<char> isPlaced(graph_.moduleCalls().size());
  for (const ModuleCall& call : graph_.moduleCalls()) {
    const size_t end = order.size();
    for (ModuleCallId m = call.id; m && !isPlaced[m.index]; m = graph_.moduleCall(m).parent) {
      isPlaced[m.index] = true;
      order.push_back(m);
    }
    std::reverse(order.begin() + static_cast<std::ptrdiff_t>(end), order.end());
  }
  graph_.setModuleCallOrder(order);
}

void GraphEditor::setSource(NodeId node, uint32_t source) {
  assert(isOpen_);
  graph_.setSource(node, source);
}

void GraphEditor::setOrigin(NodeId node, std::shared_ptr<const Origin> origin) {
  assert(isOpen_);
  graph_.setOrigin(node, std::move(origin));
}

void GraphEditor::moveBefore(NodeId node, NodeId at) {
  assert(isOpen_);
  graph_.moveBefore(node, at);
}

void GraphEditor::moveAfter(NodeId node, NodeId at) {
  assert(isOpen_);
  graph_.moveAfter(node, at);
}

// NodeBuilder
// ---------------------------------------------------------------------------------------------------------------------

Argument NodeBuilder::call(std::string_view name, std::vector<Argument> args) {
  if (error_) return {};
  const Graph& graph = editor_.graph();
  const OperatorRef op = editor_.semantics().operators().find(name);
  if (!op) {
    error_ = internalError("the operator " + std::string(name) + " is not known to this build");
    return {};
  }
  for (size_t i = args.size(); i < op->parameters.size(); ++i)
    args.push_back(op->parameters[i].defaultValue.value_or(Argument()));
  const NodeId id = editor_.insert(graph.node(before_).parent, before_, op, std::move(args));
  editor_.setModule(id, graph.node(before_).module);
  editor_.setSource(id, graph.node(before_).source);
  auto types = editor_.semantics().inferTypes(graph, id);
  if (!types) {
    error_ = types.error();
    return {};
  }
  const std::vector<ValueId>& outputs = graph.node(id).outputs;
  for (size_t o = 0; o < types->size() && o < outputs.size(); ++o) editor_.setType(outputs[o], (*types)[o]);
  return Argument(outputs.front());
}

}  // namespace graft
