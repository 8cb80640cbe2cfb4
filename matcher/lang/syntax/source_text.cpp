#include "matcher/lang/syntax/source_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

namespace graft::lang {
namespace {

constexpr size_t maxFileSize = 1 << 20;
constexpr size_t maxBrackets = 64;
constexpr size_t maxIndents = 20;
constexpr size_t maxTokens = 4000;  // of one statement: the parser recurses for some of them
constexpr int maxPrefixes = 40;     // unary operators in a row, each a recursion

bool isWordStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool isWord(char c) { return isWordStart(c) || std::isdigit(static_cast<unsigned char>(c)); }

/// What is wrong with a statement that begins with the word, or nothing.
std::optional<std::string> forbiddenStatement(std::string_view word) {
  if (word == "if" || word == "elif" || word == "else")
    return "a rule holds no `if` statements, because nothing in it is executed: put conditions into `where`, "
           "alternatives into any_of(...) or into a second rule";
  if (word == "for" || word == "while")
    return "a rule holds no loops, because nothing in it is executed: write the operations out";
  for (std::string_view w :
       {"with", "try", "except", "finally", "raise", "assert", "del", "global", "nonlocal", "async"})
    if (word == w) return fmt::format("`{}` has no meaning in a rule: a pattern is assignments and one return", w);
  return std::nullopt;
}

}  // namespace

class Scanner {
 public:
  Scanner(SourceText& text) : t_(text), s_(text.original_), out_(text.masked_) {}

  void run() {
    while (at_ < s_.size()) {
      if (lineStart_ && brackets_.empty()) {
        if (!beginLine()) continue;
      }
      step();
    }
    if (!brackets_.empty()) t_.fail(brackets_.back(), fmt::format("`{}` is never closed", s_[brackets_.back()]));
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < s_.size() ? s_[at_ + ahead] : '\0'; }
  void blank(size_t begin, size_t end) {
    for (size_t i = begin; i < end && i < out_.size(); ++i)
      if (out_[i] != '\n') out_[i] = ' ';
  }

  /// Indentation of a new statement. False where the line holds none.
  bool beginLine() {
    const size_t begin = at_;
    while (peek() == ' ' || peek() == '\t' || peek() == '\r' || peek() == '\f') ++at_;
    if (at_ >= s_.size()) return false;
    if (peek() == '\n' || peek() == '#') {
      lineStart_ = false;
      return true;
    }
    const size_t depth = at_ - begin;
    if (lastChar_ == ':' && depth <= indents_.back())
      t_.fail(at_, fmt::format("an indented block is missing after line {}", lastLine_));
    if (depth > indents_.back()) {
      indents_.push_back(depth);
      if (indents_.size() > maxIndents) t_.fail(at_, fmt::format("more than {} levels of indentation", maxIndents));
    }
    while (depth < indents_.back()) indents_.pop_back();
    if (depth != indents_.back()) t_.fail(at_, "this indentation matches none of the lines above");
    lineStart_ = false;
    statementStart_ = true;
    tokens_ = prefixes_ = 0;
    return true;
  }

  void step() {
    const char c = peek();
    if (c == '\n') {
      ++at_;
      if (brackets_.empty()) lineStart_ = true;
      return;
    }
    if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
      if (c != ' ' && c != '\t') out_[at_] = ' ';
      ++at_;
      return;
    }
    if (c == '#') {
      const size_t begin = at_;
      while (at_ < s_.size() && peek() != '\n') ++at_;
      blank(begin, at_);
      return;
    }
    if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
      if (peek(1) == '\r') t_.fail(at_, "a backslash before a Windows line end: save the file with Unix line ends");
      at_ += 2;
      return;
    }
    lastChar_ = c;
    lastLine_ = t_.lineOf(static_cast<uint32_t>(at_));
    if (++tokens_ > maxTokens) t_.fail(at_, fmt::format("this statement has more than {} tokens", maxTokens));
    const bool first = statementStart_;
    statementStart_ = false;
    if (isWordStart(c)) return word(first);
    if (c == '"' || c == '\'') return string(at_);
    if (std::isdigit(static_cast<unsigned char>(c))) return number();
    if (first && c == '@') return skipLine();
    if (c == ';') return semicolon();
    if (c == ':' && peek(1) == '=') t_.fail(at_, "`:=` is not part of the rule language: use a line of its own");
    if (c == '-' || c == '~' || c == '+' || c == '*') {
      if (++prefixes_ > maxPrefixes) t_.fail(at_, "too many operators in a row");
    } else {
      prefixes_ = 0;
    }
    if (c == '(' || c == '[' || c == '{') {
      brackets_.push_back(static_cast<uint32_t>(at_));
      if (brackets_.size() > maxBrackets)
        t_.fail(at_, fmt::format("brackets are nested deeper than {} levels", maxBrackets));
    } else if (c == ')' || c == ']' || c == '}') {
      const char open = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (brackets_.empty()) t_.fail(at_, fmt::format("`{}` without an opening `{}`", c, open));
      if (s_[brackets_.back()] != open)
        t_.fail(at_, fmt::format("`{}` does not close the `{}` of line {}", c, s_[brackets_.back()],
                                 t_.lineOf(brackets_.back())));
      brackets_.pop_back();
    } else if (std::string_view("+-*/%@=<>!&|^~.,:").find(c) == std::string_view::npos) {
      if (static_cast<unsigned char>(c) >= 0x80)
        t_.fail(at_, "only plain ASCII may stand outside strings and comments");
      t_.fail(at_, std::isprint(static_cast<unsigned char>(c))
                       ? fmt::format("`{}` is not part of the rule language", c)
                       : fmt::format("unexpected byte 0x{:02x}", static_cast<unsigned char>(c)));
    }
    ++at_;
  }

  void number() {
    prefixes_ = 0;
    while (isWord(peek()) || peek() == '.' ||
           ((peek() == '-' || peek() == '+') && (s_[at_ - 1] == 'e' || s_[at_ - 1] == 'E')))
      ++at_;
  }

  void word(bool first) {
    const size_t begin = at_;
    while (isWord(peek())) ++at_;
    const std::string_view w(s_.data() + begin, at_ - begin);
    if ((peek() == '"' || peek() == '\'') && w.size() <= 2) {
      for (char p : w) {
        if (p == 'f' || p == 'F') t_.fail(begin, "f-strings would have to be executed: write the text itself");
        if (p == 'b' || p == 'B') t_.fail(begin, "a rule uses no byte strings: leave out the b");
        if (std::string_view("rRuU").find(p) == std::string_view::npos) t_.fail(begin, "unknown prefix of a string");
      }
      blank(begin, at_);
      return string(at_);
    }
    if (first) {
      if (w == "import" || w == "from") return import(begin);
      if (auto why = forbiddenStatement(w)) t_.fail(begin, *why);
    } else if (w == "for") {
      t_.fail(begin, "comprehensions would have to be executed: write the items out");
    }
    if (w == "lambda") t_.fail(begin, "a rule cannot hold a lambda: write a function and call it by its name");
    if (w == "yield" || w == "await") t_.fail(begin, fmt::format("`{}` has no meaning in a rule", w));
    if (w == "not" || w == "is") {
      if (++prefixes_ > maxPrefixes) t_.fail(begin, "too many operators in a row");
      joinWords(begin, w == "not" ? "in" : "not");
    } else {
      prefixes_ = 0;
    }
  }

  /// LibTorch's lexer knows `not in` and `is not` with one blank only, and takes `not inputs` for `not in`.
  void joinWords(size_t begin, std::string_view second) {
    size_t next = at_;
    while (next < s_.size() && (s_[next] == ' ' || s_[next] == '\t')) ++next;
    if (next == at_ || s_.compare(next, second.size(), second) != 0) return;
    const bool whole = next + second.size() >= s_.size() || !isWord(s_[next + second.size()]);
    if (!whole) {
      out_[at_] = '\t';
    } else {
      blank(at_, next + second.size());
      for (size_t i = 0; i < second.size(); ++i) out_[at_ + 1 + i] = second[i];
      at_ = next + second.size();
    }
  }

  void string(size_t begin) {
    prefixes_ = 0;
    const char quote = s_[begin];
    const bool triple = s_.compare(begin, 3, std::string(3, quote)) == 0;
    const size_t width = triple ? 3 : 1;
    size_t i = begin + width;
    for (;; ++i) {
      if (i >= s_.size() || (!triple && s_[i] == '\n'))
        t_.fail(static_cast<uint32_t>(begin), "this string is never closed");
      if (s_[i] == '\\' && i + 1 < s_.size()) {
        ++i;
        continue;
      }
      if (s_.compare(i, width, std::string(width, quote)) == 0) break;
    }
    for (size_t j = begin + width; j < i; ++j)
      if (out_[j] != '\n') out_[j] = 'x';
    at_ = i + width;
  }

  /// FX's printed code ends lines with `; x = None`: they change nothing. Anything else wants a line of its own.
  void semicolon() {
    const size_t end = std::min(s_.find('\n', at_), s_.size());
    std::string_view rest(s_.data() + at_, end - at_);
    rest = rest.substr(0, rest.find('#'));
    for (size_t i = 0; i < rest.size();) {
      const size_t stop = std::min(rest.find(';', i + 1), rest.size());
      std::string_view part = rest.substr(i + 1, stop - i - 1);
      while (!part.empty() && std::isspace(static_cast<unsigned char>(part.back()))) part.remove_suffix(1);
      const bool empty = part.find_first_not_of(" \t\r") == std::string_view::npos;
      const bool deletes = part.size() > 4 && part.substr(part.size() - 4) == "None" &&
                           part.find('=') != std::string_view::npos &&
                           part.find_first_of("()[].,+-*/") == std::string_view::npos;
      if (!empty && !deletes) t_.fail(at_, "put each statement on a line of its own");
      i = stop;
    }
    blank(at_, end);
    at_ = end;
  }

  void skipLine() {
    const size_t begin = at_;
    size_t depth = 0;
    for (; at_ < s_.size(); ++at_) {
      const char c = s_[at_];
      if (c == '(' || c == '[' || c == '{') ++depth;
      if ((c == ')' || c == ']' || c == '}') && depth > 0) --depth;
      if (c == '\\' && peek(1) == '\n') {
        out_[at_] = ' ';
        ++at_;
        continue;
      }
      if (c == '\n' && depth == 0) break;
    }
    blank(begin, at_);
  }

  void import(size_t begin) {
    at_ = begin;
    skipLine();
    std::vector<std::string> words;  // of the line, commas as words
    std::vector<uint32_t> places;
    for (size_t i = begin; i < at_;) {
      const char c = s_[i];
      if (c == '#') {
        while (i < at_ && s_[i] != '\n') ++i;
      } else if (isWord(c) || c == '.' || c == '*') {
        size_t e = i;
        while (e < at_ && (isWord(s_[e]) || s_[e] == '.' || s_[e] == '*')) ++e;
        words.emplace_back(s_, i, e - i);
        places.push_back(static_cast<uint32_t>(i));
        i = e;
      } else {
        if (c == ',') {
          words.emplace_back(",");
          places.push_back(static_cast<uint32_t>(i));
        }
        ++i;
      }
    }
    if (words.size() < 2) t_.fail(static_cast<uint32_t>(begin), "`import` needs the name of a module");
    size_t i = 1;
    std::string from;
    if (words[0] == "from") {
      from = words[1];
      if (words.size() < 4 || words[2] != "import")
        t_.fail(static_cast<uint32_t>(begin), "expected `from module import name`");
      i = 3;
    }
    for (; i < words.size(); ++i) {
      if (words[i] == ",") continue;
      const std::string& name = words[i];
      const std::string full = from.empty() ? name : from + "." + name;
      const bool renamed = i + 2 < words.size() && words[i + 1] == "as";
      if (!from.empty()) t_.importedNames_.push_back({from, name, renamed ? words[i + 2] : name, places[i]});
      if (i + 2 < words.size() && words[i + 1] == "as") {
        t_.imports_[words[i + 2]] = full;
        i += 2;
      } else if (from.empty()) {
        const std::string root = name.substr(0, name.find('.'));
        t_.imports_[root] = root;
      } else {
        t_.imports_[name] = full;
      }
    }
  }

  SourceText& t_;
  const std::string& s_;
  std::string& out_;
  size_t at_ = 0;
  bool lineStart_ = true, statementStart_ = false;
  size_t tokens_ = 0;
  int prefixes_ = 0;
  char lastChar_ = 0;  // begin of the last token
  int lastLine_ = 0;
  std::vector<size_t> indents_{0};
  std::vector<uint32_t> brackets_;
};

SourceText SourceText::scan(std::string_view content, std::string_view file) {
  SourceText t;
  t.file_ = file;
  if (content.starts_with("\xef\xbb\xbf")) content.remove_prefix(3);  // a byte-order mark
  if (content.size() > maxFileSize)
    throw Failure{badInputAt({t.file_, 0, 0, {}}, fmt::format("the rule file has {} bytes, and at most {} are read",
                                                              content.size(), maxFileSize))};
  t.original_ = content;
  if (t.original_.empty() || t.original_.back() != '\n') t.original_ += '\n';
  t.masked_ = t.original_;
  t.lineStarts_.push_back(0);
  for (size_t i = 0; i < t.original_.size(); ++i)
    if (t.original_[i] == '\n') t.lineStarts_.push_back(static_cast<uint32_t>(i + 1));
  Scanner(t).run();
  return t;
}

int SourceText::lineOf(uint32_t offset) const {
  return static_cast<int>(std::upper_bound(lineStarts_.begin(), lineStarts_.end(), offset) - lineStarts_.begin());
}

std::string_view SourceText::lineText(int line) const {
  const size_t begin = lineStarts_[static_cast<size_t>(line) - 1];
  if (begin >= original_.size()) return {};
  const size_t end = original_.find('\n', begin);
  std::string_view text(original_.data() + begin, end - begin);
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

Position SourceText::position(uint32_t offset) const {
  const int line = lineOf(offset);
  return {file_, line, static_cast<int>(offset - lineStarts_[static_cast<size_t>(line) - 1]) + 1,
          std::string(lineText(line))};
}

SourceLocation SourceText::location(Span span) const {
  const Position p = position(span.begin);
  const int length = static_cast<int>(span.end - span.begin);
  const int lineEnd = static_cast<int>(p.text.size()) + 1;
  return {file_, p.line, p.column, std::min(p.column + length, lineEnd), p.text};
}

Span SourceText::keywordSpan(std::string_view name, Span value) const {
  const size_t equals = masked_.rfind('=', value.begin);
  const size_t at = equals == std::string::npos ? equals : masked_.rfind(name, equals);
  if (at == std::string::npos) return value;
  return {static_cast<uint32_t>(at), static_cast<uint32_t>(at + name.size())};
}

void SourceText::fail(uint32_t offset, std::string message) const {
  throw Failure{badInputAt(position(offset), std::move(message))};
}

std::string SourceText::decodeString(uint32_t offset, size_t length) const {
  std::string out;
  size_t read = 0, i = offset;
  for (;;) {
    const size_t open = i;
    const char quote = original_[i];
    const bool raw = (open >= 1 && (original_[open - 1] == 'r' || original_[open - 1] == 'R')) ||
                     (open >= 2 && (original_[open - 2] == 'r' || original_[open - 2] == 'R') &&
                      masked_[open - 1] == ' ' && original_[open - 1] != ' ');
    const size_t width = original_.compare(i, 3, std::string(3, quote)) == 0 ? 3 : 1;
    i += width;
    const size_t begin = i;
    while (original_.compare(i, width, std::string(width, quote)) != 0) {
      if (original_[i] != '\\') {
        out += original_[i++];
        continue;
      }
      const char c = original_[i + 1];
      if (raw) {
        out += original_[i];
        out += c;
      } else if (c == 'n' || c == 't' || c == 'r' || c == '0' || c == 'a' || c == 'b' || c == 'f' || c == 'v') {
        out += c == 'n'   ? '\n'
               : c == 't' ? '\t'
               : c == 'r' ? '\r'
               : c == 'a' ? '\a'
               : c == 'b' ? '\b'
               : c == 'f' ? '\f'
               : c == 'v' ? '\v'
                          : '\0';
      } else if (c == 'x' || c == 'u' || c == 'U' || c == 'N') {
        fail(static_cast<uint32_t>(i), "write the character itself instead of its code");
      } else if (c == '\\' || c == '\'' || c == '"') {
        out += c;
      } else if (c != '\n') {  // Python keeps unknown escapes as they are
        out += '\\';
        out += c;
      }
      i += 2;
    }
    read += i - begin;
    i += width;
    if (read >= length) return out;
    while (i < masked_.size() && masked_[i] != '"' && masked_[i] != '\'') ++i;
    if (i >= masked_.size()) return out;
  }
}

}  // namespace graft::lang
