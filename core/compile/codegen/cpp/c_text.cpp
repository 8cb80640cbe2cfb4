#include "core/compile/codegen/cpp/c_text.h"

namespace graft::codegen {

using loops::Op;

const char* infixSign(Op op) {
  switch (op) {
    case Op::Add:
      return "+";
    case Op::Subtract:
      return "-";
    case Op::Multiply:
      return "*";
    case Op::Divide:
      return "/";
    case Op::And:
      return "&";
    case Op::Or:
      return "|";
    case Op::Xor:
      return "^";
    case Op::Equal:
      return "==";
    case Op::NotEqual:
      return "!=";
    case Op::Less:
      return "<";
    case Op::LessEqual:
      return "<=";
    default:
      return nullptr;
  }
}

std::string bareText(const std::string& text) {
  if (text.size() < 2 || text.front() != '(') return text;
  int open = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    open += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (open == 0) return i + 1 == text.size() ? text.substr(1, text.size() - 2) : text;
  }
  return text;
}

}  // namespace graft::codegen
