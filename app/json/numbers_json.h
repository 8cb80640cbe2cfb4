// Numerical differences and timings as JSON. Milliseconds end in Ms, seconds in Seconds, microseconds are "us"; figures
// that are no finite numbers are the texts "nan", "inf" and "-inf", and null where they could not be computed.
//
//   toJson(difference)   // {"name": "0", "type": "f32[8,384]", "maxAbs": 1.1e-05, …, "passed": true}
//   toJson(timing)       // {"medianMs", "p10Ms", "p90Ms", "samplesMs"}
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "app/workbench/bench.h"
#include "app/workbench/compare.h"
#include "app/workbench/node.h"

namespace graft {

nlohmann::json toJson(const Difference&);
/// The difference with both values' names, without its histogram.
nlohmann::json toJson(const LayerDifference&);
nlohmann::json toJson(const Overflow&);
nlohmann::json toJson(const Verification&);
/// `mostSamples`: so many of the runs, evenly taken; all of a fast model would be megabytes over a slow line.
nlohmann::json toJson(const Timing&, size_t mostSamples = SIZE_MAX);
/// Both sides, "original" and "rewritten", with what the runs tell of their ratio.
nlohmann::json toJson(const PairedTiming&, size_t mostSamples = SIZE_MAX);

namespace workbench {

nlohmann::json toJson(const LayerRow&);
nlohmann::json toJson(const AgainstOriginal&);
nlohmann::json toJson(const BaselineComparison&);
nlohmann::json toJson(const TrainingComparison&);
nlohmann::json toJson(const NodeDescription&);
nlohmann::json toJson(const NodeSource&);
nlohmann::json toJson(const WeightReport&);

}  // namespace workbench
}  // namespace graft
