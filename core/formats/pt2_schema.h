// The small parts of torch.export's file format: enumerations, symbolic expressions, module stacks.
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
/// The code of a dtype; nothing for dtypes that the format does not have.
std::optional<int64_t> pt2Code(DType);
Argument pt2Layout(int64_t);
Argument pt2MemoryFormat(int64_t);
/// A JSON number or boolean, or "Infinity", "-Infinity", "NaN".
Argument pt2Number(JsonValue);
/// Gives the graph's symbol its range; a bound that does not exist is null. Ignores expressions, and ranges that say
/// nothing about a size. Throws where the range is empty.
void pt2Range(Graph&, const std::string& symbol, JsonValue min, JsonValue max);
/// Throws std::runtime_error where a size is negative, or where the tensor has more elements than any memory holds. The
/// shape must be known.
void requirePossible(const TensorInfo&);
/// The type that an entry of tensor_values describes. Throws JsonError.
Type pt2TensorType(JsonValue);
/// "Add(Symbol('s0', positive=True), Integer(1))" is "s0 + 1".
std::string pt2Expression(std::string_view sympy);
/// A size as pt2Expression spells it: "s0//2 + 1" for "((s0//2)) + 1". The text itself where it is no size.
std::string pt2Spelling(std::string_view expression);
/// The sympy text of a size, and its value for one choice of sizes within the symbols' ranges. Nothing where the text
/// is no expression of sizes. Adds the symbols that occur to `symbols`.
std::optional<std::pair<std::string, int64_t>> pt2Sympy(std::string_view expression, const Graph&,
                                                        std::set<std::string>& symbols);
/// "key,path,type;key,path,type"; the first entry's type names the model.
std::vector<GraphBuilder::Entered> pt2ModuleStack(std::string_view, std::string& modelName);

}  // namespace graft
