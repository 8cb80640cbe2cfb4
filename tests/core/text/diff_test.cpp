#include "core/text/diff.h"

#include <algorithm>

#include "tests/support/catch.h"

using namespace graft;

namespace {

std::string text(const std::vector<DiffLine>& lines) {
  std::string out;
  for (const DiffLine& l : lines) out += (l.kind == '@' ? "" : std::string(1, l.kind)) + l.text + "\n";
  return out;
}

/// The new text, made from the old one and the difference: nothing is lost and nothing invented.
std::string patched(const std::string& before, const std::vector<DiffLine>& lines) {
  std::vector<std::string> old;
  for (size_t at = 0; at < before.size();) {
    const size_t end = before.find('\n', at);
    old.push_back(before.substr(at, end - at));
    at = end + 1;
  }
  std::string out;
  size_t next = 1, written = 0;
  auto write = [&](const std::string& line) { out += line + "\n", ++written; };
  for (const DiffLine& l : lines) {
    if (l.kind == '@') continue;
    while (l.newLine > written + 1 || (l.newLine == 0 && l.oldLine > next)) write(old[next++ - 1]);
    if (l.oldLine) {
      REQUIRE(l.oldLine == next);
      REQUIRE(old[next++ - 1] == l.text);
    }
    if (l.kind != '-') write(l.text);
  }
  while (next <= old.size()) write(old[next++ - 1]);
  return out;
}

}  // namespace

TEST_CASE("equal texts differ in nothing") {
  CHECK(diffLines("a\nb\n", "a\nb\n").empty());
  CHECK(diffLines("", "").empty());
}

TEST_CASE("a replaced run of lines stands between its neighbours") {
  CHECK(text(diffLines("in\nq\nk\nmul\nsoftmax\nout\n}\n", "in\nq\nk\nattention\nout\n}\n", 1)) ==
        "@@ -3,4 +3,3 @@\n k\n-mul\n-softmax\n+attention\n out\n");
}

TEST_CASE("far changes are hunks of their own") {
  std::string a, b;
  for (int i = 0; i < 40; ++i) {
    a += "line " + std::to_string(i) + "\n";
    b += (i == 5 || i == 30 ? "other " : "line ") + std::to_string(i) + "\n";
  }
  const auto lines = diffLines(a, b);
  CHECK(std::count_if(lines.begin(), lines.end(), [](const DiffLine& l) { return l.kind == '@'; }) == 2);
  CHECK(lines.size() == 2 * (1 + 8));
}

TEST_CASE("the difference turns the old text into the new one") {
  uint32_t seed = 1;
  auto random = [&](uint32_t n) { return ((seed = seed * 1664525u + 1013904223u) >> 8) % n; };
  for (int round = 0; round < 300; ++round) {
    std::string a, b;
    const uint32_t words = 1 + round % 9;
    for (uint32_t i = 0; i < random(30); ++i) {
      const std::string line = "l" + std::to_string(seed / 7919 % (words * 4)) + "\n";
      if (random(5) > 0) a += line;
      if (random(5) > 0) b += line;
    }
    INFO(a << "----\n" << b);
    for (size_t context : {size_t{0}, size_t{3}}) CHECK(patched(a, diffLines(a, b, context)) == b);
  }
}

TEST_CASE("a hundred thousand lines take no deep recursion and little time") {
  std::string a, b;
  for (int i = 0; i < 100000; ++i) {
    a += "%v" + std::to_string(i) + "\n";
    if (i % 10) b += "%v" + std::to_string(i) + "\n";
  }
  CHECK(diffLines(a, b, 0).size() == 20000);
}
