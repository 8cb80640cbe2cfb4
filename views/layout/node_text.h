// What a drawing says of a node: its kind (which gives the colour), a title, the hyper-parameters that matter, and the
// weights and constants folded into it as chips. Also how wide text is, for layouts made without a window.
//
//   NodeText t = describeNode(graph, graph.node(id));   // "linear", "384 → 1536", {"weight", "bias"}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

enum class BoxKind : uint8_t {
  Product,
  Normalization,
  Activation,
  Lookup,
  Kernel,
  Shape,
  Control,
  Arithmetic,
  Input,
  Output,
  Module,
};
inline constexpr int boxKindCount = 11;
/// "normalization", … as every legend says it: the window's, the SVG's, the page's. Empty where a legend leaves it out.
std::string_view boxKindName(BoxKind);

struct NodeText {
  BoxKind kind = BoxKind::Arithmetic;
  std::string title;               ///< "linear", "attention"
  std::string detail;              ///< "384 → 1536", "dim=-1"; may be empty
  std::vector<std::string> chips;  ///< "weight", "bias", "position_ids 1×512"
};

BoxKind kindOfOperator(std::string_view operatorName);
NodeText describeNode(const Graph&, const Node&);

/// "8×128×384 f32"; "int" for what is no tensor; "" where nothing is known.
std::string typeLabel(const Type&);
/// "1.2 M", "35 k", "812".
std::string shortCount(double);
/// A literal as Python spells it; values of the graph by name.
std::string argumentText(const Argument&, const Graph&);

/// Pixels that `text` takes in the drawings' sans-serif font (Inter's metrics) at `size` pixels.
double textWidth(std::string_view text, double size);
/// The text cut at its end (or its middle) with "…" so that it fits.
std::string elide(std::string_view text, double size, double width, bool middle = false);

}  // namespace graft
