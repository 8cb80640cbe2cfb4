// RewriteCheck by numbers: runs what a match covers and what is to take its place side by side, on the values that flow
// in while the model runs on the given inputs, and on further ones made from them: random, ten times as large, zeros of
// both signs, NaN and infinities, the smallest numbers, other strides, whole masks; where sizes are symbols, other
// sizes: 1, odd ones, none at all. Each element is judged against the
// original in fp64 (compareElements). Of traced models, whose files say nothing of sizes, those that the model accepts.
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
std::unique_ptr<RewriteCheck> makeRewriteCheck(TensorSet inputs, const Job& = {}, std::string failingInputs = {},
                                               bool sizesAreOpen = false);

}  // namespace graft
