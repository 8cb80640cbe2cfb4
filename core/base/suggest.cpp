#include "core/base/suggest.h"

#include <algorithm>
#include <vector>

namespace graft {
namespace {

size_t distance(std::string_view a, std::string_view b, size_t limit) {
  if (a.size() > b.size() + limit || b.size() > a.size() + limit) return limit + 1;
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

std::optional<std::string> nearestName(std::string_view word, std::span<const std::string> candidates) {
  size_t best = std::max<size_t>(1, word.size() / 3);
  std::optional<std::string> found;
  for (const std::string& c : candidates) {
    const size_t d = distance(word, c, best);
    if (d < best || (d == best && !found)) {
      best = d;
      found = c;
    }
  }
  return found;
}

}  // namespace graft
