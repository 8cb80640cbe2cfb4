#include "core/archive/inflate.h"
#include "core/archive/zip_directory.h"
#include "tests/support/catch.h"

using namespace graft;

TEST_CASE("a zip that was written reads back") {
  const std::string bytes = writeZip({{"m/data.pkl", "abc"}, {"m/code/a.py", ""}});
  auto zip = ZipDirectory::read(bytes, "m.pt");
  REQUIRE(zip);
  CHECK(zip->topFolder() == "m");
  REQUIRE(zip->find("data.pkl"));
  CHECK(zip->bytes(*zip->find("data.pkl")) == "abc");
  CHECK_FALSE(zip->find("m/data.pkl"));
}

TEST_CASE("every cut of a zip is refused with a message") {
  const std::string bytes = writeZip({{"m/data.pkl", "abc"}, {"m/b", "defghi"}});
  for (size_t n = 0; n < bytes.size(); ++n) {
    auto zip = ZipDirectory::read(std::string_view(bytes).substr(0, n), "m.pt");
    REQUIRE_FALSE(zip);
    CHECK_THAT(zip.error().message, ContainsSubstring("m.pt"));
  }
}

TEST_CASE("no flipped byte makes a record leave the file") {
  const std::string good = writeZip({{"m/data.pkl", "abc"}, {"m/b", "defghi"}});
  for (size_t i = 0; i < good.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
      auto zip = ZipDirectory::read(bytes, "m.pt");
      if (!zip) continue;
      for (const ZipRecord& r : zip->records()) CHECK(zip->bytes(r).size() == r.size);
    }
}

TEST_CASE("inflate unpacks stored and fixed blocks and refuses the rest") {
  const std::string stored(
      "\x01\x03\x00\xfc\xff"
      "abc",
      8);
  CHECK(inflate(stored, 3) == std::optional<std::string>("abc"));
  CHECK_FALSE(inflate(stored, 2));
  CHECK_FALSE(inflate(stored, 4));
  const std::string fixed("\x4b\x4c\x4a\x06\x00", 5);  // "abc" by zlib
  CHECK(inflate(fixed, 3) == std::optional<std::string>("abc"));
  CHECK_FALSE(inflate(std::string_view(fixed).substr(0, 3), 3));
  CHECK_FALSE(inflate("\x07", 1));
}
