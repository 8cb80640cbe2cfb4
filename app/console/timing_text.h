// Timings as text, the same in every command. What the runs cannot tell is not claimed: a busy machine makes equal
// models look different.
//
//   auto t = timePaired(*original, fast, inputs, 3.0);
//   console.print(timingText(*t, "original", "rewritten"));  // ends in "1.32 times faster; cpu, 2 threads, …"
#pragma once

#include <string>

#include "core/torch/bench.h"

namespace graft::cli {

/// "the machine is busy with 4.3 processes on 2 cores", where that makes wall times say little; empty otherwise. Our
/// own threads keep all cores busy, so that much is no news.
std::string busyText(double load, unsigned cores);

/// Both medians with their percentiles, then how many times faster the second is, if the runs tell that it is; with a
/// flushed L2 cache the same once more.
std::string timingText(const PairedTiming&, const std::string& original, const std::string& rewritten);

}  // namespace graft::cli
