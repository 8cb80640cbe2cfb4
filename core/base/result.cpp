#include "core/base/result.h"

#include <fmt/format.h>

namespace graft {

std::string Error::format() const {
  if (!position) return message;
  const Position& p = *position;
  std::string out = p.file.empty() ? "" : p.file + ":";
  if (p.line > 0) out += fmt::format("{}:", p.line);
  if (p.column > 0) out += fmt::format("{}:", p.column);
  if (!out.empty()) out += " ";
  out += message;
  if (!p.text.empty()) {
    out += "\n  " + p.text;
    if (p.column > 0) {
      out += "\n  ";
      for (int i = 1; i < p.column; ++i) {
        const size_t at = static_cast<size_t>(i - 1);
        out += at < p.text.size() && p.text[at] == '\t' ? '\t' : ' ';  // keep the caret under tabs
      }
      out += "^";
    }
  }
  return out;
}

}  // namespace graft
