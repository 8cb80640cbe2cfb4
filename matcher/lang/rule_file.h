// The rule language's front end: a Python file becomes rules and recipes. LibTorch's frontend parses; nothing is
// executed.
//
// The folder, in the order of reading: source_text.h (the text, made safe for the parser), syntax.h (what it says),
// names.h and bind.h (Python's calls as operators), term.h and body.h (a function as a graph), rule_compiler.h (a class
// as a rule or recipe), fix_it.h (edits that make a rule match where it missed). Other folders include this header,
// fix_it.h, and names.h for the names that an editor offers. The rest is the front end's own.
//
//   Result<RuleFile> rules = loadRuleFile("resources/rules/transformer.py", operators);
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "matcher/rule/pattern.h"

namespace graft {

/// What library("libmy_ops.so") does in a rule file: the path, from the file's folder, is that of a library of
/// operators, which the rules below may name. An error is shown at its place. Without such a function the path is only
/// noted, in RuleFile::libraries: to load a library is to run its code, so whoever reads a file decides about it.
using LoadLibrary = std::function<Status(const std::string& path)>;

/// Errors carry file, line, column and the line's text; unknown operators and modules come with "did you mean".
/// `from transformer import AddLayerNorm` takes a rule, a recipe (with its rules), a function, a module or a constant
/// of another rule file: of transformer.py in the same folder, or among the shipped rules. The names in a function's
/// body are those of its own file. Other modules are Python's, and ignored.
Result<RuleFile> loadRuleFile(const std::string& path, const OperatorSet& operators, const LoadLibrary& load = {});
/// The same from a text. Imported files are looked for beside `file`, where that names a folder.
Result<RuleFile> parseRuleText(std::string_view text, std::string_view file, const OperatorSet& operators,
                               const LoadLibrary& load = {});

/// The folder of the rule files that come with this program; "" where they do not lie beside it.
std::string shippedRulesFolder();

}  // namespace graft
