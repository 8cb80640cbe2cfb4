// Case files: a rule, small models written as the rule language writes patterns, and what must happen to each.
//
//   rules resources/rules/transformer.py
//   rule GeluLinear
//   given x: f32[2,4,8]; w: weight f32[16,8]; b: weight f32[16]
//   matches 1
//       return F.gelu(F.linear(x, w, b))
//   none literal   # tanh's approximation is another function
//       return F.gelu(F.linear(x, w, b), approximate="tanh")
//
// `given` holds until the next one; an input's spec may say how it is filled: `ids: i64[2,4]:randint(0,5)`.
#pragma once

#include <istream>
#include <string>
#include <vector>

namespace graft::test {

struct Given {
  std::string name, type, fill;
  bool isWeight = false;
};

struct Case {
  std::string file;
  int line = 0;
  std::string rules, rule;
  std::vector<Given> given;
  size_t matches = 0;
  std::string reason;  ///< of the nearest miss; empty: not asked
  std::string body;    ///< indented lines

  std::string python() const;
};

/// Throws std::runtime_error with file and line where the file is wrong.
std::vector<Case> readCases(const std::string& path);
/// The same from text that begins at that line of a file.
std::vector<Case> readCases(std::istream& in, const std::string& path, int line);

}  // namespace graft::test
