// Case files: rules tested by text. Sections begin at the first column, what they hold is indented by four spaces.
//
//   # What the file is about.
//   rule
//       def pattern(x): ...
//       def replacement(x): ...
//   case an inner value with another user
//       input %x : f32[2,3]
//       ...
//   none escapes                      the rule must not match; the first near miss has this reason
//       `a` ... also used by `c`      and this message
//   case the plain form
//       ...
//   after 1                           so many rewrites, and what results
//       ...
//
// Also `matches 2` (only counted), `refused 1` (matched, but the rewrite says no, with its message), and `recipe NAME`
// or `repeats` after the rule: cases run that recipe; a second run of the rule may change the result again.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace graft::test {

struct Case {
  std::string name, before;
  std::string expectation;  ///< "after", "none", "matches", "refused"
  std::string argument;     ///< count or reason
  std::string text;         ///< what follows, without indentation
  int line = 0;
  size_t section = 0;  ///< into CaseFile::sections
};

/// A rule, or a recipe's file, and how it is run; the cases after it belong to it.
struct Section {
  std::string rule, recipe;
  bool repeats = false;
};

struct CaseFile {
  std::string comment;
  std::vector<Section> sections;
  std::vector<Case> cases;
};

Result<CaseFile> parseCaseFile(std::string_view text, std::string_view path);
std::string toText(const CaseFile&);

}  // namespace graft::test
