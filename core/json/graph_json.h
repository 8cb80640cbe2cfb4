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
//
// In parts, it is several objects of the compact form: each holds some of the fields, lists go on where the part before
// ended, and what is referred to comes first: operators, sources and modules, inputs, weights, nodes in order, returns.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/ir/graph.h"

namespace graft {

enum class JsonForm { Complete, Compact };

/// The text of that form; also of bytes in names that are no UTF-8 (they become U+FFFD).
std::string jsonText(const Graph&, JsonForm form = JsonForm::Complete);
/// The compact form in parts of about `bytes` each, while it is written. Stops where `part` returns false, and returns
/// whether it came to the end.
bool writeJsonParts(const Graph&, size_t bytes, const std::function<bool(std::string_view part)>& part);

nlohmann::json toJson(const Graph&, JsonForm form = JsonForm::Complete);
nlohmann::json toJson(const Graph&, const Argument&);
/// "symbols" alone.
nlohmann::json symbolsJson(const Graph&);

}  // namespace graft
