// The programs of a file of cases: "== NAME", perhaps "sizes 1 2 | 3 4" (calls to make), and the program's text. What
// precedes a line "--" is another form of it, and left out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace graft::test {

struct ProgramCase {
  std::string name, text;
  std::vector<std::vector<int64_t>> sizes;
};

inline std::vector<ProgramCase> readCases(const std::filesystem::path& path) {
  std::vector<ProgramCase> cases;
  std::istringstream lines(readFile(path));
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

}  // namespace graft::test
