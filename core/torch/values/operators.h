// TorchOperators: LibTorch's operators as graft sees them, made from its schemas when they are asked for. Besides those
// of the dispatcher and of TorchScript it knows the structural ones: prim.If, prim.Loop, prim.getitem and a few more.
//
//   TorchOperators ops;  ops.find("aten.softmax.int")->random == false
#pragma once

#include <ATen/core/function_schema.h>

#include <memory>

#include "core/ir/operator.h"

namespace torch::jit {
struct Operator;
}

namespace graft {

class TorchOperators : public OperatorSet {
 protected:
  std::vector<OperatorRef> load(std::string_view packet) const override;
};

/// An operator of a library that this machine does not have, as far as its name tells: "my_ops.fancy.default".
/// Functions of the user's Python, and calls that do not fit their operator, are none.
bool isForeign(const Operator&);

/// The operator as TorchScript has it: it has some that the dispatcher has not, such as aten::to.prim_other. Null where
/// there is none.
std::shared_ptr<torch::jit::Operator> findScriptOperator(const c10::OperatorName&);

/// The operator of a schema as LibTorch holds it.
OperatorRef operatorOf(const c10::FunctionSchema&);

/// Throws std::runtime_error where the operator would end the process: TorchScript's remainder of whole numbers divides
/// by zero. `arguments` end with those of the call.
void checkCall(const c10::FunctionSchema&, const std::vector<c10::IValue>& arguments);

}  // namespace graft
