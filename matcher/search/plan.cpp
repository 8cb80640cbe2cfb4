#include "matcher/search/plan.h"

#include <algorithm>

#include "core/ir/normal_form.h"
#include "matcher/search/reshapes.h"

namespace graft {
namespace {

std::shared_ptr<RE2> compileExpression(const std::string& text, std::string& problem) {
  RE2::Options options;
  options.set_log_errors(false);
  auto re = std::make_shared<RE2>(text, options);
  if (!re->ok() && problem.empty()) problem = "the expression \"" + text + "\" is not valid: " + re->error();
  return re;
}

const std::string* keywordText(const Node& n, std::string_view key) {
  const Argument* a = n.findArgument(key);
  return a ? a->as<std::string>() : nullptr;
}

// "torch.nn.Linear" in a rule is torch.nn.modules.linear.Linear of the model; a bare name is the last part of any.
bool typeMatches(const std::string& wanted, const ModuleCall& call) {
  const size_t dot = wanted.rfind('.');
  if (dot == std::string::npos) return call.shortType() == wanted;
  if (call.type == wanted) return true;
  const std::string_view last = std::string_view(wanted).substr(dot + 1);
  const bool torchs = wanted.starts_with("torch.nn.") || wanted.starts_with("nn.");
  return torchs && call.shortType() == last && (call.type.starts_with("torch.nn.") || call.type == last);
}

bool isIntegerNode(const Node& n) {
  if (n.outputs.size() != 1 || n.op->returns.size() != 1) return false;
  return n.op->returns[0].type.kind == Type::Kind::Int;
}

// A parameter, or what may be a view of one: others may look at it.
bool writesToParameter(const Graph& pattern, const Node& n) {
  const NodeId by = n.args.empty() || !n.args[0].isValue() ? NodeId() : pattern.value(n.args[0].valueId()).producer;
  return !by || !pattern.node(by).op->hasSchema || pattern.node(by).op->aliases();
}

bool replacementWrites(const Rule& rule) {
  if (!rule.replacement) return false;
  const std::vector<NodeId> order = rule.replacement->order();
  return std::any_of(order.begin(), order.end(), [&](NodeId n) { return rule.replacement->node(n).op->writes(); });
}

}  // namespace

Plan::Plan(const Rule& r, const GraphIndex& i) : rule(r), pattern(r.pattern), index(i) {
  nodes.resize(pattern.nodeBound());
  returned.assign(pattern.valueBound(), 0);
  parameterOf.assign(pattern.valueBound(), -1);
  const auto inputs = pattern.inputs();
  for (size_t p = 0; p < inputs.size(); ++p) {
    const std::string& name = pattern.value(inputs[p]).name;
    for (size_t k = 0; k < rule.parameters.size(); ++k)
      if (rule.parameters[k].name == name) parameterOf[inputs[p].index] = static_cast<int>(k);
  }
  if (rule.replacement) {
    for (ValueId p : inputs) {
      const ValueId used = rule.replacement->findValue(pattern.value(p).name);
      if (!used || !rule.replacement->isUnused(used) || !rule.replacementExpressions.empty()) read.push_back(p);
    }
  }
  const std::vector<NodeId> order = pattern.order();
  findsAllReshapes =
      std::any_of(order.begin(), order.end(), [&](NodeId n) { return isReshape(pattern.node(n).op->name); }) &&
      graft::findsAllReshapes(rule);
  if (findsAllReshapes)
    for (uint32_t op = 0; op < index.operatorNames().size(); ++op)
      if (isReshape(index.operatorNames()[op])) reshapes.push_back(op);
  for (NodeId id : order) compile(id);
  for (const Argument& a : pattern.returns())
    a.forEachValue([&](ValueId v) {
      if (!returned[v.index] && producer(v)) roots.push_back(v);
      returned[v.index] = 1;
    });
  // Nodes that no returned value depends on take no part.
  std::vector<uint8_t> needed(pattern.nodeBound(), 0);
  std::vector<ValueId> work(roots.begin(), roots.end());
  while (!work.empty()) {
    const NodeId id = pattern.value(work.back()).producer;
    work.pop_back();
    if (!id || needed[id.index]) continue;
    needed[id.index] = 1;
    const auto use = [&](ValueId v) { work.push_back(v); };
    for (const Argument& a : pattern.node(id).args) a.forEachValue(use);
    for (const auto& [key, a] : pattern.node(id).kwargs) a.forEachValue(use);
  }
  for (PlanNode& p : nodes)
    if (p.id && !needed[p.id.index]) p.kind = PlanNode::Kind::Ignored;
  findRequired();
  for (const PlanNode& p : nodes)
    if (p.required && p.kind != PlanNode::Kind::Meaning && p.kind != PlanNode::Kind::AnyOf) ++requiredCount;
  if (!rule.scope.empty()) scope = compileExpression(rule.scope, problem);
  if (roots.empty() && problem.empty()) problem = "the pattern returns nothing that it computes";
  functionMemo_.assign(nodes.size() * std::max<size_t>(index.operatorNames().size(), 1), -1);
}

void Plan::compile(NodeId id) {
  const Node& n = pattern.node(id);
  PlanNode& p = nodes[id.index];
  p.id = id;
  const std::string_view name = n.op->packetName();
  if (name == "pattern.any_of") {
    p.kind = PlanNode::Kind::AnyOf;
  } else if (name == "pattern.expr") {
    p.kind = PlanNode::Kind::Meaning;
    const Argument* i = n.findArgument("index");
    const auto* at = i ? i->as<int64_t>() : nullptr;
    p.expression = at ? static_cast<int>(*at) : -1;
    if (!at || *at < 0 || static_cast<size_t>(*at) >= rule.patternExpressions.size())
      problem = "a calculation of the pattern is missing";
  } else if (name == "pattern.call_module" || name == "pattern.call_function") {
    p.kind = name == "pattern.call_module" ? PlanNode::Kind::CallModule : PlanNode::Kind::CallFunction;
    if (const auto* t = keywordText(n, "name")) p.name = compileExpression(*t, problem);
    if (const auto* t = keywordText(n, "path")) p.path = compileExpression(*t, problem);
    if (const auto* t = keywordText(n, "type")) p.type = *t;
  } else if (isIntegerNode(n)) {
    p.kind = PlanNode::Kind::Meaning;
  } else {
    p.kind = PlanNode::Kind::Operator;
    const std::string_view canonical = canonicalOperator(n.op->name);
    p.op = index.findOperator(canonical);
    if (n.op->writes() && (!writesToParameter(pattern, n) || !replacementWrites(rule)))
      if (const auto functional = functionalForm(canonical)) p.functional = index.findOperator(*functional);
    p.commutative = n.op->is(OperatorFact::Commutative);
    p.isDivision = canonical == "aten.div.Tensor";
    p.reshapes = findsAllReshapes && isReshape(canonical);
    if (!rule.exact && (p.isDivision || canonical == "aten.mul.Tensor"))
      p.reciprocal = index.findOperator(p.isDivision ? "aten.mul.Tensor" : "aten.div.Tensor");
  }
}

// What every match holds: all that a root is computed from, and of alternatives what all of them share.
void Plan::findRequired() {
  std::vector<std::vector<uint8_t>> sets(pattern.nodeBound());
  for (NodeId id : pattern.order()) {
    PlanNode& p = nodes[id.index];
    if (p.kind == PlanNode::Kind::Ignored) continue;
    std::vector<uint8_t>& own = sets[id.index];
    own.assign(pattern.nodeBound(), 0);
    const auto setOf = [&](const Argument& a) -> std::vector<uint8_t>* {
      const NodeId by = a.isValue() ? pattern.value(a.valueId()).producer : NodeId();
      return by && !sets[by.index].empty() ? &sets[by.index] : nullptr;
    };
    const Node& n = pattern.node(id);
    if (p.kind == PlanNode::Kind::AnyOf) {
      for (size_t k = 0; k < own.size(); ++k)
        own[k] =
            std::all_of(n.args.begin(), n.args.end(), [&](const Argument& a) { return setOf(a) && (*setOf(a))[k]; });
    } else if (p.kind != PlanNode::Kind::Meaning) {
      const auto use = [&](ValueId v) {
        if (const auto* set = setOf(Argument(v)))
          for (size_t k = 0; k < own.size(); ++k) own[k] |= (*set)[k];
      };
      for (const Argument& a : n.args) a.forEachValue(use);
      for (const auto& [key, a] : n.kwargs) a.forEachValue(use);
    }
    own[id.index] = 1;
  }
  for (ValueId root : roots)
    for (size_t k = 0; k < nodes.size(); ++k)
      if (sets[pattern.value(root).producer.index][k]) nodes[k].required = true;
}

bool Plan::mayBeAbsent(NodeId id) const {
  if (absent_.empty()) {
    absent_.assign(nodes.size(), 0);
    for (const PlanNode& p : nodes) {
      if (p.kind != PlanNode::Kind::AnyOf) continue;
      for (const Argument& a : pattern.node(p.id).args)
        for (const Argument& b : pattern.node(p.id).args)
          if (a.isValue() && b.isValue() && a != b && producer(a.valueId()) &&
              ancestorsOf(a.valueId())[b.valueId().index])
            absent_[producer(a.valueId())->id.index] = 1;
    }
  }
  return absent_[id.index] != 0;
}

const PlanNode* Plan::producer(ValueId v) const {
  const NodeId id = pattern.value(v).producer;
  return id ? &nodes[id.index] : nullptr;
}

bool Plan::accepts(const PlanNode& p, NodeId g) const {
  const uint32_t op = index.opOf[g.index];
  if (p.kind == PlanNode::Kind::Operator) {
    if (op == GraphIndex::none) return false;
    return op == p.op || op == p.reciprocal || op == p.functional ||
           (p.reshapes && std::find(reshapes.begin(), reshapes.end(), op) != reshapes.end());
  }
  if (p.kind != PlanNode::Kind::CallFunction || !p.name) return false;
  signed char& memo = functionMemo_[p.id.index * index.operatorNames().size() + op];
  if (memo < 0) {
    const Operator& o = *index.graph.node(g).op;
    memo = RE2::FullMatch(std::string(o.packetName()), *p.name) || RE2::FullMatch(o.name, *p.name);
  }
  return memo > 0;
}

uint64_t Plan::irrelevant(const PlanNode& p, const Operator& op) const {
  if (p.asked == &op) return p.irrelevant;
  p.asked = &op;
  p.irrelevant = 0;
  if (p.kind == PlanNode::Kind::CallFunction) return 0;
  for (size_t k = 0; k < std::min<size_t>(op.parameters.size(), 64); ++k)
    if (isIrrelevantParameter(op.name, op.parameters[k].name)) p.irrelevant |= uint64_t{1} << k;
  return p.irrelevant;
}

bool Plan::accepts(const PlanNode& p, const ModuleCall& call) const {
  if (!p.type.empty() && !typeMatches(p.type, call)) return false;
  if (p.path && !RE2::FullMatch(call.path, *p.path)) return false;
  if (p.name) {
    const std::string_view last = call.lastName();
    if (!RE2::FullMatch(re2::StringPiece(last.data(), last.size()), *p.name)) return false;
  }
  return true;
}

const std::vector<uint8_t>& Plan::ancestorsOf(ValueId root) const {
  if (ancestors_.empty()) ancestors_.resize(pattern.valueBound());
  std::vector<uint8_t>& out = ancestors_[root.index];
  if (!out.empty()) return out;
  out.assign(pattern.valueBound(), 0);
  std::vector<ValueId> work{root};
  out[root.index] = 1;
  while (!work.empty()) {
    const NodeId id = pattern.value(work.back()).producer;
    work.pop_back();
    if (!id || nodes[id.index].kind == PlanNode::Kind::Meaning) continue;
    const auto use = [&](ValueId v) {
      if (!out[v.index]) work.push_back(v);
      out[v.index] = 1;
    };
    for (const Argument& a : pattern.node(id).args) a.forEachValue(use);
    for (const auto& [key, a] : pattern.node(id).kwargs) a.forEachValue(use);
  }
  return out;
}

void Plan::followUses(ValueId from, ValueId start, ValueId root, bool loose, std::vector<ValueId>& out) const {
  const std::vector<uint8_t>& leads = ancestorsOf(root);
  if (!leads[from.index]) return;
  const Graph& g = index.graph;
  std::vector<UseWalk>& states = walk_;
  states.assign(1, {from, start, false});
  const auto add = [&](ValueId p, ValueId v, bool excused) {
    if (!leads[p.index] || states.size() > 4096) return;
    for (const UseWalk& s : states)
      if (s.pattern == p && s.graph == v && s.excused <= excused) return;
    states.push_back({p, v, excused});
  };
  const auto before = static_cast<std::ptrdiff_t>(out.size());
  for (size_t i = 0; i < states.size(); ++i) {
    const UseWalk s = states[i];
    if (s.pattern == root) {
      if (std::find(out.begin() + before, out.end(), s.graph) == out.end()) out.push_back(s.graph);
      continue;
    }
    for (NodeId pu : pattern.value(s.pattern).users) {
      const PlanNode& p = nodes[pu.index];
      const std::vector<ValueId>& results = pattern.node(pu).outputs;
      if (p.kind == PlanNode::Kind::Meaning || p.kind == PlanNode::Kind::Ignored) continue;
      if (p.kind == PlanNode::Kind::AnyOf) {
        add(results[0], s.graph, s.excused);
        continue;
      }
      for (NodeId u : g.value(s.graph).users) {
        ++looked;
        if (!index.effective[u.index]) continue;
        const Node& n = g.node(u);
        if (index.handsOn(u) && n.outputs.size() == 1) add(s.pattern, n.outputs[0], s.excused);
        if (p.kind == PlanNode::Kind::CallModule) {
          for (ModuleCallId m = n.module; m; m = g.moduleCall(m).parent) {
            if (!accepts(p, g.moduleCall(m))) continue;
            const auto outputs = outputsOf(m);
            for (size_t o = 0; o < std::min(outputs.size(), results.size()); ++o)
              add(results[o], outputs[o], s.excused);
          }
        }
        const bool fits = p.kind != PlanNode::Kind::CallModule && accepts(p, u);
        if (!fits && (!loose || s.excused)) continue;
        for (size_t o = 0; o < std::min(n.outputs.size(), results.size()); ++o)
          add(results[o], n.outputs[o], s.excused || !fits);
      }
    }
  }
}

std::vector<ValueId> Plan::valuesOf(const PlanNode& p, size_t output) const {
  std::vector<ValueId> out;
  const Graph& g = index.graph;
  const auto addNode = [&](NodeId id) {
    const Node& n = g.node(id);
    if (output < n.outputs.size()) out.push_back(n.outputs[output]);
  };
  switch (p.kind) {
    case PlanNode::Kind::Operator:
      forEachOperator(p, [&](uint32_t op) {
        for (NodeId id : index.nodesOf(op)) addNode(id);
      });
      break;
    case PlanNode::Kind::CallFunction:
      for (NodeId id : index.order)
        if (index.effective[id.index] && accepts(p, id)) addNode(id);
      break;
    case PlanNode::Kind::CallModule:
      for (const ModuleCall& m : g.moduleCalls()) {
        if (!accepts(p, m)) continue;
        const auto outputs = outputsOf(m.id);
        if (output < outputs.size()) out.push_back(outputs[output]);
      }
      break;
    case PlanNode::Kind::AnyOf:
      for (const Argument& a : pattern.node(p.id).args)
        if (a.isValue())
          if (const PlanNode* q = producer(a.valueId()))
            for (ValueId v : valuesOf(*q, 0)) out.push_back(v);
      break;
    default:
      break;
  }
  return out;
}

std::vector<ValueId> Plan::startingPoints(bool loose) const {
  const Graph& g = index.graph;
  std::vector<ValueId> out;
  const ValueId root = roots.front();
  const auto outputIndex = [&](ValueId v) {
    const auto& outputs = pattern.node(pattern.value(v).producer).outputs;
    return static_cast<size_t>(std::find(outputs.begin(), outputs.end(), v) - outputs.begin());
  };
  const auto from = [&](const PlanNode& p) {
    const std::vector<ValueId>& own = pattern.node(p.id).outputs;
    for (size_t o = 0; o < own.size(); ++o) {
      if (!ancestorsOf(root)[own[o].index]) continue;
      for (ValueId v : valuesOf(p, o)) {
        if (own[o] == root) {
          out.push_back(v);
          continue;
        }
        const size_t before = out.size();
        followUses(own[o], v, root, loose, out);
        if (loose && out.size() == before) out.push_back(v);  // what is above it is not there
      }
      break;
    }
  };
  const NodeId rootNode = pattern.value(root).producer;
  if (loose) {
    // Parts of alternatives too: where all that every match holds is missing, they are all there is to see.
    for (const PlanNode& p : nodes)
      if (p.kind == PlanNode::Kind::Operator || p.kind == PlanNode::Kind::CallModule ||
          p.kind == PlanNode::Kind::CallFunction)
        from(p);
    if (producer(root)->kind == PlanNode::Kind::AnyOf)
      for (ValueId v : valuesOf(*producer(root), outputIndex(root))) out.push_back(v);
  } else {
    // Walking up from the rarest operator below the first root leaves the fewest places to look at.
    const PlanNode* best = producer(root);
    size_t fewest = SIZE_MAX;
    for (const PlanNode& p : nodes) {
      if (!p.required || p.kind != PlanNode::Kind::Operator) continue;
      size_t count = 0;
      forEachOperator(p, [&](uint32_t op) { count += index.nodesOf(op).size(); });
      if (count == 0) return {};  // required, whichever root it serves
      if (count > fewest || (count == fewest && p.id != rootNode)) continue;
      const auto& own = pattern.node(p.id).outputs;
      if (std::none_of(own.begin(), own.end(), [&](ValueId o) { return ancestorsOf(root)[o.index]; })) continue;
      fewest = count;
      best = &p;
    }
    if (rootNode == best->id)
      out = valuesOf(*best, outputIndex(root));
    else
      from(*best);
  }
  looked += out.size();
  const auto place = [&](ValueId v) { return g.value(v).producer ? index.position[g.value(v).producer.index] : 0u; };
  std::sort(out.begin(), out.end(),
            [&](ValueId a, ValueId b) { return std::pair(place(a), a) < std::pair(place(b), b); });
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::vector<ValueId> Plan::outputsOf(ModuleCallId call) const {
  const Graph& g = index.graph;
  std::vector<ValueId> out;
  NodeId maker;
  bool areOfOne = true;
  for (NodeId id : index.nodesIn(call))
    for (ValueId v : g.node(id).outputs) {
      bool leaves = g.value(v).returnUses > 0;
      for (NodeId u : g.value(v).users)
        leaves = leaves || (index.effective[u.index] && !g.isWithin(g.node(u).module, call));
      if (!leaves) continue;
      areOfOne = areOfOne && (!maker || maker == id);
      maker = id;
      out.push_back(v);
    }
  // An LSTM's results keep their places, whichever of them somebody reads.
  if (maker && areOfOne && g.node(maker).outputs.size() > 1) return g.node(maker).outputs;
  return out;
}

std::vector<ValueId> Plan::inputsOf(ModuleCallId call) const {
  const Graph& g = index.graph;
  std::vector<ValueId> flows;
  const auto use = [&](ValueId v) {
    const Value& value = g.value(v);
    if (value.kind == Value::Kind::Weight || index.isWeightLike(v)) return;
    if (value.producer && g.isWithin(g.node(value.producer).module, call)) return;
    if (std::find(flows.begin(), flows.end(), v) == flows.end()) flows.push_back(v);
  };
  // An import asks the earliest value that has a size for it, which need not come into the call.
  std::vector<ValueId> measured;
  for (NodeId id : index.nodesIn(call)) {
    if (g.node(id).op->name == "aten.size.int") {
      g.node(id).args[0].forEachValue([&](ValueId v) { measured.push_back(v); });
      continue;
    }
    for (const Argument& a : g.node(id).args) a.forEachValue(use);
    for (const auto& [key, a] : g.node(id).kwargs) a.forEachValue(use);
  }
  const std::vector<ValueId>& recorded = g.moduleCall(call).inputs;
  const bool current = !recorded.empty() && std::all_of(flows.begin(), flows.end(), [&](ValueId v) {
    return std::find(recorded.begin(), recorded.end(), v) != recorded.end();
  });
  if (!current) return flows;
  std::vector<ValueId> inputs;
  for (ValueId v : recorded) {
    const bool isMeasured = std::find(measured.begin(), measured.end(), v) != measured.end();
    if (!isMeasured || std::find(flows.begin(), flows.end(), v) != flows.end()) inputs.push_back(v);
  }
  return inputs;
}

}  // namespace graft
