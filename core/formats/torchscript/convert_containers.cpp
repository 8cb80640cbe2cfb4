#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>

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

}  // namespace

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
      if (!known) materialise(*b.container, *n->output()->type(), n);
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

  // The walk changes and joins known lists itself.
  if (n->inputs().empty()) return false;
  const auto found = env.find(n->input(0));
  if (found == env.end() || !isKnown(found->second) || found->second.container->kind == Container::Kind::Tuple)
    return false;
  Container& list = *found->second.container;
  const auto here = [&] {
    if (list.where != block_)
      throw Refusal{"it changes, inside of control flow, a list that was made outside, where Graft cannot follow it"};
    list.changed = true;
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

}  // namespace graft
