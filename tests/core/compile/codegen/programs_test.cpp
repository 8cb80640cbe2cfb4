// Programs as machine code and by the interpreter: those of programs.txt and those that lowering makes, with sizes that
// vary and that are known, in memory of several layouts, at every level, in one piece and in slices. Making machine
// code is most of the time, so each size takes two of the five variants that need code of their own, in turn; with
// GRAFT_EVERY_VARIANT=1 it takes all.
#include <array>
#include <optional>

#include "tests/core/compile/codegen/cases.h"
#include "tests/support/catch.h"
#include "tests/support/program_comparison.h"

using namespace graft;
using graft::test::Comparison;

namespace {

void check(const test::ProgramCase& c) {
  const Result<loops::Program> program = loops::parseProgram(c.text);
  INFO(c.name);
  if (!program) {
    CHECK(program.error().format() == "");
    return;
  }
  std::vector<std::vector<int64_t>> sizes = c.sizes;
  if (sizes.empty()) sizes = {std::vector<int64_t>(program->sizes.size(), 5)};
  uint64_t seed = 0;
  const bool takesAll = std::getenv("GRAFT_EVERY_VARIANT") != nullptr;
  size_t turn = 0;
  for (const codegen::CpuLevel level : test::levels()) {
    std::optional<test::CompiledProgram> general;
    for (const std::vector<int64_t>& s : sizes) {
      const std::array kOwnCode = {1, 2, 3, 5, 6};
      const int first = kOwnCode[turn % 5], second = kOwnCode[(turn + 1) % 5];
      turn += 2;
      for (int variant = 0; variant < 7; ++variant) {
        const bool hasGeneralCode = variant == 0 || variant == 4;
        if (!takesAll && !hasGeneralCode && variant != first && variant != second) continue;
        Comparison how;
        how.sizes = s;
        how.seed = ++seed;
        how.isSpecialised = variant == 1 || variant == 2 || variant == 5;
        how.places = variant == 2   ? Comparison::Places::Turned
                     : variant == 3 ? Comparison::Places::Gaps
                     : variant >= 5 ? Comparison::Places::Expanded
                                    : Comparison::Places::Dense;
        how.hasSpecial = variant == 4;
        how.slice = variant % 2 == 0 ? INT64_MAX : 3;
        std::string difference;
        try {
          difference = test::compareCode(*program, how, level, &general);
        } catch (const std::exception& e) {
          difference = e.what();
        }
        INFO(c.name << ", level " << static_cast<int>(level) << ", variant " << variant << ", first size "
                    << (s.empty() ? 0 : s[0]));
        CHECK(difference.empty());
        if (!difference.empty()) {
          WARN(c.name << ": " << difference);
          return;
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("machine code computes what the interpreter does") {
  const char* only = std::getenv("GRAFT_CASE");
  for (const test::ProgramCase& c : test::readCases(GRAFT_SOURCE_DIR "/tests/core/compile/codegen/programs.txt"))
    if (!only || c.name.find(only) != c.name.npos) check(c);
}

TEST_CASE("machine code of lowered operators computes what the interpreter does") {
  for (const test::ProgramCase& c : test::readCases(GRAFT_SOURCE_DIR "/tests/core/compile/lower/programs.txt"))
    if (c.text.starts_with("loops")) check(c);
}
