#include "core/base/framing.h"

#include "tests/support/catch.h"

using namespace graft;

TEST_CASE("messages come out whole, however the bytes arrive") {
  const std::string bytes = frame("{\"a\":1}") + frame("") + frame("{\"b\":\"\xc3\xa9\"}");
  for (size_t step : {size_t{1}, size_t{3}, bytes.size()}) {
    FrameReader frames;
    std::vector<std::string> got;
    for (size_t at = 0; at < bytes.size(); at += step) {
      frames.feed(std::string_view(bytes).substr(at, step));
      while (auto m = frames.next()) got.push_back(*m);
    }
    REQUIRE(got == std::vector<std::string>{"{\"a\":1}", "", "{\"b\":\"\xc3\xa9\"}"});
    REQUIRE(frames.broken().empty());
  }
}

TEST_CASE("other headers are passed over and names know no case") {
  FrameReader frames;
  frames.feed("content-type: x\r\nCONTENT-LENGTH:  2\r\n\r\nok");
  REQUIRE(frames.next() == "ok");
}

TEST_CASE("what is no frame breaks the reader with a reason, and it stays broken") {
  for (const auto& [bytes, reason] : {std::pair<std::string, const char*>{"hello\r\n\r\n", "colon"},
                                      {"Content-Length: x\r\n\r\n", "no number"},
                                      {"Content-Length: -1\r\n\r\n", "no number"},
                                      {"Content-Length: 1\r\nContent-Length: 1\r\n\r\na", "twice"},
                                      {"A: b\r\n\r\n", "without Content-Length"},
                                      {"Content-Length: 999999999999\r\n\r\n", "longer than"},
                                      {"Content-Length: 99999999999999999999999\r\n\r\n", "no number"},
                                      {std::string(5000, 'a'), "4096"}}) {
    INFO(bytes.substr(0, 40));
    FrameReader frames;
    frames.feed(bytes);
    REQUIRE_FALSE(frames.next());
    CHECK_THAT(frames.broken(), ContainsSubstring(reason));
    frames.feed(frame("{}"));
    REQUIRE_FALSE(frames.next());
  }
}
