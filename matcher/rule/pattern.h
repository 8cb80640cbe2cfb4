// Rule: what a rule looks for and what it puts there. Both sides are Graphs, so they print, draw and verify like any
// graph.
//
// The folder: this header (rules, recipes, rule files), expression.h (calculations at a match), expression_calls.h
// (what they may ask and call), symbolic.h (sizes as polynomials) and rank.h (how many dimensions a tensor has). It
// knows nothing of search; all of the matcher includes it, and so may everybody else.
//
// In a pattern graph
//  - inputs are the rule's parameters, in order; `parameters[i]` says what each may bind to;
//  - nodes are operators in normal form. Their arguments are values of the pattern, literals that must be equal by
//    meaning, `Named{"_"}` where anything goes, or the output of a `pattern.expr` node (compared by meaning at the
//    match);
//  - `pattern.any_of(a, b, …)`: one output; the alternative that matches stands for it. `optional(f, x)` is
//    any_of(f(x), x);
//  - `pattern.call_module(args…, name=REGEX | type=T | path=REGEX)`: a whole module call, inputs in order;
//  - `pattern.call_function(args…, name=REGEX)`: an operator whose packet name ("aten.relu") fully matches;
//  - `pattern.expr(index=i)`: the value of `patternExpressions[i]`.
// In a replacement graph the inputs are the same parameters by name; `pattern.expr` nodes are computed at the match and
// become literals or what they name (self.linear.weight); operators whose arguments are all weights or literals are
// evaluated once and stored as new weights; `pattern.call_module` with `keep=NAME` keeps the module that the pattern
// named so; `pattern.parameter(x, name=PATH, buffer=BOOL)` is a new weight of that path below the match, with x, which
// is evaluated once, as its value.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "core/ir/rewrite_check.h"
#include "matcher/rule/expression.h"

namespace graft {

struct PatternParameter {
  enum class Kind { Value, Tensor, Weight, Float, Int, Bool, String, IntList, Constant /* any literal */ };
  std::string name;
  Kind kind = Kind::Value;
  bool orNone = false;    ///< `Tensor | None`, `float | None`: binds None too
  bool orNumber = false;  ///< of a Value: a number will do as well as a value of the graph
  bool isConstant() const { return kind >= Kind::Float; }
};

struct Rule {
  std::string name;         ///< "Attention"
  std::string description;  ///< the docstring without its cases
  std::string cases;        ///< small models, and what the rule must do with each: app/workbench/cases reads them
  int casesLine = 0;        ///< where they begin
  std::string file;
  int line = 0;  ///< of its definition
  std::vector<PatternParameter> parameters;
  Graph pattern;
  std::optional<Graph> replacement;  ///< none: the rule only finds
  std::vector<Expression> patternExpressions, replacementExpressions;
  /// The replacement with the gradients that the rule's own `backward` computes, of a rule that has one: see
  /// takeGradients().
  std::optional<Graph> differentiable;
  std::vector<Expression> differentiableExpressions;
  /// Lists of the pattern that `a, b = …` unpacks, and into how many.
  std::vector<std::pair<ValueId, size_t>> unpacked;
  std::optional<Expression> where;
  std::string scope;            ///< a regular expression over module paths; empty: anywhere
  bool exact = false;           ///< x / 8.0 does not match x * 0.125
  bool changesNumbers = false;  ///< on purpose: the difference is measured and does not make the rewrite fail
  RewriteTolerance tolerance;   ///< how far it may be off at most; where none is given, anything will do
};

/// A step of a recipe: a rule or a pass with its arguments.
struct Step {
  std::string name;  ///< rule name or pass name ("normalize", "remove_dropout", ...)
  std::vector<Argument> args;
  std::vector<std::pair<std::string, Argument>> kwargs;
  int line = 0;
  std::shared_ptr<const Rule> rule = nullptr;  ///< that this step is: swap_module(nn.LayerNorm, nn.RMSNorm(8))
};

struct Recipe {
  std::string name;
  std::string description;
  std::vector<Step> steps;
  std::vector<std::pair<std::string, size_t>> expect;  ///< rule name, number of rewrites
};

/// What a rule file holds, in the order of the file.
struct RuleFile {
  std::string path;
  std::vector<std::string> imports;  ///< other rule files, from which it takes rules
  /// Libraries of operators that it and those name by library("…"): paths of files.
  std::vector<std::string> libraries;
  std::vector<Rule> rules;  ///< imported ones last; Rule::file names their file
  std::vector<Recipe> recipes;
  const Rule* findRule(std::string_view name) const;
  const Recipe* findRecipe(std::string_view name) const;
};

/// For a graph that will be differentiated: replacements bring along the gradients that their rules' own `backward`
/// computes. `graft.tangent(y)` stands for the gradient of the result y, and `graft.own_gradient` ties the computed
/// gradients to what they belong to; it gives the results as they are.
void takeGradients(RuleFile&);

}  // namespace graft
