#include "core/ir/calls/einsum.h"

#include <algorithm>
#include <cctype>

namespace graft {
namespace {

constexpr std::string_view alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", dots = "...";

/// Letters, each once.
bool areDimensions(const std::string& s) {
  return std::ranges::all_of(
      s, [&](char c) { return alphabet.find(c) != std::string_view::npos && std::ranges::count(s, c) == 1; });
}

/// Puts as many of the last `dotted` letters in the place of dots as a text of that many dimensions needs.
bool replaceDots(std::string& s, std::string_view dotted, size_t rank) {
  const size_t at = s.find(dots);
  if (at == std::string::npos) return s.size() == rank;
  const size_t named = s.size() - dots.size();
  if (rank < named || rank - named > dotted.size()) return false;
  s.replace(at, dots.size(), dotted.substr(dotted.size() - (rank - named)));
  return true;
}

}  // namespace

std::optional<EinsumEquation> EinsumEquation::of(std::string_view text, std::span<const size_t> ranks) {
  std::string equation(text);
  std::erase_if(equation, [](unsigned char c) { return std::isspace(c) != 0; });
  const size_t arrow = equation.find("->");
  const bool isImplied = arrow == std::string::npos;
  EinsumEquation e;
  std::string left = equation.substr(0, arrow);
  for (size_t comma = left.find(','); comma != std::string::npos; comma = left.find(',')) {
    e.operands.push_back(left.substr(0, comma));
    left.erase(0, comma + 1);
  }
  e.operands.push_back(left);
  if (e.operands.size() != ranks.size()) return std::nullopt;

  size_t mostDotted = 0;
  for (size_t k = 0; k < ranks.size(); ++k)
    if (e.operands[k].find(dots) != std::string::npos && ranks[k] + dots.size() >= e.operands[k].size())
      mostDotted = std::max(mostDotted, ranks[k] + dots.size() - e.operands[k].size());
  std::string dotted;
  for (const char letter : alphabet)
    if (dotted.size() < mostDotted && equation.find(letter) == std::string::npos) dotted += letter;
  std::string all;
  for (size_t k = 0; k < ranks.size(); ++k) {
    if (!replaceDots(e.operands[k], dotted, ranks[k]) || !areDimensions(e.operands[k])) return std::nullopt;
    all += e.operands[k];
  }
  if (isImplied) {
    for (const char letter : all)
      if (dotted.find(letter) == std::string::npos && std::ranges::count(all, letter) == 1) e.result += letter;
    std::ranges::sort(e.result);
    e.result.insert(0, dotted);
  } else {
    e.result = equation.substr(arrow + 2);
    if (const size_t at = e.result.find(dots); at != std::string::npos) e.result.replace(at, dots.size(), dotted);
  }
  const auto isOfOperands = [&](char letter) { return all.find(letter) != std::string::npos; };
  return areDimensions(e.result) && std::ranges::all_of(e.result, isOfOperands) ? std::optional(std::move(e))
                                                                                : std::nullopt;
}

}  // namespace graft
