// ByteReader: reads a record's bytes from front to back, never beyond the end. Missing bytes read as zeros and set
// ranOut(). It stays set, so a caller may finish its step and check once.
//
//   ByteReader bytes(record);
//   const auto length = bytes.number<uint32_t>();
//   const std::string_view text = bytes.take(length);
//   if (bytes.ranOut()) …
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

namespace graft {

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  bool atEnd() const { return at_ == bytes_.size(); }
  bool ranOut() const { return ranOut_; }

  /// The next n bytes; an empty text where fewer are left.
  std::string_view take(size_t n) {
    if (n > bytes_.size() - at_) {
      ranOut_ = true;
      return {};
    }
    at_ += n;
    return bytes_.substr(at_ - n, n);
  }
  /// The next number, little-endian as this machine is.
  template <class T>
  T number() {
    T v{};
    if (const std::string_view raw = take(sizeof v); raw.size() == sizeof v) std::memcpy(&v, raw.data(), sizeof v);
    return v;
  }
  /// The text before the next '\n'. Skips the '\n'.
  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == bytes_.npos) {
      ranOut_ = true;
      return {};
    }
    const std::string_view out = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return out;
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  bool ranOut_ = false;
};

}  // namespace graft
