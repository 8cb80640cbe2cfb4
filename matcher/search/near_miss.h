// Near misses: from a partial match to a sentence for a person, which says what stopped the rule there and which edit
// of the rule would help.
//
//   NearMiss miss = toNearMiss(plan, partial);   // miss.message: "dim is 1, but the rule wants -1"
#pragma once

#include "matcher/search/explainer.h"

namespace graft {

NearMiss toNearMiss(const Plan& plan, const PartialMatch& partial);
/// Which of two equally far explanations is likelier: an argument that differs, before an operator, before a missing
/// one. The lowest is the likeliest.
int reasonRank(Reason);
/// The furthest first, `keep` at most.
void rankNearMisses(std::vector<NearMiss>& misses, size_t keep);

}  // namespace graft
