// Values: how arguments, types and dtypes of a graph look in LibTorch, and back. The one place that knows both
// spellings.
//
//   auto iv = toIValue(Argument::ints({2, 3}), *schemaArgument.type());      // an IValue holding List[int]
//   auto t = fit(c10::IValue(2), *c10::TensorType::get());                   // a 0-dim tensor that does not promote
//   dtypes
//
// Private to core/torch: includes LibTorch.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/operator_name.h>

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/ir/argument.h"
#include "core/ir/graph.h"
#include "core/torch/tensors.h"

namespace graft {

struct TensorSet::Impl {
  std::vector<c10::IValue> values;
  std::vector<std::string> names;  ///< of the entries, where they came as a dict
};
TensorSet tensorSet(std::vector<c10::IValue> values);
/// The values; none for a set that was never filled.
const std::vector<c10::IValue>& valuesOf(const TensorSet&);

c10::ScalarType torchDType(DType);
/// Nothing for the few dtypes that graphs do not know (quantised sub-byte ones, bits).
std::optional<DType> graftDType(c10::ScalarType);

/// "aten.softmax.int" is aten::softmax.int, the overload "default" is PyTorch's empty one.
c10::OperatorName torchName(std::string_view graftName);
std::string graftName(const c10::OperatorName&);

/// The graph's type in TorchScript's type system. Objects become Any.
c10::TypePtr torchType(const Type&);
/// A declared type (of a schema, of TorchScript) as the graph says it; SymInt is Int, ScalarType is DType.
Type graftType(const c10::Type&);
/// What a value is: dtype, sizes and device of tensors, members of tuples. Lists of tensors give their common element
/// type.
Type typeOfValue(const c10::IValue&);
/// "f32[2,9]", "[f32[2], i64[]]", "3", for messages.
std::string describe(const c10::IValue&);

/// What the graph's values are, by id, where an argument names one.
using ValueLookup = std::function<const c10::IValue*(ValueId)>;

/// The argument as a value of the wanted type (null: as it is). dtypes, layouts and memory formats become ints, as
/// schemas want. Errors name what does not fit. Names of values are asked from `lookup`.
Result<c10::IValue> toIValue(const Argument&, const c10::Type* wanted, const ValueLookup& lookup = {});
/// The same of a node's argument `i`, for its operator's parameter: an undefined tensor where the operator takes None
/// for a tensor (OperatorFact::AbsentTensors).
Result<c10::IValue> argumentValue(const Node&, size_t i, const c10::FunctionSchema&, const ValueLookup& lookup = {});
/// The conversions that PyTorch's own front ends make: number to 0-dim wrapped tensor, 0-dim tensor to number, int to
/// float, list elements likewise, Tensor[] to Tensor?[], tuple to list, an int where int[] is wanted. Lists keep their
/// identity where nothing has to change.
Result<c10::IValue> fit(c10::IValue value, const c10::Type& wanted);
/// The literal that a value is: numbers, strings, lists, dicts; dtype, layout, memory format where `declared` (a
/// schema's real_type()) says that the int is one. Nothing for tensors and objects.
std::optional<Argument> toArgument(const c10::IValue&, const c10::Type* declared = nullptr);

/// The first lines of an exception without C++ backtraces: what a person can use.
std::string shortMessage(const std::exception&);

}  // namespace graft
