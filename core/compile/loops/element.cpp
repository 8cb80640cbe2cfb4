#include "core/compile/loops/element.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "core/base/numbers/philox.h"
#include "core/compile/loops/half.h"

namespace graft::loops {
namespace {

template <class T>
T readAs(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
void writeAs(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

double rounded(double value, DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return static_cast<float>(value);
    case DType::Float16:
      return halfToFloat(floatToHalf(static_cast<float>(value)));
    case DType::BFloat16:
      return bfloatToFloat(floatToBFloat(static_cast<float>(value)));
    default:
      return value;
  }
}

// As x86 converts: what does not fit becomes the least number.
int64_t toInt64(double value) {
  return value >= -0x1p63 && value < 0x1p63 ? static_cast<int64_t>(value) : std::numeric_limits<int64_t>::min();
}
int64_t toInt32(double value) {
  return value > -2147483649.0 && value < 0x1p31 ? static_cast<int64_t>(value) : std::numeric_limits<int32_t>::min();
}

// PyTorch's, in the dtype's own arithmetic.
template <class T>
T floorDivideFloating(T a, T b) {
  if (b == 0) return a / b;
  const T rest = std::fmod(a, b);
  T quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(T(0), a / b);
  const T whole = std::floor(quotient);
  return quotient - whole > T(0.5) ? whole + 1 : whole;
}
template <class T>
T remainderFloating(T a, T b) {
  const T rest = std::fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

double unaryFloating(Op op, double x) {
  switch (op) {
    case Op::Negate:
      return -x;
    case Op::Absolute:
      return std::fabs(x);
    case Op::Sign:
      return x > 0 ? 1 : x < 0 ? -1 : 0;
    case Op::Floor:
      return std::floor(x);
    case Op::Ceil:
      return std::ceil(x);
    case Op::Round:
      return std::nearbyint(x);
    case Op::Truncate:
      return std::trunc(x);
    case Op::Sqrt:
      return std::sqrt(x);
    case Op::Exp:
    case Op::ExpNonPositive:
      return std::exp(x);
    case Op::Exp2:
      return std::exp2(x);
    case Op::Expm1:
      return std::expm1(x);
    case Op::Log:
      return std::log(x);
    case Op::Log2:
      return std::log2(x);
    case Op::Log10:
      return std::log10(x);
    case Op::Log1p:
      return std::log1p(x);
    case Op::Sin:
      return std::sin(x);
    case Op::Cos:
      return std::cos(x);
    case Op::Tan:
      return std::tan(x);
    case Op::Asin:
      return std::asin(x);
    case Op::Acos:
      return std::acos(x);
    case Op::Atan:
      return std::atan(x);
    case Op::Sinh:
      return std::sinh(x);
    case Op::Cosh:
      return std::cosh(x);
    case Op::Tanh:
      return std::tanh(x);
    case Op::Asinh:
      return std::asinh(x);
    case Op::Acosh:
      return std::acosh(x);
    case Op::Atanh:
      return std::atanh(x);
    case Op::Erf:
      return std::erf(x);
    case Op::Erfc:
      return std::erfc(x);
    case Op::LogGamma:
      return std::lgamma(x);
    case Op::Sigmoid:
      return 1 / (1 + std::exp(-x));
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

double lesser(double a, double b) { return std::isnan(a) || a <= b ? a : b; }
double greater(double a, double b) { return std::isnan(a) || a >= b ? a : b; }

double binaryFloating(Op op, DType dtype, double a, double b) {
  const bool isSingle = dtype == DType::Float32;
  switch (op) {
    case Op::Add:
      return a + b;
    case Op::Subtract:
      return a - b;
    case Op::Multiply:
      return a * b;
    case Op::Divide:
      return a / b;
    case Op::FloorDivide:
      return isSingle ? floorDivideFloating(static_cast<float>(a), static_cast<float>(b)) : floorDivideFloating(a, b);
    case Op::TruncateDivide:
      return std::trunc(rounded(a / b, dtype));
    case Op::Remainder:
      return isSingle ? remainderFloating(static_cast<float>(a), static_cast<float>(b)) : remainderFloating(a, b);
    case Op::Fmod:
      return std::fmod(a, b);
    case Op::Power:
      return std::pow(a, b);
    case Op::Minimum:
      return lesser(a, b);
    case Op::Maximum:
      return greater(a, b);
    case Op::Atan2:
      return std::atan2(a, b);
    case Op::Hypot:
      return std::hypot(a, b);
    case Op::CopySign:
      return std::copysign(a, b);
    case Op::NextAfter:
      return isSingle ? std::nextafter(static_cast<float>(a), static_cast<float>(b)) : std::nextafter(a, b);
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

int64_t powerInteger(int64_t base, int64_t exponent, DType dtype) {
  if (exponent < 0) {
    if (base == 1) return 1;
    return base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  }
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (; exponent > 0; exponent /= 2, factor *= factor)
    if (exponent % 2 != 0) result *= factor;
  return wrapped(static_cast<int64_t>(result), dtype);
}

// Euclid's algorithm, which wraps around as PyTorch's does: the least number is its own absolute value.
int64_t gcdInteger(int64_t a, int64_t b, DType dtype) {
  const auto size = [dtype](int64_t x) {
    return x < 0 ? wrapped(static_cast<int64_t>(0 - static_cast<uint64_t>(x)), dtype) : x;
  };
  for (a = size(a), b = size(b); a != 0;) b = std::exchange(a, b % a);
  return b;
}

int64_t binaryInteger(Op op, DType dtype, int64_t a, int64_t b) {
  const int64_t bits = dtype == DType::Bool ? 1 : static_cast<int64_t>(dtypeSize(dtype)) * 8;
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  const int64_t floor = b == 0 ? 0 : b == -1 ? static_cast<int64_t>(0 - ua) : a / b;
  const int64_t rest = b == 0 || b == -1 ? 0 : a % b;
  const bool isBelow = rest != 0 && (rest < 0) != (b < 0);  // the quotient was rounded up
  switch (op) {
    case Op::Add:
      return static_cast<int64_t>(ua + ub);
    case Op::Subtract:
      return static_cast<int64_t>(ua - ub);
    case Op::Multiply:
      return static_cast<int64_t>(ua * ub);
    case Op::FloorDivide:
      return floor - (isBelow ? 1 : 0);
    case Op::TruncateDivide:
      return floor;
    case Op::Remainder:
      return rest + (isBelow ? b : 0);
    case Op::Fmod:
      return rest;
    case Op::Power:
      return powerInteger(a, b, dtype);
    case Op::Gcd:
      return gcdInteger(a, b, dtype);
    case Op::Minimum:
      return a < b ? a : b;
    case Op::Maximum:
      return a < b ? b : a;
    case Op::And:
      return a & b;
    case Op::Or:
      return a | b;
    case Op::Xor:
      return a ^ b;
    case Op::ShiftLeft:
      return b < 0 || b >= bits ? 0 : static_cast<int64_t>(ua << b);
    case Op::ShiftRight:
      // Behind the last bit comes the sign.
      return b < 0 || b >= bits ? (a < 0 ? -1 : 0) : a >> b;
    default:
      return 0;
  }
}

template <class T>
bool compare(Op op, T a, T b) {
  switch (op) {
    case Op::Equal:
      return a == b;
    case Op::NotEqual:
      return a != b;
    case Op::Less:
      return a < b;
    default:
      return a <= b;
  }
}

}  // namespace

int64_t wrapped(int64_t value, DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return value != 0 ? 1 : 0;
    case DType::UInt8:
      return static_cast<uint8_t>(value);
    case DType::Int8:
      return static_cast<int8_t>(value);
    case DType::Int16:
      return static_cast<int16_t>(value);
    case DType::Int32:
      return static_cast<int32_t>(value);
    default:
      return value;
  }
}

Element loadElement(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return Element::of(static_cast<int64_t>(readAs<uint8_t>(at) != 0));
    case DType::UInt8:
      return Element::of(static_cast<int64_t>(readAs<uint8_t>(at)));
    case DType::Int8:
      return Element::of(static_cast<int64_t>(readAs<int8_t>(at)));
    case DType::Int16:
      return Element::of(static_cast<int64_t>(readAs<int16_t>(at)));
    case DType::Int32:
      return Element::of(static_cast<int64_t>(readAs<int32_t>(at)));
    case DType::Float16:
      return Element::of(static_cast<double>(halfToFloat(readAs<uint16_t>(at))));
    case DType::BFloat16:
      return Element::of(static_cast<double>(bfloatToFloat(readAs<uint16_t>(at))));
    case DType::Float32:
      return Element::of(static_cast<double>(readAs<float>(at)));
    case DType::Float64:
      return Element::of(readAs<double>(at));
    default:
      return Element::of(readAs<int64_t>(at));
  }
}

void storeElement(std::byte* at, DType dtype, Element e) {
  switch (dtype) {
    case DType::Bool:
      return writeAs(at, static_cast<uint8_t>(e.integer != 0));
    case DType::UInt8:
      return writeAs(at, static_cast<uint8_t>(e.integer));
    case DType::Int8:
      return writeAs(at, static_cast<int8_t>(e.integer));
    case DType::Int16:
      return writeAs(at, static_cast<int16_t>(e.integer));
    case DType::Int32:
      return writeAs(at, static_cast<int32_t>(e.integer));
    case DType::Float16:
      return writeAs(at, floatToHalf(static_cast<float>(e.floating)));
    case DType::BFloat16:
      return writeAs(at, floatToBFloat(static_cast<float>(e.floating)));
    case DType::Float32:
      return writeAs(at, static_cast<float>(e.floating));
    case DType::Float64:
      return writeAs(at, e.floating);
    default:
      return writeAs(at, e.integer);
  }
}

Element castElement(Element e, DType from, DType to) {
  if (isFloatingPoint(from)) {
    if (isFloatingPoint(to)) return Element::of(rounded(e.floating, to));
    if (to == DType::Bool) return Element::of(static_cast<int64_t>(e.floating != 0));
    const bool isWide = to == DType::Int64 || to == DType::UInt8;
    return Element::of(wrapped(isWide ? toInt64(e.floating) : toInt32(e.floating), to));
  }
  if (!isFloatingPoint(to)) return Element::of(wrapped(e.integer, to));
  // Once rounded to f32, not by way of f64.
  if (to == DType::Float64) return Element::of(static_cast<double>(e.integer));
  return Element::of(rounded(static_cast<float>(e.integer), to));
}

Element computeUnary(Op op, DType dtype, Element e) {
  if (isFloatingPoint(dtype)) return Element::of(rounded(unaryFloating(op, e.floating), dtype));
  const int64_t x = e.integer;
  const auto negated = static_cast<int64_t>(0 - static_cast<uint64_t>(x));
  switch (op) {
    case Op::Negate:
      return Element::of(wrapped(negated, dtype));
    case Op::Absolute:
      return Element::of(wrapped(x < 0 ? negated : x, dtype));
    case Op::Sign:
      return Element::of(static_cast<int64_t>(x > 0) - static_cast<int64_t>(x < 0));
    case Op::Not:
      return Element::of(dtype == DType::Bool ? static_cast<int64_t>(x == 0) : wrapped(~x, dtype));
    default:
      return e;
  }
}

Element computeBinary(Op op, DType dtype, Element a, Element b) {
  const bool isFloating = isFloatingPoint(dtype);
  if (isComparison(op))
    return Element::of(
        static_cast<int64_t>(isFloating ? compare(op, a.floating, b.floating) : compare(op, a.integer, b.integer)));
  if (isFloating) return Element::of(rounded(binaryFloating(op, dtype, a.floating, b.floating), dtype));
  return Element::of(wrapped(binaryInteger(op, dtype, a.integer, b.integer), dtype));
}

Element computeUniform(Element seed, Element subsequence, Element block, Element number) {
  const auto bits = [](Element e) { return static_cast<uint64_t>(e.integer); };
  return Element::of(static_cast<double>(
      philoxUniform(bits(seed), bits(subsequence), bits(block), static_cast<unsigned>(bits(number) % 4))));
}

Accumulator::Accumulator(ReduceKind kind, DType dtype) : kind_(kind), dtype_(dtype) {
  const bool isFloating = isFloatingPoint(dtype);
  const double infinity = std::numeric_limits<double>::infinity();
  // What the combination of nothing is. The least and the greatest number of the dtype are among its bounds.
  const auto least = [&]() -> int64_t {
    return dtype == DType::UInt8 || dtype == DType::Bool
               ? 0
               : static_cast<int64_t>(~uint64_t{0} << (dtypeSize(dtype) * 8 - 1));
  };
  switch (kind) {
    case ReduceKind::Sum:
      value_ = isFloating ? Element::of(0.0) : Element::of(int64_t{0});
      break;
    case ReduceKind::Product:
      value_ = isFloating ? Element::of(1.0) : Element::of(int64_t{1});
      break;
    case ReduceKind::Minimum:
      value_ = isFloating              ? Element::of(infinity)
               : dtype == DType::UInt8 ? Element::of(int64_t{255})
               : dtype == DType::Bool  ? Element::of(int64_t{1})
                                       : Element::of(~least());
      break;
    case ReduceKind::Maximum:
      value_ = isFloating ? Element::of(-infinity) : Element::of(least());
      break;
    case ReduceKind::All:
      value_ = Element::of(int64_t{1});
      break;
    default:
      value_ = Element::of(int64_t{0});
  }
}

void Accumulator::add(Element e) {
  const bool isFloating = isFloatingPoint(dtype_);
  switch (kind_) {
    case ReduceKind::Sum:
      // In f64, and rounded in the end.
      value_ = isFloating ? Element::of(value_.floating + e.floating) : computeBinary(Op::Add, dtype_, value_, e);
      break;
    case ReduceKind::Product:
      value_ = computeBinary(Op::Multiply, dtype_, value_, e);
      break;
    case ReduceKind::Minimum:
      value_ = computeBinary(Op::Minimum, dtype_, value_, e);
      break;
    case ReduceKind::Maximum:
      value_ = computeBinary(Op::Maximum, dtype_, value_, e);
      break;
    case ReduceKind::Any:
      value_.integer |= e.integer;
      break;
    case ReduceKind::All:
      value_.integer &= e.integer;
      break;
    case ReduceKind::ArgMinimum:
    case ReduceKind::ArgMaximum: {
      const bool isMinimum = kind_ == ReduceKind::ArgMinimum;
      bool isBetter = count_ == 0;
      if (isFloating && !isBetter)
        isBetter =
            !std::isnan(value_.floating) &&
            (std::isnan(e.floating) || (isMinimum ? e.floating < value_.floating : e.floating > value_.floating));
      else if (!isBetter)
        isBetter = isMinimum ? e.integer < value_.integer : e.integer > value_.integer;
      if (isBetter) {
        value_ = e;
        place_ = count_;
      }
      break;
    }
  }
  ++count_;
}

Element Accumulator::result() const {
  if (isPlace(kind_)) return Element::of(place_);
  if (kind_ == ReduceKind::Sum && isFloatingPoint(dtype_)) return Element::of(rounded(value_.floating, dtype_));
  return value_;
}

}  // namespace graft::loops
