// Random programs: they are valid, their text is read back, and simplified they compute the same.
#include <cstdlib>
#include <string>

#include "core/compile/loops/simplify.h"
#include "core/compile/loops/text.h"
#include "core/compile/loops/verify.h"
#include "tests/support/catch.h"
#include "tests/support/random_program.h"

using namespace graft;
using namespace graft::loops;

namespace {

// GRAFT_PROGRAMS=50000 tries more.
const uint64_t kPrograms = std::getenv("GRAFT_PROGRAMS") != nullptr ? std::stoull(std::getenv("GRAFT_PROGRAMS")) : 400;

// The program with all of its expressions simplified.
Program simplified(const Program& given) {
  Program p = given;
  Simplifier s(p);
  for (Nest& n : p.nests)
    for (Store& store : n.stores) {
      for (ExprId& i : store.index) i = s.simplify(i);
      store.value = s.simplify(store.value);
    }
  return p;
}

std::vector<std::byte> run(RandomCall& call, const Program& p) {
  call.clearOutputs();
  const Status s = interpret(p, call.sizes, call.buffers);
  if (!s) FAIL(s.error().message << "\n" << printProgram(p));
  return call.outputBytes();
}

}  // namespace

TEST_CASE("random programs are valid, and their text is read back") {
  for (uint64_t seed = 0; seed < kPrograms; ++seed) {
    RandomCall call = randomCall(seed, {.isExact = seed % 2 == 0});
    const std::string text = printProgram(call.program);
    CAPTURE(seed);
    const Status s = verify(call.program);
    if (!s) FAIL(s.error().message << "\n" << text);
    const auto again = parseProgram(text);
    if (!again) FAIL(again.error().format() << "\n" << text);
    REQUIRE(printProgram(*again) == text);
    REQUIRE(run(call, call.program) == run(call, *again));
  }
}

TEST_CASE("a simplified program is valid and computes the same bits") {
  for (uint64_t seed = 0; seed < kPrograms; ++seed) {
    RandomCall call = randomCall(seed, {.isExact = seed % 2 == 0});
    const Program simple = simplified(call.program);
    CAPTURE(seed);
    const Status s = verify(simple);
    if (!s) FAIL(s.error().message << "\n" << printProgram(call.program) << printProgram(simple));
    INFO(printProgram(call.program) << printProgram(simple));
    REQUIRE(run(call, call.program) == run(call, simple));
  }
}

TEST_CASE("the same seed makes the same call") {
  RandomCall a = randomCall(5), b = randomCall(5);
  CHECK(printProgram(a.program) == printProgram(b.program));
  CHECK(a.sizes == b.sizes);
  CHECK(run(a, a.program) == run(b, b.program));
}
