// CanvasFrame: what stands still over a drawing while it moves: its title, the modules that one is inside of, arrows to
// what is marked out of sight, and what the colours say. In pixels of the canvas.
//
//   CanvasFrame frame(look, canvas rectangle, origin, scale);
//   frame.paint(painter);      for (const EdgeMark& m : frame.marks()) …     // where a click goes on
#pragma once

#include <QPainter>
#include <QStringList>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "views/canvas/canvas_scene.h"

namespace graft {

/// Marked boxes that lie beyond one edge of the canvas.
struct EdgeMark {
  enum Side { Above, Below, Left, Right } side = Above;
  int count = 0;    ///< of matches, or of nodes that changed
  int nearest = 0;  ///< the box to go to
  QRectF place;     ///< on the canvas
  QString text;
  Color color;
};

enum class Corner : uint8_t { BottomLeft, TopLeft, TopRight, BottomRight };
/// A rectangle of that size in a corner of a canvas of that size.
QRectF inCorner(Corner corner, QSizeF size, QSizeF canvas);

/// Where the legend stands: in a corner, or so many pixels from there along the upper or the lower edge, and so many
/// from that edge.
struct LegendSpot {
  Corner corner = Corner::BottomLeft;
  double shift = 0, inward = 0;
};

struct FrameLook {
  const Palette& palette;
  const Scene& scene;
  const Decorations& decorations;
  const BoxDecorations& boxes;
  QString title;
  bool hasLegend = false;
  bool hasMarks = true;
  LegendSpot legendSpot{};
  bool isLegendOpen = false;  ///< its words show, whatever they cover, and what stands for titles that have no room
  std::vector<std::pair<std::string, std::string>> shortNames{};  ///< with what they stand for
  QRectF overview{};        ///< where that is shown, in pixels: the legend leaves it its place
  bool isTopAside = false;  ///< the title and the names of modules show what is behind them
};

class CanvasFrame {
 public:
  /// From the upper edge to below the title, in pixels.
  static constexpr double titleHeight = 38;

  CanvasFrame(const FrameLook& look, QSizeF size, QPointF origin, double scale);
  void paint(QPainter& painter) const;
  const std::vector<EdgeMark>& marks() const { return marks_; }
  /// Titles of the open modules whose heads are out of sight above, outermost first.
  const QStringList& inside() const { return inside_; }
  /// Of the title and those names, which a small canvas shows only where they cover no box; empty where there is
  /// neither.
  QRectF topPlace() const;
  /// What the legend says of kinds and changes, in order.
  std::vector<std::pair<QString, Color>> legend() const;
  /// Of the legend, or of the scale of heat colours: with its words where they cover no boxes, else as a row of
  /// colours; empty where there is none, as in a narrow canvas that has no room for the words.
  QRectF legendPlace() const;
  bool isLegendFolded() const;
  /// The first place in which the whole legend covers nothing; otherwise, nothing but edges; otherwise, no boxes;
  /// otherwise, in which the folded one covers none. Corners come first, then the upper and the lower edge, then what
  /// is nearest to these.
  LegendSpot freeSpot() const;
  /// Whether the legend, as it is shown, covers a box or a title, or is not shown since it would.
  bool isLegendInTheWay() const;

 private:
  void findMarks();
  QRectF besideBoxes(const EdgeMark& mark) const;
  void findInside();
  struct Pill {
    QRectF place;
    QString text;
    int weight = 0;
    Color ink;
  };
  std::vector<Pill> pills() const;
  void paintTop(QPainter& painter) const;
  void paintMarks(QPainter& painter) const;
  void paintHeatScale(QPainter& painter) const;
  void paintLegend(QPainter& painter) const;
  QSizeF legendSize(bool isFolded) const;
  QRectF legendAt(LegendSpot spot, QSizeF size) const;
  std::vector<LegendSpot> spots(QSizeF size) const;
  bool isSmall() const;
  bool isNarrow() const;
  size_t shortNameRows() const;
  QRectF inScene(const QRectF& onCanvas) const;
  bool covers(const QRectF& onCanvas) const { return look_.scene.covers(inScene(onCanvas)); }

  FrameLook look_;
  QRectF area_, seen_;  ///< of the canvas, and of the scene
  std::vector<EdgeMark> marks_;
  QStringList inside_;
};

}  // namespace graft
