// Layout: where the boxes of a visible graph stand and how its edges run. Two engines behind one result: Graphviz' dot,
// in a child process that can be killed, and a layered layout of our own that is linear in the size of the graph.
//
//   Result<Layout> l = layoutGraph(visible);
//   paint(visible.boxes[i], l->boxes[i]);  stroke(l->edges[e].points);
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"
#include "views/layout/visible_graph.h"

namespace graft {

struct Point {
  double x = 0, y = 0;
};
struct Rect {
  double x = 0, y = 0, width = 0, height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
  double centerX() const { return x + width / 2; }
};

/// A start and then cubic Bézier segments: two control points and an end each. Empty where the edge could not be drawn.
struct EdgePath {
  std::vector<Point> points;
};

/// Shape and dtype of a value, once for all its edges, or how many values run there: `at` is the left end of the text's
/// baseline.
struct EdgeLabel {
  int edge = 0;
  Point at;
  std::string text;
};

/// The order from left to right in which a layout has boxes and the ways between them; of a drawing that runs to the
/// right, from top to bottom. Names are numbers that mean the same in each layout of one graph.
struct LayoutOrder {
  std::vector<std::pair<uint64_t, double>> places;  ///< by name; places in different modules say nothing of each other
  std::optional<double> placeOf(uint64_t name) const;
  /// These places, and of what has none here those that it has there.
  LayoutOrder over(const LayoutOrder& other) const;
};

struct Layout {
  std::vector<Rect> boxes;  ///< by box of the visible graph
  std::vector<EdgePath> edges;
  std::vector<EdgeLabel> labels;
  double width = 0, height = 0;
  Flow flow = Flow::Down;
  std::string engine;  ///< "dot" or "layered"
  LayoutOrder order;   ///< layered
};

/// Automatic is the layered one: it keeps modules in blocks and edges clear of boxes, and never makes anybody wait.
enum class LayoutEngine { Automatic, Layered, Graphviz };

struct LayoutOptions {
  LayoutEngine engine = LayoutEngine::Automatic;
  bool labels = true;   ///< leave room for shapes and dtypes
  bool bundles = true;  ///< very many values between two boxes share one way (layered)
  bool columns = true;  ///< what is much longer than wide goes on in another column, or row (layered)
  bool wide = false;    ///< boxes take room that is free beside the drawing for words that can be read at fit (layered)
  Flow flow = Flow::Down;
  double graphvizSeconds = 1.0;  ///< after that dot is killed
  size_t graphvizBoxes = 1500;   ///< more boxes are not tried with dot
  /// Of the drawing that is shown now, with other modules open: what is in both keeps its order, unless crossings fall
  /// where it does not (layered). It must outlive the call.
  const LayoutOrder* before = nullptr;
  bool keepsOrder = false;  ///< with `before`: however many crossings there are, as where a module is closed
};

/// Metrics that layouts and painters share, in pixels at a scale of 1.
struct Metrics {
  static constexpr double titleSize = 13, nameSize = 11, detailSize = 11, chipSize = 10, labelSize = 10;
  static constexpr double padding = 10, chipPadding = 5, chipGap = 4, chipHeight = 14, header = 26, margin = 14;
  static constexpr double maxWidth = 300;
};
/// Boxes that are too small for their usual text have words of one size, in pixels of the screen: at least three
/// letters, between paddings that depend on how wide the box is shown.
struct SmallMetrics {
  static constexpr double letters = 9, lowest = 5.4;  ///< of a box with words: rows are then 9 pixels apart
  static constexpr double lowestApart = 3;            ///< of one from which all others are that far away
  static constexpr size_t fewest = 3;
  static double padding(double width) { return std::clamp((width - 14) / 10, 0.5, 4.0); }
};
/// The size of a box that is no open container. Where the drawing runs to the right, width is what a row runs out of:
/// there the name is no part of it, and long details are cut. `letters`: how much wider they are than usual.
Rect boxSize(const Box&, Flow = Flow::Down, double letters = 1);

/// Fails only with Cancelled.
Result<Layout> layoutGraph(const VisibleGraph&, const LayoutOptions& = {}, const CancelToken& = {});
Result<Layout> layoutLayered(const VisibleGraph&, const LayoutOptions& = {}, const CancelToken& = {});
/// BadInput where dot took too long, failed, or is not built in.
Result<Layout> layoutGraphviz(const VisibleGraph&, const LayoutOptions& = {}, const CancelToken& = {});

/// The head of the arrow at an edge's end: the tip, then the two corners behind it. The edge has a segment at least.
std::array<Point, 3> arrowHead(const EdgePath&);

/// Points that are joined by vertical lines where x stays, by S-curves where it changes, and by turns where y stays.
EdgePath smoothPath(const std::vector<Point>& stops);

}  // namespace graft
