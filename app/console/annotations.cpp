#include "app/console/annotations.h"

#include <fmt/format.h>

#include <algorithm>

namespace graft::cli {
namespace {

/// "%0A" and others: how GitHub's commands write what would end them.
std::string escaped(const std::string& text, bool isProperty) {
  std::string out;
  for (const char c : text) {
    if (c == '%' || c == '\n' || c == '\r' || (isProperty && (c == ':' || c == ',')))
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string annotation(const Error& e, std::string_view title) {
  const Position at = e.position.value_or(Position{});
  return fmt::format("::error file={},line={},col={},title={}::{}", escaped(at.file, true), std::max(at.line, 1),
                     std::max(at.column, 1), title, escaped(e.message, false));
}

}  // namespace graft::cli
