// ScenePainter: paints one part of a scene at a scale. Its shapes are in canvas_paint.cpp, its words in
// canvas_words.cpp. Made for one painting; other code calls paintScene().
#pragma once

#include <QPainter>
#include <algorithm>
#include <array>

#include "views/canvas/canvas_paint.h"
#include "views/canvas/small_text.h"
#include "views/layout/node_text.h"

namespace graft {

class ScenePainter {
 public:
  ScenePainter(QPainter& painter, const Scene& scene, const CanvasLook& look, const QRectF& area)
      : p_(painter), scene_(scene), look_(look), pal_(look.palette), area_(area) {}

  void run();

 private:
  using M = Metrics;

  bool visible(size_t i, double margin = 12) const {
    const Rect& r = scene_.layout.boxes[i];
    return r.x <= area_.right() + margin && r.right() >= area_.left() - margin && r.y <= area_.bottom() + margin &&
           r.bottom() >= area_.top() - margin;
  }
  bool readable(double size) const { return size * look_.scale >= SmallText::smallest; }
  int pixels(double size) const { return SmallText::pixelsAt(size, look_.scale); }
  bool block(double size) const { return size * look_.scale < 3; }
  QPen pen(QColor color, double width = 1.2, Qt::PenStyle style = Qt::SolidLine) const {
    QPen pen(color, width, style);
    pen.setCosmetic(width * look_.scale < 0.7);
    if (pen.isCosmetic()) pen.setWidthF(0.8);
    return pen;
  }
  QColor faded(Color c, double amount) const { return toQt(mix(pal_.background, c, amount)); }
  /// Letters of what has not changed: as quiet as they can be and still be read.
  Color quietly(Color ink, Color behind) const { return graft::readable(mix(behind, ink, 0.55), behind, ink); }

  /// The colours of a box that is no open container, and of its words.
  struct Shade {
    Color fill, border, text, dim;
    double width = 1.2;
    Qt::PenStyle style = Qt::SolidLine;
  };

  /// Those of the boxes that are in the area or so near to it, in order.
  std::vector<size_t> seen(const RectRuns& boxes, double margin = 12) const;

  // Shapes
  void containers(const std::vector<size_t>& open);
  void container(size_t i);
  void edges(bool smooth);
  void drawEdge(size_t edge, const QColor& color);
  bool isTiny(size_t e) const;
  QLineF straight(size_t e) const;
  void polyline(size_t e);
  void arrow(size_t e);
  Shade shadeOf(size_t i) const;
  QColor blockColor(size_t i);
  void box(size_t i, bool hasUsualText);
  /// −, + or ~ at a size that can be read where names cannot: colour alone does not tell everybody.
  void changeMark(Change change, const QRectF& r);

  // Words
  void containerTitle(size_t i);
  /// Words in pixels, of one size whatever the zoom: what each box has room for, then names and counts at their places.
  void smallTexts();
  void placedLabels(const QTransform& place);
  /// As much as `r`, in pixels, has room for: the title, the name beside it, the detail below; the number of matches
  /// always.
  void smallBox(size_t i, const QRectF& r);
  void smallBadge(const QString& text, double right, double middle, Color color, const SmallText& words);
  void heatBadge(size_t i, const QRectF& r);
  /// A time or an error that ends at `right`, on the colour of what it stands in: no edge runs through it.
  void figures(double heat, double right, double y, Color back);
  /// Shapes on edges.
  void labels();
  void badge(const QString& text, double right, double y, Color color);
  void writeBox(size_t i, const Box& box, const QRectF& r, bool isIo, Color text, Color dim);
  void secondLine(const Box& box, const QRectF& r, bool centred, Color dim, Color text);
  void marks(size_t i, const Box& box, const QRectF& r);
  void heatNote(const Box& box, const QRectF& r, double heat);

  QPainter& p_;
  const Scene& scene_;
  const CanvasLook& look_;
  const Palette& pal_;
  const QRectF area_;
  QList<QLineF> lines_;                        ///< edges that are drawn at once
  std::array<QColor, boxKindCount> blocks_{};  ///< by kind, as far as it was asked for
};

}  // namespace graft
