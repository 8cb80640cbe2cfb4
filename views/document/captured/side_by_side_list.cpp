#include "views/document/captured/side_by_side_list.h"

#include <QFileInfo>
#include <cmath>
#include <utility>

#include "views/document/document_replies.h"
#include "views/document/run_figures.h"

namespace graft {
namespace {

std::vector<double> samplesOf(const QJsonObject& timing) {
  std::vector<double> out;
  for (const QJsonValue v : at(timing, "samplesMs").toArray()) out.push_back(v.toDouble());
  return out;
}

}  // namespace

SideBySideList::SideBySideList(Document& document, EngineClient& engine, QObject* parent)
    : QObject(parent), document_(document), engine_(engine) {
  // Steps are those of one model: with another one they are gone, and files stay.
  connect(&document_, &Document::opened, this, [this] {
    ++generation_;
    running_ = 0;
    std::erase_if(entries_, [](const SideBySideEntry& c) { return c.step >= 0; });
    forgetRun();
    Q_EMIT changed();
  });
  connect(&document_, &Document::stepsChanged, this, [this] {
    // A step that another one has replaced is not what was measured.
    const auto& steps = document_.steps();
    const auto isGone = [&](const SideBySideEntry& c) {
      return c.step >= 0 && (c.step >= static_cast<int>(steps.size()) ||
                             (c.subStep < 0 && steps[static_cast<size_t>(c.step)].graph != c.graph));
    };
    if (std::erase_if(entries_, isGone) > 0) {
      forgetRun();
      Q_EMIT changed();
    }
  });
  connect(&engine_, &EngineClient::down, this, [this] {
    for (SideBySideEntry& c : entries_) c.document = 0;
  });
  connect(&document_, &Document::engineReplaced, this, [this] {
    for (const SideBySideEntry& c : entries_)
      if (c.step < 0 && c.graph && !c.document) openFile(c.path, c.method, false);
  });
}

void SideBySideList::forgetRun() {
  protocol_.clear();
  error_.clear();
  result_ = {};
  for (SideBySideEntry& c : entries_) c.wasRun = false, c.passed = true, c.why.clear();
}

bool SideBySideList::canRun() const {
  if (running_ || entries_.size() < 2) return false;
  for (const SideBySideEntry& c : entries_)
    if (!c.graph || (c.step < 0 && !c.document)) return false;
  return true;
}

void SideBySideList::addStep(int step, int subStep) {
  const auto& steps = document_.steps();
  if (step < 0 || step >= static_cast<int>(steps.size())) return;
  const HistoryPosition wanted = document_.history().normalized({step, subStep});
  for (const SideBySideEntry& c : entries_)
    if (c.step == wanted.step && c.subStep == wanted.subStep) return;
  const StepInfo& s = steps[static_cast<size_t>(wanted.step)];
  const bool isShown = document_.position() == wanted.step && document_.subStep() == wanted.subStep;
  SideBySideEntry c;
  c.step = wanted.step;
  c.subStep = wanted.subStep;
  c.name = wanted.step == 0 ? tr("as opened") : tr("%1 %2").arg(wanted.step).arg(s.label);
  if (!wanted.isWholeStep()) {
    const auto i = static_cast<size_t>(wanted.subStep);
    c.name +=
        tr(" up to %1").arg(i <= s.subSteps.size() && i > 0 ? s.subSteps[i - 1].name : QString::number(wanted.subStep));
  }
  c.graph = wanted.isWholeStep() ? s.graph : isShown ? document_.graph() : nullptr;
  if (!c.graph) return Q_EMIT failed(tr("The step was not added"), tr("show it first: the window has no graph of it"));
  c.nodes = static_cast<int>(c.graph->nodeCount());
  entries_.push_back(std::move(c));
  forgetRun();
  Q_EMIT changed();
}

void SideBySideList::addFile(const QString& path, const QString& method) {
  const QString file = placeOf(path);
  for (const SideBySideEntry& c : entries_)
    if (c.step < 0 && c.path == file && c.method == method) return;
  SideBySideEntry c;
  c.path = file;
  c.method = method;
  c.name = QFileInfo(file).fileName() + (method.isEmpty() ? QString() : QLatin1Char(' ') + method);
  entries_.push_back(std::move(c));
  forgetRun();
  openFile(file, method, true);
  Q_EMIT changed();
}

void SideBySideList::openFile(const QString& path, const QString& method, bool withGraph) {
  QJsonObject request{{QStringLiteral("path"), path}};
  if (!method.isEmpty()) request.insert(QStringLiteral("method"), method);
  const auto find = [this, path, method]() -> SideBySideEntry* {
    for (SideBySideEntry& c : entries_)
      if (c.step < 0 && c.path == path && c.method == method) return &c;
    return nullptr;
  };
  engine_.call(QStringLiteral("model/open"), withGraph ? inParts(request) : withoutGraph(request),
               [=, this](const EngineReply& reply) {
                 SideBySideEntry* c = find();
                 const int document = at(reply.result, "document").toInt();
                 if (!c) {
                   if (document)
                     engine_.call(QStringLiteral("model/close"), {{QStringLiteral("document"), document}}, {});
                   return;
                 }
                 if (!reply.ok()) {
                   c->obstacle = reply.error;
                   return Q_EMIT changed();
                 }
                 c->document = document;
                 if (!withGraph) return Q_EMIT changed();
                 decodeAsync(this, reply, [=, this](const GraphStream::Decoded& decoded) {
                   SideBySideEntry* entry = find();
                   if (!entry) return;
                   entry->graph = decoded.graph;
                   entry->obstacle = decoded.graph ? QString() : decoded.why;
                   entry->nodes = decoded.graph ? static_cast<int>(decoded.graph->nodeCount()) : 0;
                   Q_EMIT changed();
                 });
               });
}

void SideBySideList::remove(int entry) {
  if (entry < 0 || entry >= static_cast<int>(entries_.size())) return;
  const auto at = entries_.begin() + entry;
  if (at->document) engine_.call(QStringLiteral("model/close"), {{QStringLiteral("document"), at->document}}, {});
  entries_.erase(at);
  if (entry == 0) forgetRun();  // the others were compared with it
  Q_EMIT changed();
}

void SideBySideList::makeFirst(int entry) {
  if (entry <= 0 || entry >= static_cast<int>(entries_.size())) return;
  std::rotate(entries_.begin(), entries_.begin() + entry, entries_.begin() + entry + 1);
  forgetRun();
  Q_EMIT changed();
}

void SideBySideList::run(double seconds) {
  if (!canRun()) return;
  QJsonArray models;
  for (const SideBySideEntry& c : entries_) {
    QJsonObject m{{QStringLiteral("name"), c.name}};
    if (c.document) m.insert(QStringLiteral("document"), c.document);
    if (c.step >= 0) m.insert(QStringLiteral("step"), c.step);
    if (c.step >= 0 && c.subStep >= 0) m.insert(QStringLiteral("subStep"), c.subStep);
    models.append(m);
  }
  QJsonObject request{{QStringLiteral("models"), models}};
  // On the model's example inputs, else on random ones of the sizes that were last run.
  if (!document_.inputs().isEmpty())
    request.insert(QStringLiteral("inputs"), document_.inputs());
  else if (const QJsonArray sizes = at(document_.lastRun(), "inputs").toArray(); !sizes.isEmpty())
    request.insert(QStringLiteral("inputs"), sizes);
  request.insert(QStringLiteral("seconds"), seconds);
  forgetRun();
  const int generation = generation_;
  running_ = document_.ask(QStringLiteral("model/sideBySide"), request, [=, this](const EngineReply& reply) {
    if (generation != generation_) return;
    running_ = 0;
    at_ = QDateTime::currentDateTime();
    if (reply.ok())
      take(reply.result);
    else if (!reply.cancelled())
      error_ = reply.error;
    Q_EMIT changed();
  });
  Q_EMIT changed();
}

void SideBySideList::stop() {
  if (running_) document_.stopAsking(running_);
}

void SideBySideList::take(const QJsonObject& result) {
  const QJsonArray rows = at(result, "models").toArray();
  if (rows.size() != static_cast<qsizetype>(entries_.size())) {
    error_ = tr("the list changed while it was run; run it again");
    return;
  }
  const std::vector<double> first = samplesOf(objectAt(rows[0].toObject(), "timing"));
  for (size_t i = 0; i < entries_.size(); ++i) {
    const QJsonObject row = rows[static_cast<qsizetype>(i)].toObject(), timing = objectAt(row, "timing");
    SideBySideEntry& c = entries_[i];
    c.operators = at(row, "kernels").toInt();
    c.obstacle = at(row, "obstacle").toString();
    c.wasRun = c.obstacle.isEmpty();
    c.passed = at(row, "passed").toBool(true);
    c.medianMs = number(at(timing, "medianMs"));
    c.p10Ms = number(at(timing, "p10Ms"));
    c.p90Ms = number(at(timing, "p90Ms"));
    c.ratio = number(at(row, "ratio"));
    c.range = ratioRange(first, samplesOf(timing));
    c.maxAbs = number(at(row, "maxAbs"));
    for (const QJsonValue v : at(row, "outputs").toArray())
      if (c.why.isEmpty() && !at(v.toObject(), "passed").toBool()) c.why = at(v.toObject(), "why").toString();
  }
  protocol_ = at(result, "protocol").toString();
  result_ = result;
}

QJsonObject SideBySideList::state() const {
  QJsonArray list;
  for (const SideBySideEntry& c : entries_)
    list.append(c.step >= 0 ? QJsonObject{{QStringLiteral("step"), c.step}, {QStringLiteral("subStep"), c.subStep}}
                            : QJsonObject{{QStringLiteral("path"), c.path}, {QStringLiteral("method"), c.method}});
  return {{QStringLiteral("entries"), list},
          {QStringLiteral("result"), result_},
          {QStringLiteral("at"), at_.toString(Qt::ISODate)}};
}

void SideBySideList::restore(const QJsonObject& state) {
  for (const QJsonValue v : at(state, "entries").toArray()) {
    const QJsonObject c = v.toObject();
    const int step = at(c, "step").toInt(-1), subStep = at(c, "subStep").toInt(-1);
    if (step < 0)
      addFile(at(c, "path").toString(), at(c, "method").toString());
    else if (subStep < 0 || (step == document_.position() && subStep == document_.subStep()))
      addStep(step, subStep);
  }
  const QJsonObject result = objectAt(state, "result");
  for (const SideBySideEntry& c : entries_)
    if (c.step >= 0 && !document_.isAsBefore(c.step)) return;
  if (result.isEmpty() || at(result, "models").toArray().size() != static_cast<qsizetype>(entries_.size())) return;
  take(result);
  at_ = QDateTime::fromString(at(state, "at").toString(), Qt::ISODate);
  protocol_ = tr("Measured %1, before this window was opened. %2").arg(whenText(at_), protocol_);
  Q_EMIT changed();
}

}  // namespace graft
