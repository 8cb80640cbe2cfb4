// What is known of a program before it runs: ranks, dtypes, sizes that are numbers, None, and what follows from these.
// Scripted models ask for it before they compute ("if x.dim() != 4: raise"); torch.export has no place for the
// question, and needs none, because the answer is part of what a program is exported for.
#include <algorithm>
#include <optional>

#include "core/torch/pt2/writer.h"

namespace graft {
namespace {

/// Whole-number arithmetic as Python has it; nothing where it has no answer, or where this is another operator.
std::optional<Argument> onInts(std::string_view op, int64_t a, int64_t b) {
  const auto floordiv = [&] { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); };
  if (op == "aten.eq.int") return Argument(a == b);
  if (op == "aten.ne.int") return Argument(a != b);
  if (op == "aten.lt.int") return Argument(a < b);
  if (op == "aten.le.int") return Argument(a <= b);
  if (op == "aten.gt.int") return Argument(a > b);
  if (op == "aten.ge.int") return Argument(a >= b);
  if (op == "aten.add.int") return Argument(a + b);
  if (op == "aten.sub.int") return Argument(a - b);
  if (op == "aten.mul.int") return Argument(a * b);
  if (op == "aten.floordiv.int" && b != 0) return Argument(floordiv());
  if (op == "aten.remainder.int" && b != 0) return Argument(a - floordiv() * b);
  if (op == "prim.max.int") return Argument(std::max(a, b));
  if (op == "prim.min.int") return Argument(std::min(a, b));
  return std::nullopt;
}

std::optional<Argument> onBools(std::string_view op, bool a, bool b) {
  if (op == "aten.__and__.bool") return Argument(a && b);
  if (op == "aten.__or__.bool") return Argument(a || b);
  if (op == "aten.eq.bool" || op == "aten.__xnor__.bool") return Argument(a == b);
  if (op == "aten.ne.bool" || op == "aten.__xor__.bool") return Argument(a != b);
  return std::nullopt;
}

}  // namespace

std::optional<Argument> ExportWriter::knownOfTensor(const Node& n, const TensorInfo& t) const {
  if (n.op->name == "aten.dim.default" && t.shape) return Argument(static_cast<int64_t>(t.shape->size()));
  if (n.op->name == "aten.is_floating_point.default" && t.dtype) return Argument(isFloatingPoint(*t.dtype));
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
  if (n.op->name == "aten.warn.default") return true;  // only TorchScript's interpreter can say it
  if (n.outputs.size() != 1 || n.args.empty() || !n.blocks.empty()) return false;
  const std::string_view op = n.op->name;
  const Argument& a = known(n.args[0]);
  std::optional<Argument> found;
  if (a.isValue() && g_.value(a.valueId()).type.isTensor()) {
    found = knownOfTensor(n, g_.value(a.valueId()).type.tensorInfo);
    // A tensor is not None.
    if (n.args.size() == 2 && known(n.args[1]).isNone() &&
        (op == "aten.__is__.default" || op == "aten.__isnot__.default"))
      found = Argument(op == "aten.__isnot__.default");
  } else if (n.args.size() == 1 && a.as<bool>() && op == "aten.__not__.default") {
    found = Argument(!*a.as<bool>());
  } else if (n.args.size() == 2) {
    const Argument& b = known(n.args[1]);
    if (a.as<int64_t>() && b.as<int64_t>()) found = onInts(op, *a.as<int64_t>(), *b.as<int64_t>());
    if (a.as<bool>() && b.as<bool>()) found = onBools(op, *a.as<bool>(), *b.as<bool>());
    if (a.isNone() && b.isNone() && (op == "aten.__is__.default" || op == "aten.__isnot__.default"))
      found = Argument(op == "aten.__is__.default");
  }
  if (found) literals_.insert_or_assign(n.outputs[0].index, std::move(*found));
  return found.has_value();
}

}  // namespace graft
