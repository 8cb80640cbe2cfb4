// Numerical differences as tables and JSON, the same in every command.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/torch/tensors.h"

namespace graft::cli {

/// One of its figures, "1.20e-05", and how much further from fp64 it is than what is expected, "1.14"; "-" where that
/// could not be computed.
std::string figure(const Difference& of, double value);
std::string ratioText(const Difference&);

std::string differencesTable(const std::vector<Difference>&);
/// [{"name", "type", "max_abs", "max_rel", "rmse", "rmse_ratio", "cosine", "elements", "ulp_histogram", "passed",
/// "dtype_alone", "actual_type" and "why" where there are such}]; figures are null where shapes differ, and texts where
/// they are not finite.
nlohmann::json differencesJson(const std::vector<Difference>&);
/// What stands as "verify" in a document where nothing was compared: {"passed": null, "skipped": true}.
nlohmann::json notVerifiedJson();
bool allPassed(const std::vector<Difference>&);
/// "output 0: …" of the first that did not pass; "" where all did.
std::string firstFailure(const std::vector<Difference>&);

}  // namespace graft::cli
