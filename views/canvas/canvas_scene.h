// What a canvas shows: a graph's boxes and where they stand, ready to be painted, and what decorates them. Plain
// values; made on any thread, painted on the GUI's.
#pragma once

#include <QColor>
#include <QHash>
#include <QPainterPath>
#include <QSet>
#include <QStringList>
#include <memory>
#include <vector>

#include "views/canvas/box_index.h"
#include "views/canvas/rect_runs.h"
#include "views/layout/layout.h"
#include "views/layout/palette.h"
#include "views/widgets/qt_color.h"

namespace graft {

inline QRectF toQt(const Rect& r) { return {r.x, r.y, r.width, r.height}; }

/// Names of what can be selected, the same in all views: an operator's node name, "@path" of a module, "<name" of an
/// input,
/// ">n" of an output.
QString selectionKey(const Graph&, const Box&);

struct Scene {
  std::shared_ptr<const Graph> graph;
  ViewOptions options;
  VisibleGraph view;
  Layout layout;
  std::vector<QPainterPath> paths;  ///< by edge, without the way it shares with an earlier edge of its value
  std::vector<QRectF> pathBounds;
  std::vector<size_t> pathFrom;                     ///< by edge: the point of its layout where that path begins
  std::vector<float> widths;                        ///< by edge, where they differ; else empty
  std::vector<int> depth;                           ///< by box
  std::vector<std::vector<int>> inEdges, outEdges;  ///< by box
  QHash<QString, int> boxOfKey;                     ///< of visible boxes
  BoxIndex index;
  RectRuns openBoxes, closedBoxes, edgesNear, labelsNear;  ///< of what is painted: boxes, edges, labels of the layout
  std::vector<BoxKind> kinds;                              ///< of boxes that hold no others, each once, in order

  /// The box that shows `key`, or the one that holds it; -1 where there is none.
  int boxOf(const QString& key) const;
  int boxAt(QPointF) const;
  /// The edges that run by within `distance`, the nearest first. Those of one value may share a part of their ways.
  std::vector<int> edgesAt(QPointF, double distance) const;
  /// The whole way of an edge.
  QPainterPath wholePath(int edge) const;
  QRectF rect(int box) const { return toQt(layout.boxes[static_cast<size_t>(box)]); }
  QRectF bounds() const { return {0, 0, layout.width, layout.height}; }
  /// Whether a box that holds no others is there, or the title of one that does.
  bool covers(const QRectF& r) const;
  /// Whether nothing at all is drawn there: nor an edge, nor the outline of a box that holds others.
  bool isBlank(const QRectF& r) const { return isBlankButEdges(r) && !hasEdge(r); }
  bool isBlankButEdges(const QRectF& r) const;
  bool hasEdge(const QRectF& r) const;
};
using SceneRef = std::shared_ptr<const Scene>;
/// What LayoutOptions say of the drawing before, of the same graph.
struct FormerOrder {
  std::shared_ptr<const LayoutOrder> order;
  bool isKept = false;
};
SceneRef makeScene(std::shared_ptr<const Graph>, const ViewOptions&, const CancelToken& = {},
                   const FormerOrder& former = {});
/// Of boxes that are known already.
SceneRef makeScene(std::shared_ptr<const Graph>, const ViewOptions&, VisibleGraph, const CancelToken& = {},
                   const FormerOrder& former = {});

/// What can be shown at once: the whole, or of very many boxes the first ones and, in `rest`, all that are to follow.
struct FirstSight {
  SceneRef scene;
  std::shared_ptr<VisibleGraph> rest;
};
FirstSight firstSight(std::shared_ptr<const Graph>, const ViewOptions&, const CancelToken& = {});

/// What is drawn onto nodes, by name.
struct Decorations {
  QHash<QString, int> pattern;     ///< the colour of the pattern node it matches
  QHash<QString, int> match;       ///< the number of the match it belongs to
  QHash<QString, Change> changes;  ///< by node, or by "@path" of a container itself; with any, the rest fades
  /// The kinds that the drawing beside it has: the legend tells of both.
  QSet<Change> changesBeside;
  /// What the legend calls them, where "− removed" and the like are not the words.
  QHash<Change, QString> changeWords;
  bool fades = false;           ///< it does so without, too: what it is compared with has changes
  QHash<QString, double> heat;  ///< microseconds, bytes or errors
  bool heatAdds = true;         ///< rolled up by sum (time) or maximum (error)
  /// The scale's ends where the drawing holds nothing beyond them; crossed: its ends are what the drawing holds.
  double heatLeast = 0, heatMost = 0;
  QString heatTitle, heatUnit;
  bool countsMatches = true;  ///< modules say how many matches lie in them
  bool stale = false;         ///< matches are of an older text: drawn grey
  double barelyVisible = 0.4;

  bool operator==(const Decorations&) const = default;
};

/// Decorations of the boxes of one scene, modules' rolled up.
struct BoxDecorations {
  std::vector<int> pattern;
  std::vector<QSet<int>> matchesIn;  ///< their numbers
  std::vector<int> matches;          ///< how many matches lie in a module
  std::vector<int> marked;           ///< boxes that match or changed, and closed modules that hold some
  std::vector<Change> change;        ///< of open containers: only what is said of them themselves
  std::vector<int> changesInside;
  std::vector<double> heat;    ///< NaN: none
  double least = 0, most = 0;  ///< of boxes that are no open containers
  bool anyChange = false, anyHeat = false, anyPattern = false;
};
BoxDecorations resolve(const Scene&, const Decorations&);

/// "12.3 µs", "1.2 ms", "46.9 MB", "3.1e-06".
QString heatText(double value, const QString& unit);

}  // namespace graft
