#include "core/json/json_reader.h"

#include <charconv>
#include <utility>

namespace graft {
namespace {

bool isDigit(char c) { return c >= '0' && c <= '9'; }

void appendUtf8(std::string& out, uint32_t c) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | (c >> 6));
  } else {
    if (c < 0x10000) {
      put(0xE0 | (c >> 12));
    } else {
      put(0xF0 | (c >> 18));
      put(0x80 | ((c >> 12) & 0x3F));
    }
    put(0x80 | ((c >> 6) & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

/// The number that four hexadecimal digits at `at` say, or nothing.
bool hex4(std::string_view text, size_t at, uint32_t& out) {
  if (at + 4 > text.size()) return false;
  return std::from_chars(text.data() + at, text.data() + at + 4, out, 16).ptr == text.data() + at + 4;
}

}  // namespace

JsonReader::Kind JsonReader::peek() {
  space();
  if (at_ >= text_.size()) return Kind::None;
  switch (text_[at_]) {
    case '{':
      return Kind::Object;
    case '[':
      return Kind::Array;
    case '"':
      return Kind::String;
    case 't':
      return Kind::True;
    case 'f':
      return Kind::False;
    case 'n':
      return Kind::Null;
    default:
      return text_[at_] == '-' || isDigit(text_[at_]) ? Kind::Number : Kind::None;
  }
}

bool JsonReader::enter(char bracket) {
  space();
  if (at_ >= text_.size() || text_[at_] != bracket) return false;
  if (++depth_ > deepest) return fail("it is nested too deeply"), false;
  ++at_;
  fresh_ = true;
  return true;
}

/// Whether another member or item stands there; passes the comma, or the closing bracket.
bool JsonReader::next(char closing) {
  space();
  const bool first = std::exchange(fresh_, false);
  if (at_ >= text_.size()) return fail("it ends too early"), false;
  if (text_[at_] == closing) {
    ++at_;
    --depth_;
    return false;
  }
  if (first) return true;
  if (text_[at_] != ',') return fail("a comma is missing"), false;
  ++at_;
  space();
  return true;
}

std::string_view JsonReader::keyOf() {
  if (peek() != Kind::String) return fail("a member has no name"), std::string_view();
  const std::string_view key = string();
  space();
  if (at_ >= text_.size() || text_[at_] != ':') return fail("a colon is missing"), std::string_view();
  ++at_;
  space();
  return key;
}

/// From the opening quote to behind the closing one.
void JsonReader::passString() {
  for (size_t i = at_ + 1; i < text_.size(); ++i) {
    const char c = text_[i];
    if (c == '"') {
      at_ = i + 1;
      return;
    }
    if (c == '\\') ++i;
    if (static_cast<unsigned char>(c) < 0x20) return fail("a control character stands in a string");
  }
  fail("a string does not end");
}

std::string_view JsonReader::string() {
  if (peek() != Kind::String) return {};
  const size_t from = at_ + 1;
  passString();
  if (failed()) return {};
  const std::string_view written = text_.substr(from, at_ - 1 - from);
  if (written.find('\\') == std::string_view::npos) return written;
  unescaped_.clear();
  if (!unescape(written, unescaped_)) return fail("an escape in a string is none"), std::string_view();
  return unescaped_;
}

bool JsonReader::unescape(std::string_view written, std::string& into) {
  for (size_t i = 0; i < written.size(); ++i) {
    if (written[i] != '\\') {
      into += written[i];
      continue;
    }
    if (++i >= written.size()) return false;
    static constexpr std::string_view letters = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
    if (const size_t k = letters.find(written[i]); k != std::string_view::npos) {
      into += meant[k];
      continue;
    }
    uint32_t c = 0, low = 0;
    if (written[i] != 'u' || !hex4(written, i + 1, c)) return false;
    i += 4;
    const bool isHigh = c >= 0xD800 && c < 0xDC00;
    if (isHigh && written.substr(i + 1, 2) == "\\u" && hex4(written, i + 3, low) && low >= 0xDC00 && low < 0xE000) {
      c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
      i += 6;
    }
    appendUtf8(into, c >= 0xD800 && c < 0xE000 ? 0xFFFD : c);
  }
  return true;
}

std::string_view JsonReader::numberText() {
  const size_t from = at_;
  const auto digits = [&] {
    const size_t first = at_;
    while (at_ < text_.size() && isDigit(text_[at_])) ++at_;
    return at_ > first;
  };
  const auto is = [&](char c) { return at_ < text_.size() && text_[at_] == c; };
  if (is('-')) ++at_;
  const bool zero = is('0');
  const size_t whole = at_;
  if (!digits() || (zero && at_ > whole + 1)) return fail("a number is none"), std::string_view();
  if (is('.') && (++at_, !digits())) return fail("a number is none"), std::string_view();
  if (is('e') || is('E')) {
    ++at_;
    if (is('+') || is('-')) ++at_;
    if (!digits()) return fail("a number is none"), std::string_view();
  }
  return text_.substr(from, at_ - from);
}

JsonReader::Number JsonReader::number() {
  Number out;
  if (peek() != Kind::Number) return out;
  const std::string_view written = numberText();
  const char* end = written.data() + written.size();
  const auto [last, error] = std::from_chars(written.data(), end, out.integer);
  out.isInteger = !written.empty() && error == std::errc() && last == end;
  if (out.isInteger)
    out.real = static_cast<double>(out.integer);
  else
    std::from_chars(written.data(), end, out.real);
  return out;
}

int64_t JsonReader::integer(int64_t otherwise) {
  const Number n = number();
  return n.isInteger ? n.integer : otherwise;
}

bool JsonReader::boolean() {
  const Kind kind = peek();
  if (kind != Kind::True && kind != Kind::False) return false;
  return word(kind == Kind::True ? "true" : "false") && kind == Kind::True;
}

bool JsonReader::word(std::string_view w) {
  if (text_.substr(at_, w.size()) != w) return fail("a word is neither true, false nor null"), false;
  at_ += w.size();
  return true;
}

void JsonReader::pass() {
  switch (peek()) {
    case Kind::Object:
      return object([](std::string_view) {});
    case Kind::Array:
      return array([] {});
    case Kind::String:
      return passString();
    case Kind::Number:
      numberText();
      return;
    case Kind::True:
    case Kind::False:
      boolean();
      return;
    case Kind::Null:
      word("null");
      return;
    case Kind::None:
      fail(at_ < text_.size() ? "something is no value" : "it ends too early");
  }
}

std::string_view JsonReader::raw() {
  space();
  const size_t from = at_;
  pass();
  return failed() ? std::string_view() : text_.substr(from, at_ - from);
}

bool JsonReader::atEnd() {
  space();
  return at_ == text_.size() && !failed();
}

std::string JsonReader::why() const {
  return failed() ? std::string(why_) + " at byte " + std::to_string(failedAt_) : std::string();
}

}  // namespace graft
