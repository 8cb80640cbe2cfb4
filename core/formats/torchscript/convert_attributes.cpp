// Attributes of modules, and what is known of a value without a node: where the model is, whether it is None.
#include <fmt/format.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>

#include "core/formats/torchscript/convert.h"
#include "core/torch/values/values.h"

namespace graft {
namespace {

namespace jit = torch::jit;

/// The name comes from the file, so it may be anything.
bool isDevice(const std::string& name) {
  try {
    (void)c10::Device(name);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

std::string attributePath(const std::string& module, const std::string& attribute) {
  return module.empty() ? attribute : module + "." + attribute;
}

/// torch.no_grad() and the like, which change no number. A model that is traced loses them, too.
bool isWithoutEffect(const c10::ClassType& type) {
  const std::string name = type.name() ? demangle(type.name()->qualifiedName()) : "";
  return name == "torch.autograd.grad_mode.no_grad" || name == "torch.autograd.grad_mode.enable_grad" ||
         name == "torch.autograd.grad_mode.inference_mode" || name == "torch.autograd.profiler.record_function";
}

/// Whether the operator writes into its first argument and gives it back: `add_(Tensor(a!) self, ...) -> Tensor(a!)`.
bool givesBackFirst(const jit::Node* n) {
  const auto* schema = n->maybeSchema();
  if (!schema || schema->arguments().empty() || schema->returns().size() != 1) return false;
  const auto *in = schema->arguments()[0].alias_info(), *out = schema->returns()[0].alias_info();
  return in && out && in->isWrite() && out->isWrite() && in->beforeSets() == out->beforeSets();
}

}  // namespace

/// Whether the value is what the attribute holds, written in place: `self.count += 1` of a tensor is
/// `self.count = self.count.add_(1)`.
bool TorchScriptConverter::isItself(const jit::Value* v, const std::string& path, Env& env) {
  while (givesBackFirst(v->node())) v = v->node()->input(0);
  const jit::Node* read = v->node();
  if (read->kind() != jit::prim::GetAttr || attributes_.contains(path)) return false;
  const Bound self = bound(read->input(), env);
  return self.kind == Bound::Kind::Object && attributePath(self.path, read->s(jit::attr::name)) == path;
}

/// Objects that the code makes while it runs: what is set is what is read.
bool TorchScriptConverter::instances(const jit::Node* n, Env& env) {
  if (n->kind() == jit::prim::CreateObject) {
    Bound made;
    made.kind = Bound::Kind::Instance;
    made.instance = std::make_shared<Instance>();
    made.instance->type = n->output()->type()->expect<c10::ClassType>();
    made.instance->where = block_;
    env[n->output()] = std::move(made);
    return true;
  }
  if (n->inputs().empty()) return false;
  const auto it = env.find(n->input(0));
  if (it == env.end() || it->second.kind != Bound::Kind::Instance) return false;
  const std::shared_ptr<Instance> self = it->second.instance;
  const auto className = [&] { return self->type->name() ? demangle(self->type->name()->qualifiedName()) : ""; };
  switch (n->kind()) {
    case jit::prim::SetAttr:
      if (block_ != self->where)
        throw Refusal{fmt::format("it writes the attribute {} of an object of its own class {} inside of control flow",
                                  n->s(jit::attr::name), className())};
      self->attributes[n->s(jit::attr::name)] = unused(n->input(1), env);
      return true;
    case jit::prim::GetAttr: {
      const std::string& name = n->s(jit::attr::name);
      if (const auto known = self->attributes.find(name); known != self->attributes.end()) {
        Bound value = known->second;
        env[n->output()] = std::move(value);
      } else if (const auto constant = self->type->findConstant(name)) {
        env[n->output()] = fromIValue(*constant, name, true, true);
      } else {
        throw Refusal{
            fmt::format("it reads {} of an object of its own class {}, which nobody has set", name, className())};
      }
      return true;
    }
    case jit::prim::CallMethod:
      if (!isWithoutEffect(*self->type)) return false;
      env[n->output()] = Bound::of(Argument());
      return true;
    case jit::prim::Enter:
    case jit::prim::Exit: {
      std::vector<Bound> results{Bound::of(Argument())};
      if (className() == "torch.amp.autocast_mode.autocast") {
        // TorchScript's executor knows the class, and casts what its code does not.
        const auto enabled = self->attributes.find("_enabled");
        if (enabled == self->attributes.end() || enabled->second.kind != Bound::Kind::Argument ||
            enabled->second.argument != Argument(false))
          throw Refusal{
              "it computes a part under torch.autocast, and the file does not hold the casts: script it without "
              "autocast, and let Graft cast it (--dtype)"};
      } else if (!isWithoutEffect(*self->type)) {
        const char* name = n->kind() == jit::prim::Enter ? "__enter__" : "__exit__";
        jit::Function* method = self->type->findMethod(name);
        if (!method) throw Refusal{fmt::format("its class {} has no method {}", className(), name)};
        std::vector<Bound> inputs(method->num_inputs(), Bound::of(Argument()));  // no exception
        inputs[0] = it->second;
        results = call(*method, std::move(inputs));
      }
      env[n->output()] = std::move(results.at(0));
      return true;
    }
    default:
      return false;
  }
}

/// Whether another run may make something else of it: it depends on an input, on what is random, or on control flow. A
/// mask that the first run makes for all later ones does not.
static bool isOfThisRun(const Graph& g, const Argument& a) {
  std::set<NodeId> seen;
  std::vector<NodeId> left;
  bool is = false;
  const auto look = [&](ValueId v) {
    const NodeId maker = g.value(v).producer;
    is = is || (!maker && !g.isWeight(v));
    if (maker && seen.insert(maker).second) left.push_back(maker);
  };
  a.forEachValue(look);
  while (!is && !left.empty()) {
    const Node& n = g.node(left.back());
    left.pop_back();
    is = n.op->random || n.op->writes() || !n.blocks.empty();
    for (const Argument& of : n.args) of.forEachValue(look);
    for (const auto& [key, of] : n.kwargs) of.forEachValue(look);
  }
  return is;
}

bool TorchScriptConverter::attributes(const jit::Node* n, Env& env) {
  switch (n->kind()) {
    case jit::prim::GetAttr: {
      const Bound self = bound(n->input(), env);
      env[n->output()] = attributeOf(self, n->s(jit::attr::name));
      return true;
    }
    case jit::prim::SetAttr: {
      const Bound self = bound(n->input(0), env);
      if (self.kind != Bound::Kind::Object)
        throw Refusal{"it writes an attribute of an object that is chosen while running"};
      const std::string path = attributePath(self.path, n->s(jit::attr::name));
      if (isItself(n->input(1), path, env)) return true;
      if (block_ != g_.root())
        throw Refusal{fmt::format("it writes its attribute {} inside of control flow", n->s(jit::attr::name))};
      if (const auto slot = self.object->type()->findAttributeSlot(n->s(jit::attr::name)))
        if (auto value = jit::toIValue(n->input(1)); value && !value->isTensor()) {
          if (!attributes_.contains(path) && *value == self.object->getSlot(*slot)) return true;
          setLiterals_.push_back({path, self.object, *slot, std::move(*value)});
        }
      std::vector<Argument> args{Argument(path), argument(bound(n->input(1), env), n)};
      if (readAsNone_.contains(path) && isOfThisRun(g_, args[1])) args.emplace_back();
      setAttributes_[path] = appendUnknown("prim.SetAttr", std::move(args), n);
      attributes_[path] = bound(n->input(1), env);
      return true;
    }
    case jit::prim::Uninitialized:
      env[n->output()] = Bound::of(Argument());
      return true;  // no node reads it
    case jit::prim::device: {
      // Weights are where the model is. The graph names that device as traced code does.
      const Bound& of = unused(n->input(), env);
      const bool weight =
          of.kind == Bound::Kind::Tensor ||
          (of.kind == Bound::Kind::Argument && of.argument.isValue() && g_.isWeight(of.argument.valueId()));
      if (!weight) break;
      env[n->output()] =
          Bound::of(Argument(DeviceName{metadata_ && isDevice(metadata_->device) ? metadata_->device : "cpu"}));
      return true;
    }
    default:
      break;
  }
  return false;
}

Bound TorchScriptConverter::attributeOf(const Bound& self, const std::string& name) {
  if (self.kind != Bound::Kind::Object)
    throw Refusal{fmt::format("it reads {} of an object that is chosen while running", name)};
  std::string path = attributePath(self.path, name);
  if (metadata_)
    if (const auto alias = metadata_->aliases.find(path); alias != metadata_->aliases.end()) path = alias->second;
  if (const auto it = attributes_.find(path); it != attributes_.end()) return it->second;
  if (const auto it = heldLists_.find(path); it != heldLists_.end()) return it->second.list;
  const auto type = self.object->type();
  const auto slot = type->findAttributeSlot(name);
  if (!slot) {
    if (const auto constant = type->findConstant(name)) return fromIValue(*constant, path, true, false);
    throw Refusal{fmt::format("its class {} has no attribute {}", type->repr_str(), name)};
  }
  if (self.object->getSlot(*slot).isNone()) readAsNone_.insert(path);
  const bool parameter = type->is_module() && type->is_parameter(*slot);
  const bool constant =
      metadata_ && metadata_->placedConstants.contains(path) && self.object->getSlot(*slot).isTensor();
  Bound held = fromIValue(self.object->getSlot(*slot), path, !parameter, constant);
  if (held.kind == Bound::Kind::Container && held.container->kind != Container::Kind::Tuple) {
    held.container->where = g_.root();  // all that read it share it
    heldLists_.emplace(path, HeldList{held, held.container->items.size()});
  }
  return held;
}

/// Whether the attribute's list has another length after the run than before, as far as the walk knows.
bool TorchScriptConverter::hasOtherLength(const HeldList& before, const Container& after) {
  if (after.kind != Container::Kind::List) return false;
  if (after.value) return before.list.container.get() == &after && after.changed;
  return after.items.size() != before.length;
}

// Lists that attributes hold and that the code changes in place: each attribute is set to what its list is in the end.
void TorchScriptConverter::setChangedLists() {
  std::map<std::string, Bound> now = attributes_;
  for (const auto& [path, held] : heldLists_)
    if (held.list.container->changed) now.emplace(path, held.list);
  for (const auto& [path, b] : now) {
    if (b.kind != Bound::Kind::Container || b.container->kind == Container::Kind::Tuple) continue;
    if (const auto held = heldLists_.find(path); held != heldLists_.end() && hasOtherLength(held->second, *b.container))
      throw Refusal{
          fmt::format("its attribute {} is a list that may have another length in the next run, and a graph holds only "
                      "lists that keep theirs. Save a part of the model that does without it, e.g. model.backbone",
                      path)};
    if (!b.container->changed) continue;
    Argument last = argument(b, nullptr);
    if (const auto set = setAttributes_.find(path); set != setAttributes_.end()) {
      if (g_.node(set->second).args[1] == last) continue;
      g_.erase(set->second);
    }
    appendUnknown("prim.SetAttr", {Argument(path), std::move(last)}, nullptr);
  }
}

/// Whether a value of that type is of no other type while the code runs: not of a part of a union.
static bool isExact(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
    case c10::TypeKind::IntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::ComplexType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::StringType:
    case c10::TypeKind::DeviceObjType:
      return true;
    case c10::TypeKind::ListType:
    case c10::TypeKind::DictType:
    case c10::TypeKind::TupleType: {
      const auto held = type.containedTypes();
      return std::all_of(held.begin(), held.end(), [](const c10::TypePtr& t) { return isExact(*t); });
    }
    default:
      return false;
  }
}

/// The type among those of a union that a container of that kind has. Null where none or several could be it.
static c10::TypePtr memberOf(const c10::Type& type, Container::Kind kind) {
  if (type.kind() != c10::TypeKind::UnionType && type.kind() != c10::TypeKind::OptionalType) return nullptr;
  const c10::TypeKind wanted = kind == Container::Kind::List   ? c10::TypeKind::ListType
                               : kind == Container::Kind::Dict ? c10::TypeKind::DictType
                                                               : c10::TypeKind::TupleType;
  c10::TypePtr found;
  for (const c10::TypePtr& t : type.containedTypes()) {
    if (t->kind() != wanted) continue;
    if (found) return nullptr;
    found = t;
  }
  return found;
}

bool TorchScriptConverter::identities(const jit::Node* n, Env& env) {
  if (n->inputs().empty() || n->outputs().size() != 1) return false;
  const std::string_view op = n->kind().toUnqualString();
  const Bound first = bound(n->input(0), env);
  const auto known = [&](bool value) {
    env[n->output()] = Bound::of(Argument(value));
    return true;
  };
  if (op == "__is__" || op == "__isnot__") {
    const bool same = op == "__is__";
    const Bound second = bound(n->input(1), env);
    if (second.kind != Bound::Kind::Argument || !second.argument.isNone()) return false;
    if (first.kind != Bound::Kind::Argument) return known(!same);
    if (first.argument.isNone()) return known(same);
    if (!first.argument.isValue()) return known(!same);
    const Type::Kind kind = g_.value(first.argument.valueId()).type.kind;
    if (kind == Type::Kind::Optional || kind == Type::Kind::Any || kind == Type::Kind::None) return false;
    return known(!same);
  }
  if (op == "isinstance") {
    c10::TypePtr type = n->input(0)->type();
    // Where a function takes one of several types, the caller's says more.
    std::optional<Container::Kind> container;
    if (first.kind == Bound::Kind::Container) container = first.container->kind;
    if (first.kind == Bound::Kind::Argument && first.argument.isValue()) {
      const Type::Kind seen = g_.value(first.argument.valueId()).type.kind;
      if (seen == Type::Kind::Tensor) type = c10::TensorType::get();
      if (seen == Type::Kind::Int) type = c10::IntType::get();
      if (seen == Type::Kind::Float) type = c10::FloatType::get();
      if (seen == Type::Kind::Bool) type = c10::BoolType::get();
      if (seen == Type::Kind::String) type = c10::StringType::get();
      if (seen == Type::Kind::List) container = Container::Kind::List;
      if (seen == Type::Kind::Dict) container = Container::Kind::Dict;
      if (seen == Type::Kind::Tuple) container = Container::Kind::Tuple;
    }
    if (container)
      if (c10::TypePtr member = memberOf(*type, *container)) type = std::move(member);
    const std::vector<c10::TypePtr>& asked = n->tys(jit::attr::types);
    if (std::any_of(asked.begin(), asked.end(), [&](const c10::TypePtr& t) { return type->isSubtypeOf(*t); }))
      return known(true);
    return isExact(*type) ? known(false) : false;
  }
  if (op == "unchecked_cast" || op == "unchecked_unwrap_optional" || op == "_unwrap_optional" || op == "detach" ||
      op == "alias" || op == "data" || op == "lift_fresh") {
    if (op == "_unwrap_optional" && (first.kind == Bound::Kind::Argument && first.argument.isNone())) {
      if (block_ == g_.root()) throw Refusal{"it unwraps an optional value that is None"};
      append("prim.RaiseException.default", {Argument("Unwrapping null optional"), Argument()}, n);
      raised_ = true;
    }
    env[n->output()] = first;
    return true;
  }
  return false;
}

}  // namespace graft
