// partition(can_handle, name): the parts of a model that one backend can run become modules of their own, as
// torch.fx's split_module makes them. What else reads, fuses, times or exports modules then sees each part as one.
//
//   partition([torch.matmul, F.softmax, nn.Linear], "npu")      # npu_0, npu_1, … each as large as it can be
//   partition("encoder.layer", name="block", min_nodes=8)
//
// The level of a node is how often a path to it leaves what can be handled. Parts are connected nodes of one level, so
// no path leads out of a part and back into it. Where a part's level may be higher, it rises to that of a part that
// reads it, and both become one. Parts do not reach across nodes that write or have effects.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "core/text/node_names.h"
#include "matcher/passes/pass.h"
#include "matcher/search/graph_index.h"

namespace graft {
namespace {

constexpr const char* partitionUsage =
    "partition takes what a part may hold (operators, module types and paths, node names: one or a list), the name of "
    "the parts, and min_nodes=N";

struct PartitionStep {
  std::vector<std::string> canHandle;
  std::string name = "part";
  size_t minNodes = 2;
};

Result<std::string> nameOf(const Argument& a) {
  if (const auto* text = a.as<std::string>(); text && !text->empty()) return *text;
  // nn.Linear and F.gelu by their last names.
  if (const auto* named = a.as<Named>()) return named->name.substr(named->name.rfind('.') + 1);
  return badInput(partitionUsage);
}

Status setHandled(const Argument& a, PartitionStep& out) {
  const std::vector<Argument>* items = a.items();
  for (const Argument& item : items ? *items : std::vector{a}) {
    auto name = nameOf(item);
    if (!name) return name.error();
    out.canHandle.push_back(std::move(*name));
  }
  return out.canHandle.empty() ? Status(badInput(partitionUsage)) : done();
}

Status setName(const Argument& a, PartitionStep& out) {
  const auto* text = a.as<std::string>();
  const auto isLetter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; };
  if (!text || text->empty() || !isLetter(text->front()) || !std::all_of(text->begin(), text->end(), [&](char c) {
        return isLetter(c) || std::isdigit(static_cast<unsigned char>(c));
      }))
    return badInput("the name of partition's modules is an identifier: partition([…], \"npu\")");
  out.name = *text;
  return done();
}

Result<PartitionStep> wantedOf(const Step& step) {
  PartitionStep out;
  if (step.args.size() > 2) return badInput(partitionUsage);
  std::vector<std::pair<std::string, Argument>> all = step.kwargs;
  for (size_t i = 0; i < step.args.size(); ++i) all.emplace_back(i == 0 ? "can_handle" : "name", step.args[i]);
  for (const auto& [key, value] : all) {
    Status s = done();
    if (key == "can_handle") {
      s = setHandled(value, out);
    } else if (key == "name") {
      s = setName(value, out);
    } else if (key == "min_nodes") {
      const auto* n = value.as<int64_t>();
      if (!n || *n < 1) return badInput("partition(min_nodes=…) takes a whole number from 1 on");
      out.minNodes = static_cast<size_t>(*n);
    } else {
      return badInput("partition takes no " + key + "; " + partitionUsage);
    }
    if (!s) return s.error();
  }
  if (out.canHandle.empty()) return badInput(partitionUsage);
  return out;
}

/// The values that a node reads, in its blocks too.
template <class Visit>
void forEachRead(const Graph& g, NodeId id, const Visit& visit) {
  const Node& n = g.node(id);
  for (const Argument& a : n.args) a.forEachValue(visit);
  for (const auto& [key, a] : n.kwargs) a.forEachValue(visit);
  for (const BlockId b : n.blocks) {
    for (const Argument& a : g.block(b).returns) a.forEachValue(visit);
    for (const NodeId inner : g.order(b)) forEachRead(g, inner, visit);
  }
}

/// One part: its nodes in order, and what becomes of the calls of modules around them.
struct Part {
  std::string name;
  std::vector<NodeId> nodes;
  std::vector<ModuleCallId> calls;  ///< that lie in it with all their nodes: they become its own
  std::vector<NodeId> loose;        ///< its nodes of no such call
};

/// Finds the parts. Linear in nodes and edges, but for the sorting.
class Parts {
 public:
  Parts(const Graph& g, const PartitionStep& wanted)
      : g_(g),
        wanted_(wanted),
        index_(g),
        handled_(g.nodeBound()),
        level_(g.nodeBound()),
        epoch_(g.nodeBound()),
        part_(g.nodeBound()),
        readers_(g.nodeBound()) {}

  std::vector<Part> find() {
    readLevels();
    raise();
    std::map<std::pair<size_t, uint32_t>, Part> byRoot;  // by level and first node: no part before one that it reads
    for (const NodeId id : g_.order(g_.root()))
      if (handled_[id.index]) byRoot[{level_[id.index], position(rootOf(id.index))}].nodes.push_back(id);
    std::vector<Part> out;
    for (auto& [key, part] : byRoot) {
      if (part.nodes.size() < wanted_.minNodes) continue;
      placeCalls(part);
      out.push_back(std::move(part));
    }
    return out;
  }

 private:
  bool canHandle(const Node& n) const {
    if (!n.blocks.empty() || !n.op->pure() || !n.op->hasSchema) return false;
    // An item of a list belongs to what made the list.
    if (n.op->name == "prim.getitem" && n.args.front().isValue()) {
      const NodeId list = g_.value(n.args.front().valueId()).producer;
      return list && g_.node(list).parent == g_.root() && handled_[list.index];
    }
    return isNamed(g_, n, wanted_.canHandle);
  }

  /// What an edge adds to the level: 1 where it leaves what can be handled, or goes into another region.
  size_t step(NodeId from, NodeId to) const {
    if (!handled_[from.index]) return 0;
    return handled_[to.index] && index_.regionOf(from) == index_.regionOf(to) ? 0 : 1;
  }

  void readLevels() {
    size_t base = 0, highest = 0, epoch = 0;
    for (const NodeId id : g_.order(g_.root())) {
      const Node& n = g_.node(id);
      handled_[id.index] = canHandle(n);
      part_[id.index] = id.index;
      epoch_[id.index] = epoch;
      size_t& level = level_[id.index];
      level = base;
      forEachProducer(id, [&](NodeId from) {
        readers_[from.index].push_back(id);
        level = std::max(level, level_[from.index] + step(from, id));
      });
      if (handled_[id.index])
        forEachProducer(id, [&](NodeId from) {
          if (handled_[from.index] && level_[from.index] == level) join(from.index, id.index);
        });
      highest = std::max(highest, level);
      if (!n.op->pure() || !n.blocks.empty() || !n.op->hasSchema) base = highest + 1, ++epoch;
    }
  }

  /// From the last part to the first, so that those that read a part have risen before it.
  void raise() {
    std::map<std::pair<size_t, uint32_t>, std::vector<NodeId>> byRoot;
    for (const NodeId id : g_.order(g_.root()))
      if (handled_[id.index]) byRoot[{level_[id.index], position(rootOf(id.index))}].push_back(id);
    for (auto part = byRoot.rbegin(); part != byRoot.rend(); ++part) {
      const std::vector<NodeId>& nodes = part->second;
      const uint32_t root = rootOf(nodes.front().index);
      size_t limit = SIZE_MAX;
      NodeId from, to;  // an edge to a part of the level that limits it
      for (const NodeId n : nodes)
        for (const NodeId reader : readers_[n.index]) {
          if (rootOf(reader.index) == root) continue;
          const size_t most = level_[reader.index] - step(n, reader);
          const bool isPart = epoch_[n.index] == epoch_[reader.index] && handled_[reader.index] && step(n, reader) == 0;
          if (most < limit || (most == limit && isPart && !to)) from = n, to = isPart ? reader : NodeId();
          limit = std::min(limit, most);
        }
      if (!to) continue;
      for (const NodeId n : nodes) level_[n.index] = limit;
      join(from.index, to.index);
    }
  }

  template <class Visit>
  void forEachProducer(NodeId id, const Visit& visit) const {
    forEachRead(g_, id, [&](ValueId v) {
      const NodeId from = g_.value(v).producer;
      if (from && from != id && g_.node(from).parent == g_.root()) visit(from);
    });
  }

  uint32_t rootOf(uint32_t n) {
    while (part_[n] != n) n = part_[n] = part_[part_[n]];
    return n;
  }
  /// The root is the first node.
  void join(uint32_t a, uint32_t b) {
    a = rootOf(a), b = rootOf(b);
    if (position(a) < position(b))
      part_[b] = a;
    else
      part_[a] = b;
  }
  uint32_t position(uint32_t node) const { return index_.position[node]; }

  /// The outermost calls of modules that lie in the part with all that they do.
  void placeCalls(Part& part) const {
    const std::unordered_set<NodeId> members(part.nodes.begin(), part.nodes.end());
    std::unordered_map<ModuleCallId, bool> isInside;
    const auto liesInside = [&](ModuleCallId call) {
      const auto [at, isNew] = isInside.try_emplace(call, false);
      if (isNew)
        at->second = std::all_of(index_.nodesIn(call).begin(), index_.nodesIn(call).end(),
                                 [&](NodeId n) { return members.contains(n); });
      return at->second;
    };
    std::unordered_set<ModuleCallId> taken;
    for (const NodeId n : part.nodes) {
      ModuleCallId outermost;
      for (ModuleCallId m = g_.node(n).module; m && liesInside(m); m = g_.moduleCall(m).parent) outermost = m;
      if (!outermost)
        part.loose.push_back(n);
      else if (taken.insert(outermost).second)
        part.calls.push_back(outermost);
    }
  }

  const Graph& g_;
  const PartitionStep& wanted_;
  const GraphIndex index_;
  std::vector<char> handled_;
  std::vector<size_t> level_;   // by node
  std::vector<size_t> epoch_;   // by node: how many nodes that write or have effects stand before it
  std::vector<uint32_t> part_;  // by node: another of its part, or itself
  std::vector<std::vector<NodeId>> readers_;
};

/// Makes the nodes of a part neighbours: what reads them and stands between goes behind the last, the others before it.
void gather(GraphEditor& editor, const Part& part) {
  const Graph& g = editor.graph();
  std::vector<NodeId> members = part.nodes;
  std::sort(members.begin(), members.end(), [&](NodeId a, NodeId b) { return g.isBefore(a, b); });
  const NodeId last = members.back();
  const std::unordered_set<NodeId> isMember(members.begin(), members.end());
  std::unordered_set<ValueId> late;
  std::vector<NodeId> behind;
  for (NodeId n = members.front(); n != last; n = g.node(n).next) {
    bool isLate = isMember.contains(n);
    forEachRead(g, n, [&](ValueId v) { isLate = isLate || late.contains(v); });
    if (!isLate) continue;
    late.insert(g.node(n).outputs.begin(), g.node(n).outputs.end());
    if (!isMember.contains(n)) behind.push_back(n);
  }
  for (size_t i = 0; i + 1 < members.size(); ++i) editor.moveBefore(members[i], last);
  for (auto n = behind.rbegin(); n != behind.rend(); ++n) editor.moveAfter(*n, last);
}

/// A path below `parent` that no module and no weight of the model has.
std::string freePath(const Graph& g, ModuleCallId parent, const std::string& name) {
  const auto isTaken = [&](const std::string& path) {
    return static_cast<bool>(g.findWeight(path)) ||
           std::any_of(g.moduleCalls().begin(), g.moduleCalls().end(),
                       [&](const ModuleCall& call) { return call.path == path; });
  };
  std::string path = (parent ? g.moduleCall(parent).path + "." : "") + name;
  while (isTaken(path)) path += "_";
  return path;
}

Status partition(GraphEditor& editor, const Step& step) {
  const auto wanted = wantedOf(step);
  if (!wanted) return wanted.error();
  const Graph& g = editor.graph();
  for (const std::string& nothing : namesOfNothing(g, wanted->canHandle))
    editor.noteRefused("no node, operator or module of the model is called " + nothing);
  std::vector<Part> parts = Parts(g, *wanted).find();
  // Numbers count in the order of the model.
  std::vector<Part*> order;
  for (Part& part : parts) order.push_back(&part);
  std::sort(order.begin(), order.end(),
            [&](const Part* a, const Part* b) { return g.isBefore(a->nodes.back(), b->nodes.back()); });
  for (size_t i = 0; i < order.size(); ++i) order[i]->name = wanted->name + "_" + std::to_string(i);
  for (const Part& part : parts) {
    // The innermost call that holds all of it: of a call that lies inside, the one around it.
    ModuleCallId around;
    bool isFirst = true;
    const auto widen = [&](ModuleCallId m) {
      around = isFirst ? m : g.commonModule(around, m);
      isFirst = false;
    };
    for (const ModuleCallId call : part.calls) widen(g.moduleCall(call).parent);
    for (const NodeId n : part.loose) widen(g.node(n).module);
    editor.begin(part.nodes.front());
    gather(editor, part);
    const ModuleCallId made =
        editor.addModuleCall(around, freePath(g, around, part.name), "graft.partition." + wanted->name);
    for (const ModuleCallId call : part.calls) editor.moveModuleCall(call, made);
    for (const NodeId n : part.loose) editor.setModule(n, made);
    for (const NodeId n : part.nodes) editor.noteChanged(n);
    editor.commit();
  }
  editor.sortModuleCalls();
  return done();
}

}  // namespace

GRAFT_PASS(partition, "[F.gelu, nn.Linear], \"name\"",
           "connected nodes that a backend can handle become modules of their own", partition)

}  // namespace graft
