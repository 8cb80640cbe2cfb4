// Type: what is known of a value before the model runs. Tensors carry dtype, shape (with symbolic dimensions) and
// device as far as they are known; the rest mirrors the type grammar of PyTorch's operator schemas.
//
//   Type t = Type::tensor(DType::Float32, {Dim(8), Dim("s0"), Dim(384)});   // prints f32[8,s0,384]
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graft {

enum class DType : uint8_t {
  UInt8,
  Int8,
  Int16,
  Int32,
  Int64,
  UInt16,
  UInt32,
  UInt64,
  Float16,
  BFloat16,
  Float32,
  Float64,
  Float8E4M3,
  Float8E5M2,
  Complex32,
  Complex64,
  Complex128,
  Bool,
  QInt8,
  QUInt8,
  QInt32,
};

/// "float32", as torch spells it.
std::string_view dtypeName(DType);
/// "f32", as the canonical text and drawings spell it.
std::string_view dtypeShort(DType);
/// Accepts both spellings and the aliases half, float, double, int, long, short.
std::optional<DType> parseDType(std::string_view);
/// Bytes of one element.
size_t dtypeSize(DType);
bool isFloatingPoint(DType);

/// One extent of a shape: a number, a symbolic expression ("s0", "2*s0"), or unknown.
struct Dim {
  int64_t size = -1;   ///< -1 where it is symbolic or unknown
  std::string symbol;  ///< empty where it is a number or unknown

  Dim() = default;
  explicit Dim(int64_t n) : size(n) {}
  explicit Dim(std::string s) : symbol(std::move(s)) {}
  bool isStatic() const { return size >= 0; }
  bool isKnown() const { return size >= 0 || !symbol.empty(); }
  bool operator==(const Dim&) const = default;
};

struct TensorInfo {
  std::optional<DType> dtype;
  std::optional<std::vector<Dim>> shape;  ///< absent: rank unknown
  std::string device;                     ///< "cpu", "cuda:0"; empty where unknown

  std::optional<int64_t> rank() const { return shape ? std::optional<int64_t>(shape->size()) : std::nullopt; }
  bool operator==(const TensorInfo&) const = default;
};

struct Type {
  enum class Kind : uint8_t {
    Any,
    Tensor,
    None,
    Bool,
    Int,
    Float,
    Complex,
    Number,
    String,
    DType,
    Layout,
    MemoryFormat,
    Device,
    Generator,
    List,
    Tuple,
    Dict,
    Optional,
    Object,
  };

  Kind kind = Kind::Any;
  TensorInfo tensorInfo;       ///< for Tensor
  std::vector<Type> elements;  ///< List and Optional: one; Dict: key, value; Tuple: its members
  std::string name;            ///< for Object: the class

  Type() = default;
  explicit Type(Kind k) : kind(k) {}
  static Type any() { return Type(Kind::Any); }
  static Type tensor(TensorInfo info = {});
  static Type tensor(DType dtype, std::vector<Dim> shape);
  static Type list(Type element);
  static Type optional(Type element);
  static Type tuple(std::vector<Type> members);
  static Type dict(Type key, Type value);
  static Type object(std::string name);

  bool isTensor() const { return kind == Kind::Tensor; }
  /// The element for List and Optional. Must be one of them.
  const Type& element() const { return elements.front(); }
  bool operator==(const Type&) const = default;
};

/// "f32[8,s0,384]", "tensor", "list[int]", "optional[tensor]", "tuple[int, f32[*]]", "object[Name]".
std::string toString(const Type&);
std::string toString(const TensorInfo&);
/// "[8, s0, 384]" for people, "[?]" where the rank is unknown.
std::string shapeString(const TensorInfo&);

/// A type from its text; nothing where the text is no type. Inverse of toString.
std::optional<Type> parseType(std::string_view text);
/// Parses a type at the front of `text` and removes it from there.
std::optional<Type> consumeType(std::string_view& text);

}  // namespace graft
