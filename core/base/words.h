// English for messages: articles and plurals.
#pragma once

#include <string>
#include <string_view>

namespace graft {

/// "an aten.dropout", "a prim.If".
inline std::string withArticle(std::string_view noun) {
  const bool isVowel = !noun.empty() && std::string_view("aeiouAEIOU").find(noun[0]) != std::string_view::npos;
  return (isVowel ? "an " : "a ") + std::string(noun);
}

/// "1 element", "2 elements".
inline std::string counted(size_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

}  // namespace graft
