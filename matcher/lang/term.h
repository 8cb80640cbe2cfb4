// Term: what an expression of a rule's function stands for while its body is compiled: a value of the pattern graph,
// something known now, something calculated at the match, a module, or a way to spell an operation.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/ir/graph.h"
#include "matcher/lang/syntax/syntax.h"
#include "matcher/rule/expression.h"
#include "matcher/rule/pattern.h"

namespace graft::lang {

struct Term;
struct FileContext;
struct ModuleInstance;
struct ModuleObject;
struct ParameterInstance;

/// `_`: matches anything.
struct Wildcard {};
/// A tuple or list that is written out, or the outputs of an operator that has several.
struct Sequence {
  std::vector<Term> items;
  bool isTuple = false;
  std::vector<std::string> names = {};  ///< of an operator's outputs: "values", "indices"
};
/// A value of the graph. `constant` is set for parameters that bind literals (scale: float).
struct GraphValue {
  ValueId id;
  std::optional<PatternParameter::Kind> parameter;  ///< set for parameters
  bool isList = false;                              ///< chunk, split: unpacks into elements
  bool isConstant() const { return parameter && *parameter >= PatternParameter::Kind::Float; }
};
/// A name that is no value: torch.softmax, nn.Linear, kernels.attention, call_module; or an nn.Module of a rule file.
struct Path {
  std::string name;
  const ClassSyntax* type = nullptr;
  const FileContext* file = nullptr;
};
/// A function of the file or of one that it imports from, called by pasting its body.
struct Local {
  const FunctionSyntax* function = nullptr;
  const FileContext* file = nullptr;             ///< whose names its body means
  std::shared_ptr<ModuleObject> self = nullptr;  ///< of a method
};
/// x.transpose before its call.
struct Method {
  std::shared_ptr<Term> object;
  std::string name;
};

struct Term {
  using Data = std::variant<Argument /* a literal */, Wildcard, Sequence, GraphValue, Expression, Path, Local,
                            std::shared_ptr<ModuleInstance>, std::shared_ptr<ParameterInstance>, Method>;
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

/// nn.Linear(1, 1) in __init__, or the submodule that it became (`name`). In a pattern, and where a replacement keeps a
/// module of the pattern, it stands for a module of the model. A new one of the replacement is built when it is used.
struct ModuleInstance {
  std::string name, type;  ///< below `self`: "linear", "q.0"; "Linear"
  std::vector<Term> arguments;
  std::vector<std::pair<std::string, Term>> keywords;
  Span span;
  std::vector<std::pair<std::string, std::shared_ptr<ModuleInstance>>>
      items;                                ///< of Sequential, ModuleList, ModuleDict
  const ClassSyntax* definition = nullptr;  ///< of an nn.Module that a rule file defines
  const FileContext* file = nullptr;        ///< which one
  std::shared_ptr<ModuleObject> object;     ///< once it is built
  std::string takesOver;  ///< the node of the module whose constants and weights it begins with, where they fit
  bool isContainer() const { return type == "Sequential" || type == "ModuleList" || type == "ModuleDict"; }
};

/// `self` of an nn.Module's methods: what its __init__ has set.
struct ModuleObject {
  const ClassSyntax* type = nullptr;
  const FileContext* file = nullptr;
  std::string name;       ///< below the rule's own `self`; empty for that one
  std::string takesOver;  ///< ModuleInstance's
  std::map<std::string, Term, std::less<>> members;
};

/// nn.Parameter(...) or a buffer. In a pattern it stands for any weight; a new one of the replacement becomes a weight
/// with this value.
struct ParameterInstance {
  std::string name;  ///< below `self`
  bool isBuffer = false;
  Term value;
  std::string takesOver;           ///< ModuleInstance's
  std::optional<GraphValue> read;  ///< once it is read
};

}  // namespace graft::lang
