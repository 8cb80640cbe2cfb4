// The text of a program, which people read, edit and keep, and its parser.
//
//   Result<Program> p = parseProgram(text);     // checked: verify.h
//   printProgram(*p) == text                    // where the text was printed
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/compile/loops/program.h"

namespace graft::loops {

/// The version in the first line. A later one is refused with a sentence.
constexpr int kProgramVersion = 1;

/// `hasMarks`: with the origins of expressions, as marks.h writes them.
std::string printProgram(const Program&, bool hasMarks = false);
/// One expression, as the text of its program spells it.
std::string printExpression(const Program&, ExprId);
/// BadInput with line and column where the text is no program, or one that verify() refuses. Text may come from
/// anywhere: its length, nesting and counts are limited.
Result<Program> parseProgram(std::string_view text, std::string_view file = {});

}  // namespace graft::loops
