#include "core/ir/type.h"

#include "tests/support/catch.h"

using namespace graft;

TEST_CASE("types print and parse back") {
  for (const char* text : {"tensor", "f32[8,s0,384]", "f16[*]", "i64[]", "tensor[2,?]", "bf16[4]@cuda:0", "int",
                           "list[int]", "optional[tensor]", "tuple[int, list[f32[2]]]", "dict[str, tensor]",
                           "object[torch.classes.X]", "f32[2*s0 + 1]", "b8[1]", "tuple[]"}) {
    INFO(text);
    const auto t = parseType(text);
    REQUIRE(t);
    REQUIRE(toString(*t) == text);
  }
}

TEST_CASE("what is no type is refused") {
  for (const char* text :
       {"", "f31[2]", "f32[", "f32[2", "f32[-1]", "list[]", "list[int", "dict[int]", "f32[2]]", "tensor@"}) {
    INFO(text);
    REQUIRE_FALSE(parseType(text));
  }
  REQUIRE_FALSE(parseType(std::string(100000, '[')));
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "list[";
  REQUIRE_FALSE(parseType(deep));
}

TEST_CASE("dtypes know their names and sizes") {
  REQUIRE(parseDType("float16") == DType::Float16);
  REQUIRE(parseDType("half") == DType::Float16);
  REQUIRE(parseDType("bf16") == DType::BFloat16);
  REQUIRE_FALSE(parseDType("float17"));
  REQUIRE(dtypeSize(DType::Complex128) == 16);
  for (int i = 0; i <= static_cast<int>(DType::QInt32); ++i) {
    const auto d = static_cast<DType>(i);
    REQUIRE(parseDType(dtypeName(d)) == d);
    REQUIRE(parseDType(dtypeShort(d)) == d);
  }
}

TEST_CASE("a type ends at the first space outside its brackets") {
  std::string_view text = "tensor @m0";
  REQUIRE(toString(*consumeType(text)) == "tensor");
  REQUIRE(text == " @m0");
}
