// Expression: the small calculations a rule may make at a match: `where` conditions, shape arithmetic in patterns,
// constants computed in replacements (1 / scale). A tree of plain values, evaluated over what a match has bound.
//
//   Expression e = …;                     // q.shape[-1] in [32, 64, 128]
//   Result<Argument> r = evaluate(e, env);
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft {

struct Expression {
  enum class Kind {
    Literal,    ///< value
    Name,       ///< a bound name: constant, or value of the graph
    Attribute,  ///< operands[0].name         (x.shape, x.dtype, x.ndim, x.device, m.in_features)
    Call,  ///< name(operands...) or method: operands[0].name(operands[1..]); names: dim, size, numel, len, min, max,
           ///< abs, sqrt, int, float, users, isinstance …
    Subscript,  ///< operands[0][operands[1]]
    Slice,      ///< operands: start, stop, step (Literal None where absent)
    Unary,      ///< name: "-", "not", "+"
    Binary,     ///< name: + - * / // % ** == != < <= > >= in, not in, is, is not, and, or
    List,
    Tuple,
    IfElse,  ///< operands: condition, then, else
  };
  Kind kind = Kind::Literal;
  std::string name;
  Argument literal;
  bool isMethod = false;
  std::vector<Expression> operands;
  SourceLocation source;
};

/// What names mean at one match. It refers to the names and to what they mean, and copies neither: a condition is
/// evaluated at every match, and most of them read two names.
struct Environment {
  const Graph* graph = nullptr;
  /// Each name once; constants as literals, values as Argument(ValueId).
  std::vector<std::pair<std::string_view, const Argument*>> names;
  std::map<std::string, ModuleCallId, std::less<>> modules;
  /// Sizes of values other than weights stay symbols ("size(x,0)") even where the types know them: types that were
  /// recorded with example inputs must not be baked into a graph that takes others.
  bool opaqueSizes = false;

  /// What the name means; null where it means nothing.
  const Argument* find(std::string_view name) const;
};

/// Dimensions that are not static come out as SymbolicInt; comparing them with anything but themselves is an error that
/// says which shape is unknown. Errors carry the expression's position.
Result<Argument> evaluate(const Expression&, const Environment&);
/// Whether the expression reads what this name means.
bool reads(const Expression&, std::string_view name);
/// The expression as Python text.
std::string toString(const Expression&);

}  // namespace graft
