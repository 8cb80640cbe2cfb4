// JsonReader: reads one JSON text (RFC 8259) from front to back, without a tree of it in memory. The caller asks for
// what it expects; where something else stands, it gets nothing, and where the text is no JSON, `failed` says why and
// every further question is answered with nothing. Never throws; the text must outlive the reader.
//
// For what a program of ours wrote and another takes over whole: the engine's graphs, which the window decodes in one
// pass while the next part is on its way. It keeps nothing of the text, so nothing can be asked for twice. Files of
// others are core/base/json_document.h's: their values are asked for by name, and what is wrong with them is said by
// path.
//
//   JsonReader r(text);
//   r.object([&](std::string_view key) {
//     if (key == "name") name = r.string();
//     if (key == "sizes") r.array([&] { sizes.push_back(r.integer()); });     // what is not read is skipped
//   });
//   if (r.failed()) …
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace graft {

class JsonReader {
 public:
  enum class Kind { Object, Array, String, Number, True, False, Null, None };

  explicit JsonReader(std::string_view text) : text_(text) {}

  /// What stands next; None at the end, and where no value can begin.
  Kind peek();
  /// Calls member(key) at each member's value. The key holds until the next string is read.
  template <class F>
  void object(F&& member) {
    if (!enter('{')) return;
    while (next('}')) {
      const std::string_view key = keyOf();
      if (failed()) return;
      const size_t before = at_;
      member(key);
      if (at_ == before) skip();
    }
  }
  /// Calls item() at each item.
  template <class F>
  void array(F&& item) {
    if (!enter('[')) return;
    while (next(']')) {
      const size_t before = at_;
      item();
      if (at_ == before) skip();
    }
  }
  /// Without its escapes; holds until the next string is read. Empty where none stands.
  std::string_view string();
  /// Numbers with a fraction or an exponent, and those out of range, are `otherwise`.
  int64_t integer(int64_t otherwise = 0);
  struct Number {
    bool isInteger = false;
    int64_t integer = 0;
    double real = 0;
  };
  Number number();
  bool boolean();
  void skip() { raw(); }
  /// The text of the next value, which is checked and passed.
  std::string_view raw();
  /// Nothing but space is left.
  bool atEnd();

  bool failed() const { return why_ != nullptr; }
  /// In words, with the byte at which it is; "" where nothing is wrong.
  std::string why() const;

 private:
  static constexpr int deepest = 512;

  bool enter(char bracket);
  bool next(char closing);
  std::string_view keyOf();
  void pass();
  void passString();
  std::string_view numberText();
  bool unescape(std::string_view written, std::string& into);
  void space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  bool word(std::string_view w);
  void fail(const char* why) {
    if (!why_) why_ = why, failedAt_ = at_;
    at_ = text_.size();
  }

  std::string_view text_;
  size_t at_ = 0, failedAt_ = 0;
  int depth_ = 0;
  bool fresh_ = false;  ///< a bracket was just opened: no comma is due
  const char* why_ = nullptr;
  std::string unescaped_;
};

}  // namespace graft
