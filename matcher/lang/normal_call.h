// What the import does to a call that a model makes, done to a call that a rule makes: both sides of a match then have
// the same form. core/torch/normal has the other half.
#pragma once

#include "core/ir/operator.h"

namespace graft::lang {

/// Whether the operator hands its argument on where that is as it shall be already: an import drops it then.
bool isCast(const Operator&);

}  // namespace graft::lang
