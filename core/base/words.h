// English for messages: articles, plurals, lists.
#pragma once

#include <string>
#include <string_view>
#include <vector>

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

/// "a, b, …": the first `few` of them, and whether there are more.
inline std::string firstFew(const std::vector<std::string>& names, size_t few) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < few; ++i) out += (i > 0 ? ", " : "") + names[i];
  return names.size() > few ? out + ", …" : out;
}

}  // namespace graft
