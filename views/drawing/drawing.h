// Drawings of graphs as files: SVG, PNG, PDF and DOT. The window and `graft draw` make the same pictures.
//
//   Status s = drawToFile(graph, "bert.svg", {.depth = 2});
//   Result<std::string> svg = drawSvg(graph, {.theme = Theme::Dark});
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "views/layout/heat_scale.h"
#include "views/layout/layout.h"
#include "views/layout/palette.h"

namespace graft {

/// What became of nodes, by name. Callers fill it from rewrite records; `differenceByNames` compares two graphs.
struct GraphDifference {
  std::set<std::string, std::less<>> removed;  ///< names in the older graph
  std::set<std::string, std::less<>> added;    ///< names in the newer graph
  std::set<std::string, std::less<>> changed;  ///< in both, with another operator, other arguments or types
};
GraphDifference differenceByNames(const Graph& before, const Graph& after);

/// What the colours of boxes say instead of their kind, by box: a number, or the pattern node that matched.
struct Tints {
  std::vector<double> heat;          ///< NaN: none. Empty: nothing was measured
  HeatScale scale;                   ///< of `heat`
  std::vector<std::string> figures;  ///< beside each box with heat, containers too: "12.3 µs"
  std::vector<int> pattern;          ///< the number of the pattern node; -1: none. Empty: nothing matched
  std::string title, least, most;    ///< of the legend: "time in each node", "0", "1.84 ms"
};

/// Numbers of nodes, by name: times, errors, or a user's own.
struct NodeNumbers {
  std::string title, unit;
  bool adds = true;       ///< a module's is the sum of its nodes'; else the largest
  bool fromZero = false;  ///< colours begin at 0, as those of times; else at the smallest number of the drawing
  std::map<std::string, double, std::less<>> values;
};
/// A user's numbers from JSON: {"node": 1.5, …}, or Model Explorer's node data, {"results": {"node": {"value": 1.5}}},
/// alone or under a name. BadInput says where it is neither.
Result<NodeNumbers> readNumbers(std::string_view json, std::string_view title);

struct DrawOptions {
  int depth = 1;  ///< modules nested this deep are collapsed; -1: none
  /// Paths of modules opened or collapsed against `depth`.
  std::set<std::string, std::less<>> opened{}, closed{};
  bool foldRepeats = true;   ///< identical sibling blocks as one with ×N
  bool showScalars = false;  ///< calculations on sizes, too
  bool foldDeadEnds = true;  ///< what depends on weights alone, and what nothing uses, as one box each
  bool columns = true;       ///< what is much longer than wide goes on in another column, or row
  Flow flow = Flow::Down;
  bool labels = true;  ///< shapes and dtypes on edges
  bool legend = true;
  Theme theme = Theme::Light;
  LayoutEngine engine = LayoutEngine::Automatic;
  size_t maxBoxes = 5000;  ///< a drawing of more is an error that says how to get fewer
  double scale = 2;        ///< of PNG: pixels for each unit
  /// The older graph: both are drawn side by side, with what was removed, added and changed.
  const Graph* before = nullptr;
  bool isStacked = false;  ///< with `before`: the older one is above the newer one, whichever way they run
  const GraphDifference* difference = nullptr;  ///< with `before`; null: by names
  std::string title;                            ///< above the drawing; empty: the graph's name
  /// Colour nodes; a page offers all of them, a picture shows the first. DOT shows none.
  std::vector<NodeNumbers> numbers{};
};

Result<std::string> drawSvg(const Graph&, const DrawOptions& = {});
Result<std::string> drawDot(const Graph&, const DrawOptions& = {});
/// Whether drawToFile knows the path's ending.
bool isPictureName(const std::string& path);
/// The format is the path's ending: .svg, .png, .pdf, .html (the interactive page), .dot or .gv. PNG and PDF are the
/// SVG, rasterised by `graft-raster`, which lies beside the running program (or on PATH) where the GUI was built. The
/// file is complete or absent.
Status drawToFile(const Graph&, const std::string& path, const DrawOptions& = {});

/// The SVG of a graph already laid out. `changes` by box, or empty.
std::string svgOf(const VisibleGraph&, const Layout&, const DrawOptions&, const std::vector<Change>& changes = {},
                  const Tints& tints = {});
/// The DOT of what is shown of a graph, by that name.
std::string dotOf(const VisibleGraph&, const std::string& name, const DrawOptions&);

}  // namespace graft
