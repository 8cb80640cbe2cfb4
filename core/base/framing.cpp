#include "core/base/framing.h"

#include <cctype>
#include <charconv>
#include <utility>

namespace graft {
namespace {

// Headers longer than this are no headers.
constexpr size_t longestHeader = 4096;

bool equalsIgnoringCase(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(a[i])) != std::tolower(static_cast<unsigned char>(b[i]))) return false;
  return true;
}

}  // namespace

std::optional<std::string> FrameReader::next() {
  if (!broken_.empty()) return std::nullopt;
  const auto stop = [&](const char* why) {
    broken_ = why;
    return std::nullopt;
  };
  const size_t end = buffer_.find("\r\n\r\n");
  if (end == std::string::npos)
    return buffer_.size() > longestHeader ? stop("no end of headers in the first 4096 bytes") : std::nullopt;
  if (end > longestHeader) return stop("headers are longer than 4096 bytes");
  std::optional<size_t> length;
  std::string_view headers = std::string_view(buffer_).substr(0, end);
  while (!headers.empty()) {
    const size_t lineEnd = headers.find("\r\n");
    const std::string_view line = headers.substr(0, lineEnd);
    headers = lineEnd == std::string_view::npos ? std::string_view() : headers.substr(lineEnd + 2);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return stop("a header line without a colon");
    if (!equalsIgnoringCase(line.substr(0, colon), "Content-Length")) continue;
    std::string_view digits = line.substr(colon + 1);
    while (!digits.empty() && digits.front() == ' ') digits.remove_prefix(1);
    size_t n = 0;
    const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (error != std::errc() || last != digits.data() + digits.size() || length)
      return stop("Content-Length is no number, or stands twice");
    length = n;
  }
  if (!length) return stop("a message without Content-Length");
  if (*length > largest) return stop("a message is longer than 256 MiB");
  const size_t whole = end + 4 + *length;
  if (buffer_.size() < whole) {
    buffer_.reserve(whole);
    return std::nullopt;
  }
  if (buffer_.size() == whole) {  // long messages mostly come alone: no second copy of them
    std::string body = std::exchange(buffer_, {});
    body.erase(0, end + 4);
    return body;
  }
  std::string body = buffer_.substr(end + 4, *length);
  buffer_.erase(0, whole);
  return body;
}

std::string frame(std::string_view body) {
  return "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

}  // namespace graft
