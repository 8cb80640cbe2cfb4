// The small parts of torch.export's file format: enumerations, symbolic expressions, module stacks, trees of results.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json_document.h"
#include "core/formats/graph_builder.h"
#include "core/ir/argument.h"

namespace graft {

std::optional<DType> pt2DType(int64_t);
/// The other way; nothing for dtypes that the format does not have.
std::optional<int64_t> pt2Code(DType);
Argument pt2Layout(int64_t);
Argument pt2MemoryFormat(int64_t);
/// A JSON number or boolean, or "Infinity", "-Infinity", "NaN".
Argument pt2Number(JsonValue);
/// Notes the range, a bound of which is null where there is none; throws where it is empty. One that says nothing of a
/// size, and what is no symbol but an expression, has no place in the graph.
void pt2Range(Graph&, const std::string& symbol, JsonValue min, JsonValue max);
/// A tensor_values entry. Throws JsonError.
/// Throws std::runtime_error where a size is negative, or there are more elements than can be counted in bytes. The
/// shape must be there.
void requirePossible(const TensorInfo&);
Type pt2TensorType(JsonValue);
/// "Add(Symbol('s0', positive=True), Integer(1))" is "s0 + 1".
std::string pt2Expression(std::string_view sympy);
/// "s0//2 + 1" for "((s0//2)) + 1": a size as pt2Expression spells it; the text itself where it is no size.
std::string pt2Spelling(std::string_view expression);
/// The other way, and the value for one choice of sizes within the symbols' ranges; nothing for what is no expression
/// of sizes. Symbols that occur join `symbols`.
std::optional<std::pair<std::string, int64_t>> pt2Sympy(std::string_view expression, const Graph&,
                                                        std::set<std::string>& symbols);
/// "key,path,type;key,path,type"; the first entry's type names the model.
std::vector<GraphBuilder::Entered> pt2ModuleStack(std::string_view, std::string& modelName);
/// The results as the model returned them, from the tree that `spec` describes.
Argument pt2Structure(const std::string& spec, const std::vector<Argument>& leaves);

}  // namespace graft
