// Control flow: branches become torch.cond. Loops become torch's while_loop, or are unrolled where the number of turns
// is known.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/formats/pt2/writer.h"

namespace graft {

using nlohmann::json;

namespace {

/// A loop of more nodes than this is not unrolled; nobody would have torch.export do it either.
constexpr size_t mostUnrolled = 20'000;
/// Marks a value in a loop's condition that was made before the loop and is not carried.
constexpr size_t outside = SIZE_MAX;

const Node* producerOf(const Graph& g, const Argument& a) {
  return a.isValue() && g.value(a.valueId()).producer ? &g.node(g.value(a.valueId()).producer) : nullptr;
}

/// The tensor behind a condition: t for bool(t).
Argument askedTensor(const Graph& g, const Argument& a) {
  const Node* made = producerOf(g, a);
  return made && made->op->name == "aten.Bool.Tensor" ? made->args[0] : a;
}

size_t nodesWithin(const Graph& g, BlockId block) {
  size_t out = 0;
  for (NodeId id : g.order(block)) {
    ++out;
    for (BlockId inner : g.node(id).blocks) out += nodesWithin(g, inner);
  }
  return out;
}

}  // namespace

/// Whether the node is a bool(tensor) that only control flow uses, also at the end of a turn: torch.cond takes the
/// tensor.
bool ExportWriter::isOnlyCondition(const Node& n) const {
  if (n.op->name != "aten.Bool.Tensor" || !n.args[0].isValue()) return false;
  const Value& truth = g_.value(n.outputs[0]);
  if (asked_.contains(n.id.index)) return true;
  return truth.returnUses == 0 && !truth.users.empty() &&
         std::all_of(truth.users.begin(), truth.users.end(),
                     [&](NodeId user) { return !g_.node(user).blocks.empty(); });
}

/// The values from outside that the blocks use, in the order of use.
std::vector<ValueId> ExportWriter::captured(const Node& n) const {
  std::unordered_set<uint32_t> inside, seen;
  std::vector<ValueId> out;
  const auto use = [&](ValueId given) {
    if (inside.contains(given.index)) return;
    whole(Argument(given)).forEachValue([&](ValueId v) {
      if (seen.insert(v.index).second) out.push_back(v);
    });
  };
  const auto walk = [&](const auto& self, const Node& owner) -> void {
    for (BlockId b : owner.blocks) {
      for (ValueId p : g_.block(b).parameters) inside.insert(p.index);
      for (NodeId id : g_.order(b)) {
        for (const Argument& a : g_.node(id).args) a.forEachValue(use);
        self(self, g_.node(id));
        for (ValueId v : g_.node(id).outputs) inside.insert(v.index);
      }
      for (const Argument& a : g_.block(b).returns) a.forEachValue(use);
    }
  };
  walk(walk, n);
  return out;
}

json ExportWriter::tensorNames(const std::vector<ValueId>& values, const char* who) {
  json out = json::array();
  for (ValueId v : values) {
    if (!g_.value(v).type.isTensor())
      throw Pt2Refusal(fmt::format("it uses %{}, which is {}; {} passes only tensors. Write TorchScript (.pt) instead",
                                   g_.value(v).name, toString(g_.value(v).type), who));
    out.push_back({{"name", name(v)}});
  }
  return out;
}

/// Writes a node that calls graphs.
void ExportWriter::higherOrder(const Node& n, const char* target, json inputs) {
  json outputs = json::array();
  for (ValueId v : n.outputs) {
    body_.tensors[name(v)] = meta(g_.value(v).type);
    outputs.push_back({{"as_tensor", {{"name", name(v)}}}});
  }
  json numbered = json::array();
  for (json& arg : inputs) numbered.push_back({{"name", ""}, {"arg", std::move(arg)}, {"kind", 1}});
  body_.nodes.push_back({{"target", fmt::format("torch.ops.higher_order.{}", target)},
                         {"inputs", std::move(numbered)},
                         {"outputs", std::move(outputs)},
                         {"metadata", metadata(n)},
                         {"is_hop_single_tensor_return", false},
                         {"name", fresh(target)}});
}

// torch.cond(predicate, true_graph, false_graph, operands): both branches take all operands that either uses.
void ExportWriter::conditional(const Node& n) {
  const Argument predicate = known(askedTensor(g_, n.args[0]));
  if (const auto* fixed = predicate.as<bool>()) {  // decided by an input whose value the file fixes
    const BlockId taken = n.blocks[*fixed ? 0 : 1];
    nodes(taken);
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      const Argument result = whole(g_.block(taken).returns[i]);
      if (result.items())
        literals_.insert_or_assign(n.outputs[i].index, result);
      else
        bind(n.outputs[i], result);
    }
    return;
  }
  const auto decides = [&](ValueId v) { return g_.value(v).type.isTensor() || body_.bools.contains(name(v)); };
  if (!predicate.isValue() || !decides(predicate.valueId()))
    throw Pt2Refusal("its condition is no tensor, which torch.cond needs; write TorchScript (.pt) instead");
  const std::vector<ValueId> operands = captured(n);
  json inputs = json::array({argument(predicate, nullptr)});
  const json given = tensorNames(operands, "torch.cond");
  for (size_t i : {0, 1})
    inputs.push_back(
        {{"as_graph",
          {{"name", fresh(i == 0 ? "true_graph" : "false_graph")}, {"graph", branch(n.blocks[i], operands)}}}});
  inputs.push_back({{"as_tensors", given}});
  higherOrder(n, "cond", std::move(inputs));
}

void ExportWriter::graphInputs(const std::vector<ValueId>& values) {
  for (ValueId v : values) {
    body_.inputs.push_back({{"as_tensor", {{"name", name(v)}}}});
    body_.tensors[name(v)] = meta(g_.value(v).type);
  }
}

void ExportWriter::refuseWrites(BlockId block, const char* who) const {
  for (NodeId id : g_.order(block))
    if (g_.node(id).op->writes()) throw Pt2Refusal(fmt::format("it writes in place, which {} does not allow", who));
}

json ExportWriter::branch(BlockId block, const std::vector<ValueId>& operands) {
  refuseWrites(block, "torch.cond");
  Body outer = std::exchange(body_, Body());
  graphInputs(operands);
  nodes(block);
  for (const Argument& a : g_.block(block).returns) {
    if (!a.isValue() || !g_.value(a.valueId()).type.isTensor())
      throw Pt2Refusal("a branch returns a value that is no tensor, which torch.cond does not allow");
    body_.outputs.push_back(argument(a, nullptr));
  }
  Body made = std::exchange(body_, std::move(outer));
  return made.whole();
}

// Loops
// ---------------------------------------------------------------------------------------------------------------------

void ExportWriter::loop(const Node& n) {
  const auto* turns = known(n.args[0]).as<int64_t>();
  const auto* always = known(n.args[1]).as<bool>();
  const Argument again = known(g_.block(n.blocks[0]).returns[0]);
  if (turns && always && again.as<bool>() && *again.as<bool>()) return unrolled(n, *always ? *turns : 0);
  whileLoop(n);
}

// Writes the turns one after another, as torch.export writes Python's loops.
void ExportWriter::unrolled(const Node& n, int64_t turns) {
  const Block& block = g_.block(n.blocks[0]);
  const size_t nodesInTurn = std::max<size_t>(nodesWithin(g_, block.id), 1);
  if (turns > 0 && static_cast<uint64_t>(turns) > mostUnrolled / nodesInTurn)
    throw Pt2Refusal(fmt::format("its {} turns of {} nodes are too many to write out; write TorchScript (.pt) instead",
                                 turns, nodesInTurn));
  std::vector<Bound> state;
  for (size_t i = 2; i < n.args.size(); ++i) state.push_back(boundTo(n.args[i]));
  for (int64_t turn = 0; turn < turns; ++turn) {
    forget(block.id);
    bind(block.parameters[0], Argument(turn));
    for (size_t i = 0; i < state.size(); ++i) setBound(block.parameters[i + 1], std::move(state[i]));
    nodes(block.id);
    for (size_t i = 0; i < state.size(); ++i) state[i] = boundTo(block.returns[i + 1]);
  }
  for (size_t i = 0; i < n.outputs.size(); ++i) setBound(n.outputs[i], std::move(state[i]));
}

/// Frees the names that the values of a block had in the previous turn.
void ExportWriter::forget(BlockId block) {
  for (NodeId id : g_.order(block)) {
    for (ValueId v : g_.node(id).outputs) setBound(v, {});
    for (BlockId inner : g_.node(id).blocks) {
      for (ValueId v : g_.block(inner).parameters) setBound(v, {});
      forget(inner);
    }
  }
}

ExportWriter::Bound ExportWriter::boundTo(const Argument& given) {
  const Argument& a = known(given);
  Bound out;
  if (!a.isValue()) {
    a.forEachValue([&](ValueId) { throw Pt2Refusal("it carries a list; write TorchScript (.pt) instead"); });
    out.literal = a;
    return out;
  }
  const uint32_t v = a.valueId().index;
  // A list has no name of its own.
  if (const auto it = elements_.find(v); it != elements_.end())
    out.elements = it->second;
  else
    out.name = name(a.valueId());
  if (const auto it = expressions_.find(v); it != expressions_.end()) out.expression = it->second;
  return out;
}

void ExportWriter::setBound(ValueId v, Bound to) {
  const auto put = [&](auto& map, auto&& what, bool there) {
    if (there)
      map.insert_or_assign(v.index, std::forward<decltype(what)>(what));
    else
      map.erase(v.index);
  };
  put(names_, std::move(to.name), !to.name.empty());
  put(expressions_, std::move(to.expression), !to.expression.empty());
  put(elements_, std::move(to.elements), !to.elements.empty());
  put(literals_, to.literal.value_or(Argument()), to.literal.has_value());
}

void ExportWriter::bind(ValueId v, const Argument& to) { setBound(v, boundTo(to)); }

// while_loop(condition_graph, body_graph, carried, additional) has its condition as a graph of the carried values. Our
// loop computes its condition before the loop and again at the end of each turn. Where both computations are the same,
// they are that graph.
void ExportWriter::findCondition(const Node& n) {
  const Block& block = g_.block(n.blocks[0]);
  const Argument before = askedTensor(g_, n.args[1]), after = askedTensor(g_, block.returns[0]);
  Condition found;
  if (!before.isValue() || !after.isValue() || !g_.value(before.valueId()).type.isTensor() ||
      !sameComputation(n, before, after, 0, found))
    return;
  // From the last node on: a node that nothing else uses belongs to the condition alone.
  const auto claim = [&](const std::vector<NodeId>& computation, const Argument& truth) {
    std::vector<NodeId> chain = computation;
    if (const Node* asks = producerOf(g_, truth); asks && asks->op->name == "aten.Bool.Tensor")
      chain.push_back(asks->id);
    for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
      bool elsewhere = false;
      for (ValueId v : g_.node(*it).outputs) {
        const Value& value = g_.value(v);
        size_t returns = value.returnUses;
        if (returns > 0 && block.returns[0] == Argument(v)) --returns;
        elsewhere = elsewhere || returns > 0 || std::any_of(value.users.begin(), value.users.end(), [&](NodeId user) {
                      return user != n.id && !asked_.contains(user.index);
                    });
      }
      if (!elsewhere) asked_.insert(it->index);
    }
  };
  claim(found.before, n.args[1]);
  claim(found.after, block.returns[0]);
  conditions_.insert_or_assign(n.id.index, std::move(found));
}

/// Whether `after` computes from the values that a turn carries on what `before` computes from those that the loop
/// begins with.
bool ExportWriter::sameComputation(const Node& n, const Argument& before, const Argument& after, int depth,
                                   Condition& found) const {
  if (depth > 100) return false;
  if (!before.isValue() || !after.isValue()) {
    const auto *a = before.items(), *b = after.items();
    if (!a || !b) return before == after;
    bool same = a->size() == b->size() && before.isList() == after.isList();
    for (size_t i = 0; same && i < a->size(); ++i) same = sameComputation(n, (*a)[i], (*b)[i], depth + 1, found);
    return same;
  }
  const Block& block = g_.block(n.blocks[0]);
  // A value that is carried twice, or also used as it was before the loop, has no single name.
  const auto leaf = [&](size_t carriedAt) {
    return found.leaves.try_emplace(before.valueId().index, carriedAt).first->second == carriedAt;
  };
  for (size_t i = 2; i < n.args.size(); ++i)
    if (n.args[i] == before && block.returns[i - 1] == after) return leaf(i - 2);
  if (before == after) return leaf(outside);
  const Node *a = producerOf(g_, before), *b = producerOf(g_, after);
  if (!a || !b || b->parent != block.id || a->op->name != b->op->name || a->args.size() != b->args.size() ||
      !a->blocks.empty() || !a->kwargs.empty() || a->op->writes() || a->outputs.size() != b->outputs.size())
    return false;
  const auto place = [&](const Node& node, const Argument& v) {
    return std::find(node.outputs.begin(), node.outputs.end(), v.valueId()) - node.outputs.begin();
  };
  if (place(*a, before) != place(*b, after)) return false;
  if (std::find(found.before.begin(), found.before.end(), a->id) != found.before.end()) return true;
  for (size_t i = 0; i < a->args.size(); ++i)
    if (!sameComputation(n, a->args[i], b->args[i], depth + 1, found)) return false;
  found.before.push_back(a->id);
  found.after.push_back(b->id);
  return true;
}

void ExportWriter::whileLoop(const Node& n) {
  constexpr const char* who = "torch's while_loop";
  const Block& block = g_.block(n.blocks[0]);
  const auto condition = conditions_.find(n.id.index);
  if (known(n.args[0]).as<int64_t>() == nullptr ||
      *known(n.args[0]).as<int64_t>() != std::numeric_limits<int64_t>::max())
    throw Pt2Refusal(
        fmt::format("it counts its turns, and their number is not known before it runs, which {} cannot "
                    "express; write TorchScript (.pt) instead",
                    who));
  if (condition == conditions_.end())
    throw Pt2Refusal(
        fmt::format("its condition is not one computation on the tensors that it carries, which {} needs; write "
                    "TorchScript (.pt) instead",
                    who));
  if (!g_.isUnused(block.parameters[0]))
    throw Pt2Refusal(
        fmt::format("it uses the number of its turn, which {} does not have; write TorchScript (.pt) instead", who));
  refuseWrites(block.id, who);
  std::vector<ValueId> carried;
  for (size_t i = 2; i < n.args.size(); ++i) {
    if (!known(n.args[i]).isValue() || !block.returns[i - 1].isValue())
      throw Pt2Refusal(
          fmt::format("it carries a number, and {} carries only tensors; write TorchScript (.pt) instead", who));
    carried.push_back(n.args[i].valueId());
  }
  std::vector<ValueId> more = captured(n);
  for (const auto& [v, carriedAt] : condition->second.leaves)
    if (carriedAt == outside && std::find(more.begin(), more.end(), ValueId(v)) == more.end())
      more.push_back(ValueId(v));
  const json carriedNames = tensorNames(carried, who), moreNames = tensorNames(more, who);

  std::vector<ValueId> parameters(block.parameters.begin() + 1, block.parameters.end());
  json asks = conditionGraph(n, condition->second, parameters, more);
  json turns = turnGraph(block, parameters, more);
  json inputs = json::array();
  inputs.push_back({{"as_graph", {{"name", fresh("cond_graph")}, {"graph", std::move(asks)}}}});
  inputs.push_back({{"as_graph", {{"name", fresh("body_graph")}, {"graph", std::move(turns)}}}});
  inputs.push_back({{"as_tensors", carriedNames}});
  inputs.push_back({{"as_tensors", moreNames}});
  higherOrder(n, "while_loop", std::move(inputs));
}

json ExportWriter::conditionGraph(const Node& n, const Condition& condition, const std::vector<ValueId>& parameters,
                                  const std::vector<ValueId>& more) {
  Body outer = std::exchange(body_, Body());
  const auto names = names_;
  graphInputs(parameters);
  graphInputs(more);
  // In this graph the parameters stand for the values that the loop begins with.
  for (const auto& [v, carriedAt] : condition.leaves)
    if (carriedAt != outside) names_[v] = name(parameters[carriedAt]);
  for (NodeId id : condition.before)
    for (ValueId v : g_.node(id).outputs) names_.erase(v.index);
  for (NodeId id : condition.before) node(g_.node(id));
  body_.outputs.push_back(argument(askedTensor(g_, n.args[1]), nullptr));
  json made = body_.whole();
  made["is_single_tensor_return"] = true;
  body_ = std::move(outer);
  names_ = names;
  return made;
}

json ExportWriter::turnGraph(const Block& block, const std::vector<ValueId>& parameters,
                             const std::vector<ValueId>& more) {
  Body outer = std::exchange(body_, Body());
  graphInputs(parameters);
  graphInputs(more);
  nodes(block.id);
  for (size_t i = 1; i < block.returns.size(); ++i) body_.outputs.push_back(argument(block.returns[i], nullptr));
  Body made = std::exchange(body_, std::move(outer));
  return made.whole();
}

}  // namespace graft
