// Rewrites, matches and verification as JSON.
//
//   toJson(record)          // {"rule": "Attention", "scope": "encoder.layer.0", "removed": [...], …}
//   toJson(report.rules[0]) // {"name": "Attention", "matches": 6, "at": [{"scope", "nodes", "map"}], …}
//
// Every struct that the workbench returns has one function here or in a header beside this one. The commands' --json
// and the engine's answers are made of them. Keys are camelCase; docs/json describes each.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "app/workbench/apply.h"
#include "app/workbench/match.h"
#include "app/workbench/rules.h"

namespace graft {

nlohmann::json toJson(const RewriteVerification&);
nlohmann::json toJson(const Record&);
nlohmann::json toJson(const RolledBack&);
nlohmann::json toJson(const StepRun&);

namespace workbench {

nlohmann::json toJson(const Verdicts&);
nlohmann::json toJson(const RuleMatches&);
nlohmann::json toJson(const NearMissReport&);
/// What stands in the place of a rule file's rules and recipes where it does not parse.
nlohmann::json toJson(const Mistake&);

}  // namespace workbench
}  // namespace graft
