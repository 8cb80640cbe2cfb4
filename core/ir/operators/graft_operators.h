// The graft:: operators as kernels/ops/*.cpp describe themselves. The build copies each OperatorInfo from there, so
// that rules can be written, and schemas read, where the operator library is not loaded. LibTorch is not needed.
//
//   for (const GraftOperator& op : graftOperators()) parseSchema("graft::" + std::string(op.schema));
#pragma once

#include <span>
#include <string_view>

namespace graft {

/// The fields of kernels/ops/operator.h's OperatorInfo.
struct GraftOperator {
  std::string_view name;        ///< "linear"
  std::string_view schema;      ///< "linear(Tensor x, Tensor weight, …) -> Tensor"
  std::string_view doc;         ///< one paragraph
  std::string_view needs;       ///< what its fast version asks for
  std::string_view facts = {};  ///< words that kernels/ops/operator.h lists; may be empty
};

/// In the order of their names.
std::span<const GraftOperator> graftOperators();

}  // namespace graft
