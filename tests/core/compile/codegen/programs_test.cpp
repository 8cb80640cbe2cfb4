// Programs as machine code and by the interpreter: those of programs.txt and those that lowering makes, with sizes that
// vary and that are known, in memory of several layouts, at every level, in one piece and in slices.
#include <filesystem>
#include <sstream>

#include "tests/support/catch.h"
#include "tests/support/program_comparison.h"
#include "tests/support/temp_dir.h"

using namespace graft;
using graft::test::Comparison;

namespace {

struct Case {
  std::string name, text;
  std::vector<std::vector<int64_t>> sizes;
};

/// "== NAME", perhaps "sizes 1 2 | 3 4", and the program. What precedes "--" is another form of it.
std::vector<Case> readCases(const std::filesystem::path& path) {
  std::vector<Case> cases;
  std::istringstream lines(test::readFile(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("== ")) {
      cases.push_back({line.substr(3), "", {}});
    } else if (line == "--") {
      cases.back().text.clear();
    } else if (line.starts_with("sizes ")) {
      std::istringstream alternatives(line.substr(6));
      for (std::string one; std::getline(alternatives, one, '|');) {
        std::istringstream numbers(one);
        cases.back().sizes.emplace_back();
        for (int64_t n = 0; numbers >> n;) cases.back().sizes.back().push_back(n);
      }
    } else {
      cases.back().text += line + "\n";
    }
  }
  return cases;
}

void check(const Case& c) {
  const Result<loops::Program> program = loops::parseProgram(c.text);
  INFO(c.name);
  if (!program) {
    CHECK(program.error().format() == "");
    return;
  }
  std::vector<std::vector<int64_t>> sizes = c.sizes;
  if (sizes.empty()) sizes = {std::vector<int64_t>(program->sizes.size(), 5)};
  uint64_t seed = 0;
  for (const codegen::CpuLevel level : test::levels())
    for (const std::vector<int64_t>& s : sizes)
      for (int variant = 0; variant < 5; ++variant) {
        Comparison how;
        how.sizes = s;
        how.seed = ++seed;
        how.isSpecialised = variant == 1 || variant == 2;
        how.places = variant == 2   ? Comparison::Places::Turned
                     : variant == 3 ? Comparison::Places::Gaps
                                    : Comparison::Places::Dense;
        how.hasSpecial = variant == 4;
        how.slice = variant % 2 == 0 ? INT64_MAX : 3;
        std::string difference;
        try {
          difference = test::compareCode(*program, how, level);
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

}  // namespace

TEST_CASE("machine code computes what the interpreter does") {
  const char* only = std::getenv("GRAFT_CASE");
  for (const Case& c : readCases(GRAFT_SOURCE_DIR "/tests/core/compile/codegen/programs.txt"))
    if (!only || c.name.find(only) != c.name.npos) check(c);
}

TEST_CASE("machine code of lowered operators computes what the interpreter does") {
  for (const Case& c : readCases(GRAFT_SOURCE_DIR "/tests/core/compile/lower/programs.txt"))
    if (c.text.starts_with("loops")) check(c);
}
