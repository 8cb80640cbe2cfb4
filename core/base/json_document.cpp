#include "core/base/json_document.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "core/base/text_position.h"

namespace graft {
namespace {

constexpr size_t maxDepth = 2'000;
constexpr size_t maxBytes = UINT32_MAX;
constexpr size_t indexFrom = 64;  // members: below, looking at each is quicker

enum class CharKind : uint8_t { Plain, Quote, Escape, Control, Wide };

constexpr std::array<CharKind, 256> charKinds = [] {
  std::array<CharKind, 256> out{};
  for (size_t c = 0; c < 0x20; ++c) out[c] = CharKind::Control;
  for (size_t c = 0x80; c < 0x100; ++c) out[c] = CharKind::Wide;
  out['"'] = CharKind::Quote;
  out['\\'] = CharKind::Escape;
  return out;
}();

bool isDigit(char c) { return c >= '0' && c <= '9'; }

int hexDigit(char c) {
  if (isDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/// The four hexadecimal digits at the front; -1 where there are none.
int32_t hexUnit(std::string_view text) {
  if (text.size() < 4) return -1;
  int32_t out = 0;
  for (size_t i = 0; i < 4; ++i) {
    const int digit = hexDigit(text[i]);
    if (digit < 0) return -1;
    out = out * 16 + digit;
  }
  return out;
}

bool isHighSurrogate(int32_t unit) { return unit >= 0xd800 && unit < 0xdc00; }
bool isLowSurrogate(int32_t unit) { return unit >= 0xdc00 && unit < 0xe000; }

/// Bytes of the UTF-8 sequence at the front, which is no ASCII; 0 where it is none (overlong and surrogates too).
size_t wideLength(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto continues = [&](size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned lead = byte(0);
  if (lead >= 0xc2 && lead <= 0xdf) return continues(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef)
    return continues(1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf) && continues(2) ? 3 : 0;
  if (lead >= 0xf0 && lead <= 0xf4)
    return continues(1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf) && continues(2) && continues(3) ? 4 : 0;
  return 0;
}

void appendUtf8(std::string& out, uint32_t point) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xc0 | point >> 6), put(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    put(0xe0 | point >> 12), put(0x80 | (point >> 6 & 0x3f)), put(0x80 | (point & 0x3f));
  } else {
    put(0xf0 | point >> 18), put(0x80 | (point >> 12 & 0x3f)), put(0x80 | (point >> 6 & 0x3f));
    put(0x80 | (point & 0x3f));
  }
}

/// Of a text that the parser found sound.
void decode(std::string_view quoted, std::string& out) {
  out.clear();
  out.reserve(quoted.size());
  while (!quoted.empty()) {
    const size_t plain = std::min(quoted.find('\\'), quoted.size());
    out += quoted.substr(0, plain);
    quoted.remove_prefix(plain);
    if (quoted.empty()) break;
    const char c = quoted[1];
    quoted.remove_prefix(2);
    switch (c) {
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 't':
        out += '\t';
        break;
      case 'u': {
        auto point = static_cast<uint32_t>(hexUnit(quoted));
        quoted.remove_prefix(4);
        if (isHighSurrogate(static_cast<int32_t>(point))) {
          point = 0x10000 + ((point - 0xd800) << 10) + static_cast<uint32_t>(hexUnit(quoted.substr(2))) - 0xdc00;
          quoted.remove_prefix(6);
        }
        appendUtf8(out, point);
        break;
      }
      default:
        out += c;
    }
  }
}

}  // namespace

// Parsing
// ---------------------------------------------------------------------------------------------------------------------

class JsonParser {
 public:
  explicit JsonParser(JsonDocument& doc) : text_(doc.text_), starts_(doc.starts_) {}

  /// What is wrong; empty where nothing is. `at` is where.
  std::string run() {
    starts_.reserve(text_.size() / 8 + 16);  // pages that stay empty cost nothing
    value();
    while (problem_.empty() && !open_.empty()) member();
    space();
    if (problem_.empty() && at_ < text_.size()) fail("something follows the document");
    return problem_;
  }
  size_t at() const { return at_; }

 private:
  void fail(std::string_view what) {
    if (problem_.empty()) problem_ = what;
  }
  char here() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  void note() { starts_.push_back(static_cast<uint32_t>(at_)); }

  // The next member of the innermost container, or its end.
  void member() {
    const uint32_t container = open_.back();
    const bool isObject = text_[starts_[container]] == '{';
    const bool isFirst = starts_.size() == container + 2;
    space();
    if (here() == (isObject ? '}' : ']')) {
      ++at_;
      starts_[container + 1] = static_cast<uint32_t>(starts_.size());
      open_.pop_back();
      return;
    }
    if (!isFirst) {
      if (here() != ',') return fail(isObject ? "a comma or } is missing" : "a comma or ] is missing");
      ++at_;
      space();
    }
    if (isObject) {
      if (here() != '"') return fail("a key is missing");
      note();
      string();
      space();
      if (here() != ':') return fail("a colon is missing");
      ++at_;
    }
    value();
  }

  void value() {
    space();
    if (starts_.size() > UINT32_MAX - 4) return fail("it has too many values");
    note();
    switch (here()) {
      case '{':
      case '[':
        if (open_.size() == maxDepth) return fail(fmt::format("it is nested more than {} deep", maxDepth));
        open_.push_back(static_cast<uint32_t>(starts_.size() - 1));
        starts_.push_back(0);  // its end, once known
        ++at_;
        return;
      case '"':
        return string();
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        return number();
    }
  }

  void word(std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) return fail("a value is missing");
    at_ += expected.size();
  }

  void string() {
    for (++at_; at_ < text_.size();) {
      switch (charKinds[static_cast<unsigned char>(text_[at_])]) {
        case CharKind::Plain:
          ++at_;
          break;
        case CharKind::Quote:
          ++at_;
          return;
        case CharKind::Escape:
          if (!escape()) return fail("a string has an unknown escape");
          break;
        case CharKind::Control:
          return fail("a string has a control character");
        case CharKind::Wide: {
          const size_t length = wideLength(text_.substr(at_, 4));
          if (length == 0) return fail("a string is not UTF-8");
          at_ += length;
        }
      }
    }
    fail("a string does not end");
  }

  bool escape() {
    const std::string_view rest = text_.substr(at_ + 1, 11);
    if (rest.empty()) return false;
    if (rest[0] != 'u') {
      at_ += 2;
      return std::string_view("\"\\/bfnrt").find(rest[0]) != std::string_view::npos;
    }
    const int32_t unit = hexUnit(rest.substr(1));
    if (unit < 0 || isLowSurrogate(unit)) return false;
    at_ += 6;
    if (!isHighSurrogate(unit)) return true;
    at_ += 6;
    return rest.size() == 11 && rest[5] == '\\' && rest[6] == 'u' && isLowSurrogate(hexUnit(rest.substr(7)));
  }

  void digits() {
    if (!isDigit(here())) return fail("a number has no digits");
    while (isDigit(here())) ++at_;
  }
  void number() {
    const size_t start = at_;
    if (at_ == text_.size()) return fail("it ends in the middle");
    if (here() == '-')
      ++at_;
    else if (!isDigit(here()))
      return fail("a value is missing");
    if (here() == '0')
      ++at_;
    else
      digits();
    bool whole = true;
    if (here() == '.') {
      whole = false;
      ++at_;
      digits();
    }
    if (here() == 'e' || here() == 'E') {
      whole = false;
      ++at_;
      if (here() == '+' || here() == '-') ++at_;
      digits();
    }
    // Only those with an exponent, or very long ones, can be too large.
    if (!problem_.empty() || (whole && at_ - start < 300)) return;
    if (!std::isfinite(std::strtod(std::string(text_.substr(start, at_ - start)).c_str(), nullptr)))
      fail("a number is too large");
  }

  std::string_view text_;
  std::vector<uint32_t>& starts_;
  size_t at_ = 0;
  std::string problem_;
  std::vector<uint32_t> open_;  // containers, outermost first
};

Result<JsonDocument> JsonDocument::parse(std::string_view text) { return parse(text, {}); }

Result<JsonDocument> JsonDocument::parse(std::string_view text, std::string_view file) {
  constexpr size_t mostShown = 200;  // bytes of a line
  if (text.size() >= maxBytes) return badInput("no JSON that can be read: it has 4 GiB or more");
  JsonDocument doc;
  doc.text_ = text;
  JsonParser parser(doc);
  const std::string problem = parser.run();
  if (problem.empty()) return doc;
  if (file.empty()) return badInput(fmt::format("no valid JSON at byte {}: {}", parser.at(), problem));
  return badInputAt(positionAt(text, parser.at(), file, mostShown), "no valid JSON: " + problem);
}

// Looking up
// ---------------------------------------------------------------------------------------------------------------------

std::string_view JsonDocument::quoted(uint32_t index, bool& escaped) const {
  const char* start = text_.data() + starts_[index] + 1;
  const char* end = start;
  escaped = false;
  for (;; ++end) {
    if (*end == '"') break;
    if (*end != '\\') continue;
    escaped = true;
    ++end;
  }
  return {start, static_cast<size_t>(end - start)};
}

bool JsonDocument::equals(uint32_t index, std::string_view wanted) const {
  const char* here = text_.data() + starts_[index] + 1;  // up to a quote: no further than the text
  for (char c : wanted) {
    if (*here == '\\') {
      bool escaped = false;
      std::string decoded;
      decode(quoted(index, escaped), decoded);
      return decoded == wanted;
    }
    if (*here == '"' || *here != c) return false;
    ++here;
  }
  return *here == '"';
}

const JsonDocument::Index& JsonDocument::indexOf(uint32_t object) const {
  const auto [it, isNew] = indices_.try_emplace(object);
  if (!isNew) return it->second;
  for (uint32_t i = object + 2; i < starts_[object + 1]; i = next(i + 1)) {
    bool escaped = false;
    std::string_view key = quoted(i, escaped);
    if (escaped) {
      decode(key, decodedKeys_.emplace_back());
      key = decodedKeys_.back();
    }
    it->second[key] = i + 1;
  }
  return it->second;
}

uint32_t JsonDocument::findMember(uint32_t object, std::string_view key) const {
  uint32_t found = 0;
  size_t members = 0;
  if (const auto known = indices_.find(object); known == indices_.end()) {
    for (uint32_t i = object + 2; i < starts_[object + 1]; i = next(i + 1)) {
      if (++members > indexFrom) break;
      if (equals(i, key)) found = i + 1;
    }
    if (members <= indexFrom) return found;
  }
  const Index& index = indexOf(object);
  const auto it = index.find(key);
  return it == index.end() ? 0 : it->second;
}

std::string_view JsonValue::kindName() const {
  if (!doc_) return "nothing";
  if (isNull()) return "null";
  if (isBoolean()) return "a boolean";
  if (isText()) return "text";
  if (isArray()) return "a list";
  return isObject() ? "an object" : "a number";
}

std::string JsonValue::path() const {
  if (!doc_) return "nothing";
  std::string out;
  for (uint32_t at = 0; at != index_;) {
    const bool isObject = doc_->at(at) == '{';
    uint32_t child = at + 2, position = 0;
    // A key stands before its value; the key itself is looked for where a message is about it.
    while (doc_->next(isObject ? child + 1 : child) <= index_) {
      child = doc_->next(isObject ? child + 1 : child);
      ++position;
    }
    if (isObject) {
      out += (out.empty() ? "" : ".") + JsonValue(doc_, child).text();
      if (child == index_) break;
      at = child + 1;
    } else {
      out += fmt::format("[{}]", position);
      at = child;
    }
  }
  return out.empty() ? "the whole" : out;
}

void JsonValue::wrong(std::string_view belongs) const {
  throw JsonError(fmt::format("{} is {} where {} belongs", path(), kindName(), belongs));
}

// Decoding
// ---------------------------------------------------------------------------------------------------------------------

std::string_view JsonValue::numberText() const {
  const std::string_view rest = doc_->text_.substr(doc_->starts_[index_]);
  return rest.substr(0, std::min(rest.find_first_not_of("+-.eE0123456789"), rest.size()));
}

bool JsonValue::isInteger() const {
  if (!isNumber()) return false;
  const std::string_view digits = numberText();
  int64_t out = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return error == std::errc() && end == digits.data() + digits.size();
}

int64_t JsonValue::integer() const {
  if (!isNumber()) wrong("a whole number");
  const std::string_view digits = numberText();
  int64_t out = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (error != std::errc() || end != digits.data() + digits.size())
    throw JsonError(fmt::format("{} is {}, which is no whole number of 64 bits", path(), digits.substr(0, 40)));
  return out;
}

double JsonValue::number() const {
  if (!isNumber()) wrong("a number");
  const std::string_view digits = numberText();
  double out = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), out).ec == std::errc()) return out;
  return std::strtod(std::string(digits).c_str(), nullptr);  // too small for a normal number
}

bool JsonValue::boolean() const {
  if (!isBoolean()) wrong("true or false");
  return first() == 't';
}

std::string JsonValue::text() const {
  std::string out;
  const std::string_view direct = text(out);
  if (direct.data() != out.data()) out = direct;
  return out;
}

std::string_view JsonValue::text(std::string& buffer) const {
  if (!isText()) wrong("text");
  bool escaped = false;
  const std::string_view raw = doc_->quoted(index_, escaped);
  if (!escaped) return raw;
  decode(raw, buffer);
  return buffer;
}

bool JsonValue::is(std::string_view wanted) const { return isText() && doc_->equals(index_, wanted); }

JsonValue JsonValue::find(std::string_view key) const {
  if (!isObject()) return {};
  const uint32_t found = doc_->findMember(index_, key);
  return found ? JsonValue(doc_, found) : JsonValue();
}

JsonValue JsonValue::at(std::string_view key) const {
  if (!isObject()) wrong("an object");
  const JsonValue found = find(key);
  if (!found) throw JsonError(fmt::format("{} has no {}", path(), key));
  return found;
}

JsonValue JsonValue::at(size_t index) const {
  size_t i = 0;
  for (JsonValue v : *this)
    if (i++ == index) return v;
  throw JsonError(fmt::format("{} has {} elements where {} belong", path(), i, index + 1));
}

size_t JsonValue::size() const {
  size_t out = 0;
  if (!isArray() && !isObject()) return out;
  const uint32_t key = isObject() ? 1 : 0;
  for (uint32_t i = index_ + 2; i < doc_->starts_[index_ + 1]; i = doc_->next(i + key)) ++out;
  return out;
}

JsonValue::Elements JsonValue::begin() const {
  if (!isArray()) wrong("a list");
  return {doc_, index_ + 2, doc_->starts_[index_ + 1]};
}

std::vector<JsonValue> JsonValue::elements() const {
  std::vector<JsonValue> out;
  for (JsonValue v : *this) out.push_back(v);
  return out;
}

JsonValue::Members JsonValue::members() const {
  if (!isObject()) wrong("an object");
  return {doc_, index_ + 2, doc_->starts_[index_ + 1]};
}

}  // namespace graft
