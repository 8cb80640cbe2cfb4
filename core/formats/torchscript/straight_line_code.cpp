#include "core/formats/torchscript/straight_line_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <unordered_set>

#include "core/archive/python_names.h"

namespace graft {
namespace {

constexpr std::string_view indent = "    ";  // of a method's statements

bool isWordStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isKeyword(std::string_view word) {
  constexpr std::string_view words[] = {"and",   "or",   "not",    "if",     "else", "is",     "in",    "for",
                                        "while", "with", "return", "lambda", "pass", "assert", "raise", "print"};
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}
bool isLiteral(std::string_view word) { return word == "True" || word == "False" || word == "None"; }
// Functions that code calls without "torch." or "ops.", and that mean the same everywhere.
bool isPlainFunction(std::string_view word) { return word == "int" || word == "float" || word == "bool"; }

/// The dotted name at the front of the text: "torch.add", "self.layer.weight", "x".
std::string_view dotted(std::string_view text) {
  size_t end = 0;
  for (;;) {
    while (end < text.size() && isWordChar(text[end])) ++end;
    if (end + 1 >= text.size() || text[end] != '.' || !isWordStart(text[end + 1])) return text.substr(0, end);
    ++end;
  }
}

/// Reads an expression into tokens. False where it holds more than calls, lists, literals, variables and attributes.
bool readExpression(std::string_view text, size_t at, std::vector<StraightLineCode::Token>& out) {
  using Kind = StraightLineCode::Token::Kind;
  const auto put = [&](Kind kind, size_t length) {
    out.push_back({kind, static_cast<uint32_t>(at), text.substr(0, length)});
    text.remove_prefix(length);
    at += length;
  };
  int depth = 0;
  while (!text.empty()) {
    const char c = text[0];
    if (c == ' ') {
      text.remove_prefix(1);
      ++at;
    } else if (isWordStart(c)) {
      const std::string_view name = dotted(text), root = name.substr(0, name.find('.'));
      const std::string_view rest = text.substr(name.size());
      const char next = rest.empty() ? '\n' : rest[0];
      if (root.size() < name.size()) {
        const bool function = root == "torch" || root == "ops", attribute = root == "self" || root == "CONSTANTS";
        if ((next == '(') != function || (!function && !attribute)) return false;
        put(function ? Kind::Other : Kind::Attribute, name.size());
      } else if (next == '(') {
        if (!isPlainFunction(name)) return false;
        put(Kind::Other, name.size());
      } else if (isLiteral(name) || (next == '=' && depth > 0)) {
        put(Kind::Other, name.size());
      } else {
        if (isKeyword(name) || name == "torch" || name == "ops" || name == "self" || name == "CONSTANTS") return false;
        put(Kind::Variable, name.size());
      }
    } else if (c == '"' || c == '\'') {
      size_t end = 1;
      while (end < text.size() && text[end] != c) end += text[end] == '\\' ? 2 : 1;
      if (end >= text.size()) return false;
      put(Kind::Other, end + 1);
    } else if (isDigit(c) || (c == '-' && text.size() > 1 && isDigit(text[1]))) {
      size_t end = 1;
      while (end < text.size() && (isWordChar(text[end]) || text[end] == '.' ||
                                   (text[end] == '-' && (text[end - 1] == 'e' || text[end - 1] == 'E'))))
        ++end;
      put(Kind::Other, end);
    } else {
      if (std::string_view("()[],=").find(c) == std::string_view::npos) return false;
      depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
      if (depth < 0) return false;
      put(Kind::Other, 1);
    }
  }
  return depth == 0 && !out.empty();
}

/// Reads "a, b, = EXPRESSION" or "return EXPRESSION". False where the line is anything else.
bool readStatement(std::string_view code, size_t start, StraightLineCode::Statement& out) {
  const size_t end = std::min(code.find('\n', start), code.size());
  std::string_view line = code.substr(start, end - start);
  size_t at = start;
  constexpr std::string_view returns = "return ";
  if (line.starts_with(returns)) return readExpression(line.substr(returns.size()), at + returns.size(), out.tokens);
  for (;;) {
    if (line.empty() || !isWordStart(line[0])) return false;
    size_t length = 0;
    while (length < line.size() && isWordChar(line[length])) ++length;
    if (isKeyword(line.substr(0, length)) || isLiteral(line.substr(0, length))) return false;
    out.results.push_back(line.substr(0, length));
    const size_t more = line.find_first_not_of(", ", length);
    const bool last = more != line.npos && line[more] == '=';
    if (more == line.npos || (line[length] != ',' && !last)) return false;
    line.remove_prefix(last ? more + 1 : more);
    at += last ? more + 1 : more;
    if (last) return !line.starts_with('=') && readExpression(line, at, out.tokens);
  }
}

}  // namespace

bool StraightLineCode::read(size_t header, size_t body, size_t end) {
  starts_.clear();
  attributes_.clear();
  std::unordered_set<std::string> seen;
  Statement s;
  for (size_t at = body; at < end;) {
    s.results.clear();
    s.tokens.clear();
    const std::string_view rest = code_.substr(at, end - at);
    const bool last = rest.find('\n') == rest.npos || rest.find('\n') + 1 == rest.size();
    if (!rest.starts_with(indent) || !readStatement(code_, at + indent.size(), s) || s.results.empty() != last)
      return false;
    starts_.push_back(static_cast<uint32_t>(at + indent.size()));
    for (const Token& t : s.tokens)
      if (t.kind == Token::Kind::Attribute && seen.emplace(t.text).second) attributes_.emplace_back(t.text);
    at = std::min(code_.find('\n', at), end - 1) + 1;
  }
  const size_t arrow = code_.substr(header, body - header).find(") -> ");
  header_ = code_.substr(header, body - header);
  arrow_ = arrow == std::string_view::npos ? body - 2 : header + arrow + 1;
  return true;
}

std::optional<StraightLineCode> StraightLineCode::find(std::string_view code, std::string_view className,
                                                       size_t least) {
  if (code.size() > UINT32_MAX) return std::nullopt;
  const size_t classStart = code.find(fmt::format("class {}(", className));
  if (classStart == code.npos || (classStart > 0 && code[classStart - 1] != '\n')) return std::nullopt;
  constexpr std::string_view head = "\n  def ";
  const size_t classEnd = std::min(code.find("\nclass ", classStart), code.size());
  for (size_t at = code.find(head, classStart); at < classEnd; at = code.find(head, at + 1)) {
    // The header ends with the first line that ends in a colon, the body with the first that is indented less.
    const size_t colon = code.find(":\n", at + 1);
    if (colon == code.npos) return std::nullopt;
    size_t end = colon + 2, lines = 0;
    for (; end < code.size() && code.substr(end).starts_with(indent); ++lines)
      end = std::min(code.find('\n', end), code.size() - 1) + 1;
    if (lines < least) continue;
    StraightLineCode out;
    out.code_ = code;
    const size_t name = at + head.size();
    out.method_ = code.substr(name, code.find('(', name) - name);
    // A caller would get the stub's result, and code behind the method would move.
    if (code.find(fmt::format("(self).{}(", out.method_)) != code.npos || end < code.size()) continue;
    if (out.read(at, colon + 2, end)) return out;
  }
  return std::nullopt;
}

StraightLineCode::Statement StraightLineCode::statement(size_t i) const {
  Statement out;
  readStatement(code_, starts_[i], out);
  return out;
}

std::string StraightLineCode::stub() const {
  const size_t tensor = header_.find(": Tensor");
  if (tensor == std::string_view::npos) return {};
  size_t name = tensor;
  while (name > 0 && isWordChar(header_[name - 1])) --name;
  const std::string_view parameter = header_.substr(name, tensor - name);
  std::string out(code_.substr(0, arrow_));
  out += ":\n";
  out += indent;
  out += fmt::format("return (self, torch.is_same_size({0}, {0}), ", parameter);
  for (const std::string& a : attributes_) out += a + ", ";
  return out + ")\n";
}

}  // namespace graft
