// LoopSchedule: what a person may choose of a kernel's loops. LoopPlanner chooses all that is left open.
//
//   LoopSchedule s{.lanes = "i1", .registers = 2};
//   if (Status possible = checkSchedule(program, s); !possible) say(possible.error());
//   makeCpuCode(program, {.schedule = s});
//
// A schedule changes how fast a kernel is, never what it computes, but for the order in which sums are added. Ranges
// have the names that `graft code --as cpp` shows. Where a name is none of a program's, nothing is chosen: a kernel
// for other sizes may have other ranges.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/compile/loops/program.h"

namespace graft::codegen {

struct LoopSchedule {
  /// The outer range that the lanes of vectors run along; "inner": each store and reduction has its lanes along a range
  /// of its own; "": the planner chooses.
  std::string lanes;
  std::vector<std::string> order;  ///< outer ranges, the slowest first; others come behind them
  int registers = 0;               ///< that one vector takes: 1, 2 or 4; 0: the planner chooses
  int64_t block = 0;               ///< how much of the lanes' range one iteration runs; 0: the planner chooses
  int threads = 0;                 ///< that share the iterations at most; 0: as many as the work is worth
  bool transposes = true;          ///< loads across the lanes may be read in squares and transposed

  static constexpr std::string_view inner = "inner";
  bool isDefault() const { return *this == LoopSchedule(); }
  bool operator==(const LoopSchedule&) const = default;
};

/// A line for each choice: "lanes i1", "order i1 i0", "registers 2", "block 512", "threads 1", "transpose no".
std::string printSchedule(const LoopSchedule&);
Result<LoopSchedule> parseSchedule(std::string_view text);

/// BadInput with a sentence where the loops of the program leave no such choice.
Status checkSchedule(const loops::Program&, const LoopSchedule&);

}  // namespace graft::codegen
