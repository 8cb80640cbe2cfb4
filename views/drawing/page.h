// The interactive page: a graph, or two that are compared, as one HTML file that needs no server and no network. The
// browser opens and closes modules, searches, and colours nodes by numbers; resources/page holds its script.
//
//   Result<std::string> html = drawPage(graph, {.depth = 1});
#pragma once

#include <string>

#include "views/drawing/drawing.h"

namespace graft {

/// `options.depth` is what is open at first; with `options.before` the page compares both. BadInput where the graph has
/// more boxes than `options.maxBoxes` allows.
Result<std::string> drawPage(const Graph&, const DrawOptions& options = {});

}  // namespace graft
