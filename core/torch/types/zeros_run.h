// What an operator makes that has no kernel for meta tensors (_int_mm, histc): a run on zeros tells, or one on ones
// where it refuses zeros. Only for operators whose results' sizes do not depend on the numbers.
//
//   std::vector<c10::IValue> results;
//   if (runOnZeros(*n.op, *operation, stack, results) == ZerosRun::Done) …      // meta tensors again
//
// Private to core/torch: includes LibTorch.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

#include "core/ir/operator.h"

namespace torch::jit {
struct Operator;
}

namespace graft {

enum class ZerosRun { Done, Refused, None };
/// `arguments`: as the operator takes them, tensors of the device "meta". None where it may not be run, or where its
/// arguments are large; Refused, with `why`, where it does not take them.
ZerosRun runOnZeros(const Operator&, const torch::jit::Operator&, const std::vector<c10::IValue>& arguments,
                    std::vector<c10::IValue>& results, std::string& why);

}  // namespace graft
