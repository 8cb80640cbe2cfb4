// Plans of levels: what a layout decides before sizes matter, container by container — layers, the order in them, the
// ways of edges, threads. Who has a plan can place the boxes for any choice of open modules without sorting anything
// again: the page that `graft draw -o model.html` writes does so in the browser.
//
//   for (const LevelPlan& level : planLevels(view)->levels) …   // `view` with every module open
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/result.h"
#include "views/layout/layered/level.h"
#include "views/layout/visible_graph.h"

namespace graft {

struct LevelPlan {
  struct Item {
    LevelItem::Kind kind = LevelItem::Kind::Box;
    uint32_t what = 0;  ///< a box of the visible graph; a port's value; nothing of a dummy
  };
  struct Edge {
    uint32_t value = 0;  ///< or a bundle: see LevelPlans::nets
    bool isReversed = false;
    bool isFar = false;
    std::vector<int> chain;  ///< items in neighbouring layers, from the upper end to the lower
  };
  int container = -1;  ///< a box of the visible graph; -1: the model
  std::vector<Item> items;
  std::vector<std::vector<int>> layers;
  std::vector<Edge> edges;
  std::vector<std::vector<int>> threads;  ///< the spine first
  int turn = 0;  ///< the layer in which the way back begins: it stands beside what runs there, upside down; 0: none
};

struct LevelPlans {
  std::vector<LevelPlan> levels;  ///< one for the model and one for each open container
  /// By edge of the visible graph: its value, or the bundle in which it runs beside others, whose number is no value's.
  std::vector<uint32_t> nets;
};
/// Fails only with Cancelled.
Result<LevelPlans> planLevels(const VisibleGraph&, const CancelToken& = {});

}  // namespace graft
