// Further inputs for proofs, made from given ones: what a model or a part of it may meet and one example does not show.
//
// Private to core/torch.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/torch/tensors.h"

namespace graft {

struct InputSet {
  std::string what;  ///< "random values", for messages
  std::function<TensorSet()> make;
  /// Where the original makes NaN of these, nothing is asked: what an attention that sees nothing computes is open.
  bool whereDefined = false;
  /// A difference on these is told and decides nothing: what a mask hides may be NaN for one side and not the other.
  bool onlyTold = false;
};

/// For a whole model. The given set must outlive the result.
std::vector<InputSet> furtherInputs(const TensorSet& given);
/// For a part of a model, whose inputs may be anything that its operators take: edge values too.
std::vector<InputSet> furtherPartInputs(const TensorSet& given);

}  // namespace graft
