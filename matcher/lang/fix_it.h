// Healing: the edit of a rule file after which a rule matches where it missed. Tried, not guessed: each edit that might
// help is made in a copy of the text, which is read again and searched at that place; the first that makes the rule
// match there is the answer. Whether the rewritten model then computes the same is for the proof to say.
//
//   Healer healer(text, "rules.py", operators, graph);
//   for (NearMiss& miss : found.nearMisses) miss.edits = healer.edits(rule, miss);   // empty: none is known
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "matcher/rule/pattern.h"
#include "matcher/search/search.h"

namespace graft {

/// The text with the edits made, which are in its order and do not overlap.
std::string withEdits(std::string_view text, const std::vector<TextEdit>& edits);

class Healer {
 public:
  /// `graph` is searched as long as the healer lives.
  Healer(std::string_view text, std::string_view file, const OperatorSet& operators, const Graph& graph);
  ~Healer();
  /// In the order of the text. Empty where the text cannot be read or no edit is known.
  std::vector<TextEdit> edits(const Rule& rule, const NearMiss& miss);

 private:
  struct Reading;
  std::unique_ptr<Reading> reading_;
};

}  // namespace graft
