// Framing of JSON-RPC messages as the Language Server Protocol does it: "Content-Length: N\r\n\r\n" and N bytes of
// JSON.
//
//   FrameReader frames;
//   frames.feed(bytes);
//   while (auto message = frames.next()) handle(*message);
//   if (!frames.broken().empty()) …           // the peer speaks something else; nothing more can be read
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace graft {

class FrameReader {
 public:
  /// No message may be longer: 256 MiB, several times the JSON of a graph of 100,000 nodes.
  static constexpr size_t largest = size_t{256} << 20;

  void feed(std::string_view bytes) { buffer_.append(bytes); }
  /// The next whole message's body, in order of arrival.
  std::optional<std::string> next();
  /// Why reading cannot go on; "" while it can.
  const std::string& broken() const { return broken_; }

 private:
  std::string buffer_;
  std::string broken_;
};

std::string frame(std::string_view body);

}  // namespace graft
