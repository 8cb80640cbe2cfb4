#include "core/json/json_writer.h"

#include <algorithm>
#include <charconv>

namespace graft {
namespace {

bool isPlain(char c) { return c >= 0x20 && c != '"' && c != '\\'; }  // char is signed: above ASCII is negative

/// The length of the UTF-8 sequence at the front of `text`, 0 where there is none (Unicode 15, table 3-7).
size_t sequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  const unsigned char low = first == 0xE0   ? 0xA0
                            : first == 0xF0 ? 0x90
                                            : 0x80,
                      high = first == 0xED   ? 0x9F
                             : first == 0xF4 ? 0x8F
                                             : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return length;
}

}  // namespace

JsonWriter& JsonWriter::string(std::string_view text) {
  comma();
  out_ += '"';
  if (std::all_of(text.begin(), text.end(), isPlain))
    out_ += text;
  else
    escaped(text);
  out_ += '"';
  return *this;
}

void JsonWriter::escaped(std::string_view text) {
  while (!text.empty()) {
    const char c = text.front();
    if (isPlain(c)) {
      out_ += c;
    } else if (c == '"' || c == '\\') {
      out_ += '\\';
      out_ += c;
    } else if (c >= 0) {
      static constexpr char digits[] = "0123456789abcdef";
      static constexpr std::string_view letters = "btnvfr";  // 8 to 13; \v is no escape of JSON
      if (c >= 8 && c <= 13 && c != 11)
        (out_ += '\\') += letters[static_cast<size_t>(c) - 8];
      else
        ((out_ += "\\u00") += digits[c >> 4]) += digits[c & 15];
    } else if (const size_t length = sequenceLength(text)) {
      out_ += text.substr(0, length);
      text.remove_prefix(length);
      continue;
    } else {
      out_ += "\xEF\xBF\xBD";
    }
    text.remove_prefix(1);
  }
}

JsonWriter& JsonWriter::number(int64_t value) {
  char digits[24];
  return word({digits, std::to_chars(digits, digits + sizeof digits, value).ptr});
}

JsonWriter& JsonWriter::number(double value) {
  char digits[40];
  char* end = std::to_chars(digits, digits + sizeof digits - 2, value).ptr;
  if (std::all_of(digits, end, [](char c) { return c == '-' || (c >= '0' && c <= '9'); }))
    end = std::copy_n(".0", 2, end);
  return word({digits, end});
}

}  // namespace graft
