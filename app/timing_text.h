// Paired timings as text and JSON, the same in every command. What the runs cannot tell is not claimed: a busy machine
// makes equal models look different.
//
//   auto t = timePaired(*original, fast, 3.0);
//   console.print(timingText(*t, "original", "rewritten"));  // ends in "1.32 times faster; cpu, 2 threads, …"
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/torch/bench.h"

namespace graft::cli {

/// {"median_ms", "p10_ms", "p90_ms", "samples_ms"}
nlohmann::json sideJson(const Timing&);
/// {"original": sideJson, "rewritten": sideJson, "ratio", "ratio_low", "ratio_high", "repetitions", "protocol"}; where
/// both are captured on a GPU also "flushed": the same without "protocol", with nothing in the L2 cache.
nlohmann::json timingJson(const PairedTiming&);
/// "the machine is busy with 4.3 processes on 2 cores", where that makes wall times say little; empty otherwise. Our
/// own threads keep all cores busy, so that much is no news.
std::string busyText(double load, unsigned cores);

/// Both medians with their percentiles, then how many times faster the second is, if the runs tell that it is; with a
/// flushed L2 cache the same once more.
std::string timingText(const PairedTiming&, const std::string& original, const std::string& rewritten);

}  // namespace graft::cli
