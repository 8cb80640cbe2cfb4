// Outcome: what became of the rewrites that were just applied, in one line: how many stayed, whether numbers were
// compared, how many were taken back or refused, and why, with equal reasons told once.
//
//   outcomeOf(step).text      // "Attention: 6 applied, all verified"
//                             // "Attention: 0 kept: at matmul_1 the result differs by 0.162 (max abs 1e-05 is
//                             allowed)"
#pragma once

#include "views/document/document_info.h"

namespace graft {

struct Outcome {
  QString text;
  QString details;            ///< every reason in full, a line each; empty where all went well
  QStringList places;         ///< nodes to look at: where rewrites were taken back, or else what they made
  bool isGood = true;         ///< something stayed, and nothing was taken back or refused
  bool isUnverified = false;  ///< of what stayed, something
};
Outcome outcomeOf(const StepInfo&);

}  // namespace graft
