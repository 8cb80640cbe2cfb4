#include "core/ir/operators/dtype_facts.h"

#include <complex>

namespace graft {

std::optional<DType> DTypeFacts::of(ValueId v, int depth) {
  const Value& value = g_.value(v);
  if (value.type.tensorInfo.dtype) return value.type.tensorInfo.dtype;
  if (value.kind != Value::Kind::Output || depth > 64) return std::nullopt;
  if (const auto it = known_.find(v); it != known_.end()) return it->second;
  const Node& producer = g_.node(value.producer);
  if (producer.outputs.front() != v) return std::nullopt;  // the table speaks of the first result
  const auto found = fromProducer(producer, depth);
  known_[v] = found;
  return found;
}

std::optional<DType> DTypeFacts::fromProducer(const Node& n, int depth) {
  if (!n.op->name.starts_with("aten.")) return std::nullopt;  // another library's, of which nothing is known
  const auto tensor = [&](size_t i) {
    return i < n.args.size() && n.args[i].isValue() ? of(n.args[i].valueId(), depth + 1) : std::nullopt;
  };
  const DTypeRule rule = n.op->facts->dtype;
  if (rule == DTypeRule::Bool && n.op->facts->family != OperatorFamily::Reduction) return DType::Bool;
  if (const Argument* dtype = n.findArgument("dtype"))
    if (const auto* d = dtype->as<DType>()) return *d;
  switch (rule) {
    case DTypeRule::Bool: {
      const auto in = tensor(0);
      return in && *in != DType::UInt8 ? DType::Bool : in;
    }
    case DTypeRule::First:
      return tensor(0);
    case DTypeRule::KeepsFloating: {
      const auto in = tensor(0);
      return in && isFloatingPoint(*in) ? in : std::nullopt;
    }
    case DTypeRule::Promotes:
    case DTypeRule::PromotesToFloat:
      return promoted(n, tensor);
    case DTypeRule::Common:
    case DTypeRule::Joined:
      return common(n, depth);
    default:
      return std::nullopt;
  }
}

// Beside plain numbers a tensor keeps its dtype, unless a number is of a higher kind; so do two of one dtype.
template <class OfTensor>
std::optional<DType> DTypeFacts::promoted(const Node& n, OfTensor&& tensor) const {
  const auto first = tensor(0);
  bool tensorsFollow = false, allAgree = true, wholeNumbers = true;
  for (size_t i = 1; i < n.args.size(); ++i) {
    const Argument& a = n.args[i];
    const Type::Kind kind = a.isValue() ? g_.value(a.valueId()).type.kind : Type::Kind::Int;
    const bool isTensor = kind != Type::Kind::Int && kind != Type::Kind::Float;
    tensorsFollow = tensorsFollow || isTensor;
    allAgree = allAgree && (!isTensor || tensor(i) == first);
    wholeNumbers = wholeNumbers && kind == Type::Kind::Int && !a.as<double>() && !a.as<std::complex<double>>();
  }
  if (first && isFloatingPoint(*first) && allAgree) return first;
  if (first && !tensorsFollow && wholeNumbers && *first != DType::Bool && n.op->facts->dtype == DTypeRule::Promotes)
    return first;
  const auto second = tensor(1);
  return second && isFloatingPoint(*second) && n.args[0].number() ? second : std::nullopt;
}

// The first dtype that is known; nothing where a list joins tensors of several.
std::optional<DType> DTypeFacts::common(const Node& n, int depth) {
  std::optional<DType> found;
  bool agree = true;
  for (const Argument& a : n.args)
    a.forEachValue([&](ValueId v) {
      if (!g_.value(v).type.isTensor() || (found && n.op->facts->dtype == DTypeRule::Common)) return;
      const auto own = of(v, depth + 1);
      agree = agree && (!found || !own || own == found);
      if (!found) found = own;
    });
  return agree ? found : std::nullopt;
}

}  // namespace graft
