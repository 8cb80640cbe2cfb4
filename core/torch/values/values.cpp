#include "core/torch/values/values.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/item.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/QScheme.h>
#include <fmt/format.h>

#include <array>

namespace graft {
namespace {

constexpr std::array<c10::ScalarType, 21> torchDTypes{
    c10::ScalarType::Byte,          c10::ScalarType::Char,          c10::ScalarType::Short,
    c10::ScalarType::Int,           c10::ScalarType::Long,          c10::ScalarType::UInt16,
    c10::ScalarType::UInt32,        c10::ScalarType::UInt64,        c10::ScalarType::Half,
    c10::ScalarType::BFloat16,      c10::ScalarType::Float,         c10::ScalarType::Double,
    c10::ScalarType::Float8_e4m3fn, c10::ScalarType::Float8_e5m2,   c10::ScalarType::ComplexHalf,
    c10::ScalarType::ComplexFloat,  c10::ScalarType::ComplexDouble, c10::ScalarType::Bool,
    c10::ScalarType::QInt8,         c10::ScalarType::QUInt8,        c10::ScalarType::QInt32,
};
static_assert(static_cast<size_t>(DType::QInt32) + 1 == torchDTypes.size());

struct NamedInt {
  std::string_view name;
  int64_t value;
};
constexpr NamedInt layouts[] = {
    {"torch.strided", static_cast<int64_t>(c10::Layout::Strided)},
    {"torch.sparse_coo", static_cast<int64_t>(c10::Layout::Sparse)},
    {"torch.sparse_csr", static_cast<int64_t>(c10::Layout::SparseCsr)},
    {"torch.sparse_csc", static_cast<int64_t>(c10::Layout::SparseCsc)},
    {"torch.sparse_bsr", static_cast<int64_t>(c10::Layout::SparseBsr)},
    {"torch.sparse_bsc", static_cast<int64_t>(c10::Layout::SparseBsc)},
    {"torch._mkldnn", static_cast<int64_t>(c10::Layout::Mkldnn)},
    {"torch.jagged", static_cast<int64_t>(c10::Layout::Jagged)},
};
constexpr NamedInt memoryFormats[] = {
    {"torch.contiguous_format", static_cast<int64_t>(c10::MemoryFormat::Contiguous)},
    {"torch.preserve_format", static_cast<int64_t>(c10::MemoryFormat::Preserve)},
    {"torch.channels_last", static_cast<int64_t>(c10::MemoryFormat::ChannelsLast)},
    {"torch.channels_last_3d", static_cast<int64_t>(c10::MemoryFormat::ChannelsLast3d)},
};
constexpr NamedInt quantizationSchemes[] = {
    {"torch.per_tensor_affine", static_cast<int64_t>(c10::QScheme::PER_TENSOR_AFFINE)},
    {"torch.per_channel_affine", static_cast<int64_t>(c10::QScheme::PER_CHANNEL_AFFINE)},
    {"torch.per_tensor_symmetric", static_cast<int64_t>(c10::QScheme::PER_TENSOR_SYMMETRIC)},
    {"torch.per_channel_symmetric", static_cast<int64_t>(c10::QScheme::PER_CHANNEL_SYMMETRIC)},
    {"torch.per_channel_affine_float_qparams", static_cast<int64_t>(c10::QScheme::PER_CHANNEL_AFFINE_FLOAT_QPARAMS)},
};

std::optional<int64_t> findNamed(std::string_view name) {
  for (const auto& n : layouts)
    if (n.name == name) return n.value;
  for (const auto& n : memoryFormats)
    if (n.name == name) return n.value;
  for (const auto& n : quantizationSchemes)
    if (n.name == name) return n.value;
  return std::nullopt;
}

template <size_t n>
std::optional<Argument> nameOf(const NamedInt (&table)[n], int64_t value) {
  for (const auto& row : table)
    if (row.value == value) return Argument(Named{std::string(row.name)});
  return std::nullopt;
}

Error misfit(const c10::IValue& v, const c10::Type& wanted) {
  return badInput(fmt::format("{} where {} is wanted", describe(v), toString(graftType(wanted))));
}

/// A number out of a tensor with one element, for parameters that take numbers.
Result<c10::IValue> numberOf(const c10::IValue& v, const c10::Type& wanted) {
  if (!v.toTensor().defined() || v.toTensor().numel() != 1) return misfit(v, wanted);
  return c10::IValue(v.toTensor().item());
}

// A file of inputs says nothing of what its dictionaries may hold.
Result<c10::IValue> fitDict(c10::IValue value, const c10::DictType& wanted) {
  if (!value.isGenericDict()) return misfit(value, wanted);
  const auto dict = value.toGenericDict();
  const c10::TypePtr &key = wanted.getKeyType(), &element = wanted.getValueType();
  if (*dict.keyType() == *key && *dict.valueType() == *element) return value;
  c10::impl::GenericDict out(key, element);
  for (const auto& entry : dict) {
    auto k = fit(entry.key(), *key);
    auto v = fit(entry.value(), *element);
    if (!k || !v) return k ? v.error() : k.error();
    out.insert(std::move(*k), std::move(*v));
  }
  return c10::IValue(std::move(out));
}

Result<c10::IValue> fitList(c10::IValue value, const c10::ListType& wanted) {
  const c10::TypePtr& element = wanted.getElementType();
  if (value.isList()) {
    auto list = value.toList();
    if (*list.elementType() == *element) return value;
    c10::impl::GenericList out(element);
    out.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      auto item = fit(list.get(i), *element);
      if (!item) return item.error();
      out.push_back(std::move(*item));
    }
    return c10::IValue(std::move(out));
  }
  c10::impl::GenericList out(element);
  if (value.isTuple()) {
    for (const c10::IValue& member : value.toTupleRef().elements()) {
      auto item = fit(member, *element);
      if (!item) return item.error();
      out.push_back(std::move(*item));
    }
    return c10::IValue(std::move(out));
  }
  // int[2] takes a plain 3, as PyTorch's Python binding does. A tensor is no list.
  if (value.isTensor() || value.isNone() || value.isString()) return misfit(value, wanted);
  auto item = fit(std::move(value), *element);
  if (!item) return item.error();
  out.push_back(std::move(*item));
  return c10::IValue(std::move(out));
}

/// The element type for a list whose user does not say: the members' common type, Any where they differ.
c10::TypePtr commonType(const std::vector<c10::IValue>& items) {
  if (items.empty()) return c10::TensorType::get();
  auto kindOf = [](const c10::IValue& v) -> c10::TypePtr {
    return v.isTensor() ? c10::TypePtr(c10::TensorType::get()) : v.type();
  };
  c10::TypePtr first = kindOf(items.front());
  for (const c10::IValue& v : items)
    if (*kindOf(v) != *first) return c10::AnyType::get();
  return first;
}

Result<std::vector<c10::IValue>> itemValues(const std::vector<Argument>& items, const c10::Type* element,
                                            const ValueLookup& lookup) {
  std::vector<c10::IValue> out;
  out.reserve(items.size());
  for (const Argument& a : items) {
    auto v = toIValue(a, element, lookup);
    if (!v) return v.error();
    out.push_back(std::move(*v));
  }
  return out;
}

const c10::Type* stripOptional(const c10::Type* t) {
  while (t && t->kind() == c10::TypeKind::OptionalType)
    t = static_cast<const c10::OptionalType*>(t)->getElementType().get();
  return t;
}

Result<c10::IValue> listValue(const std::vector<Argument>& items, const c10::Type* wanted, const ValueLookup& lookup) {
  const c10::Type* type = stripOptional(wanted);
  if (type && type->kind() == c10::TypeKind::TupleType) {
    const auto members = type->cast<c10::TupleType>()->elements();
    std::vector<c10::IValue> out;
    for (size_t i = 0; i < items.size(); ++i) {
      auto v = toIValue(items[i], i < members.size() ? members[i].get() : nullptr, lookup);
      if (!v) return v.error();
      out.push_back(std::move(*v));
    }
    return c10::IValue(c10::ivalue::Tuple::create(std::move(out)));
  }
  c10::TypePtr element;
  if (type && type->kind() == c10::TypeKind::ListType)
    element = static_cast<const c10::ListType*>(type)->getElementType();
  else if (type && type->kind() != c10::TypeKind::AnyType && type->kind() != c10::TypeKind::AnyListType)
    return badInput(fmt::format("a list where {} is wanted", toString(graftType(*type))));
  auto values = itemValues(items, element.get(), lookup);
  if (!values) return values.error();
  if (!element) element = commonType(*values);
  c10::impl::GenericList list(element);
  list.reserve(values->size());
  for (c10::IValue& v : *values) list.push_back(std::move(v));
  return c10::IValue(std::move(list));
}

Result<c10::IValue> tupleValue(const std::vector<Argument>& items, const c10::Type* wanted, const ValueLookup& lookup) {
  const c10::Type* type = stripOptional(wanted);
  if (type && (type->kind() == c10::TypeKind::ListType || type->kind() == c10::TypeKind::TupleType))
    return listValue(items, wanted, lookup);
  auto values = itemValues(items, nullptr, lookup);
  if (!values) return values.error();
  return c10::IValue(c10::ivalue::Tuple::create(std::move(*values)));
}

Result<c10::IValue> dictValue(const Argument::Dict& dict, const c10::Type* wanted, const ValueLookup& lookup) {
  const c10::Type* type = stripOptional(wanted);
  c10::TypePtr keyType, valueType;
  if (type && type->kind() == c10::TypeKind::DictType) {
    keyType = static_cast<const c10::DictType*>(type)->getKeyType();
    valueType = static_cast<const c10::DictType*>(type)->getValueType();
  }
  std::vector<c10::IValue> keys, values;
  for (const auto& [k, v] : dict.items) {
    auto key = toIValue(k, keyType.get(), lookup);
    if (!key) return key.error();
    auto value = toIValue(v, valueType.get(), lookup);
    if (!value) return value.error();
    keys.push_back(std::move(*key));
    values.push_back(std::move(*value));
  }
  if (!keyType) {
    keyType = keys.empty() ? c10::TypePtr(c10::StringType::get()) : commonType(keys);
    valueType = commonType(values);
  }
  c10::impl::GenericDict out(keyType, valueType);
  for (size_t i = 0; i < keys.size(); ++i) out.insert(keys[i], values[i]);
  return c10::IValue(out);
}

}  // namespace

TensorSet tensorSet(std::vector<c10::IValue> values) {
  TensorSet set;
  set.impl = std::make_shared<TensorSet::Impl>(TensorSet::Impl{std::move(values), {}});
  return set;
}

const std::vector<c10::IValue>& valuesOf(const TensorSet& set) {
  static const std::vector<c10::IValue> none;
  return set.impl ? set.impl->values : none;
}

c10::ScalarType torchDType(DType d) { return torchDTypes[static_cast<size_t>(d)]; }

std::optional<DType> graftDType(c10::ScalarType s) {
  for (size_t i = 0; i < torchDTypes.size(); ++i)
    if (torchDTypes[i] == s) return static_cast<DType>(i);
  return std::nullopt;
}

c10::OperatorName torchName(std::string_view name) {
  const size_t first = name.find('.');
  if (first == name.npos) return {std::string(name), ""};
  std::string space(name.substr(0, first));
  std::string_view rest = name.substr(first + 1);
  const size_t last = rest.rfind('.');
  std::string overload(last == rest.npos ? "" : rest.substr(last + 1));
  if (overload == "default") overload.clear();
  return {space + "::" + std::string(rest.substr(0, last)), std::move(overload)};
}

std::string graftName(const c10::OperatorName& n) {
  std::string out = n.name;
  const size_t colons = out.find("::");
  if (colons != out.npos) out.replace(colons, 2, ".");
  return out + '.' + (n.overload_name.empty() ? "default" : n.overload_name);
}

c10::TypePtr torchType(const Type& t) {
  switch (t.kind) {
    case Type::Kind::Tensor:
      return c10::TensorType::get();
    case Type::Kind::None:
      return c10::NoneType::get();
    case Type::Kind::Bool:
      return c10::BoolType::get();
    case Type::Kind::Int:
    case Type::Kind::DType:
    case Type::Kind::Layout:
    case Type::Kind::MemoryFormat:
      return c10::IntType::get();
    case Type::Kind::Float:
      return c10::FloatType::get();
    case Type::Kind::Complex:
      return c10::ComplexType::get();
    case Type::Kind::Number:
      return c10::NumberType::get();
    case Type::Kind::String:
      return c10::StringType::get();
    case Type::Kind::Device:
      return c10::DeviceObjType::get();
    case Type::Kind::Generator:
      return c10::GeneratorType::get();
    case Type::Kind::List:
      return c10::ListType::create(torchType(t.element()));
    case Type::Kind::Optional:
      return c10::OptionalType::create(torchType(t.element()));
    case Type::Kind::Dict:
      return c10::DictType::create(torchType(t.elements[0]), torchType(t.elements[1]));
    case Type::Kind::Tuple: {
      std::vector<c10::TypePtr> members;
      for (const Type& m : t.elements) members.push_back(torchType(m));
      return c10::TupleType::create(std::move(members));
    }
    case Type::Kind::Any:
    case Type::Kind::Object:
      return c10::AnyType::get();
  }
  return c10::AnyType::get();
}

Type graftType(const c10::Type& t) {
  switch (t.kind()) {
    case c10::TypeKind::TensorType: {
      TensorInfo info;
      const auto& tensor = static_cast<const c10::TensorType&>(t);
      if (tensor.scalarType()) info.dtype = graftDType(*tensor.scalarType());
      if (tensor.device()) info.device = tensor.device()->str();
      if (const auto rank = tensor.sizes().size()) {
        info.shape.emplace();
        for (size_t i = 0; i < *rank; ++i) {
          const auto extent = tensor.sizes()[i];
          info.shape->push_back(extent ? Dim(static_cast<int64_t>(*extent)) : Dim());
        }
      }
      return Type::tensor(std::move(info));
    }
    case c10::TypeKind::NoneType:
      return Type(Type::Kind::None);
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType:
      return Type(Type::Kind::Bool);
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return Type(Type::Kind::Int);
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
      return Type(Type::Kind::Float);
    case c10::TypeKind::ComplexType:
      return Type(Type::Kind::Complex);
    case c10::TypeKind::NumberType:
      return Type(Type::Kind::Number);
    case c10::TypeKind::StringType:
      return Type(Type::Kind::String);
    case c10::TypeKind::ScalarTypeType:
      return Type(Type::Kind::DType);
    case c10::TypeKind::LayoutType:
      return Type(Type::Kind::Layout);
    case c10::TypeKind::MemoryFormatType:
      return Type(Type::Kind::MemoryFormat);
    case c10::TypeKind::DeviceObjType:
      return Type(Type::Kind::Device);
    case c10::TypeKind::GeneratorType:
      return Type(Type::Kind::Generator);
    case c10::TypeKind::ListType:
      return Type::list(graftType(*static_cast<const c10::ListType&>(t).getElementType()));
    case c10::TypeKind::OptionalType:
      return Type::optional(graftType(*static_cast<const c10::OptionalType&>(t).getElementType()));
    case c10::TypeKind::DictType: {
      const auto& dict = static_cast<const c10::DictType&>(t);
      return Type::dict(graftType(*dict.getKeyType()), graftType(*dict.getValueType()));
    }
    case c10::TypeKind::TupleType: {
      std::vector<Type> members;
      for (const auto& m : static_cast<const c10::TupleType&>(t).elements()) members.push_back(graftType(*m));
      return Type::tuple(std::move(members));
    }
    case c10::TypeKind::ClassType: {
      const auto& name = static_cast<const c10::NamedType&>(t).name();
      return Type::object(name ? name->qualifiedName() : std::string());
    }
    default:
      return Type::any();
  }
}

Type typeOfValue(const c10::IValue& v) {
  if (v.isTensor()) {
    const at::Tensor& t = v.toTensor();
    TensorInfo info;
    if (!t.defined()) return Type::tensor();
    info.dtype = graftDType(t.scalar_type());
    info.device = t.device().str();
    if (t.is_nested()) return Type::tensor(std::move(info));  // its parts have sizes, it has none
    info.shape.emplace();
    for (int64_t n : t.sizes()) info.shape->push_back(Dim(n));
    return Type::tensor(std::move(info));
  }
  if (v.isTuple()) {
    std::vector<Type> members;
    for (const c10::IValue& m : v.toTupleRef().elements()) members.push_back(typeOfValue(m));
    return Type::tuple(std::move(members));
  }
  if (v.isList()) {
    const auto list = v.toList();
    if (list.elementType()->kind() == c10::TypeKind::TensorType && !list.empty()) {
      const Type first = typeOfValue(list.get(0));
      for (size_t i = 1; i < list.size(); ++i)
        if (!(typeOfValue(list.get(i)) == first)) return Type::list(Type::tensor());
      return Type::list(first);
    }
    return Type::list(graftType(*list.elementType()));
  }
  if (v.isGenericDict()) {
    const auto dict = v.toGenericDict();
    return Type::dict(graftType(*dict.keyType()), graftType(*dict.valueType()));
  }
  return graftType(*v.type());
}

std::string describe(const c10::IValue& v) {
  auto join = [](const auto& items, const char* open, const char* close) {
    std::string out = open;
    bool first = true;
    for (const c10::IValue& i : items) {
      if (!first) out += ", ";
      first = false;
      out += describe(i);
    }
    return out + close;
  };
  if (v.isTensor()) {
    if (!v.toTensor().defined()) return "an undefined tensor";
    Type t = typeOfValue(v);
    if (t.tensorInfo.device == "cpu") t.tensorInfo.device.clear();
    return toString(t);
  }
  if (v.isNone()) return "None";
  if (v.isBool()) return v.toBool() ? "True" : "False";
  if (v.isInt()) return fmt::format("{}", v.toInt());
  if (v.isDouble()) return fmt::format("{}", v.toDouble());
  if (v.isString()) return fmt::format("'{}'", v.toStringRef().substr(0, 60));
  if (v.isTuple()) return join(v.toTupleRef().elements(), "(", ")");
  if (v.isList()) {
    const auto list = v.toList();
    return join(std::vector<c10::IValue>(list.begin(), list.end()), "[", "]");
  }
  if (v.isGenericDict()) {
    std::string out = "{";
    for (const auto& entry : v.toGenericDict())
      out += (out.size() > 1 ? ", " : "") + describe(entry.key()) + ": " + describe(entry.value());
    return out + "}";
  }
  return toString(graftType(*v.type()));
}

Result<c10::IValue> fit(c10::IValue value, const c10::Type& wanted) {
  if (wanted.hasFreeVariables()) return value;  // len(t[]): any element will do
  switch (wanted.kind()) {
    case c10::TypeKind::OptionalType:
      if (value.isNone()) return value;
      return fit(std::move(value), *static_cast<const c10::OptionalType&>(wanted).getElementType());
    case c10::TypeKind::TensorType:
      if (value.isTensor()) return value;
      if (value.isScalar()) return c10::IValue(at::native::wrapped_scalar_tensor(value.toScalar()));
      return misfit(value, wanted);
    case c10::TypeKind::NumberType:
      if (value.isTensor()) return numberOf(value, wanted);
      return value.isScalar() ? Result<c10::IValue>(std::move(value)) : misfit(value, wanted);
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType: {
      if (value.isDouble()) return value;
      if (value.isInt()) return c10::IValue(static_cast<double>(value.toInt()));
      if (value.isBool()) return c10::IValue(value.toBool() ? 1.0 : 0.0);
      if (!value.isTensor()) return misfit(value, wanted);
      auto n = numberOf(value, wanted);
      return n ? Result<c10::IValue>(c10::IValue(n->toScalar().toDouble())) : n;
    }
    case c10::TypeKind::ComplexType:
      return value.isScalar() ? Result<c10::IValue>(c10::IValue(value.toScalar().toComplexDouble()))
                              : misfit(value, wanted);
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType: {
      if (value.isInt() || value.isSymInt()) return value;
      if (value.isBool()) return c10::IValue(int64_t{value.toBool()});
      if (!value.isTensor()) return misfit(value, wanted);
      auto n = numberOf(value, wanted);
      return n ? Result<c10::IValue>(c10::IValue(n->toScalar().toLong())) : n;
    }
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType: {
      if (value.isBool()) return value;
      if (value.isInt()) return c10::IValue(value.toInt() != 0);
      if (!value.isTensor()) return misfit(value, wanted);
      auto n = numberOf(value, wanted);
      return n ? Result<c10::IValue>(c10::IValue(n->toScalar().toBool())) : n;
    }
    case c10::TypeKind::ListType:
      return fitList(std::move(value), static_cast<const c10::ListType&>(wanted));
    case c10::TypeKind::DictType:
      return fitDict(std::move(value), static_cast<const c10::DictType&>(wanted));
    case c10::TypeKind::StringType:
      return value.isString() ? Result<c10::IValue>(std::move(value)) : misfit(value, wanted);
    case c10::TypeKind::DeviceObjType:
      if (value.isString()) return c10::IValue(c10::Device(value.toStringRef()));
      return value.isDevice() ? Result<c10::IValue>(std::move(value)) : misfit(value, wanted);
    default:
      return value;
  }
}

Result<c10::IValue> toIValue(const Argument& a, const c10::Type* wanted, const ValueLookup& lookup) {
  if (wanted && wanted->hasFreeVariables()) wanted = nullptr;
  try {
    if (const auto* items = a.as<Argument::List>()) return listValue(items->items, wanted, lookup);
    if (const auto* items = a.as<Argument::Tuple>()) return tupleValue(items->items, wanted, lookup);
    if (const auto* dict = a.as<Argument::Dict>()) return dictValue(*dict, wanted, lookup);
    c10::IValue v;
    if (const auto* id = a.as<ValueId>()) {
      const c10::IValue* found = lookup ? lookup(*id) : nullptr;
      if (!found) return badInput("a value that is not computed here");
      v = *found;
    } else if (const auto* b = a.as<bool>()) {
      v = *b;
    } else if (const auto* i = a.as<int64_t>()) {
      v = *i;
    } else if (const auto* d = a.as<double>()) {
      v = *d;
    } else if (const auto* c = a.as<std::complex<double>>()) {
      v = c10::complex<double>(c->real(), c->imag());
    } else if (const auto* s = a.as<std::string>()) {
      v = *s;
    } else if (const auto* t = a.as<DType>()) {
      v = static_cast<int64_t>(torchDType(*t));
    } else if (const auto* dev = a.as<DeviceName>()) {
      v = c10::Device(dev->name);
    } else if (const auto* n = a.as<Named>()) {
      const auto known = findNamed(n->name);
      if (!known) return badInput(fmt::format("'{}' has no value that operators take", n->name));
      v = *known;
    } else if (const auto* sym = a.as<SymbolicInt>()) {
      return badInput(fmt::format("the symbolic size '{}' is computed by no node", sym->expression));
    } else if (!a.isNone()) {
      return badInput("slices and '...' are no arguments of operators; the importer should have resolved them");
    }
    return wanted ? fit(std::move(v), *wanted) : Result<c10::IValue>(std::move(v));
  } catch (const std::exception& e) {
    return badInput(shortMessage(e));
  }
}

Result<c10::IValue> argumentValue(const Node& n, size_t i, const c10::FunctionSchema& schema,
                                  const ValueLookup& lookup) {
  const c10::Type* wanted = i < schema.arguments().size() ? schema.arguments()[i].type().get() : nullptr;
  if (wanted && n.op->is(OperatorFact::AbsentTensors) && wanted->kind() == c10::TypeKind::TensorType) {
    auto v = toIValue(n.args[i], nullptr, lookup);
    if (v && v->isNone()) return c10::IValue(at::Tensor());
  }
  return toIValue(n.args[i], wanted, lookup);
}

std::optional<Argument> toArgument(const c10::IValue& v, const c10::Type* declared) {
  declared = stripOptional(declared);
  if (v.isNone()) return Argument::none();
  if (v.isBool()) return Argument(v.toBool());
  if (v.isInt()) {
    const int64_t i = v.toInt();
    if (!declared) return Argument(i);
    if (declared->kind() == c10::TypeKind::ScalarTypeType) {
      if (i < 0 || i >= static_cast<int64_t>(c10::ScalarType::NumOptions)) return std::nullopt;
      const auto d = graftDType(static_cast<c10::ScalarType>(i));
      return d ? std::optional<Argument>(Argument(*d)) : std::nullopt;
    }
    if (declared->kind() == c10::TypeKind::LayoutType) return nameOf(layouts, i);
    if (declared->kind() == c10::TypeKind::MemoryFormatType) return nameOf(memoryFormats, i);
    if (declared->kind() == c10::TypeKind::QSchemeType) return nameOf(quantizationSchemes, i);
    return Argument(i);
  }
  if (v.isDouble()) return Argument(v.toDouble());
  if (v.isComplexDouble()) {
    const auto c = v.toComplexDouble();
    return Argument(std::complex<double>(c.real(), c.imag()));
  }
  if (v.isString()) return Argument(v.toStringRef());
  if (v.isDevice()) return Argument(DeviceName{v.toDevice().str()});
  std::vector<Argument> items;
  if (v.isTuple()) {
    for (const c10::IValue& m : v.toTupleRef().elements()) {
      auto a = toArgument(m);
      if (!a) return std::nullopt;
      items.push_back(std::move(*a));
    }
    return Argument::tuple(std::move(items));
  }
  if (v.isList()) {
    const c10::Type* element = declared && declared->kind() == c10::TypeKind::ListType
                                   ? static_cast<const c10::ListType*>(declared)->getElementType().get()
                                   : nullptr;
    const auto list = v.toList();
    for (size_t i = 0; i < list.size(); ++i) {
      auto a = toArgument(list.get(i), element);
      if (!a) return std::nullopt;
      items.push_back(std::move(*a));
    }
    return Argument::list(std::move(items));
  }
  if (v.isGenericDict()) {
    std::vector<std::pair<Argument, Argument>> entries;
    for (const auto& e : v.toGenericDict()) {
      auto key = toArgument(e.key());
      auto value = toArgument(e.value());
      if (!key || !value) return std::nullopt;
      entries.emplace_back(std::move(*key), std::move(*value));
    }
    return Argument::dict(std::move(entries));
  }
  return std::nullopt;
}

std::string shortMessage(const std::exception& e) {
  const auto* torch = dynamic_cast<const c10::Error*>(&e);
  std::string text = torch ? torch->what_without_backtrace() : e.what();
  // TorchScript's errors end with a trace of the interpreter that says nothing about the model.
  for (const char* tail :
       {"\nException raised from", "\nThe above operation failed in interpreter", "\n  C++ CapturedTraceback"})
    if (const size_t at = text.find(tail); at != text.npos) text.resize(at);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text.substr(0, 2000);
}

}  // namespace graft
