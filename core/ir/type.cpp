#include "core/ir/type.h"

#include <array>
#include <cctype>
#include <charconv>

namespace graft {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name, shortName;
  size_t size;
};

constexpr std::array<DTypeRow, 21> rows{{
    {DType::UInt8, "uint8", "u8", 1},
    {DType::Int8, "int8", "i8", 1},
    {DType::Int16, "int16", "i16", 2},
    {DType::Int32, "int32", "i32", 4},
    {DType::Int64, "int64", "i64", 8},
    {DType::UInt16, "uint16", "u16", 2},
    {DType::UInt32, "uint32", "u32", 4},
    {DType::UInt64, "uint64", "u64", 8},
    {DType::Float16, "float16", "f16", 2},
    {DType::BFloat16, "bfloat16", "bf16", 2},
    {DType::Float32, "float32", "f32", 4},
    {DType::Float64, "float64", "f64", 8},
    {DType::Float8E4M3, "float8_e4m3fn", "f8e4m3", 1},
    {DType::Float8E5M2, "float8_e5m2", "f8e5m2", 1},
    {DType::Complex32, "complex32", "c32", 4},
    {DType::Complex64, "complex64", "c64", 8},
    {DType::Complex128, "complex128", "c128", 16},
    {DType::Bool, "bool", "b8", 1},
    {DType::QInt8, "qint8", "q8", 1},
    {DType::QUInt8, "quint8", "qu8", 1},
    {DType::QInt32, "qint32", "q32", 4},
}};

const DTypeRow& row(DType d) { return rows[static_cast<size_t>(d)]; }

struct PlainKind {
  std::string_view text;
  Type::Kind kind;
};
constexpr std::array<PlainKind, 14> plainKinds{{
    {"any", Type::Kind::Any},
    {"tensor", Type::Kind::Tensor},
    {"none", Type::Kind::None},
    {"bool", Type::Kind::Bool},
    {"int", Type::Kind::Int},
    {"float", Type::Kind::Float},
    {"complex", Type::Kind::Complex},
    {"number", Type::Kind::Number},
    {"str", Type::Kind::String},
    {"dtype", Type::Kind::DType},
    {"layout", Type::Kind::Layout},
    {"memory_format", Type::Kind::MemoryFormat},
    {"device", Type::Kind::Device},
    {"generator", Type::Kind::Generator},
}};

void skipSpace(std::string_view& t) {
  while (!t.empty() && t.front() == ' ') t.remove_prefix(1);
}

bool consume(std::string_view& t, char c) {
  skipSpace(t);
  if (t.empty() || t.front() != c) return false;
  t.remove_prefix(1);
  return true;
}

std::string_view consumeWord(std::string_view& t) {
  skipSpace(t);
  size_t n = 0;
  while (n < t.size() && (std::isalnum(static_cast<unsigned char>(t[n])) || t[n] == '_')) ++n;
  std::string_view w = t.substr(0, n);
  t.remove_prefix(n);
  return w;
}

std::string dimString(const Dim& d) {
  if (d.isStatic()) return std::to_string(d.size);
  return d.symbol.empty() ? "?" : d.symbol;
}

// A dimension's text reaches to the next comma or bracket outside parentheses.
std::string_view consumeDimText(std::string_view& t) {
  skipSpace(t);
  int depth = 0;
  size_t n = 0;
  for (; n < t.size(); ++n) {
    if (t[n] == '(') ++depth;
    if (t[n] == ')') --depth;
    if (depth == 0 && (t[n] == ',' || t[n] == ']')) break;
  }
  std::string_view w = t.substr(0, n);
  t.remove_prefix(n);
  while (!w.empty() && w.back() == ' ') w.remove_suffix(1);
  return w;
}

bool consumeTensorTail(std::string_view& t, TensorInfo& info) {
  // No space before [ and @: what follows a type on its line may begin with them.
  if (!t.empty() && t.front() == '[') {
    t.remove_prefix(1);
    skipSpace(t);
    if (consume(t, '*')) {
      if (!consume(t, ']')) return false;
    } else {
      info.shape.emplace();
      if (!consume(t, ']')) {
        do {
          const std::string_view d = consumeDimText(t);
          if (d.empty()) return false;
          int64_t n = 0;
          const auto [end, error] = std::from_chars(d.data(), d.data() + d.size(), n);
          if (error == std::errc() && end == d.data() + d.size()) {
            if (n < 0) return false;
            info.shape->push_back(Dim(n));
          } else {
            info.shape->push_back(d == "?" ? Dim() : Dim(std::string(d)));
          }
        } while (consume(t, ','));
        if (!consume(t, ']')) return false;
      }
    }
  }
  if (!t.empty() && t.front() == '@') {
    t.remove_prefix(1);
    size_t n = 0;
    while (n < t.size() && (std::isalnum(static_cast<unsigned char>(t[n])) || t[n] == ':')) ++n;
    if (n == 0) return false;
    info.device = std::string(t.substr(0, n));
    t.remove_prefix(n);
  }
  return true;
}

std::optional<Type> consumeNested(std::string_view& t, int depth);

std::optional<Type> consumeMembers(std::string_view& t, Type::Kind kind, size_t least, size_t most, int depth) {
  if (!consume(t, '[')) return std::nullopt;
  Type out(kind);
  if (!consume(t, ']')) {
    do {
      auto member = consumeNested(t, depth + 1);
      if (!member) return std::nullopt;
      out.elements.push_back(std::move(*member));
    } while (consume(t, ','));
    if (!consume(t, ']')) return std::nullopt;
  }
  if (out.elements.size() < least || out.elements.size() > most) return std::nullopt;
  return out;
}

std::optional<Type> consumeNested(std::string_view& t, int depth) {
  if (depth > 64) return std::nullopt;  // deeper is no type but an attack on the stack
  const std::string_view word = consumeWord(t);
  if (word.empty()) return std::nullopt;
  if (word == "list") return consumeMembers(t, Type::Kind::List, 1, 1, depth);
  if (word == "optional") return consumeMembers(t, Type::Kind::Optional, 1, 1, depth);
  if (word == "dict") return consumeMembers(t, Type::Kind::Dict, 2, 2, depth);
  if (word == "tuple") return consumeMembers(t, Type::Kind::Tuple, 0, SIZE_MAX, depth);
  if (word == "object") {
    if (!consume(t, '[')) return std::nullopt;
    const size_t end = t.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    Type out = Type::object(std::string(t.substr(0, end)));
    t.remove_prefix(end + 1);
    return out;
  }
  if (word == "tensor") {
    Type out = Type::tensor();
    if (!consumeTensorTail(t, out.tensorInfo)) return std::nullopt;
    return out;
  }
  for (const PlainKind& p : plainKinds)
    if (p.text == word) return Type(p.kind);
  for (const DTypeRow& r : rows) {
    if (r.shortName != word) continue;
    Type out = Type::tensor();
    out.tensorInfo.dtype = r.dtype;
    if (!consumeTensorTail(t, out.tensorInfo)) return std::nullopt;
    return out;
  }
  return std::nullopt;
}

}  // namespace

std::string_view dtypeName(DType d) { return row(d).name; }
std::string_view dtypeShort(DType d) { return row(d).shortName; }
size_t dtypeSize(DType d) { return row(d).size; }

bool isFloatingPoint(DType d) {
  return d == DType::Float16 || d == DType::BFloat16 || d == DType::Float32 || d == DType::Float64 ||
         d == DType::Float8E4M3 || d == DType::Float8E5M2;
}

std::optional<DType> parseDType(std::string_view text) {
  for (const DTypeRow& r : rows)
    if (r.name == text || r.shortName == text) return r.dtype;
  if (text == "half") return DType::Float16;
  if (text == "float") return DType::Float32;
  if (text == "double") return DType::Float64;
  if (text == "short") return DType::Int16;
  if (text == "int") return DType::Int32;
  if (text == "long") return DType::Int64;
  if (text == "cfloat") return DType::Complex64;
  if (text == "cdouble") return DType::Complex128;
  return std::nullopt;
}

Type Type::tensor(TensorInfo info) {
  Type t(Kind::Tensor);
  t.tensorInfo = std::move(info);
  return t;
}
Type Type::tensor(DType dtype, std::vector<Dim> shape) { return tensor(TensorInfo{dtype, std::move(shape), ""}); }
Type Type::list(Type element) {
  Type t(Kind::List);
  t.elements.push_back(std::move(element));
  return t;
}
Type Type::optional(Type element) {
  Type t(Kind::Optional);
  t.elements.push_back(std::move(element));
  return t;
}
Type Type::tuple(std::vector<Type> members) {
  Type t(Kind::Tuple);
  t.elements = std::move(members);
  return t;
}
Type Type::dict(Type key, Type value) {
  Type t(Kind::Dict);
  t.elements.push_back(std::move(key));
  t.elements.push_back(std::move(value));
  return t;
}
Type Type::object(std::string name) {
  Type t(Kind::Object);
  t.name = std::move(name);
  return t;
}

std::string toString(const TensorInfo& info) {
  std::string out(info.dtype ? dtypeShort(*info.dtype) : "tensor");
  if (info.shape) {
    out += "[";
    for (size_t i = 0; i < info.shape->size(); ++i) out += (i ? "," : "") + dimString((*info.shape)[i]);
    out += "]";
  } else if (info.dtype) {
    out += "[*]";
  }
  if (!info.device.empty()) out += "@" + info.device;
  return out;
}

std::string shapeString(const TensorInfo& info) {
  if (!info.shape) return "[?]";
  std::string out = "[";
  for (size_t i = 0; i < info.shape->size(); ++i) out += (i ? ", " : "") + dimString((*info.shape)[i]);
  return out + "]";
}

std::string toString(const Type& t) {
  const auto members = [&](std::string_view head) {
    std::string out = std::string(head) + "[";
    for (size_t i = 0; i < t.elements.size(); ++i) out += (i ? ", " : "") + toString(t.elements[i]);
    return out + "]";
  };
  switch (t.kind) {
    case Type::Kind::Tensor:
      return toString(t.tensorInfo);
    case Type::Kind::List:
      return members("list");
    case Type::Kind::Optional:
      return members("optional");
    case Type::Kind::Dict:
      return members("dict");
    case Type::Kind::Tuple:
      return members("tuple");
    case Type::Kind::Object:
      return "object[" + t.name + "]";
    default:
      break;
  }
  for (const PlainKind& p : plainKinds)
    if (p.kind == t.kind) return std::string(p.text);
  return "any";
}

std::optional<Type> consumeType(std::string_view& text) { return consumeNested(text, 0); }

std::optional<Type> parseType(std::string_view text) {
  auto t = consumeType(text);
  skipSpace(text);
  return text.empty() ? t : std::nullopt;
}

}  // namespace graft
