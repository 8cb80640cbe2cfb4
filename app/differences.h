// Numerical differences as tables and JSON, the same in every command.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/torch/tensors.h"

namespace graft::cli {

std::string differencesTable(const std::vector<Difference>&);
nlohmann::json differencesJson(const std::vector<Difference>&);
/// What stands as "verify" in a document where nothing was compared: {"passed": null, "skipped": true}.
nlohmann::json notVerifiedJson();
bool allPassed(const std::vector<Difference>&);
/// "output 0: …" of the first that did not pass; "" where all did.
std::string firstFailure(const std::vector<Difference>&);

}  // namespace graft::cli
