// RewriteCheck by numbers. It runs the nodes of a match and their replacement side by side, on the values that reach
// them while the model runs on the given inputs, and on others made from these: random ones, ten times as large, zeros
// of both signs, NaN and infinities, the smallest numbers, other strides, masks that hide all or nothing. Where sizes
// are symbols it tries other sizes too: 1, odd ones, 0. It compares each element with the original in fp64
// (compareElements). A traced model's file does not say which sizes may differ; there it tries those that the model
// accepts.
//
//   auto check = makeRewriteCheck(inputs, job);
//   runRecipe(graph, file, recipe, semantics, {.check = check.get()});
//
// The model's own values are tried at every place. The further ones are tried once for each distinct structure (same
// operators, literals, shapes and dtypes): equal calculations on other weights, which the first set tells apart.
#pragma once

#include <memory>

#include "core/base/progress.h"
#include "core/ir/rewrite_check.h"
#include "core/torch/tensors.h"

namespace graft {

/// Checks on the device that the inputs are on. `failingInputs`: a folder; what broke a rewrite is written there as
/// RULE-OUTPUT.pt, a list of tensors as torch.load reads it, and RewriteVerification::why says so. Empty: nowhere.
/// `sizesAreOpen`: the model's file says nothing of sizes (declaresSizes), so the graph's are those of one example.
/// Then the model is run on inputs of other sizes too. What it accepts is tried on the rewrite: one that computes
/// something else there fails; one that refuses them stands for the example's sizes alone, which `why` tells.
/// `furtherSeconds`: after so many, all places together, no further inputs are tried on any; `why` tells that.
std::unique_ptr<RewriteCheck> makeRewriteCheck(TensorSet inputs, const Job& = {}, std::string failingInputs = {},
                                               bool sizesAreOpen = false, double furtherSeconds = 20);

}  // namespace graft
