// The rules and recipes of a file as an editor shows them.
//
//   rulesJson(file)                        // {"ok": true, "rules": [{"name", "line", "fingerprint", "pattern", …}], …}
//   rulesJson(file, {"8f0d33a2c61b7e49"})  // the rule with this fingerprint without what its client holds already
//
// Most of the text is patterns, and each key of an editor changes one of them. A client that names the fingerprints of
// those that it holds gets the others alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "matcher/rule/pattern.h"

namespace graft {

/// Places are those in the text that is edited: imported rules have none. A rule whose fingerprint is held comes
/// without "parameters", "pattern" and "patternLines". These are then what they were, but for their lines, which have
/// moved as far as the rule's "line" has.
nlohmann::json rulesJson(const RuleFile&, const std::set<std::string>& held = {});

}  // namespace graft
