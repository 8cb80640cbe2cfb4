// Random programs as machine code and by the interpreter. GRAFT_SEEDS=FIRST:COUNT runs others than the fixed sample.
#include <cstring>

#include "core/compile/loops/element.h"
#include "tests/support/catch.h"
#include "tests/support/program_comparison.h"
#include "tests/support/random_program.h"

using namespace graft;

namespace {

struct Seeds {
  uint64_t first = 1, count = 36;
};

Seeds seeds() {
  Seeds s;
  if (const char* given = std::getenv("GRAFT_SEEDS")) {
    s.first = std::strtoull(given, nullptr, 10);
    const char* colon = std::strchr(given, ':');
    s.count = colon ? std::strtoull(colon + 1, nullptr, 10) : 1;
  }
  return s;
}

/// What differs between the code and the interpreter; empty: nothing.
std::string difference(uint64_t seed, const loops::RandomOptions& options, codegen::CpuLevel level,
                       bool isSpecialised) {
  loops::RandomCall call = loops::randomCall(seed, options);
  call.clearOutputs();
  const bool isWrong = !loops::interpret(call.program, call.sizes, call.buffers);
  const std::vector<std::byte> wanted = call.outputBytes();
  call.clearOutputs();
  loops::Program program = call.program;
  codegen::CpuOptions how;
  how.level = level;
  std::vector<void*> pointers;
  for (const loops::Memory& m : call.buffers) {
    how.layouts.push_back(codegen::constantLayout(program, m.strides));
    pointers.push_back(m.data);
  }
  if (isSpecialised) how.sizes = call.sizes;
  const test::CompiledProgram compiled(std::move(program), how);
  const bool failed = compiled.run(pointers, call.sizes, seed % 3 == 0 ? 2 : INT64_MAX) != 0;
  if (failed != isWrong) return failed ? "a check failed that holds" : "a check holds that failed";
  const std::vector<std::byte> got = call.outputBytes();
  size_t at = 0;
  for (const loops::BufferId id : call.program.outputs()) {
    const loops::Buffer& b = call.program.buffer(id);
    size_t count = 1;
    for (const loops::ExprId size : b.sizes)
      count *= static_cast<size_t>(codegen::evaluateSize(call.program, size, call.sizes.data()));
    for (size_t i = 0; i < count; ++i, at += dtypeSize(b.dtype)) {
      const double x = test::detail::numberOf(&got[at], b.dtype), y = test::detail::numberOf(&wanted[at], b.dtype);
      const bool isEqual =
          options.isExact ? x == y || (std::isnan(x) && std::isnan(y)) : test::detail::isClose(x, y, b.dtype, 1e-3);
      if (!isEqual)
        return b.name + " element " + std::to_string(i) + " is " + std::to_string(x) + ", not " + std::to_string(y);
    }
  }
  return "";
}

void check(const loops::RandomOptions& options) {
  const Seeds s = seeds();
  for (uint64_t seed = s.first; seed < s.first + s.count; ++seed)
    for (const codegen::CpuLevel level : test::levels()) {
      std::string what;
      try {
        what = difference(seed, options, level, seed % 2 == 0);
      } catch (const std::exception& e) {
        what = e.what();
      }
      if (what.empty()) continue;
      INFO("seed " << seed << ", level " << static_cast<int>(level) << ": " << what.substr(0, 2000) << "\n"
                   << loops::printProgram(loops::randomCall(seed, options).program));
      CHECK(what == "");
      break;
    }
}

}  // namespace

TEST_CASE("random programs of exact operations") { check({.isExact = true}); }
// Numbers that differ in their last bits may fall on both sides of a comparison, so other seeds need a look at what
// differs.
TEST_CASE("random programs of all operations") { check({.isExact = false}); }
