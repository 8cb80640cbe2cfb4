// The verification of a recipe's rewrites as text. What failed in one way at many places is one line with a count.
//
//   for (const std::string& line : takenBackLines(step, false)) console.warn(line);
//   // "Bias: 36 rewrites taken back: they compute something else on the model's own values, off by up to 1.3; at
//   //  `linear` in encoder.layer.0.attention.self.query, …"
#pragma once

#include <string>
#include <vector>

#include "matcher/passes/passes.h"

namespace graft::cli {

/// The verifications of a step's rewrites, or of a pass as a whole, where some were asked for.
std::vector<RewriteVerification> verificationsOf(const StepRun&);

/// "6 of 6", "6 of 7, 1 taken back", "measured, off by up to 0.17"; "-" where nothing was asked.
std::string verifiedText(const StepRun&);

/// One line for each reason why rewrites of the step were taken back: how many, the first three places, and what the
/// first of them showed, in full. `each`: one for each rewrite instead.
std::vector<std::string> takenBackLines(const StepRun&, bool each);

}  // namespace graft::cli
