// How the text of a program spells operations, dtypes and names: what its printer and its parser share.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "core/compile/loops/expression.h"

namespace graft::loops {

/// Operations between their operands, from the loosest to the tightest.
enum class Precedence : uint8_t { Or, And, Not, Comparison, Sum, Product, Sign, Primary };

struct Infix {
  Op op;
  std::string_view sign;
  Precedence precedence;
};
/// Longer signs before those that they begin with. Infix `and` and `or` are of bool.
inline constexpr std::array<Infix, 12> kInfixes{{{Op::Or, "or", Precedence::Or},
                                                 {Op::And, "and", Precedence::And},
                                                 {Op::Equal, "==", Precedence::Comparison},
                                                 {Op::NotEqual, "!=", Precedence::Comparison},
                                                 {Op::LessEqual, "<=", Precedence::Comparison},
                                                 {Op::Less, "<", Precedence::Comparison},
                                                 {Op::Add, "+", Precedence::Sum},
                                                 {Op::Subtract, "-", Precedence::Sum},
                                                 {Op::FloorDivide, "//", Precedence::Product},
                                                 {Op::Divide, "/", Precedence::Product},
                                                 {Op::Multiply, "*", Precedence::Product},
                                                 {Op::Remainder, "%", Precedence::Product}}};

/// How the text spells an operation of this dtype between its operands; nothing where it spells it as a call.
const Infix* findInfix(Op, DType);
/// "exp"; of integers, And, Or and Not are "bit_and", "bit_or" and "bit_not".
std::string_view callName(Op, DType);
/// The operation that a call names, of elements or over ranges.
std::optional<Op> findCall(std::string_view name);
std::optional<ReduceKind> findReduce(std::string_view name);

/// "bool", "f32".
std::string_view dtypeText(DType);
/// Of the dtypes that a program may have: nothing where it is another.
std::optional<DType> findDType(std::string_view);
bool isProgramDType(DType);

/// A name that a buffer, range or size may have: letters, digits and underscores, no digit first, and no word that
/// means something in an expression.
bool isPlainName(std::string_view);
/// A plain name made of any text.
std::string plainName(std::string_view);

/// A constant: 2, 1.5, -inf, true, 3_i32, 0.1_f64. i64, f32 and bool need no dtype behind it.
std::string constantText(const ExprPool&, ExprId);

}  // namespace graft::loops
