// Reads the engine's answers: records, the steps of a recipe, what was verified, graphs in parts.
#pragma once

#include <QJsonArray>
#include <QJsonObject>
#include <functional>

#include "views/document/document.h"
#include "views/document/graph_decode.h"
#include "views/document/json_fields.h"

namespace graft {

QStringList strings(const QJsonValue& list);

std::vector<RecordInfo> readRecords(const QJsonArray&);
/// "`matmul_3` in encoder.layer.0: on random values, `matmul_3` (f32[2,9,64]) differs: …", and the inputs' shapes.
QList<RolledBackInfo> readRolledBack(const QJsonArray&);
std::vector<SubStepInfo> readSubSteps(const QJsonArray&);
/// The engine's summary in words.
QString verificationText(const QJsonObject& verification);

/// Decodes on a worker and hands the graph to `done` on the receiver's thread, or why there is none.
void decodeAsync(QObject* receiver, const EngineReply&, std::function<void(const GraphStream::Decoded&)> done);
/// Graphs are wanted in parts, which are decoded while they come, or not at all.
QJsonObject inParts(QJsonObject request);
QJsonObject withoutGraph(QJsonObject request);

}  // namespace graft
