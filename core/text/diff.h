// A unified difference of two texts, line by line, by the patience method: lines that occur once on both sides are the
// anchors, so that moved blocks and common lines ("}") do not confuse it. For the canonical text of graphs, whose lines
// are nearly all unique.
//
//   for (const DiffLine& l : diffLines(toText(before), toText(after))) print(l.kind, l.text);
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace graft {

struct DiffLine {
  char kind = ' ';  ///< ' ' on both sides, '-' on the old one, '+' on the new one, '@' where lines were left out
  size_t oldLine = 0, newLine = 0;  ///< from 1; 0 on the side that lacks it
  std::string text;                 ///< without the line's end; for '@' "@@ -12,7 +12,4 @@"
};

/// `context` lines around each change; nothing for equal texts.
std::vector<DiffLine> diffLines(std::string_view before, std::string_view after, size_t context = 3);

}  // namespace graft
