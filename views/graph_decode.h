// Graphs as the engine sends them (see core/json/graph_json.h for the form) become values of the window.
//
//   std::shared_ptr<const Graph> g = decodeGraph(reply.result["graph"].toObject());
#pragma once

#include <QJsonObject>
#include <memory>

#include "core/ir/graph.h"

namespace graft {

/// Never fails: what is not understood is left out. Names are those of the engine. May run on any thread.
std::shared_ptr<const Graph> decodeGraph(const QJsonObject&);

inline QString toQt(std::string_view s) { return QString::fromUtf8(s.data(), static_cast<qsizetype>(s.size())); }

}  // namespace graft
