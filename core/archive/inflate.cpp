#include "core/archive/inflate.h"

#include <array>
#include <cstdint>

namespace graft {
namespace {

constexpr int maxBits = 15;

// Canonical Huffman code: how many codes each length has, and the symbols in the order of their codes.
struct Huffman {
  std::array<uint16_t, maxBits + 1> count{};
  std::array<uint16_t, 288> symbol{};

  bool build(const uint8_t* lengths, int n) {
    count.fill(0);
    for (int i = 0; i < n; ++i) ++count[lengths[i]];
    int left = 1;
    for (int bits = 1; bits <= maxBits; ++bits) {
      left = left * 2 - count[bits];
      if (left < 0) return false;  // more codes than fit
    }
    std::array<uint16_t, maxBits + 1> at{};
    for (int bits = 1; bits < maxBits; ++bits) at[bits + 1] = static_cast<uint16_t>(at[bits] + count[bits]);
    for (int i = 0; i < n; ++i)
      if (lengths[i]) symbol[at[lengths[i]]++] = static_cast<uint16_t>(i);
    return true;
  }
};

class Inflater {
 public:
  Inflater(std::string_view in, size_t size) : in_(in), size_(size) { out_.reserve(size); }

  std::optional<std::string> run() {
    for (bool last = false; !last && !bad_;) {
      last = bits(1) != 0;
      switch (bits(2)) {
        case 0:
          stored();
          break;
        case 1:
          fixed();
          break;
        case 2:
          dynamic();
          break;
        default:
          bad_ = true;
      }
    }
    if (bad_ || out_.size() != size_) return std::nullopt;
    return std::move(out_);
  }

 private:
  uint32_t bits(int n) {
    while (have_ < n) {
      if (at_ == in_.size()) {
        bad_ = true;
        return 0;
      }
      buffer_ |= static_cast<uint64_t>(static_cast<unsigned char>(in_[at_++])) << have_;
      have_ += 8;
    }
    const auto v = static_cast<uint32_t>(buffer_ & ((uint64_t{1} << n) - 1));
    buffer_ >>= n;
    have_ -= n;
    return v;
  }

  int decode(const Huffman& h) {
    int code = 0, first = 0, index = 0;
    for (int length = 1; length <= maxBits && !bad_; ++length) {
      code |= static_cast<int>(bits(1));
      const int count = h.count[static_cast<size_t>(length)];
      if (code - first < count) return h.symbol[static_cast<size_t>(index + code - first)];
      index += count;
      first = (first + count) << 1;
      code <<= 1;
    }
    bad_ = true;
    return 0;
  }

  void put(char c) {
    if (out_.size() == size_)
      bad_ = true;
    else
      out_ += c;
  }

  void stored() {
    buffer_ = 0;
    have_ = 0;
    if (in_.size() - at_ < 4) {
      bad_ = true;
      return;
    }
    const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(in_[at_ + i])); };
    const uint32_t length = byte(0) | byte(1) << 8, check = byte(2) | byte(3) << 8;
    at_ += 4;
    if (length != (~check & 0xffff) || length > in_.size() - at_ || length > size_ - out_.size()) {
      bad_ = true;
      return;
    }
    out_.append(in_.substr(at_, length));
    at_ += length;
  }

  void codes(const Huffman& literals, const Huffman& distances) {
    static constexpr std::array<uint16_t, 29> lengthBase{3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                                         15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                                         67, 83, 99, 115, 131, 163, 195, 227, 258};
    static constexpr std::array<uint8_t, 29> lengthExtra{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                         2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    static constexpr std::array<uint16_t, 30> distanceBase{
        1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
        193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    while (!bad_) {
      const int s = decode(literals);
      if (bad_ || s == 256) return;
      if (s < 256) {
        put(static_cast<char>(s));
        continue;
      }
      if (s > 285) {
        bad_ = true;
        return;
      }
      const auto l = static_cast<size_t>(s - 257);
      const size_t length = lengthBase[l] + bits(lengthExtra[l]);
      const auto d = static_cast<size_t>(decode(distances));
      if (bad_ || d > 29) {
        bad_ = true;
        return;
      }
      const size_t distance = distanceBase[d] + bits(d < 4 ? 0 : static_cast<int>(d) / 2 - 1);
      if (bad_ || distance > out_.size() || length > size_ - out_.size()) {
        bad_ = true;
        return;
      }
      for (size_t i = 0; i < length; ++i) out_ += out_[out_.size() - distance];
    }
  }

  void fixed() {
    std::array<uint8_t, 288> lengths{};
    for (size_t i = 0; i < 288; ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    Huffman literals, distances;
    literals.build(lengths.data(), 288);
    lengths.fill(5);
    distances.build(lengths.data(), 30);
    codes(literals, distances);
  }

  void dynamic() {
    static constexpr std::array<uint8_t, 19> order{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    const int literalCount = static_cast<int>(bits(5)) + 257, distanceCount = static_cast<int>(bits(5)) + 1;
    const auto lengthCount = bits(4) + 4;
    if (bad_ || literalCount > 286 || distanceCount > 30) {
      bad_ = true;
      return;
    }
    std::array<uint8_t, 320> lengths{};
    for (size_t i = 0; i < lengthCount; ++i) lengths[order[i]] = static_cast<uint8_t>(bits(3));
    Huffman lengthCode;
    if (!lengthCode.build(lengths.data(), 19)) {
      bad_ = true;
      return;
    }
    lengths.fill(0);
    for (int i = 0; i < literalCount + distanceCount && !bad_;) {
      const int s = decode(lengthCode);
      if (s < 16) {
        lengths[static_cast<size_t>(i++)] = static_cast<uint8_t>(s);
        continue;
      }
      if (s == 16 && i == 0) bad_ = true;
      const uint8_t value = s == 16 && i > 0 ? lengths[static_cast<size_t>(i - 1)] : uint8_t{0};
      int repeat = static_cast<int>(s == 16 ? 3 + bits(2) : s == 17 ? 3 + bits(3) : 11 + bits(7));
      if (i + repeat > literalCount + distanceCount) bad_ = true;
      while (!bad_ && repeat-- > 0) lengths[static_cast<size_t>(i++)] = value;
    }
    Huffman literals, distances;
    if (bad_ || !literals.build(lengths.data(), literalCount) ||
        !distances.build(lengths.data() + literalCount, distanceCount)) {
      bad_ = true;
      return;
    }
    codes(literals, distances);
  }

  std::string_view in_;
  size_t size_, at_ = 0;
  std::string out_;
  uint64_t buffer_ = 0;
  int have_ = 0;
  bool bad_ = false;
};

}  // namespace

std::optional<std::string> inflate(std::string_view packed, size_t size) { return Inflater(packed, size).run(); }

}  // namespace graft
