// How good a layout is, in numbers: for tests that hold a drawing to them, and for the tables of
// docs/measurements/window.md.
#pragma once

#include <cstddef>

#include "views/layout/layout.h"

namespace graft::test {

struct LayoutQuality {
  size_t boxes = 0, edges = 0;
  size_t crossings = 0;     ///< of edges of different values
  size_t bends = 0;         ///< places where an edge leaves the way that the drawing runs
  double straightness = 1;  ///< of the neighbours on the longest way through each container, those whose edge or
                            ///< middles are one line along the way that the drawing runs
  double width = 0, height = 0;
  double readable = 0;  ///< of the boxes that hold no others, those with room for three letters at fit
  double fitScale = 0;
};

/// `paneWidth` and `paneHeight`: what the drawing is fitted into, in pixels.
LayoutQuality qualityOf(const VisibleGraph& view, const Layout& layout, double paneWidth = 1100,
                        double paneHeight = 760);

}  // namespace graft::test
