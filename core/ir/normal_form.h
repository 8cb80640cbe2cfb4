// The one spelling of each operation, whichever way a model came in. Importers bring graphs into it; the rule language
// brings patterns into it; so both meet. Knows names only: no LibTorch.
//
// In normal form
//  - arguments stand in schema order, defaults filled in; a Tensor parameter may hold a plain number (x / 8.0);
//  - `aten.add.Scalar(x, 1)` is `aten.add.Tensor(x, 1)`; likewise sub, mul, div, pow's and the comparisons' Scalar
//  forms;
//  - lists, tuples and dicts that nothing writes to are nested arguments of their users, never nodes;
//  - an element of a list-valued output is `prim.getitem(list, index)`, whoever unpacked it;
//  - an operator that returns several tensors has several outputs, never a tuple that is taken apart;
//  - `aten.size.int(x, i)` is the size of one dimension; `x.shape` and `x.size()` are lists of these;
//  - identities without effect on values are gone: prim.NumToTensor/aten.Int/aten.ScalarImplicit round trips of shapes,
//    prim.unchecked_cast, prim.data, aten.detach, aten.alias, aten.lift_fresh_copy, and aten.to / _to_copy /
//    contiguous-free casts to the dtype a value already has;
//  - aten.__and__, __or__, __xor__ are bitwise_and, ...; aten.t of a known rank is transpose.int(0, 1);
//  - sizes and dimensions stay as written (dim=-1 stays -1): the matcher compares them by meaning.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace graft {

/// The operator that stands for `name` in normal form when both compute the same from the same argument list
/// ("aten.add.Scalar" gives "aten.add.Tensor", "aten.true_divide.Tensor" gives "aten.div.Tensor"); `name` itself
/// otherwise.
std::string_view canonicalOperator(std::string_view name);

/// The functional form of an in-place operator: "aten.add.Tensor" for "aten.add_.Tensor"; nothing where there is none.
std::optional<std::string> functionalForm(std::string_view inPlace);

/// Whether the parameter's value has no influence on numbers (cudnn_enable, pin_memory, ...): patterns need not give
/// it.
bool isIrrelevantParameter(std::string_view op, std::string_view parameter);

/// Parameters that name dimensions (dim, dim0, start_dim, ...), compared modulo the rank where it is known.
bool isDimensionParameter(std::string_view op, std::string_view parameter);

}  // namespace graft
