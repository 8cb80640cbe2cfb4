// Where a place in a text is, for errors that show its line and a caret.
//
//   return badInputAt(positionAt(text, at, file), "expected a name");
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace graft {

/// `at`: in bytes from 0; past the end counts as the end. Of the line, no more than `longest` bytes are kept.
inline Position positionAt(std::string_view text, size_t at, std::string_view file,
                           size_t longest = std::string_view::npos) {
  const size_t stop = std::min(at, text.size());
  Position p;
  p.file = file;
  p.line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(stop), '\n'));
  const size_t before = stop == 0 ? std::string_view::npos : text.rfind('\n', stop - 1);
  const size_t lineStart = before == std::string_view::npos ? 0 : before + 1;
  p.column = static_cast<int>(stop - lineStart) + 1;
  p.text = std::string(text.substr(lineStart, std::min(text.find('\n', lineStart) - lineStart, longest)));
  return p;
}

}  // namespace graft
