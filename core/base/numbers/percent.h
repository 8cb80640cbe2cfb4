// Shares as people read them, the same on the command line and in the window: halves are rounded up, as on paper.
//
//   percentText(0.125)    // "13 %"
#pragma once

#include <cmath>
#include <string>

namespace graft {

inline std::string percentText(double share) { return std::to_string(std::lround(100 * share)) + " %"; }

}  // namespace graft
