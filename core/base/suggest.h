// "Did you mean …?": the nearest known name by edit distance.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace graft {

/// The candidate with the smallest edit distance to `word`, when that is at most a third of its length (at least 1).
/// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours cost one each.
std::optional<std::string> nearestName(std::string_view word, std::span<const std::string> candidates);

}  // namespace graft
