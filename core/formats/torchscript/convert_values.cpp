#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/ir/ir.h>

#include "core/formats/torchscript/convert.h"
#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"

namespace graft {

namespace jit = torch::jit;

Bound& TorchScriptConverter::unused(const jit::Value* v, Env& env) {
  const auto it = env.find(v);
  if (it != env.end()) return it->second;
  if (isNone(v)) return env[v] = Bound::of(Argument());
  throw Refusal{fmt::format("it uses {} before it is made", v->debugName())};
}

Bound& TorchScriptConverter::bound(const jit::Value* v, Env& env) {
  Bound& b = unused(v, env);
  if (b.kind == Bound::Kind::Tensor) b = Bound::of(weight(b.tensor, b.path, b.buffer, b.constant));
  return b;
}

/// Path and name of a constant at its first use. Null for a number that became a constant in the code.
const std::pair<std::string, std::string>* TorchScriptConverter::constantOfMetadata(const std::string& attribute) {
  if (const auto placed = metadata_->placedConstants.find(attribute); placed != metadata_->placedConstants.end())
    return &placed->second;
  // The metadata lists the other constants in the order of their first use.
  const size_t number = constants_++;
  if (number >= metadata_->constants.size() || metadata_->constants[number].second.empty()) return nullptr;
  return &metadata_->constants[number];
}

/// The same memory with the same view is one weight, however many names it has. Empty where there is no memory.
std::string TorchScriptConverter::viewOf(const at::Tensor& t) const {
  if (t.layout() != c10::kStrided || !t.has_storage() || t.numel() == 0) return {};
  return fmt::format("{}+{} {} {} {}", file_.place(t), t.storage_offset(), static_cast<int>(t.scalar_type()),
                     fmt::join(t.sizes(), ","), fmt::join(t.strides(), ","));
}

/// The parameter that a plain attribute refers to, as LSTM's list of its own weights does; empty where there is none.
const std::string& TorchScriptConverter::parameterAt(const std::string& view) {
  if (!parameters_) {
    parameters_.emplace();
    for (const auto& p : file_.module().named_parameters())
      if (const std::string at = file_.resolve(p.value) ? viewOf(p.value) : std::string(); !at.empty())
        parameters_->emplace(at, p.name);
  }
  static const std::string none;
  const auto it = parameters_->find(view);
  return it == parameters_->end() ? none : it->second;
}

ValueId TorchScriptConverter::weight(const at::Tensor& t, const std::string& given, bool buffer, bool constant) {
  if (Status s = file_.resolve(t); !s) throw Refusal{s.error().message};
  std::string path = given, key = viewOf(t);
  if (buffer && !constant && !key.empty())
    if (const std::string& parameter = parameterAt(key); !parameter.empty()) {
      path = parameter;
      buffer = false;
    }
  if (key.empty()) key = path;
  if (const auto it = weights_.find(key); it != weights_.end()) return it->second;
  Type type = typeOfValue(c10::IValue(t));
  const auto* named = metadata_ && constant ? constantOfMetadata(path) : nullptr;
  const ValueId v = g_.addWeight(named                   ? named->first
                                 : metadata_ && constant ? "number"
                                                         : path,
                                 std::move(type), std::make_shared<TensorWeight>(t.detach()), buffer);
  g_.mutableWeight(v).isConstant = constant;
  g_.mutableWeight(v).isFrozen = !buffer && !t.requires_grad();
  if (named)
    names_.emplace_back(v, named->second);
  else if (const auto name = metadata_ ? metadata_->weights.find(path) : decltype(metadata_->weights.find(path))();
           metadata_ && name != metadata_->weights.end())
    names_.emplace_back(v, name->second);
  weights_.emplace(std::move(key), v);
  return v;
}

Bound TorchScriptConverter::fromIValue(const c10::IValue& v, const std::string& path, bool buffer, bool constant) {
  if (v.isTensor()) {
    if (!v.toTensor().defined()) return Bound::of(Argument());
    Bound b;
    b.kind = Bound::Kind::Tensor;
    b.tensor = v.toTensor();
    b.path = path;
    b.buffer = buffer;
    b.constant = constant;
    return b;
  }
  if (v.isObject()) {
    Bound b;
    b.kind = Bound::Kind::Object;
    b.object = v.toObject();
    b.path = path;
    return b;
  }
  Bound b;
  if (v.isEnum()) {
    b.kind = Bound::Kind::Enum;
    b.member = v.toEnumHolder();
    b.path = path;
    return b;
  }
  const auto child = [&](const c10::IValue& item, size_t i) {
    return fromIValue(item, fmt::format("{}.{}", path, i), buffer, constant);
  };
  if (v.isList() || v.isTuple() || v.isGenericDict()) {
    b.kind = Bound::Kind::Container;
    b.container = std::make_shared<Container>();
    b.container->where = block_;
  }
  if (v.isTuple()) {
    b.container->kind = Container::Kind::Tuple;
    const auto& items = v.toTupleRef().elements();
    for (size_t i = 0; i < items.size(); ++i) b.container->items.push_back(child(items[i], i));
    return b;
  }
  if (v.isList()) {
    const auto list = v.toList();
    for (size_t i = 0; i < list.size(); ++i) b.container->items.push_back(child(list.get(i), i));
    return b;
  }
  if (v.isGenericDict()) {
    b.container->kind = Container::Kind::Dict;
    size_t i = 0;
    for (const auto& entry : v.toGenericDict()) {
      auto key = toArgument(entry.key());
      if (!key) throw Refusal{fmt::format("{} has keys that Graft does not know", path)};
      b.container->keys.push_back(std::move(*key));
      b.container->items.push_back(child(entry.value(), i++));
    }
    return b;
  }
  auto literal = toArgument(v);
  if (!literal)
    return Bound::of(
        g_.addOutput(appendUnknown("prim.GetAttr", {Argument(path)}, nullptr), "attribute", graftType(*v.type())));
  return Bound::of(std::move(*literal));
}

std::string TorchScriptConverter::nameOfMember(const Bound& b) {
  const std::string type = demangle(b.member->qualifiedClassName());
  return fmt::format("{}.{}", type.substr(type.rfind('.') + 1), b.member->name());
}

Argument TorchScriptConverter::argument(const Bound& b, const jit::Node* user) {
  switch (b.kind) {
    case Bound::Kind::Argument:
      if (!b.scalarTensor) return b.argument;
      {
        const ValueId made = g_.output(append("prim.NumToTensor.Scalar", {b.argument}, user));
        if (!b.path.empty()) names_.emplace_back(made, b.path);
        return Argument(made);
      }
    case Bound::Kind::Tensor:
      return Argument(weight(b.tensor, b.path, b.buffer, b.constant));
    case Bound::Kind::Shape: {
      const NodeId node = append("aten.size.default", {Argument(b.shapeOf)}, user);
      return Argument(g_.output(node));
    }
    case Bound::Kind::Container: {
      if (b.container->value) return Argument(b.container->value);
      std::vector<Argument> items;
      for (const Bound& i : b.container->items) items.push_back(argument(i, user));
      if (b.container->kind == Container::Kind::List) return Argument::list(std::move(items));
      if (b.container->kind == Container::Kind::Tuple) return Argument::tuple(std::move(items));
      std::vector<std::pair<Argument, Argument>> pairs;
      for (size_t i = 0; i < items.size(); ++i) pairs.emplace_back(b.container->keys[i], std::move(items[i]));
      return Argument::dict(std::move(pairs));
    }
    case Bound::Kind::Object:
      // Packed weights and other C++ classes: the graph shows and keeps them; running the model refuses them.
      if (const auto& name = b.object->type()->name();
          name && name->qualifiedName().starts_with("__torch__.torch.classes."))
        return Argument(g_.addOutput(appendUnknown("prim.GetAttr", {Argument(b.path)}, nullptr), "attribute",
                                     graftType(*b.object->type())));
      throw Refusal{
          fmt::format("it passes the object {} around as a value", b.path.empty() ? std::string("self") : b.path)};
    case Bound::Kind::Instance:
      throw Refusal{
          fmt::format("it keeps an object of its own class {} where Graft cannot follow it: in a branch, in a loop, in "
                      "what the model returns or in a list that grows. Save the part of the model that takes and "
                      "returns tensors, e.g. model.backbone",
                      b.instance->type->name() ? demangle(b.instance->type->name()->qualifiedName()) : "")};
    case Bound::Kind::Function:
      throw Refusal{"it passes a function around as a value"};
    case Bound::Kind::Enum: {
      const std::string name = nameOfMember(b);
      if (user && user->kind() == jit::aten::format) return Argument(fmt::format("Enum<{}>", name));
      throw Refusal{
          fmt::format("it holds {}, a member of an enumeration{}, where Graft cannot follow it. It follows those that "
                      "are compared with ==, asked for their name or value, or passed to methods",
                      name, b.path.empty() || b.path == "constant" ? "" : fmt::format(" (its attribute {})", b.path))};
    }
  }
  return {};
}

/// The type of what a list or a dictionary holds; null where it is neither.
static c10::TypePtr itemType(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::OptionalType)
    return itemType(*type.expectRef<c10::OptionalType>().getElementType());
  if (type.kind() == c10::TypeKind::ListType) return type.expectRef<c10::ListType>().getElementType();
  if (type.kind() == c10::TypeKind::DictType) return type.expectRef<c10::DictType>().getValueType();
  return nullptr;
}

// The walk cannot follow changes of a list in branches and loops. Such a list becomes a value that operators change,
// and so do the lists in it, which the code may change in their turn.
void TorchScriptConverter::materialise(Container& c, const c10::Type& type, const jit::Node* user) {
  if (c.value || c.kind == Container::Kind::Tuple) return;
  if (c.where != block_)
    throw Refusal{"it changes, inside of control flow, a list that was made outside, where Graft cannot follow it"};
  if (const c10::TypePtr inner = itemType(type))
    for (const Bound& b : c.items)
      if (b.kind == Bound::Kind::Container && b.container->where == block_) materialise(*b.container, *inner, user);
  std::vector<Argument> args;
  for (size_t i = 0; i < c.items.size(); ++i) {
    if (c.kind == Container::Kind::Dict) args.push_back(c.keys[i]);
    args.push_back(argument(c.items[i], user));
  }
  const NodeId node =
      append(c.kind == Container::Kind::Dict ? "prim.DictConstruct" : "prim.ListConstruct", std::move(args), user);
  c.value = g_.output(node);
  g_.setType(c.value, graftType(type));
}

}  // namespace graft
