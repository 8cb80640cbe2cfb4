#include "core/base/json_document.h"

#include <nlohmann/json.hpp>

#include "tests/support/catch.h"

namespace {

using graft::JsonDocument;
using graft::JsonError;
using graft::JsonValue;
using nlohmann::json;

/// The document as nlohmann's, by way of what JsonValue says of it.
json copied(JsonValue v) {
  if (v.isNull()) return nullptr;
  if (v.isBoolean()) return v.boolean();
  if (v.isInteger()) return v.integer();
  if (v.isNumber()) return v.number();
  if (v.isText()) return v.text();
  json out = v.isArray() ? json::array() : json::object();
  if (v.isArray())
    for (JsonValue e : v) out.push_back(copied(e));
  else
    for (const auto& [key, value] : v.members()) out[key] = copied(value);
  return out;
}

std::string problem(std::string_view text) {
  const auto doc = JsonDocument::parse(text);
  return doc ? "" : doc.error().message;
}

template <class F>
std::string thrown(F&& f) {
  try {
    f();
  } catch (const JsonError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a JSON document holds what another reader finds in it") {
  for (const char* text : {"0",
                           "-0",
                           "-12",
                           "1.5",
                           "1e3",
                           "2E-2",
                           "1e-400",
                           "9223372036854775807",
                           "9223372036854775808",
                           "-9223372036854775808",
                           "true",
                           "false",
                           "null",
                           "\"\"",
                           " [ ] ",
                           "{}",
                           "[[],{},[[]]]",
                           R"({"a": [1, {"b": null}], "c": "d", "e": {"f": [true, false]}})",
                           R"("\"\\\/\b\f\n\r\t")",
                           R"("\u00e9\u20AC")",
                           R"("\ud83d\ude00 \u0000")",
                           "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"",
                           R"({"a": 1, "b": 2, "a": 3})",
                           R"({"k\u0065y": 1, "": 2})",
                           "\r\n\t [1,\n2 ]\n"}) {
    INFO(text);
    const std::string bytes(text);
    const auto doc = JsonDocument::parse(bytes);
    REQUIRE(doc);
    CHECK(copied(doc->root()) == json::parse(bytes));
  }
}

TEST_CASE("what is no JSON is refused with the byte and the reason") {
  CHECK(problem("") == "no valid JSON at byte 0: it ends in the middle");
  CHECK(problem("[1, 2") == "no valid JSON at byte 5: a comma or ] is missing");
  CHECK(problem("{\"a\": 1]") == "no valid JSON at byte 7: a comma or } is missing");
  CHECK(problem("[1] 2") == "no valid JSON at byte 4: something follows the document");
  CHECK(problem("\"\xff\"") == "no valid JSON at byte 1: a string is not UTF-8");
  CHECK(problem("\"a") == "no valid JSON at byte 2: a string does not end");
  CHECK(problem("1e999") == "no valid JSON at byte 5: a number is too large");
  for (const char* text : {"[1,]",
                           "[,1]",
                           "{,}",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{a: 1}",
                           "{1: 2}",
                           "01",
                           "1.",
                           ".5",
                           "-",
                           "+1",
                           "1e",
                           "1e+",
                           "tru",
                           "nul",
                           "NaN",
                           "Infinity",
                           "'a'",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\ud800\"",
                           "\"\\ud800\\u0041\"",
                           "\"\\udc00\"",
                           "\"\n\"",
                           "\"\xc0\x80\"",
                           "\"\xe2\x82\"",
                           "\"\xed\xa0\x80\"",
                           "\"\xf4\x90\x80\x80\"",
                           "]",
                           "}",
                           "[}",
                           "\"\\",
                           "\xef\xbb\xbf"
                           "1"}) {
    INFO(text);
    CHECK(problem(text).starts_with("no valid JSON at byte "));
  }
}

TEST_CASE("a JSON text nested too deep is refused before it costs anything") {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK(JsonDocument::parse(nested(2000)));
  CHECK(problem(nested(2001)) == "no valid JSON at byte 2000: it is nested more than 2000 deep");
  CHECK(problem(std::string(200'000, '[')).ends_with("deep"));
}

TEST_CASE("members are found by name, the last of equal ones, in small objects and large") {
  for (int members : {3, 64, 65, 1000}) {
    std::string text = "{";
    for (int i = 0; i < members; ++i) text += "\"k" + std::to_string(i) + "\": {\"v\": [" + std::to_string(i) + "]}, ";
    text += R"("\u006bx": 1, "k1": "last"})";
    const auto doc = JsonDocument::parse(text);
    REQUIRE(doc);
    const JsonValue root = doc->root();
    CHECK(root.size() == static_cast<size_t>(members) + 2);
    CHECK(root.at("k2").at("v").at(0).integer() == 2);
    CHECK(root.at("k1").is("last"));
    CHECK(root.at("kx").integer() == 1);
    CHECK_FALSE(root.find("k"));
    CHECK_FALSE(root.find("k1\""));
    CHECK_FALSE(root.find("absent"));
  }
}

TEST_CASE("a JSON value of the wrong kind names its place, what it is and what belongs there") {
  const std::string text = R"({"graph": {"nodes": [{"op": "a"}, {"op": 7, "args": [1.5, "x\ny", null]}]}})";
  const auto doc = JsonDocument::parse(text);
  REQUIRE(doc);
  const JsonValue node = doc->root().at("graph").at("nodes").at(1);
  CHECK(thrown([&] { node.at("op").text(); }) == "graph.nodes[1].op is a number where text belongs");
  CHECK(thrown([&] { node.at("args").at(0).integer(); }) ==
        "graph.nodes[1].args[0] is 1.5, which is no whole number of 64 bits");
  CHECK(thrown([&] { node.at("args").at(2).boolean(); }) ==
        "graph.nodes[1].args[2] is null where true or false belongs");
  CHECK(thrown([&] { node.at("args").at(3); }) == "graph.nodes[1].args has 3 elements where 4 belong");
  CHECK(thrown([&] { node.at("name"); }) == "graph.nodes[1] has no name");
  CHECK(thrown([&] { node.at("op").at("x"); }) == "graph.nodes[1].op is a number where an object belongs");
  CHECK(thrown([&] {
          for (JsonValue v : node) v.text();
        }) == "graph.nodes[1] is an object where a list belongs");
  CHECK(thrown([&] { doc->root().text(); }) == "the whole is an object where text belongs");
  CHECK_FALSE(node.at("op").find("x"));
}

TEST_CASE("a JSON text is compared and read without a copy where it has no escapes") {
  const std::string text = R"(["plain", "with \"escapes\"", ""])";
  const auto doc = JsonDocument::parse(text);
  REQUIRE(doc);
  std::string buffer;
  const JsonValue plain = doc->root().at(0), escaped = doc->root().at(1), empty = doc->root().at(2);
  CHECK(plain.text(buffer).data() == text.data() + 2);
  CHECK(escaped.text(buffer) == "with \"escapes\"");
  CHECK(escaped.is("with \"escapes\""));
  CHECK_FALSE(escaped.is("with \\"));
  CHECK_FALSE(plain.is("plai"));
  CHECK_FALSE(plain.is("plain\", "));
  CHECK(empty.is(""));
  CHECK(empty.text().empty());
}
