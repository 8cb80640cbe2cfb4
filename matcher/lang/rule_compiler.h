// Compiles the classes of a rule file: a Rule's functions into pattern, replacement and condition; a Recipe's lists
// into steps.
#pragma once

#include "matcher/lang/body.h"
#include "matcher/rule/pattern.h"

namespace graft::lang {

/// Either form of a side: a function, or an nn.Module class with __init__ and forward.
struct SideSyntax {
  const FunctionSyntax* function = nullptr;
  const ClassSyntax* module = nullptr;
  const FileContext* file = nullptr;  ///< another one than the rule's, where the side is imported
  explicit operator bool() const { return function || module; }
  Span span() const { return function ? function->span : module->span; }
};

struct RuleSyntax {
  std::string name, doc;
  Span docSpan, span;
  SideSyntax pattern, replacement;
  SideSyntax where, backward;  ///< functions
};

/// The parts of a class that derives from Rule. Throws Failure.
RuleSyntax ruleSyntax(const FileContext& file, const ClassSyntax& type);
Rule compileRule(const FileContext& file, const RuleSyntax& rule);
/// scope, exact, changes_numbers, tolerance.
void applySettings(const FileContext& file, const ClassSyntax& type, Rule& rule);
Recipe compileRecipe(const FileContext& file, const ClassSyntax& type, const RuleFile& known);

}  // namespace graft::lang
