#include <fmt/format.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <cmath>

#include "core/formats/torchscript/convert.h"
#include "core/torch/values/values.h"

namespace graft {
namespace {

namespace jit = torch::jit;

Bound containerOf(Container::Kind kind, BlockId where) {
  Bound b;
  b.kind = Bound::Kind::Container;
  b.container = std::make_shared<Container>();
  b.container->kind = kind;
  b.container->where = where;
  return b;
}

bool isKnown(const Bound& b) { return b.kind == Bound::Kind::Container && !b.container->value; }

/// A claim of the file, so it is looked at.
bool isDevice(const std::string& name) {
  try {
    (void)c10::Device(name);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

Bound scalarTensor(Argument a) {
  Bound b = Bound::of(std::move(a));
  b.scalarTensor = true;
  return b;
}

}  // namespace

bool TorchScriptConverter::special(const jit::Node* n, Env& env) {
  switch (n->kind()) {
    case jit::prim::GetAttr:
      getAttribute(n, env);
      return true;
    case jit::prim::SetAttr: {
      const Bound self = bound(n->input(0), env);
      if (self.kind != Bound::Kind::Object)
        throw Refusal{"it writes an attribute of an object that is chosen while running"};
      if (block_ != g_.root())
        throw Refusal{fmt::format("it writes its attribute {} inside of control flow", n->s(jit::attr::name))};
      const std::string path = self.path.empty() ? n->s(jit::attr::name) : self.path + "." + n->s(jit::attr::name);
      appendUnknown("prim.SetAttr", {Argument(path), argument(bound(n->input(1), env), n)}, n);
      attributes_[path] = bound(n->input(1), env);
      return true;
    }
    case jit::prim::Uninitialized:
      env[n->output()] = Bound::of(Argument());
      return true;  // nobody reads it
    case jit::prim::device: {
      // A weight is where the model is: traced code names that place.
      const Bound& of = unused(n->input(), env);
      const bool weight =
          of.kind == Bound::Kind::Tensor ||
          (of.kind == Bound::Kind::Argument && of.argument.isValue() && g_.isWeight(of.argument.valueId()));
      if (!weight) break;
      env[n->output()] = Bound::of(Argument(DeviceName{note_ && isDevice(note_->device) ? note_->device : "cpu"}));
      return true;
    }
    default:
      break;
  }
  return containers(n, env) || scalarArithmetic(n, env) || identities(n, env);
}

void TorchScriptConverter::getAttribute(const jit::Node* n, Env& env) {
  const Bound self = bound(n->input(), env);
  const std::string& name = n->s(jit::attr::name);
  if (self.kind != Bound::Kind::Object)
    throw Refusal{fmt::format("it reads {} of an object that is chosen while running", name)};
  std::string path = self.path.empty() ? name : self.path + "." + name;
  if (note_)
    if (const auto alias = note_->aliases.find(path); alias != note_->aliases.end()) path = alias->second;
  if (const auto it = attributes_.find(path); it != attributes_.end()) {
    env[n->output()] = it->second;
    return;
  }
  const auto type = self.object->type();
  const auto slot = type->findAttributeSlot(name);
  if (!slot) {
    if (const auto constant = type->findConstant(name)) {
      env[n->output()] = fromIValue(*constant, path, true, false);
      return;
    }
    throw Refusal{fmt::format("its class {} has no attribute {}", type->repr_str(), name)};
  }
  const bool parameter = type->is_module() && type->is_parameter(*slot);
  const bool constant = note_ && note_->placedConstants.contains(path) && self.object->getSlot(*slot).isTensor();
  env[n->output()] = fromIValue(self.object->getSlot(*slot), path, !parameter, constant);
}

Argument TorchScriptConverter::sizeOf(ValueId tensor, int64_t dim, const jit::Node* n) {
  const TensorInfo& info = g_.value(tensor).type.tensorInfo;
  if (g_.isWeight(tensor) && info.shape) {
    const auto rank = static_cast<int64_t>(info.shape->size());
    const int64_t d = dim < 0 ? dim + rank : dim;
    if (d >= 0 && d < rank && (*info.shape)[static_cast<size_t>(d)].isStatic())
      return Argument((*info.shape)[static_cast<size_t>(d)].size);
  }
  return Argument(g_.output(append("aten.size.int", {Argument(tensor), Argument(dim)}, n)));
}

Bound TorchScriptConverter::item(const Bound& from, const Argument& index, const jit::Node* n) {
  const auto* i = index.as<int64_t>();
  if (from.kind == Bound::Kind::Shape && i) return Bound::of(sizeOf(from.shapeOf, *i, n));
  if (isKnown(from)) {
    const Container& c = *from.container;
    if (c.kind == Container::Kind::Dict) {
      const auto key = std::find(c.keys.begin(), c.keys.end(), index);
      if (key != c.keys.end()) return c.items[static_cast<size_t>(key - c.keys.begin())];
    } else if (i) {
      const auto size = static_cast<int64_t>(c.items.size());
      const int64_t at = *i < 0 ? *i + size : *i;
      if (at >= 0 && at < size) return c.items[static_cast<size_t>(at)];
    }
  }
  const NodeId node = append("prim.getitem", {argument(from, n), index}, n);
  return Bound::of(g_.output(node));
}

bool TorchScriptConverter::containers(const jit::Node* n, Env& env) {
  const auto fill = [&](Bound& b) {
    for (const jit::Value* v : n->inputs()) b.container->items.push_back(unused(v, env));
  };
  const auto typed = [&](Bound b, const jit::Value* v) {
    if (b.kind == Bound::Kind::Argument && b.argument.isValue() &&
        g_.value(b.argument.valueId()).type.kind == Type::Kind::Any)
      g_.setType(b.argument.valueId(), graftType(*v->type()));
    env[v] = std::move(b);
  };
  switch (n->kind()) {
    case jit::prim::ListConstruct:
    case jit::prim::TupleConstruct: {
      Bound b =
          containerOf(n->kind() == jit::prim::ListConstruct ? Container::Kind::List : Container::Kind::Tuple, block_);
      fill(b);
      env[n->output()] = std::move(b);
      return true;
    }
    case jit::prim::DictConstruct: {
      Bound b = containerOf(Container::Kind::Dict, block_);
      bool known = true;
      for (size_t i = 0; i + 1 < n->inputs().size(); i += 2) {
        const Bound& key = bound(n->input(i), env);
        known &= key.kind == Bound::Kind::Argument && !key.argument.isValue();
        b.container->keys.push_back(key.argument);
        b.container->items.push_back(bound(n->input(i + 1), env));
      }
      if (!known) materialise(*b.container, n->output(), n);
      env[n->output()] = std::move(b);
      return true;
    }
    case jit::prim::ListUnpack:
    case jit::prim::TupleUnpack: {
      const Bound from = bound(n->input(), env);
      if (isKnown(from) && from.container->items.size() != n->outputs().size())
        throw Refusal{"it unpacks a list of another length"};
      for (size_t i = 0; i < n->outputs().size(); ++i) {
        if (n->output(i)->uses().empty()) continue;
        typed(item(from, Argument(static_cast<int64_t>(i)), n), n->output(i));
      }
      return true;
    }
    case jit::prim::TupleIndex:
      typed(item(bound(n->input(0), env), argument(bound(n->input(1), env), n), n), n->output());
      return true;
    case jit::aten::size: {
      const Bound& x = bound(n->input(0), env);
      if (x.kind != Bound::Kind::Argument || !x.argument.isValue() || x.scalarTensor) return false;
      const ValueId tensor = x.argument.valueId();
      if (n->inputs().size() == 1) {
        Bound shape;
        shape.kind = Bound::Kind::Shape;
        shape.shapeOf = tensor;
        env[n->output()] = std::move(shape);
        return true;
      }
      const Bound& dim = bound(n->input(1), env);
      const auto* d = dim.kind == Bound::Kind::Argument ? dim.argument.as<int64_t>() : nullptr;
      if (!d) return false;
      env[n->output()] = Bound::of(sizeOf(tensor, *d, n));
      return true;
    }
    case jit::aten::__getitem__: {
      const Argument index = argument(bound(n->input(1), env), n);
      const Bound from = bound(n->input(0), env);
      const c10::TypeKind kind = n->input(0)->type()->kind();
      if (!isKnown(from) && kind != c10::TypeKind::ListType && kind != c10::TypeKind::DictType) return false;
      typed(item(from, index, n), n->output());
      return true;
    }
    case jit::aten::len: {
      const Bound& from = bound(n->input(0), env);
      if (from.kind == Bound::Kind::Shape) {
        env[n->output()] = Bound::of(g_.output(append("aten.dim.default", {Argument(from.shapeOf)}, n)));
        return true;
      }
      if (!isKnown(from)) return false;
      env[n->output()] = Bound::of(Argument(static_cast<int64_t>(from.container->items.size())));
      return true;
    }
    default:
      break;
  }

  // What changes or joins a known list is done here and now.
  if (n->inputs().empty()) return false;
  const auto found = env.find(n->input(0));
  if (found == env.end() || !isKnown(found->second) || found->second.container->kind == Container::Kind::Tuple)
    return false;
  Container& list = *found->second.container;
  const auto here = [&] {
    if (list.where != block_)
      throw Refusal{"a called method changes a list inside of control flow that was made outside"};
  };
  const std::string_view op = n->kind().toUnqualString();
  if (op == "append" && list.kind == Container::Kind::List) {
    here();
    list.items.push_back(bound(n->input(1), env));
    if (!n->outputs().empty()) env[n->output()] = env[n->input(0)];
    return true;
  }
  if (op == "_set_item") {
    const Bound key = bound(n->input(1), env);
    if (key.kind != Bound::Kind::Argument || key.argument.isValue()) return false;
    here();
    const Bound value = bound(n->input(2), env);
    if (list.kind == Container::Kind::Dict) {
      const auto at = std::find(list.keys.begin(), list.keys.end(), key.argument);
      if (at != list.keys.end()) {
        list.items[static_cast<size_t>(at - list.keys.begin())] = value;
      } else {
        list.keys.push_back(key.argument);
        list.items.push_back(value);
      }
    } else {
      const auto* i = key.argument.as<int64_t>();
      const auto size = static_cast<int64_t>(list.items.size());
      if (!i || *i < -size || *i >= size) throw Refusal{"it sets an item that its list does not have"};
      list.items[static_cast<size_t>(*i < 0 ? *i + size : *i)] = value;
    }
    if (!n->outputs().empty()) env[n->output()] = env[n->input(0)];
    return true;
  }
  if (op == "add" && list.kind == Container::Kind::List && n->inputs().size() == 2 &&
      isKnown(bound(n->input(1), env))) {
    Bound joined = containerOf(Container::Kind::List, block_);
    joined.container->items = list.items;
    const auto& more = bound(n->input(1), env).container->items;
    joined.container->items.insert(joined.container->items.end(), more.begin(), more.end());
    env[n->output()] = std::move(joined);
    return true;
  }
  if (op == "list" && list.kind == Container::Kind::List) {
    Bound copy = containerOf(Container::Kind::List, block_);
    copy.container->items = list.items;
    env[n->output()] = std::move(copy);
    return true;
  }
  return false;
}

// The side of a square grid, as vision models ask for it while they are traced: int(positions ** 0.5), of a number that
// tracing wrote down. Tensors of positions are resized by it, and no size behind it would be known.
std::optional<int64_t> TorchScriptConverter::rootOfLiteral(const jit::Value* v, Env& env) {
  const jit::Node* n = v->node();
  const bool power = n->kind() == jit::aten::pow && n->inputs().size() == 2;
  if (!power && n->kind() != jit::aten::sqrt) return std::nullopt;
  const Bound x = bound(n->input(0), env);
  const auto* squared = x.scalarTensor ? x.argument.as<int64_t>() : nullptr;
  if (!squared || *squared < 0 || (power && !(bound(n->input(1), env).argument == Argument(0.5)))) return std::nullopt;
  return static_cast<int64_t>(std::sqrt(static_cast<float>(*squared)));
}

// Sizes in traced code go through 0-dim tensors: size -> NumToTensor -> add -> Int. Here they stay numbers.
bool TorchScriptConverter::scalarArithmetic(const jit::Node* n, Env& env) {
  if (n->kind() == jit::prim::NumToTensor) {
    const Bound& x = bound(n->input(), env);
    if (x.kind != Bound::Kind::Argument) return false;
    Bound made = scalarTensor(x.argument);
    if (note_ && n->output()->hasDebugName()) made.path = nameInFile(n->output());
    env[n->output()] = std::move(made);
    return true;
  }
  if (n->inputs().empty() || n->outputs().size() != 1) return false;
  Bound first = bound(n->input(0), env);
  const auto isInt = [&](const Argument& a) {
    return a.as<int64_t>() || (a.isValue() && g_.value(a.valueId()).type.kind == Type::Kind::Int);
  };
  switch (n->kind()) {
    case jit::aten::Int:
    case jit::aten::ScalarImplicit:
    case jit::aten::IntImplicit:
      if (first.scalarTensor && isInt(first.argument)) {
        env[n->output()] = Bound::of(first.argument);
        return true;
      }
      if (first.kind == Bound::Kind::Argument && first.argument.isValue())
        if (const auto known = scalarConstant(first)) {
          env[n->output()] = Bound::of(Argument(*known));
          return true;
        }
      return false;
    case jit::aten::to: {
      const auto* dtype = n->inputs().size() == 5 ? bound(n->input(1), env).argument.as<int64_t>() : nullptr;
      if (!dtype || *dtype != static_cast<int64_t>(at::kLong)) return false;
      if (first.scalarTensor && isInt(first.argument)) {
        env[n->output()] = first;
        return true;
      }
      if (const auto root = rootOfLiteral(n->input(0), env)) {
        env[n->output()] = scalarTensor(Argument(*root));
        return true;
      }
      return false;
    }
    default:
      break;
  }
  const std::string_view op = n->kind().toUnqualString();
  const bool reversed = op == "rsub";  // rsub(a, b) is b - a
  const bool arithmetic =
      op == "add" || op == "sub" || op == "mul" || op == "floor_divide" || op == "remainder" || reversed;
  const bool floorDivision =
      op == "div" && n->inputs().size() == 3 && bound(n->input(2), env).argument == Argument("floor");
  if (!arithmetic && !floorDivision) return false;
  if (n->inputs().size() < 2) return false;
  Bound second = bound(n->input(1), env);
  if (!first.scalarTensor && !second.scalarTensor) return false;
  if (reversed) std::swap(first, second);
  Argument sides[2];
  for (int i = 0; i < 2; ++i) {
    const Bound& b = i == 0 ? first : second;
    if (b.kind != Bound::Kind::Argument) return false;
    if (b.scalarTensor || b.argument.as<int64_t>()) {
      sides[i] = b.argument;
    } else if (const auto known = scalarConstant(b)) {
      sides[i] = Argument(*known);
    } else {
      return false;
    }
    if (!isInt(sides[i])) return false;
  }
  const bool subtracts = op == "sub" || reversed;
  if ((op == "add" || subtracts) && n->inputs().size() == 3 &&
      !(bound(n->input(2), env).argument == Argument(int64_t{1})))
    return false;
  const int64_t* a = sides[0].as<int64_t>();
  const int64_t* b = sides[1].as<int64_t>();
  const bool divides = floorDivision || op == "floor_divide";
  if (((op == "add" || subtracts) && b && *b == 0) || ((op == "mul" || divides) && b && *b == 1)) {
    env[n->output()] = scalarTensor(sides[0]);
    return true;
  }
  if ((op == "add" && a && *a == 0) || (op == "mul" && a && *a == 1)) {
    env[n->output()] = scalarTensor(sides[1]);
    return true;
  }
  const std::string name = divides ? "aten.floordiv.int" : fmt::format("aten.{}.int", reversed ? "sub" : op);
  env[n->output()] = scalarTensor(Argument(g_.output(append(name, {sides[0], sides[1]}, n))));
  return true;
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
  if (op == "unchecked_cast" || op == "unchecked_unwrap_optional" || op == "_unwrap_optional" || op == "detach" ||
      op == "alias" || op == "data" || op == "lift_fresh") {
    if (op == "_unwrap_optional" && (first.kind == Bound::Kind::Argument && first.argument.isNone()))
      throw Refusal{"it unwraps an optional value that is None"};
    env[n->output()] = first;
    return true;
  }
  return false;
}

}  // namespace graft
