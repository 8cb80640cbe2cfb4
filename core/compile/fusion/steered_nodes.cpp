#include "core/compile/fusion/steered_nodes.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_set>

#include "core/compile/fusion/fusion.h"
#include "core/text/node_names.h"

namespace graft {
namespace {

using Role = FusionNode::Role;

std::string unknownName(const Graph& g, const std::string& name) {
  const auto nearest = nearestNodeName(g, name);
  return "the model has no node, module or operator `" + name + "`" +
         (nearest ? "; did you mean `" + *nearest + "`?" : "");
}

class SteeringNames {
 public:
  SteeringNames(const Graph& g, std::vector<FusionNode>& nodes, SteeredNodes& out) : g_(g), nodes_(nodes), out_(out) {
    out_.sides.resize(g.nodeBound());
  }

  void merge(const std::vector<std::string>& names, const std::string& entry) {
    std::vector<NodeId> all;
    for (const std::string& name : names) {
      const std::vector<NodeId> some = find(name, entry);
      all.insert(all.end(), some.begin(), some.end());
    }
    // Not where the other names of the list are none of the model's.
    if (names.size() == 1 && all.size() == 1) nodes_[all.front().index].mayBeAlone = true;
    add(all, entry);
  }

  /// The nodes of that name stay out of all groups.
  void alone(const std::string& name, const std::string& entry) {
    for (const NodeId id : find(name, entry)) {
      nodes_[id.index].role = Role::Barrier;
      nodes_[id.index].why = "it is to stay apart (" + entry + ")";
    }
  }

  void apart(const std::vector<std::string>& names, const std::string& entry) {
    std::vector<std::vector<NodeId>> sides;
    for (const std::string& name : names) sides.push_back(find(name, entry));
    keepApart(sides, entry);
  }

  void move(const Steering::Move& m, const std::vector<Steering::Move>& all, const FusionPlan& before,
            const std::string& entry) {
    const NodeId node = findOne(m.node, entry), to = findOne(m.to, entry);
    if (!node || !to) return;
    std::vector<NodeId> target = groupOf(before, to), left = groupOf(before, node);
    if (std::find(target.begin(), target.end(), node) != target.end())
      return complain(entry, "%" + m.node + " is in the kernel of %" + m.to + " already");
    // Those that move to the same kernel stay with it.
    std::erase_if(left, [&](NodeId n) {
      return n == node || std::any_of(all.begin(), all.end(), [&](const Steering::Move& other) {
               return g_.node(n).name == other.node && other.to == m.to;
             });
    });
    if (!left.empty()) keepApart({{node}, std::move(left)}, entry);
    target.push_back(node);
    add(std::move(target), entry);
  }

 private:
  void complain(const std::string& entry, std::string why) { out_.problems.push_back({entry, std::move(why)}); }

  void add(std::vector<NodeId> nodes, const std::string& entry) {
    const auto place = [&](NodeId n) { return std::pair(g_.node(n).parent, g_.node(n).orderKey); };
    std::sort(nodes.begin(), nodes.end(), [&](NodeId a, NodeId b) { return place(a) < place(b); });
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    if (nodes.size() > 1) out_.merges.push_back({entry, std::move(nodes)});
  }

  void keepApart(const std::vector<std::vector<NodeId>>& sides, const std::string& entry) {
    const auto number = static_cast<uint32_t>(out_.apartEntries.size());
    out_.apartEntries.push_back(entry);
    for (uint32_t side = 0; side < sides.size(); ++side)
      for (const NodeId n : sides[side]) {
        Sides& its = out_.sides[n.index];
        if (its.empty() || its.back().first != number)
          its.emplace_back(number, side);
        else if (its.back().second != side)
          complain(entry, "%" + g_.node(n).name + " has two of its names: it cannot be apart from itself");
      }
  }

  /// Why no group can hold the node; empty where one can.
  std::string obstacle(NodeId id) const {
    const FusionNode& f = nodes_[id.index];
    if (f.role == Role::Compute) return "";
    const std::string name = "%" + g_.node(id).name;
    if (f.role == Role::View) return name + " only looks at a value: it is part of each kernel that reads through it";
    return name + " cannot be part of a kernel: " + f.why;
  }

  /// The nodes of that name that a group can hold. Complains where there are none.
  std::vector<NodeId> find(const std::string& name, const std::string& entry) {
    std::vector<NodeId> found;
    std::string why;
    const auto look = [&](NodeId id) {
      std::string obstacle = this->obstacle(id);
      if (obstacle.empty())
        found.push_back(id);
      else if (why.empty())
        why = std::move(obstacle);
    };
    if (const NodeId id = g_.findNode(name)) {
      look(id);
    } else {
      for (const NodeId n : g_.order())
        if (isNamed(g_, g_.node(n), name)) look(n);
      if (found.empty() && why.empty()) why = unknownName(g_, name);
    }
    if (found.empty()) complain(entry, std::move(why));
    return found;
  }

  NodeId findOne(const std::string& name, const std::string& entry) {
    const NodeId id = g_.findNode(name);
    std::string why = id ? obstacle(id) : unknownName(g_, name);
    if (why.empty()) return id;
    complain(entry, std::move(why));
    return {};
  }

  std::vector<NodeId> groupOf(const FusionPlan& plan, NodeId id) const {
    for (const FusionGroup& group : plan.groups)
      if (std::find(group.computing.begin(), group.computing.end(), id) != group.computing.end())
        return group.computing;
    return {id};
  }

  const Graph& g_;
  std::vector<FusionNode>& nodes_;
  SteeredNodes& out_;
};

std::string entryOf(std::string_view list, size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

std::string namesOf(const Graph& g, const FusionGroup& group) {
  std::string out;
  for (const NodeId n : group.computing) out += (out.empty() ? "%" : ", %") + g.node(n).name;
  return out;
}

/// Chooses for the group of exactly these nodes; or says why not.
Status chooseKernel(const Graph& g, const Steering::Kernel& wanted, const std::string& entry, FusionPlan& plan) {
  const std::set<std::string_view> names(wanted.nodes.begin(), wanted.nodes.end());
  for (const std::string_view name : names)
    if (!g.findNode(name)) return badInput(unknownName(g, std::string(name)));
  FusionGroup* holder = nullptr;
  for (FusionGroup& group : plan.groups) {
    const auto isWanted = [&](NodeId n) { return names.contains(g.node(n).name); };
    const auto count = std::count_if(group.computing.begin(), group.computing.end(), isWanted);
    if (count == 0) continue;
    holder = &group;
    if (static_cast<size_t>(count) < names.size() || group.computing.size() > names.size()) continue;
    if (Status s = checkChoice(groupGraph(g, group), wanted.choice); !s) return s;
    if (wanted.choice.isEdited()) requireEditedKernels();
    group.choice = wanted.choice;
    group.choiceEntry = entry;
    return done();
  }
  if (!holder) return badInput("none of its nodes is in a kernel");
  return badInput("no kernel is of exactly these nodes; the nearest is of " + namesOf(g, *holder));
}

}  // namespace

void chooseKernels(const Graph& g, const Steering& steering, FusionPlan& plan) {
  for (size_t i = 0; i < steering.kernels.size(); ++i) {
    const std::string entry = entryOf("kernels", i);
    if (Status s = chooseKernel(g, steering.kernels[i], entry, plan); !s)
      plan.unapplied.push_back({entry, s.error().format()});
  }
}

std::optional<uint32_t> conflictOf(const Sides& a, const Sides& b) {
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (i->first == j->first && i->second != j->second) return i->first;
    i->first <= j->first ? ++i : ++j;
  }
  return std::nullopt;
}

Sides joined(const Sides& a, const Sides& b) {
  Sides out;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

SteeredNodes steeredNodes(const Graph& g, std::vector<FusionNode>& nodes, const Steering& steering,
                          const FusionPlan* before) {
  SteeredNodes out;
  SteeringNames reader(g, nodes, out);
  if (!steering.automatic)
    for (FusionNode& f : nodes) f.mayBeAlone = false;
  for (size_t i = 0; i < steering.apart.size(); ++i)
    if (steering.apart[i].size() == 1) reader.alone(steering.apart[i].front(), entryOf("apart", i));
  for (size_t i = 0; i < steering.apart.size(); ++i)
    if (steering.apart[i].size() > 1) reader.apart(steering.apart[i], entryOf("apart", i));
  for (size_t i = 0; i < steering.merge.size(); ++i) reader.merge(steering.merge[i], entryOf("merge", i));
  for (size_t i = 0; i < steering.move.size() && before; ++i)
    reader.move(steering.move[i], steering.move, *before, entryOf("move", i));
  return out;
}

}  // namespace graft
