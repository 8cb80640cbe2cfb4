// Fix-its: the edit of a rule file after which a rule matches where it missed. Each edit that might help is tried: it
// is made in a copy of the text, which is read again and searched at that place, and the first that makes the rule
// match there is the answer. Whether the rewritten model then computes the same is left to verification.
//
//   FixIts fixIts(text, "rules.py", operators, graph);
//   for (NearMiss& miss : found.nearMisses) miss.edits = fixIts.edits(rule, miss);   // empty: none is known
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "matcher/rule/pattern.h"
#include "matcher/search/search.h"

namespace graft {

/// The text with the edits made. They are in the order of the text and do not overlap.
std::string withEdits(std::string_view text, const std::vector<TextEdit>& edits);

class FixIts {
 public:
  /// Refers to `operators` and `graph`.
  FixIts(std::string_view text, std::string_view file, const OperatorSet& operators, const Graph& graph);
  ~FixIts();
  /// The edits that let the rule match at the near miss, in the order of the text. Empty where the text cannot be read
  /// or no edit is known.
  std::vector<TextEdit> edits(const Rule& rule, const NearMiss& miss);

 private:
  struct Reading;
  std::unique_ptr<Reading> reading_;
};

}  // namespace graft
