// From how far a branch of the search came to a sentence for a person: what stopped it and which edit of the rule would
// help.
#pragma once

#include "matcher/search/attempt.h"

namespace graft {

NearMiss toNearMiss(const Plan& plan, const Draft& draft);
/// Furthest first; one for each anchor.
/// Which of two equally far explanations is likelier: an argument that differs, before an operator, before a missing
/// one.
int reasonRank(Reason);
void rankNearMisses(std::vector<NearMiss>& misses, size_t keep);

}  // namespace graft
