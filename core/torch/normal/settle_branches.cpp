// Scripted code asks its values for their ranks and dtypes: F.interpolate chooses its operator by x.dim(), and repeats
// a factor in a loop. Once types are known, the answers are.
#include <algorithm>
#include <string>
#include <unordered_map>

#include "core/ir/operators/int_operators.h"
#include "core/torch/normal/normal_steps.h"

namespace graft {
namespace {

constexpr int64_t mostTrips = 16;  // of a loop that is written out

using Meanings = std::unordered_map<ValueId, Argument>;

/// The argument with what is known in place of values.
Argument substituted(const Argument& a, const Meanings& known) {
  if (a.isValue()) {
    const auto it = known.find(a.valueId());
    return it == known.end() ? a : it->second;
  }
  Argument out = a;
  const auto all = [&](std::vector<Argument>& items) {
    for (Argument& i : items) i = substituted(i, known);
  };
  if (auto* list = std::get_if<Argument::List>(&out.data)) all(list->items);
  if (auto* tuple = std::get_if<Argument::Tuple>(&out.data)) all(tuple->items);
  if (auto* slice = std::get_if<Argument::Slice>(&out.data)) all(slice->bounds);
  if (auto* dict = std::get_if<Argument::Dict>(&out.data))
    for (auto& [key, value] : dict->items) key = substituted(key, known), value = substituted(value, known);
  return out;
}

bool holds(const Argument& a, ValueId v) {
  bool found = false;
  a.forEachValue([&](ValueId in) { found |= in == v; });
  return found;
}

class BranchSettler {
 public:
  explicit BranchSettler(Graph& g) : g_(g) {}

  SettledBranches run() {
    for (bool changed = true; changed;) {
      changed = false;
      for (NodeId id : g_.order())
        if (g_.isAlive(id)) changed |= settle(id);
    }
    return done_;
  }

 private:
  bool settle(NodeId id) {
    const std::string_view op = g_.node(id).op->name;
    if (op == "prim.If") return branch(id);
    if (op == "prim.Loop") return loop(id);
    if (op == "aten.append.t") return append(id);
    if (op == "prim.ListConstruct") return list(id);
    if (g_.node(id).outputs.size() != 1) return false;
    const ValueId out = g_.node(id).outputs[0];
    if (g_.isUnused(out)) return false;
    const auto answer = answerOf(g_.node(id));
    if (!answer || !takesLiteral(out, *answer)) return false;
    becomes(out, *answer);
    return true;
  }

  std::optional<Argument> answerOf(const Node& n) const {
    const std::string_view op = n.op->name;
    const auto typeOf = [&](size_t i) { return n.args[i].isValue() ? &g_.value(n.args[i].valueId()).type : nullptr; };
    if (op == "aten.dim.default" || op == "aten.is_floating_point.default") {
      const Type* type = typeOf(0);
      if (!type || !type->isTensor()) return std::nullopt;
      if (op == "aten.dim.default") {
        const auto rank = type->tensorInfo.rank();
        return rank ? std::optional(Argument(static_cast<int64_t>(*rank))) : std::nullopt;
      }
      const auto dtype = type->tensorInfo.dtype;
      return dtype ? std::optional(Argument(isFloatingPoint(*dtype))) : std::nullopt;
    }
    if (op == "aten.len.t") return lengthOf(n.args[0]);
    if (op == "aten.__not__.default") {
      const bool* truth = n.args[0].as<bool>();
      return truth ? std::optional(Argument(!*truth)) : std::nullopt;
    }
    if (op == "aten.__derive_index.default") {  // of range(start, stop, step)
      const auto *index = n.args[0].as<int64_t>(), *start = n.args[1].as<int64_t>(), *step = n.args[2].as<int64_t>();
      return index && start && step ? std::optional(Argument(*start + *index * *step)) : std::nullopt;
    }
    if (n.args.size() != 2) return std::nullopt;
    if (op == "aten.__is__.default" || op == "aten.__isnot__.default") {
      const auto same = isNone(n.args[0], n.args[1]);
      return same ? std::optional(Argument(*same == (op == "aten.__is__.default"))) : std::nullopt;
    }
    if (op == "aten.__contains__.str_list") {
      const auto* items = n.args[0].items();
      if (!items || !n.args[1].as<std::string>()) return std::nullopt;
      return Argument(std::find(items->begin(), items->end(), n.args[1]) != items->end());
    }
    const auto *a = n.args[0].as<int64_t>(), *b = n.args[1].as<int64_t>();
    return a && b ? onInts(op, *a, *b) : std::nullopt;
  }

  /// Whether a is b, one of which is None.
  std::optional<bool> isNone(const Argument& a, const Argument& b) const {
    if (!a.isNone() && !b.isNone()) return std::nullopt;
    const Argument& other = a.isNone() ? b : a;
    if (!other.isValue()) return other.isNone();
    return g_.value(other.valueId()).type.isTensor() ? std::optional(false) : std::nullopt;
  }

  /// Of a list that is written out, and of a tensor's sizes.
  std::optional<Argument> lengthOf(const Argument& list) const {
    if (const auto* items = list.items()) return Argument(static_cast<int64_t>(items->size()));
    const NodeId by = list.isValue() ? g_.value(list.valueId()).producer : NodeId();
    if (!by || g_.node(by).op->name != "aten.size.default" || !g_.node(by).args[0].isValue()) return std::nullopt;
    const auto rank = g_.value(g_.node(by).args[0].valueId()).type.tensorInfo.rank();
    return rank ? std::optional(Argument(static_cast<int64_t>(*rank))) : std::nullopt;
  }

  // A condition that is known; and a check of PyTorch's own modules, which the recorded run has passed.
  bool branch(NodeId id) {
    const Node& n = g_.node(id);
    const bool* known = n.args[0].as<bool>();
    if (!known && !isOwnCheck(n)) return false;
    const BlockId taken = known ? n.blocks[*known ? 0 : 1] : emptyBlock(n);
    const std::vector<Argument> results = g_.block(taken).returns;
    const std::vector<ValueId> outputs = n.outputs;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (!results[i].isValue() && !takesLiteral(outputs[i], results[i])) return false;
    ++(known ? done_.branches : done_.checks);
    for (NodeId inner : g_.order(taken)) g_.moveBefore(inner, id);
    for (const BlockId b : std::vector<BlockId>(g_.node(id).blocks)) g_.setReturns(b, {});
    replace(id, results);
    return true;
  }

  BlockId emptyBlock(const Node& n) const {
    for (const BlockId b : n.blocks)
      if (g_.block(b).size == 0) return b;
    return {};
  }

  bool isOwnCheck(const Node& n) const {
    if (!n.outputs.empty() || n.blocks.size() != 2 || !emptyBlock(n)) return false;
    const SourceLocation* source = g_.sourceOf(n);
    if (!source || source->file.find("torch/nn/") == std::string::npos) return false;
    const BlockId raising = n.blocks[emptyBlock(n) == n.blocks[0] ? 1 : 0];
    bool raises = false;
    for (NodeId inner : g_.order(raising)) {
      const bool raise = g_.node(inner).op->name == "prim.RaiseException.default";
      if (!raise && (g_.node(inner).op->sideEffects || g_.node(inner).op->writes() || !g_.node(inner).blocks.empty()))
        return false;
      raises |= raise;
    }
    return raises;
  }

  // A few trips whose number is known, none of which ends the loop.
  bool loop(NodeId id) {
    const Node& n = g_.node(id);
    const BlockId body = n.blocks[0];
    const auto* trips = n.args[0].as<int64_t>();
    const std::vector<Argument> returns = g_.block(body).returns;
    if (!trips || *trips > mostTrips || !(n.args[1] == Argument(true)) || !(returns[0] == Argument(true))) return false;
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      const Argument& result = returns[i + 1];
      const bool isComputed = *trips > 0 && result.isValue() && g_.value(result.valueId()).kind == Value::Kind::Output;
      if (!isComputed && !takesLiteral(n.outputs[i], *trips > 0 ? result : n.args[i + 2])) return false;
    }
    const std::vector<ValueId> parameters = g_.block(body).parameters;
    std::vector<Argument> carried(n.args.begin() + 2, n.args.end());
    for (int64_t trip = 0; trip < *trips; ++trip) {
      Meanings known{{parameters[0], Argument(trip)}};
      for (size_t i = 0; i < carried.size(); ++i) known.insert_or_assign(parameters[i + 1], carried[i]);
      for (NodeId inner : g_.order(body)) copy(inner, {id, {}}, known);
      for (size_t i = 0; i < carried.size(); ++i) carried[i] = substituted(returns[i + 1], known);
    }
    ++done_.loops;
    replace(id, carried);
    return true;
  }

  /// Before a node, or at the end of a block.
  struct Place {
    NodeId before;
    BlockId block;
  };
  void copy(NodeId from, Place place, Meanings& known) {
    std::vector<Argument> args = g_.node(from).args;
    for (Argument& a : args) a = substituted(a, known);
    const OperatorRef op = g_.node(from).op;
    const std::string name = g_.node(from).name;
    const NodeId made = place.before ? g_.insertBefore(place.before, op, std::move(args), name)
                                     : g_.append(place.block, op, std::move(args), name);
    auto keywords = g_.node(from).kwargs;
    for (auto& [key, a] : keywords) a = substituted(a, known);
    if (!keywords.empty()) g_.setKeywordArguments(made, std::move(keywords));
    for (size_t i = 0; i < g_.node(from).outputs.size(); ++i) {
      const ValueId old = g_.node(from).outputs[i];
      if (g_.node(made).outputs.size() == i) g_.addOutput(made, std::string(g_.value(old).name), g_.value(old).type);
      g_.setType(g_.node(made).outputs[i], g_.value(old).type);
      known.insert_or_assign(old, Argument(g_.node(made).outputs[i]));
    }
    g_.setModule(made, g_.node(from).module);
    g_.setSource(made, g_.node(from).source);
    for (const BlockId b : std::vector<BlockId>(g_.node(from).blocks)) {
      const BlockId block = g_.addBlock(made);
      for (ValueId p : std::vector<ValueId>(g_.block(b).parameters))
        known.insert_or_assign(p,
                               Argument(g_.addBlockParameter(block, std::string(g_.value(p).name), g_.value(p).type)));
      for (NodeId inner : g_.order(b)) copy(inner, {{}, block}, known);
      std::vector<Argument> returns = g_.block(b).returns;
      for (Argument& a : returns) a = substituted(a, known);
      g_.setReturns(block, std::move(returns));
    }
  }

  // What is appended to a list before anyone reads it belongs to it from the start.
  bool append(NodeId id) {
    const Node& n = g_.node(id);
    if (!n.args[0].isValue()) return false;
    const ValueId list = n.args[0].valueId();
    const NodeId by = g_.value(list).producer;
    if (!by || g_.node(by).op->name != "prim.ListConstruct" || g_.node(by).parent != n.parent) return false;
    for (NodeId user : g_.value(list).users) {
      NodeId here = user;
      while (g_.node(here).parent != n.parent) here = g_.block(g_.node(here).parent).owner;
      if (here != id && g_.isBefore(here, id)) return false;
    }
    std::vector<Argument> items = g_.node(by).args;
    items.push_back(n.args[1]);
    for (ValueId out : std::vector<ValueId>(n.outputs)) g_.replaceAllUses(out, list);
    g_.moveBefore(by, id);
    g_.erase(id);
    g_.setArguments(by, std::move(items));
    return true;
  }

  // A list that nobody writes to stands where it is read.
  bool list(NodeId id) {
    const Node& n = g_.node(id);
    const ValueId out = n.outputs[0];
    if (g_.value(out).users.empty() || !takesLiteral(out, Argument::list({})) || g_.value(out).returnUses > 0)
      return false;
    for (NodeId user : g_.value(out).users) {
      const Node& u = g_.node(user);
      if (!u.op->hasSchema || u.op->writes() || u.op->variadic) return false;
      // What a dict holds may be taken out of it, and written to then.
      for (const Argument& a : u.args)
        if (!a.isValue() && holds(a, out)) return false;
    }
    becomes(out, Argument::list(n.args));
    return true;
  }

  /// Whether each place that names the value may say what it is instead. A tensor's place would make another tensor of
  /// it, unless it is None and that place is never reached then. What the model returns stays a value.
  bool takesLiteral(ValueId v, const Argument& literal) const {
    for (const Argument& a : g_.returns())
      if (holds(a, v)) return false;
    for (NodeId user : g_.value(v).users) {
      const Node& u = g_.node(user);
      if (!u.op->hasSchema || u.op->variadic) continue;
      for (size_t i = 0; i < u.args.size(); ++i) {
        if (!u.args[i].isValue() || u.args[i].valueId() != v || i >= u.op->parameters.size()) continue;
        if (u.op->parameters[i].type.isTensor() && !g_.value(v).type.isTensor() &&
            !(literal.isNone() && isUnreachableForNone(user, v)))
          return false;
      }
    }
    return true;
  }

  /// Whether the node stands in a branch that is not taken where the value is None.
  bool isUnreachableForNone(NodeId id, ValueId v) const {
    for (BlockId block = g_.node(id).parent; g_.block(block).owner; block = g_.node(g_.block(block).owner).parent) {
      const Node& owner = g_.node(g_.block(block).owner);
      if (owner.op->name != "prim.If") continue;
      const auto truth = truthForNone(owner.args[0], v);
      if (truth && owner.blocks[*truth ? 0 : 1] != block) return true;
    }
    return false;
  }

  /// What a condition is where the value is None: `v is not None and flag` is false.
  std::optional<bool> truthForNone(const Argument& condition, ValueId v) const {
    if (const bool* known = condition.as<bool>()) return *known;
    const NodeId by = condition.isValue() ? g_.value(condition.valueId()).producer : NodeId();
    if (!by) return std::nullopt;
    const Node& n = g_.node(by);
    const auto isAboutValue = [&] {
      const auto is = [&](const Argument& a) { return a.isValue() && a.valueId() == v; };
      return n.args.size() == 2 && ((is(n.args[0]) && n.args[1].isNone()) || (is(n.args[1]) && n.args[0].isNone()));
    };
    if (n.op->name == "aten.__is__.default" && isAboutValue()) return true;
    if (n.op->name == "aten.__isnot__.default" && isAboutValue()) return false;
    if (n.op->name == "aten.__not__.default") {
      const auto truth = truthForNone(n.args[0], v);
      return truth ? std::optional(!*truth) : std::nullopt;
    }
    if (n.op->name != "prim.If") return std::nullopt;
    const auto truth = truthForNone(n.args[0], v);
    const auto place = std::find(n.outputs.begin(), n.outputs.end(), condition.valueId()) - n.outputs.begin();
    if (!truth) return std::nullopt;
    return truthForNone(g_.block(n.blocks[*truth ? 0 : 1]).returns[static_cast<size_t>(place)], v);
  }

  void becomes(ValueId v, const Argument& what) {
    const Meanings known{{v, what}};
    for (NodeId user : std::vector<NodeId>(g_.value(v).users)) {
      std::vector<Argument> args = g_.node(user).args;
      for (Argument& a : args) a = substituted(a, known);
      g_.setArguments(user, std::move(args));
      auto keywords = g_.node(user).kwargs;
      if (keywords.empty()) continue;
      for (auto& [key, a] : keywords) a = substituted(a, known);
      g_.setKeywordArguments(user, std::move(keywords));
    }
    for (size_t b = 1; b < g_.blockBound() && g_.value(v).returnUses > 0; ++b) {
      const BlockId block(static_cast<uint32_t>(b));
      std::vector<Argument> returns = g_.block(block).returns;
      for (Argument& a : returns) a = substituted(a, known);
      g_.setReturns(block, std::move(returns));
    }
  }

  /// Takes away the node, whose results these are.
  void replace(NodeId id, const std::vector<Argument>& results) {
    const std::vector<ValueId> outputs = g_.node(id).outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (results[i].isValue())
        g_.replaceAllUses(outputs[i], results[i].valueId());
      else
        becomes(outputs[i], results[i]);
    }
    g_.erase(id);
  }

  Graph& g_;
  SettledBranches done_;
};

}  // namespace

SettledBranches settleBranches(Graph& g) { return BranchSettler(g).run(); }

}  // namespace graft
