// The rule language's front end: a Python file becomes rules and recipes. LibTorch's frontend parses; nothing is
// executed.
//
//   Result<RuleFile> rules = loadRuleFile("resources/rules/transformer.py", operators);
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "matcher/rule/pattern.h"

namespace graft {

/// Errors carry file, line, column and the line's text; unknown operators and modules come with "did you mean".
/// `from transformer import AddLayerNorm` takes a rule, a recipe (with its rules), a function, a module or a constant
/// of another rule file: of transformer.py in the same folder, or among the shipped rules. What a function is made of
/// means its own file. Other modules are Python's, and ignored.
Result<RuleFile> loadRuleFile(const std::string& path, const OperatorSet& operators);
/// Neighbours are looked for where `file` names a folder.
Result<RuleFile> parseRuleText(std::string_view text, std::string_view file, const OperatorSet& operators);

}  // namespace graft
