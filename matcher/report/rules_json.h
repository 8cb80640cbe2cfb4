// Matches, near misses and records as JSON: the same in `--json`, reports and the engine's protocol.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "matcher/passes.h"
#include "matcher/search.h"

namespace graft {

/// [{"scope", "nodes": [names in graph order], "map": {pattern node: graph node}}]
nlohmann::json matchesJson(const Graph&, const Rule&, std::span<const Match>);
nlohmann::json nearMissJson(const Graph&, const Rule&, const NearMiss&);
nlohmann::json recordJson(const Record&);
/// [{"name", "rule": bool, "rewrites", "ms", "refused", "records"}]
nlohmann::json recipeJson(const RecipeRun&);

}  // namespace graft
