#include "core/ir/graph.h"

#include <algorithm>
#include <cassert>
#include <unordered_map>
#include <unordered_set>

namespace graft {
namespace {

// Room between neighbours' order keys: 2^20 halvings' worth of insertions before a block is renumbered.
constexpr int64_t orderGap = int64_t{1} << 20;

// Tells the id of a node from that of a value in the table of names.
constexpr uint32_t nodeMark = uint32_t{1} << 31;

bool isNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// Names are printed after a % and used in Python code: letters, digits, _ and dots between them.
std::string cleanName(std::string_view wish) {
  std::string out;
  out.reserve(wish.size());
  for (char c : wish) out += isNameChar(c) ? c : '_';
  while (!out.empty() && out.back() == '.') out.pop_back();
  if (out.empty() || (out[0] >= '0' && out[0] <= '9') || out[0] == '.') out.insert(out.begin(), '_');
  return out;
}

/// Notes which value stands for which; false where the arguments differ in anything else.
bool pairValues(const Argument& was, const Argument& now, std::unordered_map<ValueId, ValueId>& out) {
  if (was.isValue() && now.isValue()) return out.emplace(was.valueId(), now.valueId()).first->second == now.valueId();
  if (was.isValue() || now.isValue() || was.data.index() != now.data.index()) return false;
  const auto *a = was.items(), *b = now.items();
  if (!a || !b) return was == now;
  if (a->size() != b->size()) return false;
  for (size_t i = 0; i < a->size(); ++i)
    if (!pairValues((*a)[i], (*b)[i], out)) return false;
  return true;
}

}  // namespace

const Argument* Node::findArgument(std::string_view parameter) const {
  if (const auto i = op->findParameter(parameter); i && *i < args.size()) return &args[*i];
  for (const auto& [key, value] : kwargs)
    if (key == parameter) return &value;
  return nullptr;
}

std::string_view ModuleCall::lastName() const {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? std::string_view(path) : std::string_view(path).substr(dot + 1);
}

std::string_view ModuleCall::shortType() const {
  const size_t dot = type.rfind('.');
  return dot == std::string::npos ? std::string_view(type) : std::string_view(type).substr(dot + 1);
}

Graph::Graph() {
  Block b;
  b.id = BlockId(0);
  blocks_.push_back(std::move(b));
}

const SourceLocation* Graph::sourceOf(const Node& n) const {
  return n.source < sources_.size() ? &sources_[n.source] : nullptr;
}

std::vector<ValueId> Graph::weights() const {
  std::vector<ValueId> out;
  for (ValueId v : weightOrder_)
    if (values_[v.index].alive) out.push_back(v);
  return out;
}

const Symbol* Graph::findSymbol(std::string_view name) const {
  const auto it = std::find_if(symbols_.begin(), symbols_.end(), [&](const Symbol& s) { return s.name == name; });
  return it == symbols_.end() ? nullptr : &*it;
}

std::vector<NodeId> Graph::order(BlockId b) const {
  std::vector<NodeId> out;
  out.reserve(block(b).size);
  for (NodeId n = block(b).first; n; n = node(n).next) out.push_back(n);
  return out;
}

std::vector<NodeId> Graph::order() const {
  if (blocks_.size() == 1) return order(root());
  std::vector<NodeId> out;
  out.reserve(liveNodes_);
  // An explicit stack of "where to go on" keeps deep nests of control flow off the call stack.
  std::vector<NodeId> stack{block(root()).first};
  std::vector<std::vector<BlockId>> pendingBlocks{{}};
  while (!stack.empty()) {
    if (!pendingBlocks.back().empty()) {
      const BlockId b = pendingBlocks.back().back();
      pendingBlocks.back().pop_back();
      stack.push_back(block(b).first);
      pendingBlocks.emplace_back();
      continue;
    }
    const NodeId n = stack.back();
    if (!n) {
      stack.pop_back();
      pendingBlocks.pop_back();
      continue;
    }
    out.push_back(n);
    stack.back() = node(n).next;
    pendingBlocks.back().assign(node(n).blocks.rbegin(), node(n).blocks.rend());
  }
  return out;
}

ValueId Graph::output(NodeId id) const {
  assert(node(id).outputs.size() == 1);
  return node(id).outputs.front();
}

bool Graph::isBefore(NodeId a, NodeId b) const {
  assert(node(a).parent == node(b).parent);
  return node(a).orderKey < node(b).orderKey;
}

bool Graph::isInput(ValueId v) const {
  return value(v).kind == Value::Kind::BlockParameter && value(v).block == root();
}

// What bears the name: a value's index, a node's with its mark, or IdTable::none.
uint32_t Graph::findName(std::string_view name) const {
  return names_.find(IdTable::hash(name), [&](uint32_t id) {
    return (id & nodeMark) ? nodes_[id & ~nodeMark].name == name : values_[id].name == name;
  });
}

NodeId Graph::findNode(std::string_view name) const {
  const uint32_t id = findName(name);
  if (id == IdTable::none) return {};
  if (id & nodeMark) return NodeId(id & ~nodeMark);
  const Value& v = values_[id];
  // A node is named after its first output.
  return v.kind == Value::Kind::Output && node(v.producer).outputs.front() == v.id ? v.producer : NodeId();
}

ValueId Graph::findValue(std::string_view name) const {
  const uint32_t id = findName(name);
  return id == IdTable::none || (id & nodeMark) ? ValueId() : ValueId(id);
}

ValueId Graph::findWeight(std::string_view path) const {
  const uint32_t id = weightPaths_.find(IdTable::hash(path), [&](uint32_t i) { return values_[i].path == path; });
  return id == IdTable::none ? ValueId() : ValueId(id);
}

bool Graph::isWithin(ModuleCallId call, ModuleCallId ancestor) const {
  if (!ancestor) return true;
  for (; call; call = moduleCall(call).parent)
    if (call == ancestor) return true;
  return false;
}

ModuleCallId Graph::commonModule(ModuleCallId a, ModuleCallId b) const {
  for (; a; a = moduleCall(a).parent)
    if (isWithin(b, a)) return a;
  return {};
}

std::string_view Graph::scopeOf(NodeId id) const {
  const ModuleCallId m = node(id).module;
  return m ? std::string_view(moduleCall(m).path) : std::string_view();
}

// Names
// -----------------------------------------------------------------------------------------------------------------------

std::string Graph::uniqueName(std::string_view wish) {
  std::string base = cleanName(wish);
  if (findName(base) == IdTable::none) return base;
  // "relu_1" wished for again becomes "relu_2", as torch.fx counts.
  const size_t tail = base.find_last_not_of("0123456789");
  if (tail != std::string::npos && tail + 1 < base.size() && base[tail] == '_') base.resize(tail);
  uint32_t& next = nextSuffix_[base];
  for (;;) {
    std::string name = base + "_" + std::to_string(++next);
    if (findName(name) == IdTable::none) return name;
  }
}

ValueId Graph::newValue(Value::Kind kind, std::string_view name, Type type) {
  Value v;
  v.id = ValueId(static_cast<uint32_t>(values_.size()));
  v.kind = kind;
  v.name = uniqueName(name);
  v.type = std::move(type);
  names_.insert(IdTable::hash(v.name), v.id.index);
  values_.push_back(std::move(v));
  return values_.back().id;
}

std::string Graph::rename(ValueId id, std::string_view wish) {
  Value& v = values_[id.index];
  if (v.name == wish) return v.name;
  Node* owner = v.kind == Value::Kind::Output ? &nodes_[v.producer.index] : nullptr;
  const bool first = owner && !owner->outputs.empty() && owner->outputs.front() == id;
  names_.erase(IdTable::hash(v.name), id.index);
  v.name = uniqueName(wish);
  names_.insert(IdTable::hash(v.name), id.index);
  if (first) owner->name = v.name;
  return v.name;
}

// Building
// --------------------------------------------------------------------------------------------------------------------

ValueId Graph::addBlockParameter(BlockId b, std::string_view name, Type type) {
  const ValueId v = newValue(Value::Kind::BlockParameter, name, std::move(type));
  values_[v.index].block = b;
  blocks_[b.index].parameters.push_back(v);
  return v;
}

ValueId Graph::addWeight(std::string_view path, Type type, std::shared_ptr<const WeightData> data, bool isBuffer) {
  std::string name(path);
  std::replace(name.begin(), name.end(), '.', '_');
  const ValueId id = newValue(Value::Kind::Weight, name, std::move(type));
  Value& v = values_[id.index];
  v.path = path;
  // Two weights may wish for one path (constants that rules compute): the later one gets a number.
  for (int i = 1; findWeight(v.path); ++i) v.path = std::string(path) + "_" + std::to_string(i);
  v.data = std::move(data);
  v.isBuffer = isBuffer;
  weightPaths_.insert(IdTable::hash(v.path), id.index);
  weightOrder_.push_back(id);
  return id;
}

void Graph::setSymbol(Symbol symbol) {
  const auto at = std::lower_bound(symbols_.begin(), symbols_.end(), symbol.name,
                                   [](const Symbol& s, const std::string& name) { return s.name < name; });
  if (at != symbols_.end() && at->name == symbol.name)
    *at = std::move(symbol);
  else
    symbols_.insert(at, std::move(symbol));
}

void Graph::setModuleCallOrder(const std::vector<ModuleCallId>& order) {
  assert(order.size() == modules_.size());
  std::vector<ModuleCallId> now(modules_.size());
  std::vector<ModuleCall> sorted;
  sorted.reserve(modules_.size());
  for (ModuleCallId from : order) {
    now[from.index] = ModuleCallId(static_cast<uint32_t>(sorted.size()));
    sorted.push_back(std::move(modules_[from.index]));
  }
  for (ModuleCall& m : sorted) {
    m.id = now[m.id.index];
    if (m.parent) m.parent = now[m.parent.index];
  }
  modules_ = std::move(sorted);
  for (Node& n : nodes_)
    if (n.module) n.module = now[n.module.index];
}

ModuleCallId Graph::addModuleCall(ModuleCallId parent, std::string path, std::string type) {
  ModuleCall m;
  m.id = ModuleCallId(static_cast<uint32_t>(modules_.size()));
  m.parent = parent;
  m.path = std::move(path);
  m.type = std::move(type);
  modules_.push_back(std::move(m));
  return modules_.back().id;
}

uint32_t Graph::addSource(SourceLocation location) {
  const uint32_t hash = IdTable::hash(location.file) + 0x9e3779b1u * static_cast<uint32_t>(location.line) +
                        0x85ebca6bu * static_cast<uint32_t>(location.column);
  const uint32_t known = sourceTable_.find(hash, [&](uint32_t i) {
    const SourceLocation& s = sources_[i];
    return s.line == location.line && s.column == location.column && s.endColumn == location.endColumn &&
           s.file == location.file;
  });
  if (known != IdTable::none) return known;
  const auto id = static_cast<uint32_t>(sources_.size());
  sourceTable_.insert(hash, id);
  sources_.push_back(std::move(location));
  return id;
}

BlockId Graph::addBlock(NodeId owner) {
  Block b;
  b.id = BlockId(static_cast<uint32_t>(blocks_.size()));
  b.owner = owner;
  blocks_.push_back(std::move(b));
  nodes_[owner.index].blocks.push_back(blocks_.back().id);
  return blocks_.back().id;
}

NodeId Graph::create(BlockId b, NodeId before, OperatorRef op, std::vector<Argument> args, std::string_view name) {
  const NodeId id(static_cast<uint32_t>(nodes_.size()));
  nodes_.emplace_back();
  Node& n = nodes_.back();
  n.id = id;
  n.op = std::move(op);
  n.args = std::move(args);
  link(id, b, before);
  addUses(id);
  ++liveNodes_;
  const std::string wish(name.empty() ? n.op->baseName() : name);
  const auto returns = n.op;  // keeps the schema alive while values are added
  if (returns->returns.empty()) {
    n.name = uniqueName(wish);
    names_.insert(IdTable::hash(n.name), id.index | nodeMark);
    return id;
  }
  for (size_t i = 0; i < returns->returns.size(); ++i)
    addOutput(id, i == 0 ? wish : wish + "_" + std::to_string(i), returns->returns[i].type);
  return id;
}

NodeId Graph::append(BlockId b, OperatorRef op, std::vector<Argument> args, std::string_view name) {
  return create(b, {}, std::move(op), std::move(args), name);
}
NodeId Graph::prepend(BlockId b, OperatorRef op, std::vector<Argument> args, std::string_view name) {
  return create(b, block(b).first, std::move(op), std::move(args), name);
}
NodeId Graph::insertBefore(NodeId at, OperatorRef op, std::vector<Argument> args, std::string_view name) {
  return create(node(at).parent, at, std::move(op), std::move(args), name);
}
NodeId Graph::insertAfter(NodeId at, OperatorRef op, std::vector<Argument> args, std::string_view name) {
  return create(node(at).parent, node(at).next, std::move(op), std::move(args), name);
}

ValueId Graph::addOutput(NodeId id, std::string_view name, Type type) {
  const bool first = nodes_[id.index].outputs.empty();
  if (first && !nodes_[id.index].name.empty()) names_.erase(IdTable::hash(nodes_[id.index].name), id.index | nodeMark);
  const ValueId v = newValue(Value::Kind::Output, name, std::move(type));
  values_[v.index].producer = id;
  Node& n = nodes_[id.index];
  n.outputs.push_back(v);
  if (first) n.name = values_[v.index].name;
  return v;
}

void Graph::reserve(size_t count) {
  nodes_.reserve(count);
  values_.reserve(count + count / 4);
  names_.reserve(count + count / 4);
}

// Order
// -----------------------------------------------------------------------------------------------------------------------

void Graph::link(NodeId id, BlockId b, NodeId before) {
  Block& blk = blocks_[b.index];
  Node& n = nodes_[id.index];
  n.parent = b;
  n.next = before;
  n.previous = before ? nodes_[before.index].previous : blk.last;
  (n.previous ? nodes_[n.previous.index].next : blk.first) = id;
  (before ? nodes_[before.index].previous : blk.last) = id;
  ++blk.size;
  const int64_t low =
      n.previous ? nodes_[n.previous.index].orderKey : (before ? nodes_[before.index].orderKey - 2 * orderGap : 0);
  if (!before) {
    n.orderKey = low + orderGap;
  } else {
    const int64_t high = nodes_[before.index].orderKey;
    n.orderKey = low + (high - low) / 2;
    if (n.orderKey == low) renumber(b);
  }
}

void Graph::renumber(BlockId b) {
  int64_t key = 0;
  for (NodeId n = block(b).first; n; n = node(n).next) nodes_[n.index].orderKey = key += orderGap;
}

void Graph::unlink(NodeId id) {
  Node& n = nodes_[id.index];
  Block& blk = blocks_[n.parent.index];
  (n.previous ? nodes_[n.previous.index].next : blk.first) = n.next;
  (n.next ? nodes_[n.next.index].previous : blk.last) = n.previous;
  n.previous = n.next = NodeId();
  --blk.size;
}

void Graph::moveBefore(NodeId id, NodeId at) {
  if (id == at) return;
  unlink(id);
  link(id, node(at).parent, at);
}

void Graph::moveAfter(NodeId id, NodeId at) {
  if (id == at || node(at).next == id) return;
  unlink(id);
  link(id, node(at).parent, node(at).next);
}

// Uses
// ------------------------------------------------------------------------------------------------------------------------

// The node is listed nowhere yet: where a value's last user is this node, it names the value twice.
void Graph::addUses(NodeId user) {
  const auto note = [&](ValueId v) {
    auto& users = values_[v.index].users;
    if (users.empty() || users.back() != user) users.push_back(user);
  };
  for (const Argument& a : nodes_[user.index].args) a.forEachValue(note);
  for (const auto& [key, a] : nodes_[user.index].kwargs) a.forEachValue(note);
}

void Graph::dropUses(NodeId user) {
  const auto forget = [&](ValueId v) {
    auto& users = values_[v.index].users;
    // The latest users are dropped most often, and where a graph is rewritten from its front, the earliest: from both
    // ends, so that a mask that every layer reads does not make that quadratic.
    for (size_t i = 0, j = users.size(); i < j; ++i) {
      if (users[--j] == user) {
        users.erase(users.begin() + static_cast<std::ptrdiff_t>(j));
        return;
      }
      if (users[i] == user) {
        users.erase(users.begin() + static_cast<std::ptrdiff_t>(i));
        return;
      }
    }
  };
  for (const Argument& a : nodes_[user.index].args) a.forEachValue(forget);
  for (const auto& [key, a] : nodes_[user.index].kwargs) a.forEachValue(forget);
}

std::shared_ptr<const Origin> respelled(const std::shared_ptr<const Origin>& origin, const std::vector<Argument>& was,
                                        const std::vector<Argument>& now) {
  if (!origin || was == now) return origin;
  std::unordered_map<ValueId, ValueId> to;
  if (!pairValues(Argument::list(was), Argument::list(now), to)) return nullptr;
  std::erase_if(to, [](const auto& pair) { return pair.first == pair.second; });
  auto out = std::make_shared<Origin>(*origin);
  std::unordered_set<ValueId> named;
  const auto swap = [&](ValueId& v) {
    const auto it = to.find(v);
    if (it == to.end()) return;
    named.insert(v);
    v = it->second;
  };
  for (Argument& a : out->args) a.forEachValueMutable(swap);
  for (auto& [key, a] : out->kwargs) a.forEachValueMutable(swap);
  return named.size() == to.size() ? out : nullptr;
}

void Graph::setArgument(NodeId id, size_t index, Argument arg) {
  std::vector<Argument> args = nodes_[id.index].args;
  args[index] = std::move(arg);
  setArguments(id, std::move(args));
}

void Graph::setArguments(NodeId id, std::vector<Argument> args) {
  dropUses(id);
  Node& n = nodes_[id.index];
  n.origin = respelled(n.origin, n.args, args);
  n.args = std::move(args);
  addUses(id);
}

void Graph::setKeywordArguments(NodeId id, std::vector<std::pair<std::string, Argument>> kwargs) {
  dropUses(id);
  Node& n = nodes_[id.index];
  if (n.kwargs != kwargs) n.origin.reset();
  n.kwargs = std::move(kwargs);
  addUses(id);
}

void Graph::setReturns(BlockId b, std::vector<Argument> returns) {
  Block& blk = blocks_[b.index];
  for (const Argument& a : blk.returns) a.forEachValue([&](ValueId v) { --values_[v.index].returnUses; });
  blk.returns = std::move(returns);
  for (const Argument& a : blk.returns) a.forEachValue([&](ValueId v) { ++values_[v.index].returnUses; });
}

void Graph::replaceAllUses(ValueId from, ValueId to) {
  if (from == to) return;
  bool usedBefore = false;
  const auto swap = [&](ValueId& v) {
    usedBefore = usedBefore || v == to;
    if (v == from) v = to;
  };
  const std::vector<NodeId> users = std::move(values_[from.index].users);
  values_[from.index].users.clear();
  for (NodeId u : users) {
    usedBefore = false;
    nodes_[u.index].origin = respelled(nodes_[u.index].origin, {Argument(from)}, {Argument(to)});
    for (Argument& a : nodes_[u.index].args) a.forEachValueMutable(swap);
    for (auto& [key, a] : nodes_[u.index].kwargs) a.forEachValueMutable(swap);
    if (!usedBefore) values_[to.index].users.push_back(u);
  }
  if (values_[from.index].returnUses == 0) return;
  for (Block& b : blocks_)
    for (Argument& a : b.returns) a.forEachValueMutable(swap);
  values_[to.index].returnUses += values_[from.index].returnUses;
  values_[from.index].returnUses = 0;
}

void Graph::erase(NodeId id) {
  for (ValueId v : nodes_[id.index].outputs) {
    assert(isUnused(v));
    values_[v.index].alive = false;
    names_.erase(IdTable::hash(values_[v.index].name), v.index);
  }
  for (BlockId b : nodes_[id.index].blocks) {
    setReturns(b, {});
    while (NodeId last = block(b).last) erase(last);
    for (ValueId v : block(b).parameters) {
      values_[v.index].alive = false;
      names_.erase(IdTable::hash(values_[v.index].name), v.index);
    }
  }
  dropUses(id);
  unlink(id);
  Node& n = nodes_[id.index];
  if (n.outputs.empty()) names_.erase(IdTable::hash(n.name), id.index | nodeMark);
  n.alive = false;
  n.args.clear();
  n.kwargs.clear();
  --liveNodes_;
}

void Graph::eraseWeight(ValueId id) {
  Value& v = values_[id.index];
  assert(v.kind == Value::Kind::Weight && isUnused(id));
  v.alive = false;
  v.data.reset();
  names_.erase(IdTable::hash(v.name), id.index);
  weightPaths_.erase(IdTable::hash(v.path), id.index);
}

}  // namespace graft
