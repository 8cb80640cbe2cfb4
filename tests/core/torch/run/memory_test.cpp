#include "core/torch/memory.h"

#include "core/torch/operator_library.h"
#include "tests/support/catch.h"
#include "tests/support/graphs.h"

using namespace graft;
using test::graphOf;

namespace {

/// With an input of one kibibyte.
size_t intermediates(std::string_view text) {
  const Graph g = graphOf(text);
  auto inputs = makeInputs(g, {}, 7);
  REQUIRE_RESULT(inputs);
  auto program = Program::build(g, {});
  REQUIRE_RESULT(program);
  auto use = memoryUse(g, *program, *inputs);
  REQUIRE_RESULT(use);
  return use->intermediates;
}

}  // namespace

TEST_CASE("what a node reads and what it makes are alive at once") {
  // Read by nobody else: gone when the next value is there, and yet beside it while that was made.
  REQUIRE(intermediates(R"(graph g {
    input %x : f32[256]
    %a = aten.add.Tensor(%x, 1)
    %b = aten.tanh.default(%a)
    %c = aten.relu.default(%b)
    return %c
  })") == 2048);
  REQUIRE(intermediates(R"(graph g {
    input %x : f32[256]
    %a = aten.add.Tensor(%x, 1)
    %b = aten.tanh.default(%a)
    %c = aten.relu.default(%b)
    %d = aten.add.Tensor(%c, %a)
    return %d
  })") == 3072);
}

TEST_CASE("several outputs are made at once, views are no memory of their own, inputs are not counted") {
  REQUIRE(intermediates(R"(graph g {
    input %x : f32[16,16]
    %values, %places = aten.sort.default(%x, -1, False)
    %sum = aten.sum.default(%x)
    return %sum
  })") == 1024 + 2048);
  REQUIRE(intermediates(R"(graph g {
    input %x : f32[16,16]
    %v = aten.view.default(%x, [256])
    return %v
  })") == 0);
}

TEST_CASE("each round of a loop takes the memory of one") {
  REQUIRE(intermediates(R"(graph g {
    input %x : f32[256]
    %y = prim.Loop(5, True, %x) : tensor {
      %i : int; %h : tensor;
      %t = aten.tanh.default(%h) : tensor
      return True, %t
    }
    return %y
  })") == 2048);
}

TEST_CASE("outputs over parts of one block are counted once") {
  REQUIRE(loadOperatorLibrary());
  // The three lie between each other in one block of 3 KiB, of which q and k reach 2816 bytes far; then their sum.
  REQUIRE(intermediates(R"(graph g {
    input %x : f32[1,4,64]
    input %w : f32[192,64]
    input %b : f32[192]
    %q, %k, %v = graft.qkv_projection.default(%x, %w, %b, 2, 2)
    %s = aten.add.Tensor(%q, %k)
    return %s
  })") == 2816 + 1024);
}
