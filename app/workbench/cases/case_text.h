// Cases of rules: small models written as the rule language writes patterns, and what must happen to each.
//
//   rules resources/rules/transformer.py
//   rule GeluLinear
//   given x: f32[2,4,8]; w: weight f32[16,8]; b: weight f32[16]
//   matches 1
//       return F.gelu(F.linear(x, w, b))
//   none literal   # tanh's approximation is another function
//       return F.gelu(F.linear(x, w, b), approximate="tanh")
//
// `given` holds until the next one; an input's spec may say how it is filled: `ids: i64[2,4]:randint(0,5)`. The
// docstring of a rule may hold its cases, indented below a line `cases:` (Rule::cases); they name neither file nor
// rule.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/ir/type.h"

namespace graft::workbench {

struct Given {
  std::string name;
  Type type;         ///< of a tensor on the CPU with dtype and sizes
  std::string spec;  ///< how an input is made: "f32[2,8]:randn"
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
  int bodyLine = 0;    ///< of the first

  /// The model as a rule file, each line where the file has it.
  std::string python() const;
};

/// BadInput with file and line where the file is wrong.
Result<std::vector<Case>> readCases(const std::string& path);
/// The same from text that begins at that line of a file. It may be indented as a whole.
Result<std::vector<Case>> readCases(std::istream& in, const std::string& path, int line);

}  // namespace graft::workbench
