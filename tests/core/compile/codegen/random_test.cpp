// Random programs as machine code and by the interpreter. GRAFT_SEEDS=FIRST:COUNT runs others than the fixed sample.
#include <array>
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

/// Choices among the program's outer ranges that the seed makes.
codegen::LoopSchedule randomSchedule(uint64_t seed, const loops::Program& program) {
  uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  const auto below = [&](size_t n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return static_cast<size_t>(state % n);
  };
  std::vector<std::string> ranges{""};
  for (const loops::Nest& nest : program.nests)
    for (const loops::RangeId r : nest.outer) ranges.push_back(program.range(r).name);
  ranges.emplace_back(codegen::LoopSchedule::inner);
  codegen::LoopSchedule s;
  s.lanes = ranges[below(ranges.size())];
  for (size_t i = below(3); i > 0 && ranges.size() > 2; --i) s.order.push_back(ranges[1 + below(ranges.size() - 2)]);
  s.registers = std::array{0, 1, 2, 4}[below(4)];
  s.block = std::array<int64_t, 5>{0, 0, 1, 7, 64}[below(5)];
  s.transposes = below(2) == 0;
  return s;
}

/// What differs between the code and the interpreter; empty: nothing.
std::string difference(uint64_t seed, const loops::RandomOptions& options, codegen::CpuLevel level, bool isSpecialised,
                       bool isScheduled) {
  loops::RandomCall call = loops::randomCall(seed, options);
  call.clearOutputs();
  const bool isWrong = !loops::interpret(call.program, call.sizes, call.buffers);
  const std::vector<std::byte> wanted = call.outputBytes();
  call.clearOutputs();
  loops::Program program = call.program;
  codegen::CpuOptions how;
  how.level = level;
  if (isScheduled) how.schedule = randomSchedule(seed, program);
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

void check(const loops::RandomOptions& options, bool isScheduled = false) {
  const Seeds s = seeds();
  for (uint64_t seed = s.first; seed < s.first + s.count; ++seed)
    for (const codegen::CpuLevel level : test::levels()) {
      std::string what;
      try {
        what = difference(seed, options, level, seed % 2 == 0, isScheduled);
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
TEST_CASE("random schedules of exact operations") { check({.isExact = true}, true); }
// Numbers that differ in their last bits may fall on both sides of a comparison, so other seeds need a look at what
// differs.
TEST_CASE("random programs of all operations") { check({.isExact = false}); }
