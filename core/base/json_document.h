// JsonDocument: a large JSON text, read in place. Parsing checks the whole text and notes where each value begins, four
// bytes a value (eight for an array or object); strings and numbers are decoded when they are asked for. A text of 70
// MB takes a tenth of a second and 40 MB, where a tree of nodes takes a second and 600 MB. For reading alone: small
// documents, and those that are written, are nlohmann::json's. For files of others, whose values are asked for by name,
// in any order and more than once, and whose mistakes are worth naming: what is read once from front to back, as it
// comes, is core/json/json_reader.h's.
//
//   auto doc = JsonDocument::parse(bytes);          // borrows the bytes: they must outlive the document
//   if (!doc) return doc.error();                   // "no valid JSON at byte 17: a string does not end"
//   for (JsonValue n : doc->root().at("nodes"))     // throws JsonError: "nodes[3].op is a number where text belongs"
//     use(n.at("op").text());
//
// Values are two words, copied freely and valid as long as the document stays where it is. What a file may get wrong
// throws JsonError, which names the place: catch it where the file's reader ends. Where an object has a key twice, the
// last one counts. One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"

namespace graft {

class JsonDocument;

struct JsonError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class JsonValue {
 public:
  class Elements;
  class Members;

  JsonValue() = default;  ///< absent: what `find` gives where there is nothing
  explicit operator bool() const { return doc_ != nullptr; }

  // What it is. An absent value is nothing of these.
  bool isNull() const { return first() == 'n'; }
  bool isBoolean() const { return first() == 't' || first() == 'f'; }
  bool isText() const { return first() == '"'; }
  bool isArray() const { return first() == '['; }
  bool isObject() const { return first() == '{'; }
  bool isNumber() const { return first() == '-' || (first() >= '0' && first() <= '9'); }
  /// A number without fraction and exponent that fits 64 bits.
  bool isInteger() const;

  // What it holds. Throws JsonError where it is something else.
  bool boolean() const;
  int64_t integer() const;
  double number() const;
  std::string text() const;
  /// The same without a copy where the text has no escapes; otherwise it is decoded into `buffer`.
  std::string_view text(std::string& buffer) const;
  /// Whether it is this text.
  bool is(std::string_view text) const;

  /// The member of that name. `find` gives an absent value where there is none or this is no object; `at` throws.
  JsonValue find(std::string_view key) const;
  JsonValue at(std::string_view key) const;
  /// An array's element, counted from 0; throws where there is none. Linear in `index`: loops want begin and end.
  JsonValue at(size_t index) const;
  /// Of an array or object; 0 for others. Linear.
  size_t size() const;

  /// The elements in order. Throws where it is no array.
  Elements begin() const;
  static std::default_sentinel_t end() { return {}; }
  std::vector<JsonValue> elements() const;
  /// An object's members in the text's order: for (auto [key, value] : v.members()). Throws where it is no object.
  Members members() const;

  /// "graph.nodes[3].op"; "the whole" for the root.
  std::string path() const;
  /// "text", "a number", "a list", …
  std::string_view kindName() const;

 private:
  friend class JsonDocument;
  JsonValue(const JsonDocument* doc, uint32_t index) : doc_(doc), index_(index) {}
  char first() const;
  std::string_view numberText() const;
  [[noreturn]] void wrong(std::string_view belongs) const;

  const JsonDocument* doc_ = nullptr;
  uint32_t index_ = 0;
};

class JsonDocument {
 public:
  /// Where it is no JSON, is nested more than 2,000 deep or has 4 GiB or more, the error says why and at which byte.
  static Result<JsonDocument> parse(std::string_view text);
  /// The same for a file that people write: the error has its name, the line and the column.
  static Result<JsonDocument> parse(std::string_view text, std::string_view file);

  JsonValue root() const { return {this, 0}; }

 private:
  friend class JsonValue;
  friend class JsonParser;
  using Index = std::unordered_map<std::string_view, uint32_t>;

  char at(uint32_t index) const { return text_[starts_[index]]; }
  bool isContainer(uint32_t index) const { return at(index) == '[' || at(index) == '{'; }
  /// The value after this one; past the last member of a container it is the container's end.
  uint32_t next(uint32_t index) const { return isContainer(index) ? starts_[index + 1] : index + 1; }
  /// What stands between the quotes, undecoded.
  std::string_view quoted(uint32_t index, bool& escaped) const;
  bool equals(uint32_t index, std::string_view text) const;
  uint32_t findMember(uint32_t object, std::string_view key) const;
  const Index& indexOf(uint32_t object) const;

  std::string_view text_;
  /// Of each value, and of each key before its value: where it begins in the text. After an array's or object's own
  /// entry stands the index past its end, then its members.
  std::vector<uint32_t> starts_;
  mutable std::unordered_map<uint32_t, Index> indices_;  ///< of large objects that were searched
  mutable std::deque<std::string> decodedKeys_;
};

inline char JsonValue::first() const { return doc_ ? doc_->at(index_) : '\0'; }

class JsonValue::Elements {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = JsonValue;
  JsonValue operator*() const { return {doc_, at_}; }
  Elements& operator++() {
    at_ = doc_->next(at_);
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return at_ >= end_; }

 private:
  friend class JsonValue;
  Elements(const JsonDocument* doc, uint32_t at, uint32_t end) : doc_(doc), at_(at), end_(end) {}
  const JsonDocument* doc_;
  uint32_t at_, end_;
};

class JsonValue::Members {
 public:
  struct Member {
    std::string key;
    JsonValue value;
  };
  class Iterator {
   public:
    Member operator*() const { return {JsonValue(doc_, at_).text(), JsonValue(doc_, at_ + 1)}; }
    Iterator& operator++() {
      at_ = doc_->next(at_ + 1);
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return at_ >= end_; }

   private:
    friend class Members;
    Iterator(const JsonDocument* doc, uint32_t at, uint32_t end) : doc_(doc), at_(at), end_(end) {}
    const JsonDocument* doc_;
    uint32_t at_, end_;
  };
  Iterator begin() const { return {doc_, at_, end_}; }
  static std::default_sentinel_t end() { return {}; }

 private:
  friend class JsonValue;
  Members(const JsonDocument* doc, uint32_t at, uint32_t end) : doc_(doc), at_(at), end_(end) {}
  const JsonDocument* doc_;
  uint32_t at_, end_;
};

}  // namespace graft
