// Facts that are known before a program runs: ranks, dtypes, constant sizes, None, and what follows from these.
// Scripted models check such facts before they compute ("if x.dim() != 4: raise"). torch.export cannot express the
// check and needs none, because a program is exported for inputs of these facts.
#include <algorithm>
#include <memory>
#include <optional>

#include "core/formats/pt2/writer.h"
#include "core/ir/operators/int_operators.h"
#include "core/torch/semantics.h"

namespace graft {
namespace {

/// Python's arithmetic of whole numbers. Nothing where it has no result, or where the operator is another one.
std::optional<Argument> calculated(std::string_view op, int64_t a, int64_t b) {
  const auto floordiv = [&] { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); };
  if (op == "aten.floordiv.int" && b != 0) return Argument(floordiv());
  if (op == "aten.remainder.int" && b != 0) return Argument(a - floordiv() * b);
  if (op == "prim.max.int") return Argument(std::max(a, b));
  if (op == "prim.min.int") return Argument(std::min(a, b));
  return onInts(op, a, b);
}

std::optional<Argument> onBools(std::string_view op, bool a, bool b) {
  if (op == "aten.__and__.bool") return Argument(a && b);
  if (op == "aten.__or__.bool") return Argument(a || b);
  if (op == "aten.eq.bool" || op == "aten.__xnor__.bool") return Argument(a == b);
  if (op == "aten.ne.bool" || op == "aten.__xor__.bool") return Argument(a != b);
  return std::nullopt;
}

/// Python's index `i` of a list of that size, counted from the front: for `l[i]` and for a slice's bound.
int64_t place(int64_t i, int64_t size) { return i < 0 ? i + size : i; }

/// Operators on a list whose length is known, such as a shape. Its items may be sizes that only a run knows.
std::optional<Argument> onList(std::string_view op, const std::vector<Argument>& list,
                               const std::vector<Argument>& more) {
  const auto size = static_cast<int64_t>(list.size());
  const auto numbers = [](const std::vector<Argument>& items) {
    return std::all_of(items.begin(), items.end(), [](const Argument& a) { return a.as<int64_t>(); });
  };
  if (op == "aten.len.t" && more.empty()) return Argument(size);
  if (op == "aten.list.t" && more.empty()) return Argument::list(list);
  if (more.empty()) return std::nullopt;
  const auto* number = more[0].as<int64_t>();
  if (op == "aten.__contains__.int_list" && number && numbers(list))
    return Argument(std::find(list.begin(), list.end(), more[0]) != list.end());
  if ((op == "aten.__getitem__.t" || op == "prim.getitem") && number) {
    const int64_t at = place(*number, size);
    if (at >= 0 && at < size) return list[static_cast<size_t>(at)];
  }
  const std::vector<Argument>* other = more[0].items();
  if (op == "aten.add.t" && other) {
    std::vector<Argument> joined = list;
    joined.insert(joined.end(), other->begin(), other->end());
    return Argument::list(std::move(joined));
  }
  if ((op == "aten.eq.int_list" || op == "aten.ne.int_list") && other) {
    const bool isEqual = list == *other;
    if (isEqual || list.size() != other->size() || (numbers(list) && numbers(*other)))
      return Argument(isEqual == (op == "aten.eq.int_list"));
  }
  if (op == "aten.slice.t" && more.size() == 3 && more[2] == Argument(int64_t{1})) {
    const auto bound = [&](const Argument& a, int64_t otherwise) {
      const auto* i = a.as<int64_t>();
      return std::clamp<int64_t>(i ? place(*i, size) : otherwise, 0, size);
    };
    if (more[0].isValue() || more[1].isValue()) return std::nullopt;
    const int64_t from = bound(more[0], 0), to = std::max(from, bound(more[1], size));
    return Argument::list({list.begin() + from, list.begin() + to});
  }
  return std::nullopt;
}

/// Operators whose tensors may be numbers in the normal form: 16 * 0.5 makes a tensor as tensor(16) * 0.5 does.
bool takesNumbersAsTensors(const std::vector<Parameter>& parameters) {
  return std::any_of(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.type.isTensor(); });
}

}  // namespace

std::optional<Argument> ExportWriter::knownOfTensor(const Node& n, const TensorInfo& t) const {
  if (n.op->name == "aten.dim.default" && t.shape) return Argument(static_cast<int64_t>(t.shape->size()));
  if (n.op->name == "aten.numel.default" && t.shape) {
    int64_t count = 1;
    for (const Dim& d : *t.shape) {
      if (!d.isStatic()) return std::nullopt;
      count *= d.size;
    }
    return Argument(count);
  }
  if (n.op->name == "prim.dtype.default" && t.dtype) return Argument(*t.dtype);
  if (n.op->name == "prim.device.default" && !t.device.empty()) return Argument(DeviceName{t.device});
  if (n.op->name == "aten.is_floating_point.default" && t.dtype) return Argument(isFloatingPoint(*t.dtype));
  if (n.op->name == "aten.size.default" && t.shape) {
    std::vector<Argument> sizes;
    for (const Dim& d : *t.shape) {
      if (!d.isStatic()) return std::nullopt;
      sizes.emplace_back(d.size);
    }
    return Argument::list(std::move(sizes));
  }
  if (n.op->name == "aten.size.int" && t.shape) {
    const auto* dim = known(n.args[1]).as<int64_t>();
    const auto rank = static_cast<int64_t>(t.shape->size());
    const int64_t at = !dim ? -1 : *dim < 0 ? *dim + rank : *dim;
    if (at >= 0 && at < rank && (*t.shape)[static_cast<size_t>(at)].isStatic())
      return Argument((*t.shape)[static_cast<size_t>(at)].size);
  }
  return std::nullopt;
}

bool ExportWriter::settle(const Node& n) {
  if (n.op->name == "aten.warn.default") return true;  // only TorchScript's interpreter can print it
  if (n.outputs.size() != 1 || n.args.empty() || !n.blocks.empty()) return false;
  const std::string_view op = n.op->name;
  const Argument& a = known(n.args[0]);
  std::optional<Argument> found;
  deferred_.erase(n.outputs[0].index);
  if (a.isValue() && g_.value(a.valueId()).type.isTensor()) {
    found = knownOfTensor(n, g_.value(a.valueId()).type.tensorInfo);
    // A tensor is not None.
    if (n.args.size() == 2 && known(n.args[1]).isNone() &&
        (op == "aten.__is__.default" || op == "aten.__isnot__.default"))
      found = Argument(op == "aten.__isnot__.default");
  } else if (n.args.size() == 1 && a.as<bool>() && op == "aten.__not__.default") {
    found = Argument(!*a.as<bool>());
  } else if (a.items()) {
    std::vector<Argument> more;
    for (size_t i = 1; i < n.args.size(); ++i) more.push_back(whole(n.args[i]));
    found = onList(op, *whole(a).items(), more);
  } else if (n.args.size() == 2) {
    const Argument& b = known(n.args[1]);
    if (a.as<int64_t>() && b.as<int64_t>()) found = calculated(op, *a.as<int64_t>(), *b.as<int64_t>());
    // TorchScript compares dtypes by their codes.
    if (a.as<DType>() && b.as<DType>() && (op == "aten.eq.int" || op == "aten.ne.int"))
      found = Argument((a == b) == (op == "aten.eq.int"));
    if (a.as<bool>() && b.as<bool>()) found = onBools(op, *a.as<bool>(), *b.as<bool>());
    if (a.isNone() && b.isNone() && (op == "aten.__is__.default" || op == "aten.__isnot__.default"))
      found = Argument(op == "aten.__is__.default");
  }
  if (!found) found = computed(n);
  if (found) literals_.insert_or_assign(n.outputs[0].index, std::move(*found));
  return found.has_value() || deferred_.contains(n.outputs[0].index);
}

/// The argument with what is known of the values in it.
Argument ExportWriter::whole(const Argument& given) const {
  const Argument& a = known(given);
  const auto* items = a.items();
  if (!items) return a;
  std::vector<Argument> out;
  for (const Argument& i : *items) out.push_back(whole(i));
  return a.isList() ? Argument::list(std::move(out)) : Argument::tuple(std::move(out));
}

/// Numbers that follow from numbers alone, even where the code computes them with tensors: int(tensor(16) ** 0.5).
/// A tensor of numbers on the way is written where another node turns out to use it; what begins with a constant of the
/// graph stays where it is.
std::optional<Argument> ExportWriter::computed(const Node& n) {
  static const std::unique_ptr<Semantics> semantics = makeTorchSemantics();
  if (!n.op->hasSchema || !n.op->pure()) return std::nullopt;
  const Type& made = g_.value(n.outputs[0]).type;
  const auto& shape = made.tensorInfo.shape;
  if (made.isTensor() && (!shape || !shape->empty())) return std::nullopt;
  Graph alone;
  const bool makesTensor = n.op->name == "prim.NumToTensor.Scalar" || takesNumbersAsTensors(n.op->parameters);
  bool isKnown = true, fromWeight = false, hasTensor = makesTensor;
  const auto isWritten = [&](const Value& v) {
    return std::any_of(v.users.begin(), v.users.end(), [&](NodeId user) { return g_.node(user).op->writes(); });
  };
  const auto tensor = [&](ValueId v) {
    const Value& value = g_.value(v);
    const auto it = constants_.find(v.index);
    const auto& data = it != constants_.end() ? it->second : value.data;
    const bool isNumber = value.type.isTensor() && value.type.tensorInfo.shape && value.type.tensorInfo.shape->empty();
    isKnown = isKnown && isNumber && data && !isWritten(value) && (it != constants_.end() || value.isConstant);
    hasTensor = hasTensor || isKnown;
    fromWeight = fromWeight || (it == constants_.end() || !deferrable_.contains(v.index));
    return isKnown ? alone.addWeight(value.name, value.type, data, true) : ValueId();
  };
  std::vector<Argument> args;
  for (const Argument& given : n.args) {
    args.push_back(whole(given));
    args.back().forEachValueMutable([&](ValueId& v) { v = tensor(v); });
  }
  if (!isKnown || (made.isTensor() && !hasTensor)) return std::nullopt;
  const NodeId copy = alone.append(alone.root(), n.op, std::move(args), n.name);
  auto result = semantics->evaluate(alone, copy);
  if (!result || result->size() != 1) return std::nullopt;
  if (!(*result)[0].data) return (*result)[0].literal;
  if ((*result)[0].type.tensorInfo.dtype != made.tensorInfo.dtype) return std::nullopt;
  constants_.insert_or_assign(n.outputs[0].index, (*result)[0].data);
  if (fromWeight) return std::nullopt;
  deferrable_.insert(n.outputs[0].index);
  deferred_.insert_or_assign(n.outputs[0].index, n.id);
  return std::nullopt;
}

}  // namespace graft
