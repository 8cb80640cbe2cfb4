// Precedence: operands and operators in the order of the text, grouped as Python groups them. LibTorch's parser groups
// some otherwise: `a or b and c` as `(a or b) and c`, `~a & b` as `~(a & b)`, `a < b < c` as `(a < b) < c`.
//
//   std::vector<OperatorPart> parts = …;      // a, or, b, and, c
//   Syntax sum = group(text, parts);          // a or (b and c)
#pragma once

#include <string>
#include <vector>

#include "matcher/lang/syntax/source_text.h"
#include "matcher/lang/syntax/syntax.h"

namespace graft::lang {

/// An operand, or an operator with its place. A prefix stands before its only operand.
struct OperatorPart {
  enum class Kind { Operand, Prefix, Infix };
  Kind kind = Kind::Operand;
  std::string sign;
  Span at;
  Syntax operand;
};

/// Throws Failure where Python would find no meaning: `a == not b`. A chain of comparisons becomes what Python says it
/// means: `a < b and b < c`.
Syntax group(const SourceText&, std::vector<OperatorPart>);

}  // namespace graft::lang
