#include "core/text/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace graft {
namespace {

std::vector<std::string_view> linesOf(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return out;
}

class Differ {
 public:
  Differ(std::string_view before, std::string_view after) : a_(linesOf(before)), b_(linesOf(after)) {}

  std::vector<DiffLine> run(size_t context) {
    // Ranges wait on a stack of our own: a file of 100,000 lines must not recurse that deep.
    std::vector<Range> waiting{{0, a_.size(), 0, b_.size()}};
    while (!waiting.empty()) {
      const Range r = waiting.back();
      waiting.pop_back();
      compare(r, waiting);
    }
    return withContext(context);
  }

 private:
  struct Range {
    size_t a, aEnd, b, bEnd;
  };

  void same() { all_.push_back({' ', ++oldLine_, ++newLine_, std::string(a_[oldLine_ - 1])}); }
  void removed() { all_.push_back({'-', ++oldLine_, 0, std::string(a_[oldLine_ - 1])}); }
  void added() { all_.push_back({'+', 0, ++newLine_, std::string(b_[newLine_ - 1])}); }

  /// What is equal at both ends needs no search; between two anchors the same again.
  void compare(Range r, std::vector<Range>& waiting) {
    while (r.a < r.aEnd && r.b < r.bEnd && a_[r.a] == b_[r.b]) same(), ++r.a, ++r.b;
    const size_t tail = [&] {
      size_t n = 0;
      while (r.aEnd - n > r.a && r.bEnd - n > r.b && a_[r.aEnd - n - 1] == b_[r.bEnd - n - 1]) ++n;
      return n;
    }();
    if (tail > 0) {  // comes out after all that lies before it
      waiting.push_back({r.aEnd - tail, r.aEnd, r.bEnd - tail, r.bEnd});
      r.aEnd -= tail;
      r.bEnd -= tail;
    }
    if (r.a == r.aEnd && r.b == r.bEnd) return;
    const std::vector<std::pair<size_t, size_t>> anchors = anchorsIn(r);
    if (anchors.empty()) {
      for (; r.a < r.aEnd; ++r.a) removed();
      for (; r.b < r.bEnd; ++r.b) added();
      return;
    }
    // The last range is pushed first. Each begins with its anchor, which is equal on both sides.
    for (size_t i = anchors.size(); i-- > 0;) {
      const bool isLast = i + 1 == anchors.size();
      waiting.push_back({anchors[i].first, isLast ? r.aEnd : anchors[i + 1].first, anchors[i].second,
                         isLast ? r.bEnd : anchors[i + 1].second});
    }
    waiting.push_back({r.a, anchors.front().first, r.b, anchors.front().second});
  }

  /// Lines that stand once on each side, in the longest sequence that rises on both.
  std::vector<std::pair<size_t, size_t>> anchorsIn(const Range& r) const {
    struct Count {
      size_t a = 0, b = 0, atA = 0, atB = 0;
    };
    std::unordered_map<std::string_view, Count> counts;
    for (size_t i = r.a; i < r.aEnd; ++i) ++counts[a_[i]].a, counts[a_[i]].atA = i;
    for (size_t i = r.b; i < r.bEnd; ++i) ++counts[b_[i]].b, counts[b_[i]].atB = i;
    std::vector<std::pair<size_t, size_t>> unique;
    for (size_t i = r.a; i < r.aEnd; ++i)
      if (const Count& c = counts[a_[i]]; c.a == 1 && c.b == 1) unique.emplace_back(i, c.atB);
    std::vector<size_t> piles, before(unique.size(), SIZE_MAX);
    for (size_t i = 0; i < unique.size(); ++i) {
      const auto pile = std::lower_bound(piles.begin(), piles.end(), unique[i].second,
                                         [&](size_t k, size_t value) { return unique[k].second < value; });
      if (pile != piles.begin()) before[i] = *(pile - 1);
      if (pile == piles.end())
        piles.push_back(i);
      else
        *pile = i;
    }
    std::vector<std::pair<size_t, size_t>> out;
    for (size_t i = piles.empty() ? SIZE_MAX : piles.back(); i != SIZE_MAX; i = before[i]) out.push_back(unique[i]);
    std::reverse(out.begin(), out.end());
    return out;
  }

  std::vector<DiffLine> withContext(size_t context) {
    std::vector<char> kept(all_.size(), 0);
    for (size_t i = 0; i < all_.size(); ++i)
      if (all_[i].kind != ' ')
        for (size_t k = i - std::min(i, context); k < std::min(all_.size(), i + context + 1); ++k) kept[k] = 1;
    std::vector<DiffLine> out;
    for (size_t i = 0; i < all_.size();) {
      if (!kept[i]) {
        ++i;
        continue;
      }
      size_t end = i, olds = 0, news = 0;
      for (; end < all_.size() && kept[end]; ++end) {
        olds += all_[end].oldLine > 0;
        news += all_[end].newLine > 0;
      }
      size_t firstOld = 0, firstNew = 0;
      for (size_t k = i; k < end; ++k) {
        if (!firstOld) firstOld = all_[k].oldLine;
        if (!firstNew) firstNew = all_[k].newLine;
      }
      out.push_back({'@', 0, 0, fmt::format("@@ -{},{} +{},{} @@", firstOld, olds, firstNew, news)});
      for (; i < end; ++i) out.push_back(std::move(all_[i]));
    }
    return out;
  }

  std::vector<std::string_view> a_, b_;
  size_t oldLine_ = 0, newLine_ = 0;
  std::vector<DiffLine> all_;
};

}  // namespace

std::vector<DiffLine> diffLines(std::string_view before, std::string_view after, size_t context) {
  return Differ(before, after).run(context);
}

}  // namespace graft
