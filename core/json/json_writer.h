// JsonWriter: JSON text, written value by value at the end of a string, without a tree of it in memory. Commas come by
// themselves; the caller opens, closes and names in an order that makes sense. Bytes that are no UTF-8 become U+FFFD.
//
//   std::string text;
//   JsonWriter w(text);
//   w.open('{').key("name").string("relu").key("sizes").open('[').number(2).number(3).close(']').close('}');
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace graft {

class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  /// '{' or '['.
  JsonWriter& open(char bracket) {
    comma();
    out_ += bracket;
    return *this;
  }
  JsonWriter& close(char bracket) {
    out_ += bracket;
    return *this;
  }
  JsonWriter& key(std::string_view name) {
    string(name);
    out_ += ':';
    return *this;
  }
  JsonWriter& string(std::string_view text);
  JsonWriter& number(int64_t value);
  /// Must be finite. Reads back as the same double, and as one: 1 is written 1.0.
  JsonWriter& number(double value);
  JsonWriter& boolean(bool value) { return word(value ? "true" : "false"); }
  JsonWriter& null() { return word("null"); }

 private:
  /// No string ends in one of these: what stands before says whether a comma is due.
  void comma() {
    if (!out_.empty() && out_.back() != '{' && out_.back() != '[' && out_.back() != ':') out_ += ',';
  }
  JsonWriter& word(std::string_view text) {
    comma();
    out_ += text;
    return *this;
  }
  void escaped(std::string_view text);

  std::string& out_;
};

}  // namespace graft
