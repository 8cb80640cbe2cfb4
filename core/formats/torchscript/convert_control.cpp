// Branches and loops: which become nodes, what never runs, and what they change of the lists outside of them.
#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>

#include "core/formats/torchscript/convert.h"
#include "core/torch/values/values.h"

namespace graft {

namespace jit = torch::jit;

// What stands behind a certain exception never runs. Its results are as those that TorchScript leaves uninitialized: no
// node reads them, and blocks may return them.
void TorchScriptConverter::run(const jit::Block* block, Env& env) {
  for (const jit::Node* n : block->nodes()) {
    if (!raised_) {
      step(n, env);
      continue;
    }
    for (const jit::Value* v : n->outputs()) env[v] = Bound::of(Argument());
  }
}

// A block of a node that may not run: an exception in it ends that block alone. Returns whether it certainly raises.
bool TorchScriptConverter::runInside(const jit::Block* block, Env& env) {
  run(block, env);
  return std::exchange(raised_, false);
}

void TorchScriptConverter::branch(const jit::Node* n, Env& env) {
  const Argument condition = argument(bound(n->input(0), env), n);
  if (const bool* known = condition.as<bool>()) {
    const jit::Block* taken = n->blocks()[*known ? 0 : 1];
    run(taken, env);
    for (size_t i = 0; i < n->outputs().size(); ++i) {
      Bound result = bound(taken->outputs()[i], env);
      env[n->output(i)] = std::move(result);
    }
    return;
  }
  materialiseChanged(n, env);
  const NodeId node = append("prim.If", {condition}, n);
  const BlockId outer = block_;
  bool bothRaise = true;
  for (const jit::Block* b : n->blocks()) {
    block_ = g_.addBlock(node);
    bothRaise &= runInside(b, env);
    std::vector<Argument> returns;
    for (size_t i = 0; i < n->outputs().size(); ++i)
      if (!isNone(n->output(i))) returns.push_back(returned(b->outputs()[i], env, n));
    g_.setReturns(block_, std::move(returns));
    block_ = outer;
  }
  const std::vector<BlockId> blocks = g_.node(node).blocks;
  size_t place = 0;
  for (const jit::Value* v : n->outputs()) {
    if (isNone(v)) continue;
    const ValueId made = g_.addOutput(node, "if", graftType(*v->type()));
    // `x.dim() == 3 and mode == "area"` is no question where the mode is another one.
    const Argument &yes = g_.block(blocks[0]).returns[place], &no = g_.block(blocks[1]).returns[place];
    ++place;
    env[v] = yes.as<bool>() && yes == no ? Bound::of(yes) : Bound::of(made);
  }
  raised_ = bothRaise;
}

// Printed code has no names for parameters and results of blocks.
void TorchScriptConverter::nameBlocks() {
  size_t parameter = 0, result = 0;
  for (NodeId n : g_.order())
    for (BlockId b : g_.node(n).blocks) {
      for (ValueId v : g_.block(b).parameters)
        if (parameter < metadata_->blockParameters.size())
          names_.emplace_back(v, metadata_->blockParameters[parameter++]);
      for (const Argument& a : g_.block(b).returns) {
        if (result == metadata_->blockResults.size()) return;
        const std::string& name = metadata_->blockResults[result++];
        if (a.isValue() && !g_.isWeight(a.valueId())) names_.emplace_back(a.valueId(), name);
      }
    }
}

static bool isTrue(const jit::Value* v) {
  const auto known = jit::toIValue(v);
  return known && known->isBool() && known->toBool();
}

// A loop over a number of turns that the writer wrote as one that counts for itself (countsForItself):
//   while k < turns: …; k = k + 1
std::optional<TorchScriptConverter::CountingLoop> TorchScriptConverter::countingLoop(const jit::Node* n) {
  const auto isNumber = [](const jit::Value* v, int64_t number) {
    const auto value = jit::toIValue(v);
    return value && value->isInt() && value->toInt() == number;
  };
  const auto isCall = [](const jit::Node* call, c10::Symbol kind) {
    return call->kind() == kind && call->inputs().size() == 2;
  };
  if (n->kind() != jit::prim::Loop || n->outputs().size() != 2) return std::nullopt;
  const jit::Block* body = n->blocks()[0];
  const jit::Node *start = n->input(1)->node(), *go = body->outputs()[0]->node();
  for (const size_t place : {size_t{0}, size_t{1}}) {  // of the counter
    const jit::Value *turn = body->inputs()[place + 1], *next = body->outputs()[place + 1];
    const jit::Node* add = next->node();
    if (!isNumber(n->input(0), std::numeric_limits<int64_t>::max()) || !isNumber(n->input(place + 2), 0) ||
        n->output(place)->hasUses() || body->inputs()[0]->hasUses() || !isCall(go, jit::aten::lt) ||
        go->input(0) != next || go->output()->uses().size() != 1 || !isCall(add, jit::aten::add) ||
        add->input(0) != turn || !isNumber(add->input(1), 1) || next->uses().size() != 2)
      continue;
    const jit::Value* turns = go->input(1);
    if (isCall(start, jit::aten::lt) && isNumber(start->input(0), 0) && start->input(1) == turns &&
        start->output()->uses().size() == 1)
      return CountingLoop{turns, place, start, go, add};
    // LibTorch computes 0 < 3 while it reads the file.
    if (const auto known = jit::toIValue(turns); known && known->isInt() && known->toInt() > 0 && isTrue(n->input(1)))
      return CountingLoop{turns, place, nullptr, go, add};
  }
  return std::nullopt;
}

bool TorchScriptConverter::isOfCountingLoop(const jit::Node* n) {
  if (n->kind() == jit::aten::add) {
    const jit::Node* owner = n->owningBlock()->owningNode();
    const auto counting = owner ? countingLoop(owner) : std::nullopt;
    return counting && counting->add == n;
  }
  if (n->kind() != jit::aten::lt || n->output()->uses().size() != 1) return false;
  const jit::Node* user = n->output()->uses().front().user;
  if (user->kind() == jit::prim::Return) user = n->owningBlock()->owningNode();
  const auto counting = user ? countingLoop(user) : std::nullopt;
  return counting && (counting->start == n || counting->go == n);
}

void TorchScriptConverter::loop(const jit::Node* n, Env& env) {
  const jit::Block* body = n->blocks()[0];
  const auto counting = countingLoop(n);
  if (counting && !counting->start) convertNode(counting->turns->node(), env);  // a constant, perhaps of the body
  materialiseChanged(n, env);
  // Of the carried values and what stands for them: without the counter, and without None.
  const auto isLeftOut = [&](size_t carried) {
    return (counting && carried == counting->place) || isNone(n->output(carried));
  };
  std::vector<Argument> args;
  for (size_t i = 0; i < n->inputs().size(); ++i) {
    if (i >= 2 && isLeftOut(i - 2)) continue;
    if (counting && i == 1) {
      args.emplace_back(true);
      continue;
    }
    const jit::Value* v = counting && i == 0 ? counting->turns : n->input(i);
    Bound& in = bound(v, env);
    // The body may change a container that the loop carries, so it becomes a value of its own.
    if (in.kind == Bound::Kind::Container && in.container->kind != Container::Kind::Tuple)
      materialise(*in.container, *v->type(), n);
    args.push_back(argument(in, n));
  }
  const NodeId node = append("prim.Loop", std::move(args), n);
  const BlockId outer = block_;
  block_ = g_.addBlock(node);
  for (size_t i = 0; i < body->inputs().size(); ++i) {
    if (i >= 1 && isLeftOut(i - 1)) continue;
    const jit::Value* v = body->inputs()[counting && i == 0 ? counting->place + 1 : i];
    env[v] = Bound::of(g_.addBlockParameter(block_, i == 0 ? "trip" : "carried", graftType(*v->type())));
  }
  const bool raises = runInside(body, env);
  std::vector<Argument> returns;
  for (size_t i = 0; i < body->outputs().size(); ++i) {
    if (i >= 1 && isLeftOut(i - 1)) continue;
    // There is no turn behind one that raises. But a loop over a number of turns must say `true` to be one when it is
    // written.
    if (i == 0 && (counting || raises))
      returns.emplace_back(counting || isTrue(body->outputs()[0]));
    else
      returns.push_back(returned(body->outputs()[i], env, n));
  }
  g_.setReturns(block_, std::move(returns));
  block_ = outer;
  for (const jit::Value* v : n->outputs())
    if (!isLeftOut(v->offset())) env[v] = Bound::of(g_.addOutput(node, "loop", graftType(*v->type())));
}

/// Finds the lists and dictionaries that exist before a branch or loop and that may be changed in it, in its own code
/// or in what it calls, or under another name behind it. Follows each value to all containers and objects that it may
/// be; adds nothing to the graph.
class TorchScriptConverter::ChangeSearch {
 public:
  struct Found {
    std::shared_ptr<Container> container;
    c10::TypePtr type;
    bool changes;  ///< otherwise a loop carries it, or a result is another name of it
  };

  ChangeSearch(TorchScriptConverter& walk, const Env& env) : walk_(walk), env_(env) {}
  void node(const jit::Node*);
  const std::vector<Found>& found() const { return found_; }

 private:
  using May = std::vector<Bound>;

  void block(const jit::Block* b) {
    for (const jit::Node* n : b->nodes()) node(n);
  }

  May may(const jit::Value*) const;
  void set(const jit::Value* v, May m) {
    if (!m.empty() || made_.contains(v)) made_[v] = std::move(m);
  }
  void count();
  void add(May& to, const May& more);
  void addItems(May& to, const May& from);
  May itemsAt(const May& from, const Argument& index);
  Argument literal(const jit::Value*) const;
  void note(const Bound&, const c10::TypePtr&, bool changes);

  void branch(const jit::Node*);
  void loop(const jit::Node*);
  void call(const jit::Node*);
  void body(const jit::Graph&, const std::vector<May>& inputs, const jit::Node* caller);
  void attribute(const jit::Node*);
  void items(const jit::Node*);
  void other(const jit::Node*);

  TorchScriptConverter& walk_;
  const Env& env_;
  std::unordered_map<const jit::Value*, May> made_;
  std::vector<Found> found_;
  std::unordered_map<const Container*, c10::TypePtr> boxed_;  // types of what the block put into something
  int depth_ = 0;
};

namespace {

constexpr size_t maxSearched = 2'000'000;

bool isFollowed(const Bound& b) {
  return b.kind == Bound::Kind::Container || b.kind == Bound::Kind::Object || b.kind == Bound::Kind::Instance;
}

bool isObject(const Bound& b) { return b.kind == Bound::Kind::Object || b.kind == Bound::Kind::Instance; }

bool mayHoldLists(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
    case c10::TypeKind::UnionType: {
      const auto members = type.containedTypes();
      return std::ranges::any_of(members, [](const c10::TypePtr& t) { return mayHoldLists(*t); });
    }
    case c10::TypeKind::ListType:
    case c10::TypeKind::DictType:
    case c10::TypeKind::TupleType:
    case c10::TypeKind::ClassType:
    case c10::TypeKind::InterfaceType:
      return true;
    default:
      return false;
  }
}

/// What the block itself makes, of any of these. It belongs to no block of the graph.
Bound boxOf(std::vector<Bound> items) {
  Bound b;
  b.kind = Bound::Kind::Container;
  b.container = std::make_shared<Container>();
  b.container->kind = Container::Kind::Tuple;
  b.container->items = std::move(items);
  return b;
}
bool isBox(const Bound& b) { return b.kind == Bound::Kind::Container && !b.container->where; }

bool isWritten(const c10::FunctionSchema* schema, size_t i) {
  return schema && i < schema->arguments().size() && schema->arguments()[i].alias_info() &&
         schema->arguments()[i].alias_info()->isWrite();
}

/// Whether the operator makes a new list of what it is given: a slice, a sum of lists.
bool makesNew(const jit::Node* n) {
  const c10::FunctionSchema* schema = n->maybeSchema();
  return n->kind().is_aten() && schema && schema->returns().size() == 1 && !schema->returns()[0].alias_info();
}

}  // namespace

void TorchScriptConverter::ChangeSearch::count() {
  if (++walk_.searched_ > maxSearched) throw Refusal{"its branches and loops hold too much code"};
}

void TorchScriptConverter::ChangeSearch::add(May& to, const May& more) {
  for (const Bound& b : more) {
    const bool known = std::ranges::any_of(to, [&](const Bound& other) {
      count();
      return other.kind == b.kind && other.container == b.container && other.object == b.object &&
             other.instance == b.instance;
    });
    if (!known) to.push_back(b);
  }
}

/// Adds all that stands in these, at any place.
void TorchScriptConverter::ChangeSearch::addItems(May& to, const May& from) {
  for (const Bound& b : from) {
    if (b.kind != Bound::Kind::Container) continue;
    May items;
    std::ranges::copy_if(b.container->items, std::back_inserter(items), isFollowed);
    add(to, items);
  }
}

std::vector<Bound> TorchScriptConverter::ChangeSearch::itemsAt(const May& from, const Argument& index) {
  May out;
  for (const Bound& b : from) {
    if (b.kind != Bound::Kind::Container) continue;
    const Container& c = *b.container;
    const auto key = std::ranges::find(c.keys, index);
    const auto* i = index.as<int64_t>();
    const auto size = static_cast<int64_t>(c.items.size());
    if (c.kind == Container::Kind::Dict && key != c.keys.end())
      addItems(out, {boxOf({c.items[static_cast<size_t>(key - c.keys.begin())]})});
    else if (!isBox(b) && c.kind != Container::Kind::Dict && i && *i >= -size && *i < size)
      addItems(out, {boxOf({c.items[static_cast<size_t>(*i < 0 ? *i + size : *i)]})});
    else
      addItems(out, {b});
  }
  return out;
}

std::vector<Bound> TorchScriptConverter::ChangeSearch::may(const jit::Value* v) const {
  if (const auto it = made_.find(v); it != made_.end()) return it->second;
  if (const auto it = env_.find(v); it != env_.end() && isFollowed(it->second)) return {it->second};
  return {};
}

/// None for what is no literal.
Argument TorchScriptConverter::ChangeSearch::literal(const jit::Value* v) const {
  if (const auto it = env_.find(v); it != env_.end()) return it->second.argument;
  const auto known = jit::toIValue(v);
  const auto made = known ? toArgument(*known) : std::nullopt;
  return made ? *made : Argument();
}

void TorchScriptConverter::ChangeSearch::note(const Bound& b, const c10::TypePtr& type, bool changes) {
  if (b.kind != Bound::Kind::Container) return;
  if (const auto optional = type->cast<c10::OptionalType>()) return note(b, optional->getElementType(), changes);
  if (isBox(b)) {
    for (const Bound& item : b.container->items)
      if (const auto boxed = boxed_.find(item.container.get()); isBox(item) || boxed != boxed_.end())
        note(item, isBox(item) ? type : boxed->second, changes);
    return;
  }
  const auto& items = b.container->items;
  if (b.container->kind != Container::Kind::Tuple) {
    // A list of modules cannot become a value.
    if (std::ranges::none_of(items, isObject)) found_.push_back({b.container, type, changes});
  } else if (const auto tuple = type->cast<c10::TupleType>(); tuple && tuple->elements().size() == items.size()) {
    for (size_t i = 0; i < items.size(); ++i) note(items[i], tuple->elements()[i], changes);
  }
}

void TorchScriptConverter::ChangeSearch::node(const jit::Node* n) {
  count();
  switch (n->kind()) {
    case jit::prim::If:
      return branch(n);
    case jit::prim::Loop:
      return loop(n);
    case jit::prim::CallMethod:
    case jit::prim::CallFunction:
    case jit::prim::fork:
      return call(n);
    case jit::prim::GetAttr:
    case jit::prim::SetAttr:
      return attribute(n);
    case jit::prim::TupleIndex:
    case jit::aten::__getitem__:
    case jit::prim::TupleUnpack:
    case jit::prim::ListUnpack:
      return items(n);
    case jit::prim::CreateObject: {
      Bound made;
      made.kind = Bound::Kind::Instance;
      made.instance = std::make_shared<Instance>();
      return set(n->output(), {made});
    }
    default:
      return other(n);
  }
}

void TorchScriptConverter::ChangeSearch::branch(const jit::Node* n) {
  const Argument condition = literal(n->input(0));
  const bool* known = condition.as<bool>();
  std::vector<May> results(n->outputs().size());
  for (const jit::Block* b : n->blocks()) {
    if (known && b != n->blocks()[*known ? 0 : 1]) continue;
    block(b);
    for (size_t i = 0; i < results.size(); ++i) add(results[i], may(b->outputs()[i]));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!known && walk_.isChangedAnywhere(*n->output(i)->type()))
      for (const Bound& b : results[i]) note(b, n->output(i)->type(), false);
    set(n->output(i), std::move(results[i]));
  }
}

// Whatever list a loop carries becomes a value. What a turn makes of a carried value, the next one may change.
void TorchScriptConverter::ChangeSearch::loop(const jit::Node* n) {
  const jit::Block* turn = n->blocks()[0];
  std::vector<May> carried;
  for (size_t i = 2; i < n->inputs().size(); ++i) carried.push_back(may(n->input(i)));
  for (bool grows = true; grows;) {
    for (size_t i = 0; i < carried.size(); ++i) set(turn->inputs()[i + 1], carried[i]);
    block(turn);
    grows = false;
    for (size_t i = 0; i < carried.size(); ++i) {
      const size_t before = carried[i].size();
      // A list that the turn made is new in each: only those that were there before are followed further.
      May next = may(turn->outputs()[i + 1]);
      std::erase_if(next, isBox);
      add(carried[i], next);
      grows |= carried[i].size() > before;
    }
  }
  for (size_t i = 0; i < carried.size(); ++i) {
    for (const Bound& b : carried[i]) note(b, n->output(i)->type(), false);
    add(carried[i], may(turn->outputs()[i + 1]));
    set(n->output(i), std::move(carried[i]));
  }
}

void TorchScriptConverter::ChangeSearch::call(const jit::Node* n) {
  const bool function = n->kind() == jit::prim::CallFunction;
  std::vector<May> inputs;
  for (size_t i = function ? 1 : 0; i < n->inputs().size(); ++i) inputs.push_back(may(n->input(i)));
  if (n->kind() == jit::prim::fork) return body(*n->g(jit::attr::Subgraph), inputs, n);
  std::set<jit::Function*> called;
  const c10::TypePtr of = n->input(0)->type();
  if (const auto type = of->cast<c10::FunctionType>()) called.insert(type->function());
  if (!function) {
    const std::string& name = n->s(jit::attr::name);
    if (const auto type = of->cast<c10::ClassType>()) called.insert(type->findMethod(name));
    for (const Bound& b : inputs[0])
      if (b.kind == Bound::Kind::Object) called.insert(b.object->type()->findMethod(name));
  }
  for (jit::Function* f : called)
    if (auto* script = f ? jit::tryToGraphFunction(*f) : nullptr) body(*script->graph(), inputs, n);
}

void TorchScriptConverter::ChangeSearch::body(const jit::Graph& g, const std::vector<May>& inputs,
                                              const jit::Node* caller) {
  if (g.inputs().size() != inputs.size()) return;
  if (++depth_ > maxCallDepth) throw Refusal{fmt::format("its calls are nested more than {} deep", maxCallDepth)};
  for (size_t i = 0; i < inputs.size(); ++i) set(g.inputs()[i], inputs[i]);
  block(g.block());
  for (size_t i = 0; i < std::min(g.outputs().size(), caller->outputs().size()); ++i)
    set(caller->output(i), may(g.outputs()[i]));
  --depth_;
}

void TorchScriptConverter::ChangeSearch::attribute(const jit::Node* n) {
  const std::string& name = n->s(jit::attr::name);
  const bool sets = n->kind() == jit::prim::SetAttr;
  May found;
  for (const Bound& b : may(n->input(0))) {
    if (b.kind == Bound::Kind::Object && !sets && mayHoldLists(*n->output()->type())) {
      if (Bound held = walk_.attributeOf(b, name); isFollowed(held)) found.push_back(std::move(held));
    } else if (b.kind == Bound::Kind::Instance && !b.instance->where) {  // the block made it
      Bound& box = b.instance->attributes.try_emplace(name, boxOf({})).first->second;
      if (sets)
        add(box.container->items, may(n->input(1)));
      else
        addItems(found, {box});
    } else if (b.kind == Bound::Kind::Instance && !sets) {
      const auto held = b.instance->attributes.find(name);
      if (held != b.instance->attributes.end() && isFollowed(held->second)) found.push_back(held->second);
    }
  }
  if (!sets) set(n->output(), std::move(found));
}

void TorchScriptConverter::ChangeSearch::items(const jit::Node* n) {
  const May from = may(n->input(0));
  const bool unpacks = n->inputs().size() == 1;
  for (size_t i = 0; i < n->outputs().size(); ++i)
    set(n->output(i), itemsAt(from, unpacks ? Argument(static_cast<int64_t>(i)) : literal(n->input(1))));
}

void TorchScriptConverter::ChangeSearch::other(const jit::Node* n) {
  for (const jit::Block* b : n->blocks()) block(b);
  const c10::FunctionSchema* schema = n->maybeSchema();
  const bool intoList = !n->inputs().empty() && isWritten(schema, 0) && mayHoldLists(*n->input(0)->type());
  May given;
  for (size_t i = 0; i < n->inputs().size(); ++i) {
    const May here = may(n->input(i));
    // What goes into a list may be changed there.
    if (isWritten(schema, i) || (intoList && i > 0))
      for (const Bound& b : here) note(b, n->input(i)->type(), true);
    if (intoList && i > 0)
      for (const Bound& list : may(n->input(0)))
        if (isBox(list)) add(list.container->items, here);
    add(given, here);
    for (const Bound& b : here)
      if (b.kind == Bound::Kind::Container) boxed_.try_emplace(b.container.get(), n->input(i)->type());
  }
  const bool makes = n->kind() == jit::prim::ListConstruct || n->kind() == jit::prim::DictConstruct ||
                     n->kind() == jit::prim::TupleConstruct;
  May result;
  if (makes) {
    result.push_back(boxOf(given));
  } else if (makesNew(n)) {
    result.push_back(boxOf({}));
    addItems(result[0].container->items, given);
  } else {
    result = given;
    addItems(result, given);
  }
  for (const jit::Value* v : n->outputs())
    if (mayHoldLists(*v->type())) set(v, result);
}

namespace {

/// Calls `f` with each list, tuple and dictionary that a value of that type is or holds.
template <class F>
void forEachContainer(const c10::Type& type, const F& f) {
  if (!mayHoldLists(type) || type.kind() == c10::TypeKind::ClassType || type.kind() == c10::TypeKind::InterfaceType)
    return;
  if (type.kind() != c10::TypeKind::OptionalType && type.kind() != c10::TypeKind::UnionType) f(type);
  for (const c10::TypePtr& t : type.containedTypes()) forEachContainer(*t, f);
}

void addChanged(const jit::Block* block, std::set<std::string>& types) {
  for (const jit::Node* n : block->nodes()) {
    for (const jit::Block* b : n->blocks()) addChanged(b, types);
    if (n->hasAttribute(jit::attr::Subgraph)) addChanged(n->g(jit::attr::Subgraph)->block(), types);
    if (!n->kind().is_aten()) continue;
    const c10::FunctionSchema* schema = n->maybeSchema();
    for (size_t i = 0; i < n->inputs().size(); ++i)
      if (mayHoldLists(*n->input(i)->type()) && isWritten(schema, i))
        types.insert(n->input(i)->type()->annotation_str());
  }
}

}  // namespace

/// Whether some code of the file changes lists or dictionaries such as a value of that type is or holds.
bool TorchScriptConverter::isChangedAnywhere(const c10::Type& type) {
  if (!changedTypes_) {
    changedTypes_.emplace();
    for (jit::Function* f : file_.module()._ivalue()->compilation_unit()->get_functions())
      if (auto* script = jit::tryToGraphFunction(*f)) addChanged(script->graph()->block(), *changedTypes_);
  }
  bool found = false;
  if (!changedTypes_->empty())
    forEachContainer(type, [&](const c10::Type& t) { found |= changedTypes_->contains(t.annotation_str()); });
  return found;
}

// A list that a block makes and returns may be changed behind it: then it is a value, and a new one in each run of the
// block.
Argument TorchScriptConverter::returned(const jit::Value* v, Env& env, const jit::Node* user) {
  const Bound& b = bound(v, env);
  if (b.kind == Bound::Kind::Container && isChangedAnywhere(*v->type())) materialiseOwn(b, *v->type(), user);
  return argument(b, user);
}

void TorchScriptConverter::materialiseOwn(const Bound& b, const c10::Type& type, const jit::Node* user) {
  if (b.kind != Bound::Kind::Container) return;
  if (const auto* optional = type.castRaw<c10::OptionalType>())
    return materialiseOwn(b, *optional->getElementType(), user);
  const auto& items = b.container->items;
  if (b.container->kind == Container::Kind::Tuple) {
    const auto* tuple = type.castRaw<c10::TupleType>();
    for (size_t i = 0; tuple && tuple->elements().size() == items.size() && i < items.size(); ++i)
      materialiseOwn(items[i], *tuple->elements()[i], user);
  } else if (b.container->where == block_ && std::ranges::none_of(items, isObject)) {
    materialise(*b.container, type, user);
  }
}

void TorchScriptConverter::materialiseChanged(const jit::Node* user, const Env& env) {
  ChangeSearch search(*this, env);
  search.node(user);
  for (const ChangeSearch::Found& f : search.found()) {
    materialise(*f.container, *f.type, user);
    f.container->changed |= f.changes;
  }
}

}  // namespace graft
