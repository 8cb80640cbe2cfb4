// Term: what an expression of a rule's function stands for while its body is compiled: a value of the pattern graph,
// something known now, something calculated at the match, or a way to spell an operation.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/ir/graph.h"
#include "matcher/lang/syntax.h"
#include "matcher/rule/expression.h"
#include "matcher/rule/pattern.h"

namespace graft::lang {

struct Term;

/// `_`: matches anything.
struct Wildcard {};
/// A tuple or list that is written out, or the outputs of an operator that has several.
struct Sequence {
  std::vector<Term> items;
  bool isTuple = false;
  std::vector<std::string> names = {};  ///< of an operator's outputs: x.max(dim=1).values
};
/// A value of the graph. `constant` is set for parameters that bind literals (scale: float).
struct GraphValue {
  ValueId id;
  std::optional<PatternParameter::Kind> parameter;  ///< set for parameters
  bool isList = false;                              ///< chunk, split: unpacks into elements
  bool isConstant() const { return parameter && *parameter >= PatternParameter::Kind::Float; }
};
/// A name that is no value: torch.softmax, nn.Linear, kernels.attention, call_module.
struct Path {
  std::string name;
};
struct FileContext;
/// A function of the file or of one that it imports from, called by pasting its body.
struct Local {
  const FunctionSyntax* function = nullptr;
  const FileContext* file = nullptr;  ///< whose names its body means
};
/// nn.Linear(1, 1) in __init__, or the submodule that it became (`name`).
struct ModuleInstance {
  std::string name, type;  ///< attribute name; "Linear"
  std::vector<Term> arguments;
  std::vector<std::pair<std::string, Term>> keywords;
  Span span;
};
/// x.transpose before its call.
struct Method {
  std::shared_ptr<Term> object;
  std::string name;
};

struct Term {
  using Data = std::variant<Argument /* a literal */, Wildcard, Sequence, GraphValue, Expression, Path, Local,
                            std::shared_ptr<ModuleInstance>, Method>;
  Data data;
  Span span;

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
  const Argument* literal() const { return as<Argument>(); }
  bool isTensorLike() const {
    const auto* v = as<GraphValue>();
    return v && !v->isConstant();
  }
};

}  // namespace graft::lang
