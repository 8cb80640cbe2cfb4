#include "views/document/document_replies.h"

#include "views/document/async.h"

namespace graft {

QStringList strings(const QJsonValue& list) {
  QStringList out;
  for (const QJsonValue v : list.toArray()) out << v.toString();
  return out;
}

QList<RolledBackInfo> readRolledBack(const QJsonArray& list) {
  QList<RolledBackInfo> out;
  for (const QJsonValue v : list) {
    const QJsonObject r = v.toObject(), verification = at(r, "verification").toObject();
    const QString node = at(r, "node").toString(), scope = at(r, "scope").toString();
    const QStringList shapes = strings(at(verification, "inputShapes"));
    const QString why = at(verification, "why").toString();
    const QString text =
        (node.isEmpty()    ? QString()
         : scope.isEmpty() ? Document::tr("`%1`: ").arg(node)
                           : Document::tr("`%1` in %2: ").arg(node, scope)) +
        why + (shapes.isEmpty() ? QString() : Document::tr("; inputs: %1").arg(shapes.join(QStringLiteral(", "))));
    out.push_back({node, why, text, at(verification, "maxAbs").toDouble()});
  }
  return out;
}

std::vector<SubStepInfo> readSubSteps(const QJsonArray& list) {
  std::vector<SubStepInfo> out;
  for (const QJsonValue v : list) {
    const QJsonObject s = v.toObject();
    out.push_back({at(s, "name").toString(), at(s, "isRule").toBool(), at(s, "ms").toDouble(),
                   readRecords(at(s, "records").toArray()), strings(at(s, "refused")),
                   readRolledBack(at(s, "rolledBack").toArray())});
  }
  return out;
}

QString verificationText(const QJsonObject& verification) {
  const int verified = at(verification, "verified").toInt(), measured = at(verification, "measured").toInt(),
            unverified = at(verification, "unverified").toInt();
  QStringList parts;
  if (verified > 0)
    parts << (measured || unverified ? Document::tr("%1 verified").arg(verified) : Document::tr("all verified"));
  if (measured > 0) parts << Document::tr("%1 change numbers on purpose").arg(measured);
  const QString why = at(verification, "why").toString();
  if (unverified > 0)
    parts << (verified || measured ? Document::tr("%1 not verified").arg(unverified) : Document::tr("not verified")) +
                 (why.isEmpty() ? QString() : QStringLiteral(": ") + why);
  return parts.join(QStringLiteral(", "));
}

void decodeAsync(QObject* receiver, const EngineReply& reply, std::function<void(const GraphStream::Decoded&)> done) {
  const QJsonObject json = at(reply.result, "graph").toObject();
  if (reply.graph) return reply.graph->finish(receiver, at(json, "parts").toInt(), std::move(done));
  runAsync(
      receiver,
      [json] {
        return GraphStream::Decoded{decodeGraph(json), {}};
      },
      std::move(done));
}

QJsonObject inParts(QJsonObject request) {
  request.insert(QStringLiteral("graph"), QStringLiteral("parts"));
  return request;
}
QJsonObject withoutGraph(QJsonObject request) {
  request.insert(QStringLiteral("graph"), QStringLiteral("none"));
  return request;
}

std::vector<RecordInfo> readRecords(const QJsonArray& list) {
  std::vector<RecordInfo> out;
  for (const QJsonValue v : list) {
    const QJsonObject r = v.toObject();
    out.push_back(
        {at(r, "rule").toString(), at(r, "scope").toString(), strings(at(r, "removed")), strings(at(r, "added"))});
  }
  return out;
}

QString methodOf(const QJsonObject& request) { return at(request, "method").toString(QStringLiteral("rules/apply")); }

}  // namespace graft
