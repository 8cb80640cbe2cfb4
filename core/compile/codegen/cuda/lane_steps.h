// LaneSteps: how i64 expressions step along the lanes of a vector: `lanes` values of a range that follow each other,
// the first one a multiple of `lanes`.
//
//   LaneSteps steps(accesses, j, 4);
//   steps.of(j + 8) == Step::Unit;   steps.of(j // 64) == Step::Same;   steps.divisor(j * 2) == 8
#pragma once

#include <cstdint>
#include <unordered_map>

#include "core/compile/codegen/access.h"

namespace graft::codegen {

class LaneSteps {
 public:
  enum class Step : uint8_t {
    Same,  ///< equal in all lanes
    Unit,  ///< one more in each
    Other
  };
  LaneSteps(Accesses& accesses, RangeId range, int64_t lanes) : accesses_(accesses), range_(range), lanes_(lanes) {}

  /// Of an expression of any dtype.
  Step of(ExprId);
  /// A power of two that divides the value of the first lane.
  int64_t divisor(ExprId);
  /// How many elements that follow each other, from this offset, one access may take if the buffer's address is a
  /// multiple of `alignment` bytes: a power of two, at most 16 bytes.
  int64_t width(ExprId offset, int64_t alignment, int64_t elementBytes);

 private:
  Step find(ExprId);

  Accesses& accesses_;
  RangeId range_;
  int64_t lanes_;
  std::unordered_map<ExprId, Step> steps_;
};

}  // namespace graft::codegen
