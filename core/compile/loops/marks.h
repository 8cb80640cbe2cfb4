// Marks: characters in a printed text that say which origin (ExprPool::origin) the expression between them has.
// Printers write them where they are asked to; whoever shows the text takes them out again.
//
//   MarkedText m = withoutMarks("y = " + marked("a * " + marked("exp(x)", 1), 2));
//   m.text == "y = a * exp(x)";  m.spans == {{2, 4, 8}, {1, 8, 14}}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace graft::loops {

/// The text itself where `origin` is 0.
std::string marked(std::string text, uint32_t origin);
/// How long the mark in front of a text is; 0 where it is not marked as a whole.
size_t markLength(std::string_view text);

/// Characters [begin, end) of a text.
struct OriginSpan {
  uint32_t origin = 0;
  size_t begin = 0, end = 0;
  bool operator==(const OriginSpan&) const = default;
};

struct MarkedText {
  std::string text;
  std::vector<OriginSpan> spans;  ///< in order, apart from each other: of what is nested, the innermost counts
};
MarkedText withoutMarks(std::string_view text);

}  // namespace graft::loops
