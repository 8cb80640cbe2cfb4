// Expressions back as Python text, with no more parentheses than needed.
#include <cmath>

#include "core/text/literals.h"
#include "matcher/rule/expression.h"
#include "matcher/rule/expression_calls.h"

namespace graft {
namespace {

using Kind = Expression::Kind;

// Python's binding strength; larger binds tighter.
constexpr int comparison = 4, sign = 11, whole = 13;

int strength(const Expression& e) {
  switch (e.kind) {
    case Kind::IfElse:
      return 0;
    case Kind::Unary:
      return e.name == "not" ? 3 : sign;
    case Kind::Binary:
      if (e.name == "or") return 1;
      if (e.name == "and") return 2;
      if (e.name == "|") return 5;
      if (e.name == "^") return 6;
      if (e.name == "&") return 7;
      if (e.name == "<<" || e.name == ">>") return 8;
      if (e.name == "+" || e.name == "-") return 9;
      if (e.name == "*" || e.name == "/" || e.name == "//" || e.name == "%") return 10;
      if (e.name == "**") return 12;
      return comparison;
    case Kind::Literal:
      if (const auto n = e.literal.number(); n && !e.literal.as<bool>() && std::signbit(*n)) return sign;
      return whole;
    default:
      return whole;
  }
}

std::string text(const Expression& e);

std::string operand(const Expression& e, int least) { return strength(e) < least ? "(" + text(e) + ")" : text(e); }

std::string joined(const std::vector<Expression>& items, size_t from = 0) {
  std::string out;
  for (size_t i = from; i < items.size(); ++i) out += (i > from ? ", " : "") + text(items[i]);
  return out;
}

std::string sliceText(const Expression& e) {
  std::string out;
  for (size_t i = 0; i < e.operands.size(); ++i) {
    const Expression& o = e.operands[i];
    const bool absent = o.kind == Kind::Literal && o.literal.isNone();
    if (i == 2 && absent) break;
    if (i) out += ":";
    if (!absent) out += text(o);
  }
  return out;
}

std::string text(const Expression& e) {
  switch (e.kind) {
    case Kind::Literal:
      return argumentText(e.literal);
    case Kind::Name:
      return e.name;
    case Kind::Attribute:
      return operand(e.operands[0], whole) + "." + e.name;
    case Kind::Call:
      if (e.isMethod && !e.operands.empty())
        return operand(e.operands[0], whole) + "." + e.name + "(" + joined(e.operands, 1) + ")";
      return e.name + "(" + joined(e.operands) + ")";
    case Kind::Subscript:
      return operand(e.operands[0], whole) + "[" + text(e.operands[1]) + "]";
    case Kind::Slice:
      return sliceText(e);
    case Kind::Unary:
      return e.name + (e.name == "not" ? " " : "") + operand(e.operands[0], strength(e));
    case Kind::Binary: {
      const int s = strength(e);
      const bool power = e.name == "**";  // groups to the right; comparisons would chain
      return operand(e.operands[0], power || s == comparison ? s + 1 : s) + " " + e.name + " " +
             operand(e.operands[1], power ? sign : s + 1);
    }
    case Kind::List:
      return "[" + joined(e.operands) + "]";
    case Kind::Tuple:
      return "(" + joined(e.operands) + (e.operands.size() == 1 ? ",)" : ")");
    case Kind::IfElse:
      return operand(e.operands[1], 1) + " if " + operand(e.operands[0], 1) + " else " + operand(e.operands[2], 0);
  }
  return "";
}

}  // namespace

std::string argumentText(const Argument& a) {
  if (a.isNone()) return "None";
  if (const auto* b = a.as<bool>()) return *b ? "True" : "False";
  if (const auto* i = a.as<int64_t>()) return std::to_string(*i);
  if (const auto* d = a.as<double>()) return floatText(*d);
  if (const auto* s = a.as<std::string>()) {
    std::string out = "\"";
    for (char c : *s) {
      if (c == '"' || c == '\\') out += '\\';
      if (c == '\n')
        out += "\\n";
      else
        out += c;
    }
    return out + "\"";
  }
  if (const auto* t = a.as<DType>()) return "torch." + std::string(dtypeName(*t));
  if (const auto* d = a.as<DeviceName>()) return "\"" + d->name + "\"";
  if (const auto* n = a.as<Named>()) return n->name;
  if (const auto* s = a.as<SymbolicInt>()) return s->expression;
  if (a.as<Ellipsis>()) return "...";
  if (const auto* c = a.as<std::complex<double>>())
    return "complex(" + floatText(c->real()) + ", " + floatText(c->imag()) + ")";
  if (const auto* items = a.items()) {
    std::string out = a.isList() ? "[" : "(";
    for (size_t i = 0; i < items->size(); ++i) out += (i ? ", " : "") + argumentText((*items)[i]);
    if (a.isTuple() && items->size() == 1) out += ",";
    return out + (a.isList() ? "]" : ")");
  }
  if (a.isValue()) return "a value of the graph";
  return "a literal";
}

std::string toString(const Expression& e) { return text(e); }

}  // namespace graft
