// KnownMasks: what tensors that are made of positions hold, whatever the sizes: "arange(n)[None, :] <= arange(m)[:,
// None]" is a mask that hides what comes later, "arange(n) >= 0" holds everywhere. It follows arange, sums,
// comparisons, conjunctions, where, fills, views, and the differences and lookups of positions by which a model asks
// whether a row holds several texts. It refers to the index.
//
//   KnownMasks masks(index, [&](ValueId weight) { return numberOf(weight); });
//   if (const KnownMask* m = masks.find(v); m && m->isEverywhere() && m->yes == 0) …   // all zeros
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "matcher/search/graph_index.h"

namespace graft {

/// A sum of positions along dimensions, which are counted from the last one: steps[0] for each place of the last.
struct Positions {
  std::vector<int64_t> steps;
  int64_t plus = 0;

  int64_t step(size_t dim) const { return dim < steps.size() ? steps[dim] : 0; }
  bool isNumber() const;
  bool operator==(const Positions&) const = default;
};

/// A tensor with the value `yes` where all conditions hold (each a sum that is at most 0), and `no` elsewhere. Truth
/// values are 1 and 0.
struct KnownMask {
  std::vector<Positions> conditions;
  double yes = 0, no = 0;

  bool isEverywhere() const { return conditions.empty(); }
  /// Whether the one condition is that the last dimension's position is at most that of the one before.
  bool isUpToDiagonal() const;
  /// The same by its one condition's contrary, with `yes` and `no` exchanged; nothing where it has not one condition.
  std::optional<KnownMask> inverted() const;
};

class KnownMasks {
 public:
  /// `numberOf` reads a constant of one element; nothing where it is not one.
  KnownMasks(const GraphIndex& index, std::function<std::optional<double>(ValueId)> numberOf);

  /// Null where nothing is known.
  const KnownMask* find(ValueId) const;

 private:
  void learn(const Node&);
  std::optional<Positions> positionsOf(const Argument&) const;
  std::optional<KnownMask> maskOf(const Argument&) const;
  std::optional<double> numberOf(const Argument&) const;
  void learnView(const Node&, std::string_view op);
  void learnDifference(const Node&);
  void learnIndex(const Node&);
  void setPositions(const Node&, std::optional<Positions>);
  void setMask(const Node&, std::optional<KnownMask>);
  template <class F>
  void rearrange(const Node&, F&& change);

  const GraphIndex& index_;
  const Graph& g_;
  std::function<std::optional<double>(ValueId)> constant_;
  std::unordered_map<uint32_t, Positions> positions_;  // by value: integers
  std::unordered_map<uint32_t, KnownMask> masks_;      // by value
};

}  // namespace graft
