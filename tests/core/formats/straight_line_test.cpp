#include "core/formats/torchscript/straight_line_code.h"

#include <cstdlib>

#include "core/formats/torchscript/convert.h"
#include "core/text/text.h"
#include "tests/core/formats/fixtures.h"

using namespace graft;
using namespace graft::test;

namespace {

struct Converted {
  std::string text;
  bool followed = false;
};

/// The graph as the walk leaves it, with source lines. The walk follows methods with at least `longFrom` statements.
Converted converted(const std::string& path, size_t longFrom) {
  auto bytes = MappedFile::open(path);
  REQUIRE(bytes);
  auto zip = ZipDirectory::read((*bytes)->bytes(), path);
  REQUIRE(zip);
  auto file = TorchScriptFile::open(*bytes, *zip, path, longFrom);
  REQUIRE(file);
  Graph g;
  TorchScriptConverter converter(**file, torchSemantics().operators(), nullptr, g);
  const Status s = converter.convert("forward");
  INFO((s ? std::string() : s.error().message));
  REQUIRE(s);
  return {toText(g), (*file)->straightLine() != nullptr};
}

std::string codeWith(const std::string& body) {
  return "class Net(Module):\n  training : bool\n  def forward(self: __torch__.Net,\n    x: Tensor) -> Tensor:\n" +
         body;
}

}  // namespace

TEST_CASE("a method of straight-line code gives the same graph whether the walk or LibTorch's compiler follows it") {
  for (const char* name : {"flat.pt", "chunks.pt"}) {
    INFO(name);
    const Converted whole = converted(fixture(name), SIZE_MAX), followed = converted(fixture(name), 1);
    CHECK_FALSE(whole.followed);
    CHECK(followed.followed);
    CHECK(followed.text == whole.text);
    CHECK_THAT(whole.text, ContainsSubstring(".py"));  // the user's lines
  }
}

TEST_CASE("LibTorch's compiler follows methods that write in place, call others or drop results") {
  for (const char* name : {"flat_writes.pt", "some_chunks.pt", "net.pt", "inplace.pt"}) {
    INFO(name);
    const Converted whole = converted(fixture(name), SIZE_MAX), tried = converted(fixture(name), 1);
    CHECK_FALSE(tried.followed);
    CHECK(tried.text == whole.text);
  }
}

TEST_CASE("straight-line code is found, and its body emptied") {
  const std::string code = codeWith(
      "    a, b, = torch.chunk(x, 2, 1)\n    _0 = torch.add(a, self.fc.bias, alpha=-1)\n"
      "    c = ops.prim.NumToTensor(torch.size(_0, 0))\n    return (torch.mul(_0, CONSTANTS.c0), [int(c), 1e-05])\n");
  const auto found = StraightLineCode::find(code, "Net", 4);
  REQUIRE(found);
  CHECK(found->method() == "forward");
  REQUIRE(found->size() == 4);
  CHECK(found->attributes() == std::vector<std::string>{"self.fc.bias", "CONSTANTS.c0"});
  CHECK(found->stub() ==
        "class Net(Module):\n  training : bool\n  def forward(self: __torch__.Net,\n    x: Tensor):\n"
        "    return (self, torch.is_same_size(x, x), self.fc.bias, CONSTANTS.c0, )\n");
  const auto first = found->statement(0);
  CHECK(first.results == std::vector<std::string_view>{"a", "b"});
  REQUIRE(first.tokens.size() == 8);
  CHECK(first.tokens[2].kind == StraightLineCode::Token::Kind::Variable);
  CHECK(code.substr(first.tokens[2].start, 1) == "x");
  CHECK(found->statement(3).results.empty());
  CHECK_FALSE(StraightLineCode::find(code, "Net", 5).has_value());
  CHECK_FALSE(StraightLineCode::find(code, "Ne", 1).has_value());
}

TEST_CASE("code with more than plain assignments is no straight-line code") {
  for (const char* body :
       {"    if True:\n      a = x\n    return x\n", "    a = torch.relu(x)\n",
        "    a = (self.fc).forward(x, )\n    return a\n", "    self.n = x\n    return x\n",
        "    a = x.size()\n    return x\n", "    a = torch.relu(\n    return x\n",
        "    a = annotate(List[int], [])\n    return x\n", "    a = -x\n    return a\n",
        "    a = x + x\n    return a\n", "    a = \"open\n    return x\n", "    return x\n    return x\n",
        "    a == x\n    return x\n", "    a = \n    return x\n", "    a = not x\n    return x\n",
        "    a = torch\n    return x\n", "    return x\n  def other(self) -> int:\n    if x:\n      return 1\n"}) {
    INFO(body);
    const std::string code = codeWith(body);
    const bool found = StraightLineCode::find(code, "Net", 1).has_value();
    CHECK_FALSE(found);
  }
}
