// How a scene is painted at a scale: what is too small for its usual text keeps as many words as fit, then a block of
// colour.
#pragma once

#include <QPainter>

#include "views/canvas/label_places.h"

namespace graft {

struct CanvasLook {
  const Palette& palette;
  const Decorations& decorations;
  const BoxDecorations& boxes;
  const std::vector<char>& selected;
  const std::vector<char>& lit;
  const LabelPlaces& places;  ///< at this scale
  double scale;
};

/// Paints the part of the scene in `area` (scene coordinates). The painter is already transformed.
void paintScene(QPainter& painter, const Scene& scene, const CanvasLook& look, const QRectF& area);

/// Sans-serif of the drawings at a whole pixel size.
QFont drawingFont(double pixels, int weight);

}  // namespace graft
