#include "core/compile/loops/checks/coverage.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace graft::loops {
namespace {

// From low up to, and without, high.
struct Interval {
  Polynomial low, high;
  bool operator==(const Interval&) const = default;
};
using Box = std::vector<Interval>;  // one for each dimension

class Coverage {
 public:
  explicit Coverage(Simplifier& simplifier, const Buffer& buffer)
      : simplifier_(simplifier), math_(simplifier.math()), program_(simplifier.program()) {
    for (const ExprId size : buffer.sizes) sizes_.push_back(simplifier_.simplify(size));
  }

  bool covers(const std::vector<Write>& writes) {
    if (std::any_of(sizes_.begin(), sizes_.end(), [&](ExprId size) { return isNothing(size); })) return true;
    if (writes.size() == 1 && countsThrough(writes[0])) return true;
    std::vector<Box> boxes;
    for (const Write& w : writes) {
      if (std::any_of(w.ranges.begin(), w.ranges.end(), [&](RangeId r) { return isNothing(program_.range(r).extent); }))
        continue;
      auto box = boxOf(w);
      if (!box) return false;
      boxes.push_back(std::move(*box));
    }
    return fill(boxes, 0);
  }

 private:
  // Numbers whose digits are the ranges: each counts as much as all below it together. Takes the ranges out of `open`,
  // and gives where the numbers begin and end.
  std::optional<Interval> digits(Polynomial p, std::vector<RangeId>& open) {
    Polynomial weight(1), low = std::move(p);
    for (bool found = true; found;) {
      found = false;
      for (size_t i = 0; i < open.size() && !found; ++i) {
        const Atom a{Atom::Kind::Range, open[i].index};
        if (low.degree(a) != 1) continue;
        const auto [factor, rest] = splitLinear(low, a);
        const Polynomial extent = math_.polynomial(program_.range(open[i]).extent);
        if (factor == weight) {
          low = rest;
        } else if (factor == -weight) {
          low = rest - weight * (extent - Polynomial(1));  // counts down
        } else {
          continue;
        }
        weight = weight * extent;
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
        found = true;
      }
    }
    for (const Term& t : low.terms)
      for (const Atom a : t.factors)
        if (a.kind != Atom::Kind::Size && !isOfSizes(a)) return std::nullopt;
    const Polynomial high = low + weight;
    if (!low.fits || !high.fits) return std::nullopt;
    return Interval{low, high};
  }

  bool isNothing(ExprId extent) {
    const Bounds b = math_.bounds(extent);
    return b.max && *b.max <= 0;
  }

  bool isOfSizes(Atom a) {
    if (a.kind != Atom::Kind::Other) return a.kind == Atom::Kind::Size;
    std::vector<ExprId> open{ExprId(a.index)};
    // Expressions of sizes are small.
    for (int steps = 0; !open.empty(); ++steps) {
      const Expr& e = program_.expressions[open.back()];
      open.pop_back();
      if (steps > 1000 || e.op == Op::Range || e.op == Op::Load || e.op == Op::CheckedIndex) return false;
      open.insert(open.end(), e.operands.begin(), e.operands.end());
    }
    return true;
  }

  // A range of one value counts nothing.
  std::vector<RangeId> countingRanges(const Write& w) {
    std::vector<RangeId> open = w.ranges;
    std::erase_if(open, [&](RangeId r) {
      const Bounds extent = math_.bounds(program_.range(r).extent);
      return extent.max && *extent.max <= 1;
    });
    return open;
  }

  // All dimensions as one number: i0 // 4, i0 % 4 is i0.
  bool countsThrough(const Write& w) {
    ExprId place = simplifier_.integer(0);
    Polynomial count(1);
    for (size_t d = 0; d < sizes_.size(); ++d) {
      place = simplifier_.add(simplifier_.multiply(place, sizes_[d]), simplifier_.simplify(w.index[d]));
      count = count * math_.polynomial(sizes_[d]);
    }
    std::vector<RangeId> open = countingRanges(w);
    const auto numbers = digits(math_.polynomial(place), open);
    return numbers && open.empty() && numbers->low.isZero() && numbers->high == count;
  }

  std::optional<Box> boxOf(const Write& w) {
    std::vector<RangeId> open = countingRanges(w);
    Box box;
    for (const ExprId index : w.index) {
      const Polynomial p = math_.polynomial(simplifier_.simplify(index));
      auto interval = digits(p, open);
      if (!interval) return std::nullopt;
      box.push_back(std::move(*interval));
    }
    return open.empty() ? std::optional(std::move(box)) : std::nullopt;
  }

  // Whether the boxes fill the buffer, each point once, from a dimension on: those of one interval in it are one group,
  // the groups follow each other, and each fills the other dimensions.
  bool fill(const std::vector<Box>& boxes, size_t dimension) {
    if (dimension == sizes_.size()) return boxes.size() == 1;
    const Polynomial size = math_.polynomial(sizes_[dimension]);
    std::vector<std::vector<Box>> groups;
    for (const Box& b : boxes) {
      const auto same =
          std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g[0][dimension] == b[dimension]; });
      if (same != groups.end())
        same->push_back(b);
      else
        groups.push_back({b});
    }
    Polynomial reached(0);
    std::vector<bool> isUsed(groups.size(), false);
    for (size_t n = 0; n < groups.size(); ++n) {
      // A box of no elements does not reach further: it comes before the one that does.
      size_t next = groups.size();
      for (size_t i = 0; i < groups.size(); ++i) {
        const Interval& interval = groups[i][0][dimension];
        if (isUsed[i] || interval.low != reached) continue;
        if (next == groups.size() || interval.high == reached) next = i;
      }
      if (next == groups.size()) return false;
      isUsed[next] = true;
      reached = groups[next][0][dimension].high;
      if (!fill(groups[next], dimension + 1)) return false;
    }
    return reached == size;
  }

  Simplifier& simplifier_;
  IndexMath& math_;
  const Program& program_;
  std::vector<ExprId> sizes_;
};

}  // namespace

bool coversOnce(Simplifier& simplifier, const Buffer& buffer, const std::vector<Write>& writes) {
  return Coverage(simplifier, buffer).covers(writes);
}

}  // namespace graft::loops
