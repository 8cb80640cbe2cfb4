// A pattern written from nodes of a graph, as the rule language spells it: what flows in becomes parameters, what flows
// out is returned, literals stay.
//
//   QString text = patternFromNodes(graph, {"matmul", "div", "softmax"});   // "class NewRule(Rule): …"
#pragma once

#include <QStringList>

#include "core/ir/graph.h"

namespace graft {

/// "" where no name is a node's.
QString patternFromNodes(const Graph&, const QStringList& names);

}  // namespace graft
