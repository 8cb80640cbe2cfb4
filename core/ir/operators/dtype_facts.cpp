#include "core/ir/operators/dtype_facts.h"

#include <complex>
#include <set>
#include <string_view>
#include <utility>

namespace graft {
namespace {

constexpr std::pair<DType, DType> realAndComplex[] = {
    {DType::Float16, DType::Complex32}, {DType::Float32, DType::Complex64}, {DType::Float64, DType::Complex128}};

std::optional<DType> complexOf(DType d) {
  for (const auto& [real, complex] : realAndComplex)
    if (d == real || d == complex) return complex;
  return std::nullopt;
}
std::optional<DType> realOf(DType d) {
  for (const auto& [real, complex] : realAndComplex)
    if (d == complex) return real;
  return isFloatingPoint(d) ? std::optional(d) : std::nullopt;
}

enum class Numbers { Same, Complex, Real };
/// What kind of numbers an operator makes of its first argument's, where it goes from one to the other.
Numbers numbersOf(std::string_view op) {
  static const std::set<std::string_view> real{
      "_fft_c2r",   "abs",  "angle", "fft_hfft",           "fft_hfft2", "fft_hfftn", "fft_irfft",   "fft_irfft2",
      "fft_irfftn", "imag", "istft", "linalg_vector_norm", "norm",      "real",      "view_as_real"},
      complex{"_fft_c2c",  "_fft_r2c",   "complex",        "fft_fft",    "fft_fft2",       "fft_fftn", "fft_ifft",
              "fft_ifft2", "fft_ifftn",  "fft_ihfft",      "fft_ihfft2", "fft_ihfftn",     "fft_rfft", "fft_rfft2",
              "fft_rfftn", "linalg_eig", "linalg_eigvals", "polar",      "view_as_complex"};
  return real.contains(op) ? Numbers::Real : complex.contains(op) ? Numbers::Complex : Numbers::Same;
}

}  // namespace

bool isComplex(DType d) { return d == DType::Complex32 || d == DType::Complex64 || d == DType::Complex128; }

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
  Numbers numbers = numbersOf(n.op->baseName());
  if (const Argument* const wanted = n.findArgument("return_complex"))  // stft
    if (const bool* const is = wanted->as<bool>(); is && *is) numbers = Numbers::Complex;
  if (numbers != Numbers::Same) {
    const auto in = tensor(0);
    if (in && (isFloatingPoint(*in) || isComplex(*in))) return numbers == Numbers::Real ? realOf(*in) : complexOf(*in);
  }
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
  // A complex operand makes the result complex, as wide as the widest.
  std::optional<DType> widest;
  bool isComplexResult = false;
  for (size_t i = 0; i < n.args.size(); ++i) {
    isComplexResult |= n.args[i].as<std::complex<double>>() != nullptr;
    const auto d = tensor(i);
    if (!d || !(isComplex(*d) || isFloatingPoint(*d))) continue;
    isComplexResult |= isComplex(*d);
    const auto wide = complexOf(*d);
    if (wide && (!widest || dtypeSize(*wide) > dtypeSize(*widest))) widest = wide;
  }
  if (isComplexResult) return widest;
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
