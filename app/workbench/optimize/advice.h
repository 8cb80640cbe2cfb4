// Advice: what a user can do about a model that no shipped recipe makes faster.
//
//   for (const std::string& line : adviceFor(model, &inputs, options, *shipped, semantics, job)) print(line);
#pragma once

#include <string>
#include <vector>

#include "core/formats/model.h"
#include "core/torch/executor.h"
#include "matcher/rule/pattern.h"

namespace graft::workbench {

/// Sentences: which operators the model's time goes into, which shipped rule comes nearest and what is in its way, and
/// the commands that go on from there. Without inputs the model is not run, and nothing is said of time.
std::vector<std::string> adviceFor(const Model&, const TensorSet* inputs, const RunOptions&,
                                   const std::vector<RuleFile>& shipped, const OperatorSet&, const Job& = {});

}  // namespace graft::workbench
