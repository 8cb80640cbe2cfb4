#include "matcher/lang/syntax/precedence.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace graft::lang {
namespace {

// Python's levels; larger binds tighter.
enum Level { Or = 1, And, Not, Comparison, BitOr, BitXor, BitAnd, Shift, Sum, Product, Sign, Power };

Level levelOf(std::string_view infix) {
  static constexpr std::pair<std::string_view, Level> levels[] = {
      {"or", Or},     {"and", And},    {"|", BitOr},   {"^", BitXor},  {"&", BitAnd},
      {"<<", Shift},  {">>", Shift},   {"+", Sum},     {"-", Sum},     {"*", Product},
      {"/", Product}, {"//", Product}, {"%", Product}, {"@", Product}, {"**", Power}};
  for (const auto& [sign, level] : levels)
    if (sign == infix) return level;
  return Comparison;  // == != < <= > >= in, not in, is, is not
}

/// Of a prefix's operand: what it takes in.
Level operandLevel(std::string_view prefix) { return prefix == "not" ? Not : prefix == "*" ? BitOr : Sign; }

class Grouping {
 public:
  Grouping(const SourceText& text, std::vector<OperatorPart> parts) : text_(text), parts_(std::move(parts)) {}

  Syntax all() { return operation(Or); }

 private:
  const OperatorPart* infix() const { return at_ < parts_.size() ? &parts_[at_] : nullptr; }

  /// Everything from here on whose operators bind at least as tightly.
  Syntax operation(Level least) {
    Syntax left = operand(least);
    while (const OperatorPart* op = infix()) {
      const Level level = levelOf(op->sign);
      if (level < least) break;
      if (level == Comparison) {
        left = comparisons(std::move(left));
        continue;
      }
      ++at_;
      // 2 ** -1: the exponent may have a sign, and groups to the right.
      Syntax right = operation(level == Power ? Sign : static_cast<Level>(level + 1));
      left = binary(*op, std::move(left), std::move(right));
    }
    return left;
  }

  Syntax operand(Level least) {
    OperatorPart& part = parts_[at_++];
    if (part.kind == OperatorPart::Kind::Operand) return std::move(part.operand);
    const Level level = operandLevel(part.sign);
    if (level < least && part.sign == "not")
      text_.fail(part.at.begin, "`not` binds less than the operator before it: put parentheses around `not ...`");
    Syntax out;
    out.kind = part.sign == "*" ? Syntax::Kind::Starred : Syntax::Kind::Unary;
    out.name = part.sign == "*" ? "" : part.sign;
    out.span = out.focus = part.at;
    add(out, operation(level));
    return out;
  }

  /// a < b <= c is `a < b and b <= c`.
  Syntax comparisons(Syntax first) {
    std::optional<Syntax> all;
    Syntax left = std::move(first);
    while (const OperatorPart* op = infix()) {
      if (levelOf(op->sign) != Comparison) break;
      ++at_;
      Syntax right = operation(BitOr);
      Syntax next = right;
      Syntax one = binary(*op, std::move(left), std::move(right));
      if (all) {
        OperatorPart both = *op;
        both.sign = "and";
        one = binary(both, std::move(*all), std::move(one));
      }
      all = std::move(one);
      left = std::move(next);
    }
    return std::move(*all);
  }

  static Syntax binary(const OperatorPart& op, Syntax left, Syntax right) {
    Syntax out;
    out.kind = Syntax::Kind::Binary;
    out.name = op.sign;
    out.span = out.focus = op.at;
    if (op.sign == "not in") {
      out.name = "in";
      add(out, std::move(left));
      add(out, std::move(right));
      Syntax negated;
      negated.kind = Syntax::Kind::Unary;
      negated.name = "not";
      negated.span = negated.focus = op.at;
      add(negated, std::move(out));
      return negated;
    }
    add(out, std::move(left));
    add(out, std::move(right));
    return out;
  }

  static void add(Syntax& to, Syntax item) {
    to.span.begin = std::min(to.span.begin, item.span.begin);
    to.span.end = std::max(to.span.end, item.span.end);
    to.items.push_back(std::move(item));
  }

  const SourceText& text_;
  std::vector<OperatorPart> parts_;
  size_t at_ = 0;
};

}  // namespace

Syntax group(const SourceText& text, std::vector<OperatorPart> parts) { return Grouping(text, std::move(parts)).all(); }

}  // namespace graft::lang
