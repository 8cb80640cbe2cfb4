#include "core/ir/operators/graft_operators.h"

#include <algorithm>
#include <vector>

namespace graft {

std::span<const GraftOperator> graftOperators() {
  static const std::vector<GraftOperator> sorted = [] {
    std::vector<GraftOperator> out{
#include "core/ir/operators/graft_operators.inc"
    };
    std::sort(out.begin(), out.end(), [](const GraftOperator& a, const GraftOperator& b) { return a.name < b.name; });
    return out;
  }();
  return sorted;
}

}  // namespace graft
