#include "matcher/rewrite/rewrite.h"

#include <algorithm>
#include <cassert>

#include "matcher/rewrite/instantiate.h"
#include "matcher/rewrite/view_relaxation.h"
#include "matcher/search/graph_index.h"

namespace graft {
namespace {

bool contains(const std::vector<NodeId>& v, NodeId n) { return std::find(v.begin(), v.end(), n) != v.end(); }

// The node of `block` that is or holds `n`; none where it lies outside.
NodeId within(const Graph& g, NodeId n, BlockId block) {
  while (n && g.node(n).parent != block) n = g.block(g.node(n).parent).owner;
  return n;
}

/// How the new result's type is another one; empty where it is not.
std::string typeComplaint(const Type& before, const Type& after) {
  const TensorInfo &b = before.tensorInfo, &a = after.tensorInfo;
  if (!before.isTensor() || !after.isTensor()) return "";
  if (b.shape && a.shape) {
    bool differs = b.shape->size() != a.shape->size();
    for (size_t i = 0; !differs && i < b.shape->size(); ++i) {
      const Dim &x = (*b.shape)[i], &y = (*a.shape)[i];
      differs = x.isStatic() && y.isStatic() && x.size != y.size;
    }
    if (differs) return "the replacement's shape is " + shapeString(a) + ", the pattern's is " + shapeString(b);
  }
  if (b.dtype && a.dtype && *b.dtype != *a.dtype)
    return "the replacement's dtype is " + std::string(dtypeName(*a.dtype)) + ", the pattern's is " +
           std::string(dtypeName(*b.dtype));
  return "";
}

/// The new result's type with what only the old one's says: inference does not find every size of every operator. Of
/// two expressions of symbols the old one stays, for what reads the result was written with it.
Type withKnown(Type after, const Type& before) {
  if (!before.isTensor() || !after.isTensor()) return after;
  const TensorInfo& b = before.tensorInfo;
  TensorInfo& a = after.tensorInfo;
  if (!a.dtype) a.dtype = b.dtype;
  if (a.device.empty()) a.device = b.device;
  if (!a.shape) {
    a.shape = b.shape;
  } else if (b.shape && a.shape->size() == b.shape->size()) {
    for (size_t i = 0; i < a.shape->size(); ++i)
      if (!(*a.shape)[i].isStatic() && (*b.shape)[i].isKnown()) (*a.shape)[i] = (*b.shape)[i];
  }
  return after;
}

}  // namespace

struct Rewriter::Scratch {
  std::vector<ValueId> inputs;                       // what the replacement reads
  std::vector<std::pair<ValueId, ValueId>> outputs;  // results before and after
  std::vector<NodeId> late;                          // users of old results that stand before the new ones
  std::vector<ValueId> below;                        // what findLate() follows
  std::vector<NodeId> gone;                          // nodes to take out
};

Rewriter::Rewriter(GraphEditor& editor, RewriteCheck* check)
    : editor_(editor),
      graph_(editor.graph()),
      check_(check),
      views_(std::make_unique<ViewRelaxation>(editor)),
      scratch_(std::make_unique<Scratch>()) {}
Rewriter::Rewriter(Graph& graph, const Semantics& semantics, RewriteCheck* check)
    : own_(std::make_unique<GraphEditor>(graph, semantics)),
      editor_(*own_),
      graph_(graph),
      check_(check),
      views_(std::make_unique<ViewRelaxation>(editor_)),
      scratch_(std::make_unique<Scratch>()) {}
Rewriter::~Rewriter() = default;

// Values that earlier rewrites replaced become what replaced them.
void Rewriter::bringUpToDate(Argument& a) const {
  a.forEachValueMutable([&](ValueId& v) {
    while (v.index < forwarded_.size() && forwarded_[v.index]) v = forwarded_[v.index];
  });
}

void Rewriter::forward(ValueId from, ValueId to) {
  if (from.index >= forwarded_.size()) forwarded_.resize(graph_.valueBound());
  forwarded_[from.index] = to;
}

void Rewriter::prepare(const std::vector<Match>& matches) const {
  if (!check_ || matches.empty()) return;
  std::vector<std::vector<NodeId>> places;
  for (const Match& m : matches) places.push_back(m.nodes);
  check_->prepare(graph_, places);
}

Result<Record> Rewriter::apply(const Rule& rule, Match match) {
  if (Status s = rewrite(rule, match); !s) return s.error();
  return editor_.records().back();
}

Status Rewriter::rewrite(const Rule& rule, Match& match) {
  if (!rule.replacement) return badInput("the rule " + rule.name + " only finds: it has no replacement");
  assert(!match.nodes.empty());
  if (!forwarded_.empty())
    for (Argument& a : match.bindings) bringUpToDate(a);
  for (NodeId n : match.nodes)
    if (!graph_.isAlive(n))
      return badInput("`" + std::string(rule.name) + "`: an earlier rewrite removed a part of this match");
  for (const Argument& a : match.bindings) {
    bool alive = true;
    a.forEachValue([&](ValueId v) { alive = alive && graph_.value(v).alive; });
    if (!alive) return badInput("an earlier rewrite removed a value that this match reads");
  }
  editor_.begin(rule.name, match.scope);
  const Status s = replace(rule, match);
  if (s) {
    editor_.commit();
  } else {
    editor_.cancel();
    if (s.error().kind == ErrorKind::Verification && editor_.listener())
      editor_.listener()->onRolledBack(rolledBack_, graph_);
  }
  return s;
}

// Within an open edit. On an error only insertions have been made.
Status Rewriter::replace(const Rule& rule, Match& match) {
  const BlockId block = graph_.node(match.nodes.front()).parent;
  if (!sides_ || sides_->rule != &rule) sides_ = std::make_unique<RuleSides>(rule);

  // New nodes go before the first matched node, or after the last input where that comes later.
  NodeId at = match.nodes.front();
  for (NodeId n : match.nodes)
    if (graph_.node(n).parent == block && graph_.isBefore(n, at)) at = n;
  const auto needs = [&](ValueId v) {
    const NodeId producer = within(graph_, graph_.value(v).producer, block);
    if (producer && !contains(match.nodes, producer) && !graph_.isBefore(producer, at)) at = graph_.node(producer).next;
  };
  std::vector<ValueId>& inputs = scratch_->inputs;
  inputs.clear();
  for (size_t i = 0; i < rule.pattern.inputs().size(); ++i)
    if (sides_->isRead[i])
      match.bindings[rule.pattern.inputs()[i].index].forEachValue([&](ValueId v) { inputs.push_back(v); });
  for (ValueId v : inputs)
    if (at) needs(v);
  // Modules that stay in place come before what uses them.
  for (uint32_t p = 0; p < match.moduleOf.size(); ++p) {
    if (!match.moduleOf[p]) continue;
    for (NodeId n : match.nodes)
      if (at && graph_.isWithin(graph_.node(n).module, match.moduleOf[p]) && graph_.node(n).parent == block &&
          !graph_.isBefore(n, at))
        at = graph_.node(n).next;
  }

  Instantiation made(editor_, *sides_, match, block, at);
  auto returns = made.run();
  if (!returns) return returns.error();
  const std::vector<Argument>& before = sides_->returned;
  if (before.size() != returns->size()) {
    return badInput("the pattern of " + rule.name + " returns " + std::to_string(before.size()) +
                    " values, its replacement " + std::to_string(returns->size()));
  }
  std::vector<std::pair<ValueId, ValueId>>& outputs = scratch_->outputs;
  outputs.clear();
  bool otherTypes = false;
  for (size_t i = 0; i < before.size(); ++i) {
    if (!before[i].isValue()) continue;
    const Argument& old = match.bindings[before[i].valueId().index];
    const Argument& now = (*returns)[i];
    if (!old.isValue() || old == now) continue;
    if (!now.isValue())
      return badInput("the replacement of " + rule.name + " returns a literal where the graph needs a value");
    if (!rule.pattern.value(before[i].valueId()).producer)
      return badInput("the pattern of " + rule.name + " returns its parameter `" +
                      rule.pattern.value(before[i].valueId()).name + "` unchanged, its replacement does not");
    const auto again =
        std::find_if(outputs.begin(), outputs.end(), [&](const auto& o) { return o.first == old.valueId(); });
    if (again != outputs.end()) {
      if (again->second != now.valueId()) return badInput("one value of the graph would become two different ones");
      continue;
    }
    const std::string complaint = typeComplaint(graph_.value(old.valueId()).type, graph_.value(now.valueId()).type);
    if (!complaint.empty() && !rule.changesNumbers) return badInput(rule.name + ": " + complaint);
    outputs.emplace_back(old.valueId(), now.valueId());
    otherTypes = otherTypes || !complaint.empty();
    if (complaint.empty() && !rule.changesNumbers &&
        contains(editor_.record().added, graph_.value(now.valueId()).producer))
      editor_.setType(now.valueId(), withKnown(graph_.value(now.valueId()).type, graph_.value(old.valueId()).type));
  }

  // Users of the old results that stand before the new ones must come after them.
  if (Status s = findLate(match, editor_.record().added); !s) return s.error();

  RewriteVerification verification;
  if (check_) {
    std::vector<NodeId> after = editor_.record().added;
    after.insert(after.end(), made.kept.begin(), made.kept.end());
    verification =
        check_->check({graph_, rule.name, rule.changesNumbers, match.nodes, std::move(after), outputs, rule.tolerance});
    if (verification.verdict == RewriteVerification::Verdict::Failed) {
      const std::string why = verification.why;
      rolledBack_ = {match.anchor ? graph_.node(match.anchor).name : "?", match.scope, {}, std::move(verification)};
      for (NodeId n : match.nodes) rolledBack_.nodes.push_back(graph_.node(n).name);
      return Error{ErrorKind::Verification, why, {}};
    }
  }

  if (otherTypes)
    if (Status s = passOnTypes(match, made.kept); !s) return badInput(rule.name + ": " + s.error().message);

  // From here on nothing fails.
  made.placeModules();
  kept_ = made.kept;
  Record& record = editor_.record();
  const std::vector<NodeId>& added = record.added;
  record.changesNumbers = rule.changesNumbers;
  record.verification = std::move(verification);
  for (const auto& [module, name] : made.keptModules)
    record.keptModules.emplace_back(graph_.moduleCall(module).path, name);
  record.inputs.reserve(inputs.size());
  for (ValueId v : inputs) {
    const std::string& name = graph_.value(v).name;
    if (std::none_of(record.inputs.begin(), record.inputs.end(), [&](const auto& p) { return p.first == name; }))
      record.inputs.emplace_back(name, name);
  }
  for (NodeId n : scratch_->late) {
    if (at)
      editor_.moveBefore(n, at);
    else
      editor_.moveAfter(n, graph_.block(block).last);
  }
  // A new node may read the value that it replaces: it keeps its arguments.
  std::vector<std::pair<NodeId, std::vector<Argument>>> readers;
  for (const auto& [old, now] : outputs)
    for (NodeId n : graph_.value(old).users)
      if (contains(added, n)) readers.emplace_back(n, graph_.node(n).args);
  record.outputs.reserve(outputs.size());
  for (const auto& [old, now] : outputs) {
    editor_.replaceValue(old, now);
    forward(old, now);
  }
  for (auto& [n, args] : readers) editor_.setArguments(n, std::move(args));
  for (const auto& [old, now] : outputs) views_->below(old, now);
  scratch_->gone.clear();
  for (NodeId n : match.nodes)
    if (!contains(made.kept, n)) scratch_->gone.push_back(n);
  takeOut();
  editor_.dropUnusedWeights();
  std::erase_if(operands_, [&](ValueId v) {
    const std::vector<NodeId>& users = graph_.value(v).users;  // only results of nodes can come to lie inside a match
    return graph_.value(v).kind != Value::Kind::Output || users.empty() ||
           std::any_of(users.begin(), users.end(), [&](NodeId u) { return contains(added, u); });
  });
  loosened_ = !operands_.empty();
  return done();
}

// Results of another shape or dtype: what is calculated from them takes their new types. Where something refuses them,
// all types are as they were.
Status Rewriter::passOnTypes(const Match& match, const std::vector<NodeId>& kept) {
  Record& record = editor_.record();
  std::vector<std::pair<ValueId, Type>> before;
  std::vector<uint8_t> isOther(graph_.valueBound(), 0);
  const auto set = [&](ValueId v, Type type) {
    before.emplace_back(v, graph_.value(v).type);
    isOther[v.index] = 1;
    editor_.setType(v, std::move(type));
  };
  const auto readsOther = [&](const std::vector<Argument>& args) {
    bool reads = false;
    for (const Argument& a : args) a.forEachValue([&](ValueId v) { reads = reads || isOther[v.index]; });
    return reads;
  };
  const auto refuse = [&](const std::string& why) {
    for (auto it = before.rbegin(); it != before.rend(); ++it) editor_.setType(it->first, std::move(it->second));
    record.retyped.clear();
    return badInput(why);
  };
  std::string change;
  for (const auto& [old, now] : scratch_->outputs) {
    const auto text = [&](ValueId v) {
      Type type = graph_.value(v).type;
      type.tensorInfo.device.clear();
      return toString(type);
    };
    const std::string from = text(old), to = text(now);
    if (from == to) continue;
    record.retyped.push_back({graph_.value(old).name, from, to});
    if (change.empty()) change = "its result becomes " + to + ", which was " + from + ", and ";
    set(old, graph_.value(now).type);
  }
  for (NodeId n : graph_.order()) {
    const Node& node = graph_.node(n);
    const bool isPart = contains(record.added, n) || (contains(match.nodes, n) && !contains(kept, n));
    if (isPart || !(readsOther(node.args) || std::any_of(node.kwargs.begin(), node.kwargs.end(),
                                                         [&](const auto& k) { return readsOther({k.second}); })))
      continue;
    if (!node.blocks.empty())
      return refuse(change + "it flows into `" + node.name + "`, whose branches were made for the other");
    const auto types = editor_.semantics().inferTypes(graph_, n);
    if (!types) return refuse(change + "`" + node.name + "` does not take that: " + types.error().message);
    const std::vector<ValueId> outputs = node.outputs;
    for (size_t o = 0; o < std::min(types->size(), outputs.size()); ++o)
      if (!((*types)[o] == graph_.value(outputs[o]).type)) set(outputs[o], (*types)[o]);
  }
  for (uint32_t b = 0; b < graph_.blockBound(); ++b) {
    const Block& block = graph_.block(BlockId(b));
    if (block.owner && graph_.isAlive(block.owner) && readsOther(block.returns))
      return refuse(change + "it leaves a branch of `" + graph_.node(block.owner).name + "`");
  }
  return done();
}

Status Rewriter::findLate(const Match& match, const std::vector<NodeId>& added) {
  std::vector<NodeId>& late = scratch_->late;
  late.clear();
  const BlockId block = graph_.node(match.nodes.front()).parent;
  for (const auto& [old, now] : scratch_->outputs) {
    const NodeId maker = within(graph_, graph_.value(now).producer, block);
    if (!maker) continue;
    std::vector<ValueId>& work = scratch_->below;
    work.assign(1, old);
    for (size_t i = 0; i < work.size(); ++i) {
      for (NodeId user : graph_.value(work[i]).users) {
        const NodeId u = within(graph_, user, block);
        if (!u || contains(match.nodes, u) || contains(added, u) || contains(late, u) || !graph_.isBefore(u, maker))
          continue;
        const Node& n = graph_.node(u);
        if (!n.op->pure() || !n.blocks.empty())
          return badInput(
              "`" + n.name +
              "` uses a result of the match before all of the replacement's inputs are there, and cannot be moved");
        if (graph_.value(now).producer == u) return badInput("the rewrite would make a cycle through `" + n.name + "`");
        late.push_back(u);
        for (ValueId v : n.outputs) work.push_back(v);
      }
    }
  }
  for (NodeId u : late)
    for (NodeId a : added)
      for (ValueId v : graph_.node(u).outputs)
        for (NodeId user : graph_.value(v).users)
          if (user == a) return badInput("the rewrite would make a cycle through `" + graph_.node(u).name + "`");
  std::sort(late.begin(), late.end(), [&](NodeId a, NodeId b) { return graph_.isBefore(a, b); });
  return done();
}

// Erases the matched nodes, nodes without effect that still read them (dead nodes, guards), and what only these needed.
void Rewriter::takeOut() {
  Record& record = editor_.record();
  std::vector<NodeId>& work = scratch_->gone;
  record.removed.reserve(work.size());
  record.removedNames.reserve(work.size());
  for (size_t i = 0; i < work.size(); ++i)
    for (ValueId v : graph_.node(work[i]).outputs)
      for (NodeId u : graph_.value(v).users)
        if (!contains(work, u)) work.push_back(u);
  std::vector<ValueId>& operands = operands_;
  operands.clear();
  for (bool goesOn = true; goesOn && !work.empty();) {
    goesOn = false;
    size_t rest = work.size();  // the nodes from here on are still used
    for (size_t i = work.size(); i-- > 0;) {
      const Node& n = graph_.node(work[i]);
      const bool unused =
          std::all_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return graph_.isUnused(v); });
      if (!unused) {
        work[--rest] = work[i];
        continue;
      }
      goesOn = true;
      const auto note = [&](ValueId v) { operands.push_back(v); };
      for (const Argument& a : n.args) a.forEachValue(note);
      for (const auto& [key, a] : n.kwargs) a.forEachValue(note);
      editor_.erase(n.id);
    }
    work.erase(work.begin(), work.begin() + static_cast<std::ptrdiff_t>(rest));
  }
  assert(work.empty());  // the search lets nothing outside use a match's inner values
  // Operands that only the match used go too, where nothing but their value mattered.
  for (size_t i = 0; i < operands.size(); ++i) {
    const Value& v = graph_.value(operands[i]);
    if (!v.alive || !graph_.isUnused(v.id)) continue;
    if (v.kind == Value::Kind::Weight) {
      editor_.eraseWeight(v.id);
      continue;
    }
    if (v.kind != Value::Kind::Output) continue;
    const Node& n = graph_.node(v.producer);
    const bool unused = std::all_of(n.outputs.begin(), n.outputs.end(), [&](ValueId o) { return graph_.isUnused(o); });
    if (!unused || !n.op->pure() || !n.blocks.empty()) continue;
    const auto note = [&](ValueId o) { operands.push_back(o); };
    for (const Argument& a : n.args) a.forEachValue(note);
    for (const auto& [key, a] : n.kwargs) a.forEachValue(note);
    editor_.erase(n.id);
  }
  std::reverse(record.removed.begin(), record.removed.end());
  std::reverse(record.removedNames.begin(), record.removedNames.end());
}

}  // namespace graft
