#include "views/document/captured/capture.h"

#include <utility>

#include "views/document/json_fields.h"

namespace graft {

QString CapturedGraphInfo::nodesText() const {
  return counted(nodes, Capture::tr("node captured"), Capture::tr("nodes captured"));
}

QString CapturedGraphInfo::nodesTip() {
  return Capture::tr(
      "Nodes are counted as torch.compile captured them. A graph that you open has fewer where Graft "
      "spells an operation in another way");
}

Capture::Capture(Document& document, QObject* parent) : QObject(parent), document_(document) {
  connect(&document_, &Document::opened, this, [this] {
    // Of the same file the graphs stay, so that nothing jumps while the engine answers.
    if (std::exchange(path_, document_.path()) != document_.path() || document_.capturedGraphs().isEmpty())
      graphs_.clear();
    guards_.clear();
    ask();
    Q_EMIT changed();
  });
}

void Capture::ask() {
  ++asked_;
  if (document_.capturedGraphs().isEmpty()) return;
  document_.ask(QStringLiteral("captured/graphs"), {}, [this, asked = asked_](const EngineReply& reply) {
    if (asked != asked_) return;
    if (!reply.ok()) {
      if (!reply.cancelled()) Q_EMIT document_.failed(tr("The capture's graphs are not known"), reply.error);
      return;
    }
    graphs_.clear();
    for (const QJsonValue v : at(reply.result, "graphs").toArray()) {
      const QJsonObject g = v.toObject(), why = objectAt(g, "break");
      const auto text = [&](const char* key) { return at(why, key).toString(); };
      graphs_.push_back({at(g, "name").toString(), at(g, "nodes").toInt(), at(g, "guards").toInt(), !why.isEmpty(),
                         text("reason"), text("explanation"), text("hint"), text("file"), text("code"),
                         at(why, "line").toInt()});
    }
    for (const QJsonValue v : at(reply.result, "guards").toArray()) {
      const QJsonObject g = v.toObject();
      guards_.push_back({at(g, "text").toString(), at(g, "about").toString(), at(g, "brokenBy").toString()});
    }
    Q_EMIT changed();
  });
}

const CapturedGraphInfo* Capture::find(const QString& name) const {
  for (const CapturedGraphInfo& g : graphs_)
    if (g.name == name) return &g;
  return nullptr;
}

std::vector<const CapturedGraphInfo*> Capture::chain() const {
  std::vector<const CapturedGraphInfo*> out;
  const QString role = CapturedGraphInfo::roleOf(document_.method());
  for (const CapturedGraphInfo& g : graphs_)
    if (g.role() == role) out.push_back(&g);
  return out;
}

}  // namespace graft
