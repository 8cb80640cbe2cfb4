// Binding: from a Python call to one overload of an operator with its arguments in schema order.
//
//   Call call{"aten.softmax", "torch.softmax", {x}, {{"dim", minusOne}}, span};
//   BoundCall b = bindCall(call, operators, text);      // aten.softmax.int(x, -1, None)
//
// Where several overloads take the call, the first in PyTorch's order wins that takes every argument as the schema
// types it; after that the first that takes a number for a tensor, as normal form writes it.
#pragma once

#include <string>
#include <vector>

#include "matcher/lang/term.h"

namespace graft::lang {

struct Call {
  std::string packet;   ///< "aten.softmax", or one overload "aten.add.Tensor" when `exactOverload`
  std::string spelled;  ///< as the rule writes it, for messages
  std::vector<Term> positional;
  std::vector<std::pair<std::string, Term>> keywords;
  Span span;
  bool exactOverload = false;
};

struct BoundCall {
  OperatorRef op;
  /// For each parameter of the schema: the term given, or nothing where the default stands.
  std::vector<std::optional<Term>> arguments;
};

BoundCall bindCall(const Call& call, const OperatorSet& operators, const SourceText& text);

/// The literal as an argument of that type: 1 for a float is 1.0, 3 for an int list is [3].
Argument literalAs(const Argument& literal, const Type& type);

}  // namespace graft::lang
