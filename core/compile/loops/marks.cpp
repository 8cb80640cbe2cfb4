#include "core/compile/loops/marks.h"

#include <charconv>

namespace graft::loops {
namespace {

// Control characters, which no printed program holds.
constexpr char kOpen = '\x01', kOpened = '\x02', kClose = '\x03';

}  // namespace

std::string marked(std::string text, uint32_t origin) {
  if (origin == 0) return text;
  return kOpen + std::to_string(origin) + kOpened + text + kClose;
}

size_t markLength(std::string_view text) {
  if (text.empty() || text.front() != kOpen || text.back() != kClose) return 0;
  int open = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    open += text[i] == kOpen ? 1 : text[i] == kClose ? -1 : 0;
    if (open == 0) return i + 1 == text.size() ? text.find(kOpened) + 1 : 0;
  }
  return 0;
}

MarkedText withoutMarks(std::string_view text) {
  MarkedText out;
  std::vector<uint32_t> origins;
  size_t begin = 0;
  const auto finish = [&] {
    const size_t end = out.text.size();
    if (!origins.empty() && end > begin) {
      if (!out.spans.empty() && out.spans.back().end == begin && out.spans.back().origin == origins.back())
        out.spans.back().end = end;
      else
        out.spans.push_back({origins.back(), begin, end});
    }
    begin = end;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == kOpen) {
      finish();
      uint32_t origin = 0;
      const size_t opened = text.find(kOpened, i);
      if (opened == std::string_view::npos) break;
      std::from_chars(text.data() + i + 1, text.data() + opened, origin);
      origins.push_back(origin);
      i = opened;
    } else if (text[i] == kClose) {
      finish();
      if (!origins.empty()) origins.pop_back();
    } else {
      out.text += text[i];
    }
  }
  finish();
  return out;
}

}  // namespace graft::loops
