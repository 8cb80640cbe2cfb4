// The stable JSON form of a graph, for `--json`, the engine's protocol and tools. Fields may be added, never renamed.
//
//   {"name": "MiniLM", "inputs": [{"name": "x", "type": "f32[2,4]"}], "weights": [{"name", "path", "type", "buffer"}],
//    "modules": [{"id": 0, "parent": null, "path": "encoder", "type": "my.Encoder", "constructor": {…}}],
//    "nodes": [{"name", "op", "module", "args": [ARG], "kwargs": {…}, "outputs": [{"name", "type"}],
//               "source": {"file", "line", "column", "endColumn"}, "blocks": [{"parameters", "nodes", "returns"}]}],
//    "returns": [ARG]}
// ARG is {"v": name} for a value, {"l": [ARG]} for a list, {"t": [ARG]} for a tuple, {"d": [[ARG, ARG]]} for a dict,
// {"s": text} for a string, {"x": text} for other names (dtypes, devices, slices, infinities), a number, true, false or
// null.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/ir/graph.h"

namespace graft {

nlohmann::json toJson(const Graph&);
nlohmann::json toJson(const Graph&, const Argument&);
nlohmann::json toJson(const Graph&, NodeId);
/// The bytes as UTF-8: what is not becomes U+FFFD, so that dumping never throws.
std::string jsonSafe(std::string_view text);

}  // namespace graft
