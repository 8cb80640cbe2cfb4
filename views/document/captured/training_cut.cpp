#include "views/document/captured/training_cut.h"

#include <QFileInfo>
#include <algorithm>
#include <utility>

#include "views/document/document_replies.h"

namespace graft {
namespace {

Crossing kindOf(const QString& name) {
  if (name == QLatin1String("must")) return Crossing::Must;
  if (name == QLatin1String("dear")) return Crossing::Dear;
  return name == QLatin1String("asked") ? Crossing::Asked : Crossing::Cheap;
}

}  // namespace

TrainingCut::TrainingCut(Document& document, QObject* parent) : QObject(parent), document_(document) {
  constexpr int pause = 120;  // a slider that moves is not asked for at each step
  soon_.setSingleShot(true);
  soon_.setInterval(pause);
  connect(&soon_, &QTimer::timeout, this, &TrainingCut::ask);
  connect(&document_, &Document::opened, this, [this] {
    // The same graph, opened again, keeps its wishes.
    const QString key = document_.path() + QLatin1Char('#') + document_.method();
    if (std::exchange(key_, key) != key) memory_ = 1, save_.clear(), recompute_.clear();
    clear();
    if (active_) askSoon(true);
  });
  connect(&document_, &Document::graphChanged, this, [this] {
    isCurrent_ = curveIsCurrent_ = false;
    if (active_) askSoon(true);
  });
  connect(&document_, &Document::engineReplaced, this, [this] {
    if (active_ && !isCurrent_) askSoon(false);
  });
}

void TrainingCut::clear() {
  ++generation_;
  asked_ = 0;
  report_ = {};
  curve_.clear();
  error_.clear();
  isCurrent_ = curveIsCurrent_ = false;
  Q_EMIT changed();
}

void TrainingCut::setActive(bool active) {
  active_ = active;
  if (active_ && !isCurrent_) askSoon(false);
}

void TrainingCut::askSoon(bool pinsChanged) {
  isCurrent_ = false;
  if (pinsChanged) curveIsCurrent_ = false;
  if (!active_ || !document_.isJoint()) return;
  soon_.start();
  Q_EMIT changed();
}

QJsonObject TrainingCut::wishes() const {
  return {{QStringLiteral("memory"), memory_},
          {QStringLiteral("save"), QJsonArray::fromStringList(save_)},
          {QStringLiteral("recompute"), QJsonArray::fromStringList(recompute_)}};
}

void TrainingCut::setWishes(const QJsonObject& wishes) {
  memory_ = std::clamp(at(wishes, "memory").toDouble(1), 0.0, 1.0);
  save_ = strings(at(wishes, "save"));
  recompute_ = strings(at(wishes, "recompute"));
  key_ = document_.path() + QLatin1Char('#') + document_.method();
  askSoon(true);
}

void TrainingCut::ask() {
  if (!document_.isJoint()) return;
  if (asked_) document_.stopAsking(asked_);
  const int generation = ++generation_;
  const bool withCurve = !curveIsCurrent_;
  QJsonObject request = wishes();
  // The cut first, which takes a moment; the curve is a dozen of them.
  asked_ = document_.ask(QStringLiteral("training/cut"), request, [=, this](const EngineReply& reply) {
    if (generation != generation_) return;
    asked_ = 0;
    take(reply, false);
    if (!withCurve || reply.cancelled() || reply.errorCode == EngineReply::lostCode) return;
    QJsonObject more = wishes();
    more.insert(QStringLiteral("memory"), 1.0);
    more.insert(QStringLiteral("curve"), true);
    asked_ = document_.ask(QStringLiteral("training/cut"), more, [=, this](const EngineReply& curve) {
      if (generation != generation_) return;
      asked_ = 0;
      take(curve, true);
    });
    Q_EMIT changed();
  });
  Q_EMIT changed();
}

void TrainingCut::take(const EngineReply& reply, bool withCurve) {
  if (reply.errorCode == EngineReply::lostCode) return Q_EMIT changed();  // the next engine is asked
  if (!reply.ok()) {
    if (!reply.cancelled()) error_ = reply.error;
    return Q_EMIT changed();
  }
  const QJsonObject& r = reply.result;
  const auto peaks = [](const QJsonObject& o) {
    const QJsonObject p = objectAt(o, "simulatedPeak");
    return std::pair(at(p, "forward").toInteger(), at(p, "backward").toInteger());
  };
  if (withCurve) {
    curve_.clear();
    for (const QJsonValue v : at(r, "curve").toArray()) {
      const QJsonObject p = v.toObject();
      const auto [forward, backward] = peaks(p);
      curve_.push_back({at(p, "memory").toDouble(), at(p, "savedBytes").toInteger(), std::max(forward, backward),
                        at(p, "recomputedUs").toDouble()});
    }
    curveIsCurrent_ = true;
    return Q_EMIT changed();
  }
  error_.clear();
  isCurrent_ = true;
  report_ = {};
  for (const QJsonValue v : at(r, "saved").toArray()) {
    const QJsonObject s = v.toObject();
    report_.saved.push_back({at(s, "name").toString(), at(s, "type").toString(), at(s, "producer").toString(),
                             at(s, "module").toString(), strings(at(s, "consumers")), at(s, "bytes").toInteger(),
                             at(s, "us").toDouble(), at(s, "reason").toString(), kindOf(at(s, "kind").toString())});
  }
  for (const QJsonValue v : at(r, "recomputed").toArray()) {
    const QJsonObject n = v.toObject();
    report_.recomputed.push_back({at(n, "name").toString(), at(n, "operator").toString(), at(n, "module").toString(),
                                  at(n, "bytes").toInteger(), at(n, "us").toDouble(), at(n, "reason").toString()});
  }
  const QJsonObject live = objectAt(r, "live");
  for (auto [key, list] : {std::pair("forward", &report_.forward), std::pair("backward", &report_.backward)})
    for (const QJsonValue v : at(live, key).toArray())
      list->push_back({at(v.toObject(), "name").toString(), at(v.toObject(), "bytes").toInteger()});
  report_.savedBytes = at(r, "savedBytes").toInteger();
  report_.defaultBytes = at(r, "defaultBytes").toInteger();
  report_.nothingBytes = at(r, "nothingBytes").toInteger();
  report_.leastBytes = at(r, "leastBytes").toInteger();
  report_.recomputedMicroseconds = at(r, "recomputedUs").toDouble();
  std::tie(report_.peakForward, report_.peakBackward) = peaks(r);
  report_.notes = strings(at(r, "notes"));
  Q_EMIT changed();
}

QString TrainingCut::pinOf(const QString& value, const QString& module) const {
  if (save_.contains(value) || recompute_.contains(value)) return value;
  for (const QString& name : recompute_)
    if (module == name || module.startsWith(name + QLatin1Char('.'))) return name;
  return {};
}

void TrainingCut::setMemory(double share) {
  share = std::clamp(share, 0.0, 1.0);
  if (std::abs(share - memory_) < 1e-6) return;
  memory_ = share;
  askSoon(false);
}

void TrainingCut::alwaysSave(const QString& value) {
  recompute_.removeAll(value);
  if (!save_.contains(value)) save_ << value;
  askSoon(true);
}

void TrainingCut::computeAgain(const QString& name) {
  save_.removeAll(name);
  if (!recompute_.contains(name)) recompute_ << name;
  askSoon(true);
}

void TrainingCut::unpin(const QString& name) {
  if (save_.removeAll(name) + recompute_.removeAll(name) > 0) askSoon(true);
}

void TrainingCut::unpinAll() {
  if (!hasPins()) return;
  save_.clear();
  recompute_.clear();
  askSoon(true);
}

void TrainingCut::read(const QString& path) {
  const int generation = generation_;
  document_.ask(QStringLiteral("training/cut"), {{QStringLiteral("file"), path}}, [=, this](const EngineReply& reply) {
    if (generation != generation_ || reply.cancelled()) return;
    if (!reply.ok()) return Q_EMIT failed(tr("%1 was not read").arg(QFileInfo(path).fileName()), reply.error);
    setWishes(objectAt(reply.result, "wishes"));
  });
}

void TrainingCut::write(const QString& path) {
  QJsonObject request = wishes();
  request.insert(QStringLiteral("write"), path);
  document_.ask(QStringLiteral("training/cut"), request, [=, this](const EngineReply& reply) {
    if (reply.cancelled()) return;
    if (!reply.ok()) return Q_EMIT failed(tr("%1 was not written").arg(QFileInfo(path).fileName()), reply.error);
    Q_EMIT message(tr("Written: %1").arg(path));
  });
}

}  // namespace graft
