// Matches, near misses and records as JSON: the same in `--json`, reports and the engine's protocol.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "matcher/passes/passes.h"
#include "matcher/search/search.h"

namespace graft {

/// [{"scope", "nodes": [names in graph order], "map": {pattern node: graph node}}]
nlohmann::json matchesJson(const Graph&, const Rule&, std::span<const Match>);
/// "edits": [{"begin", "end": bytes of the rule file, "line", "before", "after"}], what makes the rule match there
nlohmann::json nearMissJson(const Graph&, const Rule&, const NearMiss&);
/// {"verdict": proven, measured, unproven or failed, "inputSets", "why"}; failed and measured also "inputs",
/// "inputShapes", "output", "element", "expected", "actual", "maxAbs"
nlohmann::json verificationJson(const RewriteVerification&);
nlohmann::json recordJson(const Record&);
/// [{"node", "scope", "nodes", "proof"}]; a pass that was taken back has no node
nlohmann::json rolledBackJson(const std::vector<RolledBack>&);
/// [{"name", "rule": bool, "rewrites", "ms", "refused", "rolledBack", "records"}], for passes "proof" too
nlohmann::json recipeJson(const RecipeRun&);

}  // namespace graft
