// The values that a model's arguments have where a caller leaves them out: forward(self, x, mask=None).
//
//   setDefault(leaf, Argument::none());      // of the leaf of CallingConvention::arguments that stands for `mask`
//   findDefault(graph, mask);                // None
//
// The tree of arguments keeps them: the default of a leaf is its only child.
#pragma once

#include <utility>

#include "core/ir/graph.h"

namespace graft {

/// The leaf's default, a literal; null where callers have to give a value.
inline const Argument* findDefault(const TreeSpec& leaf) {
  return leaf.isLeaf() && !leaf.children.empty() ? &leaf.children[0].leaf : nullptr;
}

inline void setDefault(TreeSpec& leaf, Argument literal) { leaf.children = {TreeSpec{"", "", {}, std::move(literal)}}; }

/// That of the graph's input; null also where None stood for a tensor that has to be given since, because inputs
/// decided the code's branches.
inline const Argument* findDefault(const Graph& g, ValueId input) {
  const Argument* out = nullptr;
  if (g.calling)
    g.calling->arguments.forEachLeaf([&](const TreeSpec& leaf) {
      if (leaf.leaf.isValue() && leaf.leaf.valueId() == input) out = findDefault(leaf);
    });
  return out && out->isNone() && g.value(input).type.isTensor() ? nullptr : out;
}

inline bool hasDefaults(const TreeSpec& arguments) {
  bool has = false;
  arguments.forEachLeaf([&](const TreeSpec& leaf) { has = has || findDefault(leaf); });
  return has;
}

}  // namespace graft
