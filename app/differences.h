// Numerical differences as tables and JSON, the same in every command.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/torch/bench.h"
#include "core/torch/tensors.h"

namespace graft::cli {

std::string differencesTable(const std::vector<Difference>&);
nlohmann::json differencesJson(const std::vector<Difference>&);
bool allPassed(const std::vector<Difference>&);
/// "output 0: …" of the first that did not pass; "" where all did.
std::string firstFailure(const std::vector<Difference>&);

nlohmann::json timingJson(const PairedTiming&);
/// "7.41 ms instead of 9.80 ms: 1.32 times faster" and the percentiles below.
std::string timingText(const PairedTiming&, const std::string& original, const std::string& rewritten);

}  // namespace graft::cli
