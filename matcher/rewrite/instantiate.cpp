#include "matcher/rewrite/instantiate.h"

#include <algorithm>

#include "core/ir/subgraph.h"
#include "matcher/rule/expression_calls.h"
#include "matcher/rule/rank.h"
#include "matcher/rule/symbolic.h"
#include "matcher/search/reshapes.h"

namespace graft {
namespace {

void addLeaves(const Argument& a, std::vector<Argument>& out) {
  if (const auto* items = a.items()) {
    for (const Argument& i : *items) addLeaves(i, out);
  } else {
    out.push_back(a);
  }
}

// "a.query.weight", "a.key.weight" → "a.query_key.weight": what differs is joined.
std::string joinedPath(const std::vector<std::string>& paths) {
  const auto split = [](const std::string& p) {
    std::vector<std::string> parts;
    size_t from = 0;
    for (size_t dot; (dot = p.find('.', from)) != std::string::npos; from = dot + 1)
      parts.push_back(p.substr(from, dot - from));
    parts.push_back(p.substr(from));
    return parts;
  };
  std::vector<std::vector<std::string>> all;
  for (const std::string& p : paths) all.push_back(split(p));
  for (const auto& parts : all)
    if (parts.size() != all[0].size()) return "";
  std::string out;
  for (size_t i = 0; i < all[0].size(); ++i) {
    std::vector<std::string> seen;
    for (const auto& parts : all)
      if (std::find(seen.begin(), seen.end(), parts[i]) == seen.end()) seen.push_back(parts[i]);
    for (size_t k = 0; k < seen.size(); ++k) out += (k ? "_" : i ? "." : "") + seen[k];
  }
  return out;
}

// "prim.getitem" has no overload in its name.
OperatorRef findOperator(const OperatorSet& operators, const std::string& name) {
  if (OperatorRef op = operators.find(name)) return op;
  for (const OperatorRef& op : operators.overloads(name)) return op;
  return nullptr;
}

// The graph's input of that name, or none.
ValueId inputNamed(const Graph& g, std::string_view name) {
  for (ValueId v : g.inputs())
    if (g.value(v).name == name) return v;
  return {};
}

}  // namespace

std::vector<Argument> leavesOf(std::span<const Argument> returns) {
  std::vector<Argument> out;
  for (const Argument& a : returns) addLeaves(a, out);
  return out;
}

// Parameters are paired by name, then by order: torch.fx allows a replacement to call them differently.
RuleSides::RuleSides(const Rule& r) : rule(&r), order(r.replacement->order()), returned(leavesOf(r.pattern.returns())) {
  const Graph& replacement = *r.replacement;
  const auto wanted = replacement.inputs(), given = r.pattern.inputs();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const ValueId named = inputNamed(r.pattern, replacement.value(wanted[i]).name);
    patternInput.push_back(named || i >= given.size() ? named : given[i]);
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const ValueId named = inputNamed(replacement, r.pattern.value(given[i]).name);
    const ValueId at = named || i >= wanted.size() ? named : wanted[i];
    isRead.push_back(!at || !replacement.isUnused(at) || !r.replacementExpressions.empty());
  }
  isInitial.assign(replacement.nodeBound(), 0);
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    const Node& n = replacement.node(*id);
    if (n.op->name != "pattern.parameter" && !isInitial[id->index]) continue;
    for (const Argument& a : n.args)
      a.forEachValue([&](ValueId v) {
        if (const NodeId by = replacement.value(v).producer) isInitial[by.index] = 1;
      });
  }
  const auto writes = [&](NodeId n) { return replacement.node(n).op->writes(); };
  if (std::none_of(order.begin(), order.end(), writes))
    for (NodeId p : r.pattern.order())
      if (const std::string& op = r.pattern.node(p).op->name; isReshape(op) && alwaysViews(op)) views.push_back(p);
}

Instantiation::Instantiation(GraphEditor& editor, const RuleSides& sides, const Match& match, BlockId block, NodeId at)
    : editor_(editor),
      graph_(editor.graph()),
      semantics_(editor.semantics()),
      sides_(sides),
      rule_(*sides.rule),
      match_(match),
      replacement_(*sides.rule->replacement),
      block_(block),
      at_(at),
      made_(replacement_.valueBound()) {
  module_ = graph_.node(match.nodes.front()).module;
  for (NodeId n : match.nodes) module_ = graph_.commonModule(module_, graph_.node(n).module);
  home_ = module_;
  for (ModuleCallId call : match.moduleOf)
    if (call && call == module_) home_ = graph_.moduleCall(call).parent;
  if (match.anchor) source_ = graph_.node(match.anchor).source;
  copies_ = std::any_of(sides.views.begin(), sides.views.end(), [&](NodeId p) {
    const NodeId g = match.nodeOf[p.index];
    return g && !alwaysViews(graph_.node(g).op->name);
  });
}

// The replacement's own names: its parameters, and what it has made so far.
Environment Instantiation::environment() const {
  Environment e;
  e.graph = &graph_;
  for (uint32_t v = 0; v < made_.size(); ++v)
    if (made_[v]) e.names.emplace_back(replacement_.value(ValueId(v)).name, &*made_[v]);
  for (uint32_t p = 0; p < match_.moduleOf.size(); ++p)
    if (match_.moduleOf[p]) e.modules.emplace(rule_.pattern.node(NodeId(p)).name, match_.moduleOf[p]);
  return e;
}

void Instantiation::make(ValueId v, Argument a) {
  if (!made_[v.index]) made_[v.index] = std::move(a);
}

Result<std::vector<Argument>> Instantiation::run() {
  const auto inputs = replacement_.inputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const ValueId pattern = sides_.patternInput[i]) make(inputs[i], match_.bindings[pattern.index]);
  for (NodeId id : sides_.order) {
    const Node& n = replacement_.node(id);
    const std::string_view op = n.op->packetName();
    Status s = done();
    if (isLeftOut(id)) continue;
    if (op == "pattern.by_rank") {
      auto chosen = chooseByRank(n);
      if (!chosen) return chosen.error();
      make(n.outputs[0], std::move(*chosen));
    } else if (op == "pattern.expr") {
      auto value = calculate(n);
      if (!value) return value.error();
      make(n.outputs[0], std::move(*value));
    } else if (op == "pattern.call_module") {
      s = keepModule(n);
    } else if (op == "pattern.parameter") {
      s = makeParameter(n);
    } else if (op == "pattern.runtime") {
      s = makeRunTime(n);
    } else if (op.starts_with("pattern.")) {
      s = badInput("`" + std::string(op.substr(8)) + "` belongs in a pattern: a replacement has no alternatives");
    } else {
      s = makeNode(n);
    }
    if (!s) return s.error();
  }
  std::vector<Argument> out;
  for (const Argument& a : replacement_.returns()) {
    auto t = translate(a);
    if (!t) return t.error();
    addLeaves(*t, out);
  }
  return out;
}

namespace {

// Which alternative belongs to three, four and five dimensions.
std::optional<size_t> alternativeFor(const Graph& g, const Argument& tensor) {
  const auto rank = tensor.isValue() ? knownRank(g, tensor.valueId()) : std::nullopt;
  return rank && *rank >= 3 ? std::optional(static_cast<size_t>(*rank - 3)) : std::nullopt;
}

}  // namespace

// Whether all that uses the node are alternatives for another number of dimensions.
bool Instantiation::isLeftOut(NodeId id) const {
  const Node& n = replacement_.node(id);
  if (n.outputs.size() != 1 || replacement_.value(n.outputs[0]).returnUses > 0) return false;
  const auto& users = replacement_.value(n.outputs[0]).users;
  return !users.empty() && std::all_of(users.begin(), users.end(), [&](NodeId user) {
    const Node& u = replacement_.node(user);
    if (u.op->packetName() != "pattern.by_rank") return false;
    const auto of = translate(*u.findArgument("of"));
    const auto at = of ? alternativeFor(graph_, *of) : std::nullopt;
    return !at || *at >= u.args.size() || !(u.args[*at] == Argument(n.outputs[0]));
  });
}

Result<Argument> Instantiation::chooseByRank(const Node& n) const {
  auto of = translate(*n.findArgument("of"));
  if (!of) return of;
  const auto at = alternativeFor(graph_, *of);
  if (!at || *at >= n.args.size())
    return badInput(
        "what the replacement computes depends on how many dimensions a tensor has, and that is not known or " +
        std::string("none of 3 to ") + std::to_string(2 + n.args.size()));
  return translate(n.args[*at]);
}

void Instantiation::placeModules() {
  std::map<ModuleCallId, ModuleCallId> placed;
  const std::function<ModuleCallId(ModuleCallId)> place = [&](ModuleCallId module) {
    if (!module) return home_;
    if (const auto known = placed.find(module); known != placed.end()) return known->second;
    const ModuleCall& wanted = replacement_.moduleCall(module);
    const ModuleCallId parent = place(wanted.parent);
    return placed[module] = editor_.addModuleCall(parent, pathBelow(wanted.path), wanted.type);
  };
  for (const auto& [node, module] : newModules_)
    if (graph_.isAlive(node)) editor_.setModule(node, place(module));
}

// "fused.weight" as a path of the graph: below the module that holds the match, under a first name that nothing has.
std::string Instantiation::pathBelow(const std::string& name) {
  const std::string first = name.substr(0, name.find('.'));
  std::string& path = pathOf_[first];
  if (path.empty()) {
    const std::string base = (home_ ? graph_.moduleCall(home_).path + "." : "") + first;
    path = base;
    const auto isTaken = [&](const std::string& other) {
      return other == path || (other.starts_with(path) && other[path.size()] == '.');
    };
    const auto taken = [&] {
      const auto calls = graph_.moduleCalls();
      const auto weights = graph_.weights();
      return std::any_of(calls.begin(), calls.end(), [&](const ModuleCall& m) { return isTaken(m.path); }) ||
             std::any_of(weights.begin(), weights.end(), [&](ValueId w) { return isTaken(graph_.value(w).path); });
    };
    for (int i = 1; taken(); ++i) path = base + "_" + std::to_string(i);
  }
  return path + name.substr(first.size());
}

// A weight that the model did not have: nn.Parameter(...), or one of a new module.
Status Instantiation::makeParameter(const Node& n) {
  const Argument* name = n.findArgument("name");
  const Argument* buffer = n.findArgument("buffer");
  auto value = translate(n.args[0]);
  if (!value) return value.error();
  if (n.args.size() > 1) {  // of the module that this one takes the place of, where it is of the same shape
    const auto before = translate(n.args[1]);
    if (!before) return before.error();
    const auto shapeOf = [&](const Argument& a) { return graph_.value(a.valueId()).type.tensorInfo.shape; };
    if (before->isValue() && isConstant(before->valueId()) && value->isValue() && (shapeOf(*before) == shapeOf(*value)))
      *value = *before;
  }
  if (value->isNone()) {
    make(n.outputs[0], Argument());
    return done();
  }
  if (!name || !value->isValue() || !isConstant(value->valueId()))
    return badInput("the first value of `self." + (name ? *name->as<std::string>() : "?") +
                    "` is not known before the model runs");
  // New weights are float32, as in PyTorch; in a model of another dtype they take that.
  ValueId first = value->valueId();
  const auto floating = [&](ValueId v) {
    const auto dtype = graph_.value(v).type.tensorInfo.dtype;
    return dtype && isFloatingPoint(*dtype) ? dtype : std::nullopt;
  };
  std::optional<DType> wanted;
  for (const Argument& b : match_.bindings)
    if (!wanted && b.isValue()) wanted = floating(b.valueId());
  const OperatorRef cast = semantics_.operators().find("aten.to.dtype");
  if (cast && wanted && floating(first) == DType::Float32 && *wanted != DType::Float32) {
    std::vector<Argument> args{Argument(first), Argument(*wanted)};
    for (size_t i = args.size(); i < cast->parameters.size(); ++i)
      args.push_back(cast->parameters[i].defaultValue.value_or(Argument()));
    const NodeId made = insert(cast, std::move(args));
    auto values = semantics_.evaluate(graph_, made);
    editor_.takeBack(made);
    if (!values) return values.error();
    const auto& inDType = values->front();
    first = editor_.addWeight(pathBelow(*name->as<std::string>()) + "_first", inDType.type, inDType.data);
  }
  const bool isBuffer = buffer && buffer->as<bool>() && *buffer->as<bool>();
  const Type type = graph_.value(first).type;
  const auto data = graph_.value(first).data;
  make(n.outputs[0], Argument(editor_.addWeight(pathBelow(*name->as<std::string>()), type, data, isBuffer)));
  return done();
}

// The weight under a name that says so: see staysAtRunTime().
Status Instantiation::makeRunTime(const Node& n) {
  auto value = translate(n.args[0]);
  if (!value) return value.error();
  if (value->isValue() && graph_.isWeight(value->valueId()) && !staysAtRunTime(graph_.value(value->valueId()))) {
    const Value weight = graph_.value(value->valueId());
    *value = Argument(editor_.addWeight(weight.path + std::string(runTimeSuffix), weight.type, weight.data));
  } else if (value->isValue() && !graph_.isWeight(value->valueId()) &&
             dependsOnWeightsAlone(graph_, value->valueId())) {
    return badInput("runtime(...) marks a weight, and `" + graph_.value(value->valueId()).name +
                    "` is still to be calculated from weights: let fold_constants run before the rule");
  }
  make(n.outputs[0], std::move(*value));
  return done();
}

NodeId Instantiation::insert(OperatorRef op, std::vector<Argument> args, std::string_view name) {
  return editor_.insert(block_, at_, std::move(op), std::move(args), name);
}

Result<Argument> Instantiation::translate(const Argument& a) const {
  if (a.isValue()) {
    const std::optional<Argument>& made = made_[a.valueId().index];
    if (!made) {
      return badInput("the replacement uses `" + replacement_.value(a.valueId()).name +
                      "`, which the pattern does not bind");
    }
    return *made;
  }
  const auto all = [&](const std::vector<Argument>& items) -> Result<std::vector<Argument>> {
    std::vector<Argument> out;
    for (const Argument& i : items) {
      auto t = translate(i);
      if (!t) return t.error();
      out.push_back(std::move(*t));
    }
    return out;
  };
  if (const auto* items = a.items()) {
    auto out = all(*items);
    if (!out) return out.error();
    return a.isList() ? Argument::list(std::move(*out)) : Argument::tuple(std::move(*out));
  }
  if (const auto* slice = a.as<Argument::Slice>()) {
    auto out = all(slice->bounds);
    if (!out) return out.error();
    Argument made;
    made.data = Argument::Slice{std::move(*out)};
    return made;
  }
  return a;
}

Result<Argument> Instantiation::calculate(const Node& n) {
  const Argument* i = n.findArgument("index");
  const auto* at = i ? i->as<int64_t>() : nullptr;
  if (!at || *at < 0 || static_cast<size_t>(*at) >= rule_.replacementExpressions.size())
    return internalError("a calculation of the replacement of " + rule_.name + " is missing");
  const Expression& e = rule_.replacementExpressions[static_cast<size_t>(*at)];
  // A size that is used as it is becomes a node that asks for it when the model runs; arithmetic on sizes takes the
  // known numbers.
  Environment names = environment();
  names.opaqueSizes = true;
  auto value = evaluate(e, names);
  names.opaqueSizes = false;
  if (!value || !isPlain(*value)) value = evaluate(e, names);
  return value ? materialize(*value) : value;
}

namespace {

// "size(x,0)" as value and dimension.
std::optional<std::pair<ValueId, int64_t>> parseSize(const Graph& g, const std::string& text) {
  if (!text.starts_with("size(") || !text.ends_with(")")) return std::nullopt;
  const size_t comma = text.rfind(',');
  if (comma == std::string::npos || text.find('(', 5) != std::string::npos) return std::nullopt;
  const ValueId v = g.findValue(text.substr(5, comma - 5));
  if (!v) return std::nullopt;
  return std::pair(v, static_cast<int64_t>(std::atoll(text.c_str() + comma + 1)));
}

}  // namespace

// Whether a node can ask for every size in it.
bool Instantiation::isPlain(const Argument& a) const {
  if (const auto* s = a.as<SymbolicInt>()) {
    const auto size = parseSize(graph_, s->expression);
    // What the match computes is not there yet where the replacement begins.
    return size && std::find(match_.nodes.begin(), match_.nodes.end(), graph_.value(size->first).producer) ==
                       match_.nodes.end();
  }
  if (const auto* items = a.items())
    return std::all_of(items->begin(), items->end(), [&](const Argument& i) { return isPlain(i); });
  return true;
}

Argument Instantiation::sizeNode(ValueId v, int64_t dim) {
  const auto key = std::pair(v, dim);
  if (const auto it = sizes_.find(key); it != sizes_.end()) return it->second;
  const OperatorRef op = semantics_.operators().find("aten.size.int");
  const NodeId made = insert(op, {Argument(v), Argument(dim)});
  editor_.setModule(made, module_);
  editor_.setSource(made, source_);
  return sizes_[key] = Argument(graph_.output(made));
}

// Symbolic sizes become nodes that ask for them.
Result<Argument> Instantiation::materialize(const Argument& a) {
  if (const auto* items = a.items()) {
    std::vector<Argument> out;
    for (const Argument& i : *items) {
      auto m = materialize(i);
      if (!m) return m;
      out.push_back(std::move(*m));
    }
    return a.isList() ? Argument::list(std::move(out)) : Argument::tuple(std::move(out));
  }
  const auto* symbol = a.as<SymbolicInt>();
  if (!symbol) return a;
  if (const auto size = parseSize(graph_, symbol->expression)) return sizeNode(size->first, size->second);
  const auto wanted = Polynomial::parse(symbol->expression);
  std::vector<ValueId> values;
  for (const Argument& b : match_.bindings)
    if (b.isValue()) values.push_back(b.valueId());
  for (const std::optional<Argument>& made : made_)
    if (made && made->isValue()) values.push_back(made->valueId());
  for (ValueId id : values) {
    if (graph_.isWeight(id)) continue;
    const Value& v = graph_.value(id);
    const bool inside =
        v.producer && std::find(match_.nodes.begin(), match_.nodes.end(), v.producer) != match_.nodes.end();
    for (int64_t i = 0; !inside && i < v.type.tensorInfo.rank().value_or(0); ++i)
      if (sizeMeaning(graph_, v.id, i) == wanted) return sizeNode(v.id, i);
  }
  return badInput("the replacement needs the size " + symbol->expression + ", which is the size of none of its inputs");
}

// The module that the pattern named so stays. Where the replacement gives it other inputs, its nodes are made anew.
Status Instantiation::keepModule(const Node& n) {
  const Argument* keep = n.findArgument("keep");
  const auto* name = keep ? keep->as<std::string>() : nullptr;
  if (!name)
    return badInput("a module in the replacement must be one that the pattern names, so that its weights are known");
  NodeId p;
  for (uint32_t i = 0; i < match_.moduleOf.size(); ++i)
    if (match_.moduleOf[i] && rule_.pattern.node(NodeId(i)).name == *name) p = NodeId(i);
  if (!p) return badInput("the replacement keeps the module `" + *name + "`, which the pattern does not match");
  const Node& pn = rule_.pattern.node(p);
  const ModuleCallId call = match_.moduleOf[p.index];
  keptModules.emplace_back(call, *name);
  std::unordered_map<uint32_t, Argument> swapped;
  bool same = pn.args.size() == n.args.size();
  for (size_t k = 0; k < std::min(pn.args.size(), n.args.size()); ++k) {
    auto given = translate(n.args[k]);
    if (!given) return given.error();
    const Argument* before = pn.args[k].isValue() ? &match_.bindings[pn.args[k].valueId().index] : nullptr;
    if (!before || !before->isValue()) continue;
    if (*before == *given) continue;
    same = false;
    swapped[before->valueId().index] = *given;
  }
  if (same) {
    for (NodeId id : match_.nodes)
      if (graph_.isWithin(graph_.node(id).module, call)) kept.push_back(id);
    for (size_t o = 0; o < n.outputs.size() && o < pn.outputs.size(); ++o)
      make(n.outputs[o], match_.bindings[pn.outputs[o].index]);
    return done();
  }
  for (NodeId id : match_.nodes) {
    if (!graph_.isWithin(graph_.node(id).module, call)) continue;
    const Node original = graph_.node(id);
    if (!original.blocks.empty())
      return badInput("the module `" + *name + "` holds control flow, which cannot be given other inputs");
    std::function<Argument(const Argument&)> swap = [&](const Argument& a) -> Argument {
      if (a.isValue()) {
        const auto it = swapped.find(a.valueId().index);
        return it == swapped.end() ? a : it->second;
      }
      if (const auto* items = a.items()) {
        std::vector<Argument> out;
        for (const Argument& i : *items) out.push_back(swap(i));
        return a.isList() ? Argument::list(std::move(out)) : Argument::tuple(std::move(out));
      }
      return a;
    };
    std::vector<Argument> args;
    for (const Argument& a : original.args) args.push_back(swap(a));
    const NodeId made = insert(original.op, std::move(args), original.name);
    if (!original.kwargs.empty()) {
      auto kwargs = original.kwargs;
      for (auto& [key, a] : kwargs) a = swap(a);
      editor_.setKeywordArguments(made, std::move(kwargs));
    }
    editor_.setModule(made, original.module);
    editor_.setSource(made, original.source);
    editor_.setOrigin(made, respelled(original.origin, original.args, graph_.node(made).args));
    auto types = semantics_.inferTypes(graph_, made);
    if (!types) return types.error();
    for (size_t o = 0; o < original.outputs.size(); ++o) {
      const ValueId v = graph_.node(made).outputs[o];
      if (o < types->size()) editor_.setType(v, (*types)[o]);
      swapped[original.outputs[o].index] = Argument(v);
    }
  }
  for (size_t o = 0; o < n.outputs.size() && o < pn.outputs.size(); ++o) {
    const Argument& before = match_.bindings[pn.outputs[o].index];
    const auto it = before.isValue() ? swapped.find(before.valueId().index) : swapped.end();
    if (it == swapped.end()) return badInput("the module `" + *name + "` cannot be given other inputs");
    make(n.outputs[o], it->second);
  }
  return done();
}

// x[..., i]: the list has an entry for each dimension that the ellipsis stands for.
Status Instantiation::expandEllipsis(std::vector<Argument>& args) const {
  const auto* items = args[1].items();
  if (!items) return done();
  const auto dots = std::find_if(items->begin(), items->end(), [](const Argument& a) { return a.as<Ellipsis>(); });
  if (dots == items->end()) return done();
  const auto rank = args[0].isValue() ? knownRank(graph_, args[0].valueId()) : std::nullopt;
  if (!rank || static_cast<size_t>(*rank) + 1 < items->size())
    return badInput("what `...` stands for depends on how many dimensions a tensor has, and that is not known here");
  std::vector<Argument> out(items->begin(), dots);
  out.resize(out.size() + static_cast<size_t>(*rank) + 1 - items->size());
  out.insert(out.end(), dots + 1, items->end());
  args[1] = Argument::list(std::move(out));
  return done();
}

Status Instantiation::makeNode(const Node& n) {
  std::vector<Argument> args;
  args.reserve(n.args.size());
  for (const Argument& a : n.args) {
    auto t = translate(a);
    if (!t) return t.error();
    args.push_back(std::move(*t));
  }
  if (n.op->name == "aten.index.Tensor")
    if (Status s = expandEllipsis(args); !s) return s;
  OperatorRef op = n.op;
  if (!op->hasSchema)  // the rule language's stand-in (prim.getitem) for an operator that the model's set knows with a
                       // schema
    if (const OperatorRef known = findOperator(semantics_.operators(), op->name);
        known && known->parameters.size() == args.size())
      op = known;
  if (copies_ && op->name == "aten.view.default")
    if (const OperatorRef reshape = semantics_.operators().find("aten.reshape.default")) op = reshape;
  const NodeId made = insert(std::move(op), std::move(args));
  if (!n.kwargs.empty()) {
    std::vector<std::pair<std::string, Argument>> kwargs;
    for (const auto& [key, a] : n.kwargs) {
      auto t = translate(a);
      if (!t) return t.error();
      kwargs.emplace_back(key, std::move(*t));
    }
    editor_.setKeywordArguments(made, std::move(kwargs));
  }
  while (graph_.node(made).outputs.size() < n.outputs.size())
    editor_.addOutput(made, n.op->baseName(), replacement_.value(n.outputs[graph_.node(made).outputs.size()]).type);
  editor_.setModule(made, module_);
  if (n.module) newModules_.emplace_back(made, n.module);
  editor_.setSource(made, source_);
  if (tryEvaluate(made, n)) return done();
  auto types = semantics_.inferTypes(graph_, made);
  if (!types) {
    return badInput("the replacement's " + std::string(n.op->packetName()) +
                    " refuses its arguments here: " + types.error().message);
  }
  const std::vector<ValueId> outputs = graph_.node(made).outputs;
  for (size_t o = 0; o < outputs.size() && o < n.outputs.size(); ++o) {
    if (o < types->size()) editor_.setType(outputs[o], (*types)[o]);
    make(n.outputs[o], Argument(outputs[o]));
  }
  return done();
}

bool Instantiation::isConstant(ValueId v) const { return graph_.isWeight(v) && !staysAtRunTime(graph_.value(v)); }

// Operators on weights and literals alone are evaluated now; their results become weights.
bool Instantiation::tryEvaluate(NodeId made, const Node& n) {
  const Node& node = graph_.node(made);
  const bool isInitial = sides_.isInitial[n.id.index] != 0;  // of a parameter: random ones too, and constants alone
  if (!node.op->pure() && !(isInitial && node.op->random && !node.op->writes())) return false;
  bool constant = true, any = false;
  const auto look = [&](ValueId v) {
    any = true;
    constant = constant && isConstant(v);
  };
  for (const Argument& a : node.args) a.forEachValue(look);
  for (const auto& [key, a] : node.kwargs) a.forEachValue(look);
  if (!constant || !(any || isInitial)) return false;
  auto values = semantics_.evaluate(graph_, made);
  if (!values || values->size() != n.outputs.size()) return false;
  const std::string path = weightPath(node);
  for (size_t o = 0; o < values->size(); ++o) {
    Semantics::Constant& c = (*values)[o];
    if (!c.data) {
      make(n.outputs[o], c.literal);
      continue;
    }
    make(n.outputs[o], Argument(editor_.addWeight(o ? path + "_" + std::to_string(o) : path, c.type, c.data)));
  }
  editor_.takeBack(made);
  return true;
}

std::string Instantiation::weightPath(const Node& made) const {
  std::vector<std::string> paths;
  for (const Argument& a : made.args)
    a.forEachValue([&](ValueId v) {
      if (graph_.isWeight(v)) paths.push_back(graph_.value(v).path);
    });
  if (paths.size() > 1)
    if (std::string joined = joinedPath(paths); !joined.empty() && joined.size() < 200) return joined;
  if (paths.empty()) return "constants." + graph_.node(made.id).name;
  return paths.front() + "_" + std::string(made.op->baseName());
}

}  // namespace graft
