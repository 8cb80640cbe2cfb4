#include "core/compile/codegen/cpp/c_text.h"

#include <set>
#include <string_view>

#include "core/compile/loops/marks.h"

namespace graft::codegen {

using loops::Op;

namespace {

const std::set<std::string_view>& reservedNames() {
  static const std::set<std::string_view> names{
      // words of C++
      "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char",
      "char8_t", "char16_t", "char32_t", "class", "compl", "concept", "const", "consteval", "constexpr", "constinit",
      "const_cast", "continue", "co_await", "co_return", "co_yield", "decltype", "default", "delete", "do", "double",
      "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if",
      "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or",
      "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires", "return", "short",
      "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this",
      "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual",
      "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
      // names and macros of the headers and of compilers
      "std", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "linux", "unix",
      "NAN", "INFINITY", "NULL", "errno", "HUGE_VAL", "math_errhandling",
      // what printed code declares and calls
      "run", "failed", "bf16", "cast", "minimum", "maximum", "is_greater", "is_less", "sign", "sigmoid", "uniform",
      "truncate_divide", "remainder_of", "fmod_of", "floor_divide", "power", "gcd", "shift_left", "shift_right",
      "checked_index", "checked_divisor"};
  return names;
}

}  // namespace

void avoidReservedNames(loops::Program& program) {
  std::set<std::string> taken;
  const auto forEachName = [&](const auto& visit) {
    for (loops::Buffer& b : program.buffers) visit(b.name);
    for (loops::Range& r : program.ranges) visit(r.name);
    for (loops::Size& s : program.sizes) visit(s.name);
  };
  forEachName([&](std::string& name) { taken.insert(name); });
  forEachName([&](std::string& name) {
    if (!reservedNames().contains(name)) return;
    while (!taken.insert(name).second) name += "_";
  });
}

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
  if (const size_t mark = loops::markLength(text))
    return text.substr(0, mark) + bareText(text.substr(mark, text.size() - mark - 1)) + text.back();
  if (text.size() < 2 || text.front() != '(') return text;
  int open = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    open += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (open == 0) return i + 1 == text.size() ? text.substr(1, text.size() - 2) : text;
  }
  return text;
}

}  // namespace graft::codegen
