// The stable JSON form of a graph, for `--json`, the engine's protocol and tools. Fields may be added, never renamed.
//
//   {"name": "MiniLM", "symbols": {"s0": [2, null]}, "inputs": [{"name": "x", "type": "f32[2,4]"}], "weights":
//   [{"name", "path", "type", "buffer"}],
//    "modules": [{"id": 0, "parent": null, "path": "encoder", "type": "my.Encoder", "constructor": {…}}],
//    "nodes": [{"name", "op", "module", "args": [ARG], "kwargs": {…}, "outputs": [{"name", "type"}],
//               "source": {"file", "line", "column", "endColumn"}, "blocks": [{"parameters", "nodes", "returns"}]}],
//    "returns": [ARG]}
// ARG is {"v": name} for a value, {"l": [ARG]} for a list, {"t": [ARG]} for a tuple, {"d": [[ARG, ARG]]} for a dict,
// {"s": text} for a string, {"x": text} for other names (dtypes, devices, slices, infinities), a number, true, false or
// null.
//
// The compact form is for large graphs on a line: what many nodes share stands once. "operators": {"aten.add.Tensor":
// ["self", "other", "alpha"]} replaces each node's "parameters", "sources": [{"file", "line", …}] what "source", then
// an index into it, holds.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/ir/graph.h"

namespace graft {

enum class JsonForm { Complete, Compact };

nlohmann::json toJson(const Graph&, JsonForm form = JsonForm::Complete);
nlohmann::json toJson(const Graph&, const Argument&);
nlohmann::json toJson(const Graph&, NodeId);
/// What the whole holds under "symbols".
nlohmann::json symbolsJson(const Graph&);
/// The bytes as UTF-8: what is not becomes U+FFFD, so that dumping never throws.
std::string jsonSafe(std::string_view text);

}  // namespace graft
