#include "views/document.h"

#include <QFileInfo>
#include <QUndoCommand>
#include <utility>

#include "views/aside.h"
#include "views/graph_decode.h"

namespace graft {
namespace {

QJsonValue at(const QJsonObject& o, const char* key) { return o.value(QLatin1String(key)); }

QStringList strings(const QJsonValue& list) {
  QStringList out;
  for (const QJsonValue v : list.toArray()) out << v.toString();
  return out;
}

/// "`matmul_3` in encoder.layer.0: on random values, `matmul_3` (f32[2,9,64]) differs: …", and the inputs' shapes.
QStringList readRolledBack(const QJsonArray& list) {
  QStringList out;
  for (const QJsonValue v : list) {
    const QJsonObject r = v.toObject(), proof = at(r, "proof").toObject();
    const QString node = at(r, "node").toString(), scope = at(r, "scope").toString();
    const QStringList shapes = strings(at(proof, "inputShapes"));
    out << (node.isEmpty()    ? QString()
            : scope.isEmpty() ? Document::tr("`%1`: ").arg(node)
                              : Document::tr("`%1` in %2: ").arg(node, scope)) +
               at(proof, "why").toString() +
               (shapes.isEmpty() ? QString() : Document::tr("; inputs: %1").arg(shapes.join(QStringLiteral(", "))));
  }
  return out;
}

/// The engine's summary in words.
QString proofText(const QJsonObject& proof) {
  const int proven = at(proof, "proven").toInt(), measured = at(proof, "measured").toInt(),
            unproven = at(proof, "unproven").toInt();
  QStringList parts;
  if (proven > 0) parts << (measured || unproven ? Document::tr("%1 proven").arg(proven) : Document::tr("all proven"));
  if (measured > 0) parts << Document::tr("%1 change numbers on purpose").arg(measured);
  const QString why = at(proof, "why").toString();
  if (unproven > 0)
    parts << (proven || measured ? Document::tr("%1 not proven").arg(unproven) : Document::tr("not proven")) +
                 (why.isEmpty() ? QString() : QStringLiteral(": ") + why);
  return parts.join(QStringLiteral(", "));
}

/// Decodes on a worker and hands the graph to `done` on the receiver's thread, or why there is none.
void decodeAside(QObject* receiver, const EngineReply& reply, std::function<void(const GraphStream::Decoded&)> done) {
  const QJsonObject json = at(reply.result, "graph").toObject();
  if (reply.graph) return reply.graph->finish(receiver, at(json, "parts").toInt(), std::move(done));
  aside(
      receiver,
      [json] {
        return GraphStream::Decoded{decodeGraph(json), {}};
      },
      std::move(done));
}

/// Graphs are wanted in parts, which are decoded while they come, or not at all.
QJsonObject inParts(QJsonObject request) {
  request.insert(QStringLiteral("graph"), QStringLiteral("parts"));
  return request;
}
QJsonObject withoutGraph(QJsonObject request) {
  request.insert(QStringLiteral("graph"), QStringLiteral("none"));
  return request;
}

}  // namespace

/// One applied step on the undo stack. The snapshots lie in the document.
class StepCommand : public QUndoCommand {
 public:
  StepCommand(Document& document, int step, const QString& label)
      : QUndoCommand(label), document_(document), step_(step) {}
  void redo() override { go(step_); }
  void undo() override { go(step_ - 1); }

 private:
  void go(int step) {
    document_.position_ = step;
    document_.endPreview();
    document_.syncEngine();
    Q_EMIT document_.graphChanged();
    Q_EMIT document_.stepsChanged();
  }
  Document& document_;
  int step_;
};

std::vector<RecordInfo> readRecords(const QJsonArray& list) {
  std::vector<RecordInfo> out;
  for (const QJsonValue v : list) {
    const QJsonObject r = v.toObject();
    out.push_back(
        {at(r, "rule").toString(), at(r, "scope").toString(), strings(at(r, "removed")), strings(at(r, "added"))});
  }
  return out;
}

std::vector<RecordInfo> recordsBetween(const Graph& before, const Graph& after) {
  // Two nodes of one name are the same where operator and module are; what they are given shows in the text.
  const auto differ = [](const Graph& a, const Graph& b) {
    QStringList out;
    for (const NodeId id : a.order()) {
      const NodeId there = b.findNode(a.node(id).name);
      if (!there || a.node(id).op->name != b.node(there).op->name || a.scopeOf(id) != b.scopeOf(there))
        out << toQt(a.node(id).name);
    }
    return out;
  };
  return {{{}, {}, differ(before, after), differ(after, before)}};
}

Document::Document(EngineClient& engine, QObject* parent) : QObject(parent), engine_(engine) {
  typing_.setSingleShot(true);
  typing_.setInterval(150);
  connect(&typing_, &QTimer::timeout, this, &Document::checkRules);
  connect(&engine_, &EngineClient::up, this, &Document::enginePlay);
  connect(&engine_, &EngineClient::down, this, [this] {
    if (replaying_) ++lostReplays_;
    if (checking_) ++diedOfRules_;
    replaying_ = checking_ = false;
    document_ = otherDocument_ = 0;
    enginePosition_ = -1;
    checkedRevision_ = -1;
  });
  connect(&engine_, &EngineClient::progress, this, [this](int id, const QString& what, qint64 done, qint64 total) {
    if (id == runId_ || id == opening_) Q_EMIT runProgress(what, done, total);
  });
}

const RuleInfo* Document::rule(const QString& name) const {
  for (const RuleInfo& r : rules_)
    if (r.name == name) return &r;
  return nullptr;
}

std::vector<RecordInfo> Document::recordsToHere() const {
  if (other_) return recordsBetween(*other_, *graph());
  std::vector<RecordInfo> out;
  for (int i = 1; i <= position_ && i < static_cast<int>(steps_.size()); ++i)
    out.insert(out.end(), steps_[static_cast<size_t>(i)].records.begin(), steps_[static_cast<size_t>(i)].records.end());
  return out;
}

namespace {

QJsonObject openRequest(const QString& path, const QString& inputs) {
  QJsonObject request{{QStringLiteral("path"), path}};
  if (!inputs.isEmpty()) request.insert(QStringLiteral("inputs"), inputs);
  return request;
}

}  // namespace

void Document::open(const QString& path, const QString& inputs) {
  cancelOpening();
  const int generation = ++generation_;
  // What is not here may be on the engine's machine: it gets the path as it was written.
  const QString absolute = QFileInfo::exists(path) ? QFileInfo(path).absoluteFilePath() : path;
  const auto refused = [this, absolute](const QString& why) {
    opening_ = 0;
    restoring_.clear();
    Q_EMIT openingChanged();
    if (!why.isEmpty()) Q_EMIT failed(tr("%1 was not opened").arg(QFileInfo(absolute).fileName()), why);
  };
  opening_ = engine_.call(QStringLiteral("model/open"), inParts(openRequest(absolute, inputs)),
                          [=, this](const EngineReply& reply) {
                            if (generation != generation_) return;
                            if (!reply.ok()) return refused(reply.cancelled() ? QString() : reply.error);
                            const QJsonObject result = reply.result;
                            decodeAside(this, reply, [=, this](const GraphStream::Decoded& decoded) {
                              if (generation != generation_) return;
                              if (!decoded.graph) return refused(decoded.why);
                              path_ = absolute;
                              inputs_ = inputs;
                              opening_ = 0;
                              begin(result, decoded.graph);
                            });
                          });
  Q_EMIT openingChanged();
}

/// What was open makes way for the graph that the engine has just read.
void Document::begin(const QJsonObject& opened, GraphRef graph) {
  for (const int old : {document_, otherDocument_})
    if (old) engine_.call(QStringLiteral("model/close"), {{QStringLiteral("document"), old}}, {});
  other_ = nullptr;
  otherPath_.clear();
  otherDocument_ = 0;
  lostReplays_ = 0;
  format_ = at(opened, "format").toString();
  document_ = at(opened, "document").toInt();
  enginePosition_ = 0;
  undo_.clear();
  // Freed once the panels have let go of it, too.
  constexpr int soon = 2000;
  QTimer::singleShot(soon, this, [old = std::make_shared<std::vector<StepInfo>>(std::exchange(steps_, {}))]() mutable {
    freeAside(std::exchange(old, nullptr));
  });
  steps_.push_back({tr("Opened"), std::move(graph), {}, {}, {}, {}, {}});
  position_ = 0;
  run_ = {};
  selection_.clear();
  misses_.clear();
  endPreview();
  for (RuleInfo& r : rules_) r.matches.clear();
  Q_EMIT openingChanged();
  Q_EMIT this->opened();
  Q_EMIT graphChanged();
  Q_EMIT stepsChanged();
  Q_EMIT runChanged();
  Q_EMIT otherChanged();
  checkRules();
  restoreNext();
}

void Document::cancelOpening() {
  if (!opening_) return;
  const int id = opening_;
  opening_ = 0;
  ++generation_;
  engine_.cancel(id);
  Q_EMIT openingChanged();
}

QJsonObject Document::state() const {
  QJsonArray steps;
  for (size_t i = 1; i < steps_.size(); ++i) {
    QJsonObject request = steps_[i].request;
    request.remove(QStringLiteral("document"));
    steps.append(QJsonObject{{QStringLiteral("label"), steps_[i].label}, {QStringLiteral("request"), request}});
  }
  // Steps that are still being applied again are as good as applied.
  for (const QJsonObject& step : restoring_) steps.append(step);
  return {{QStringLiteral("model"), path_},
          {QStringLiteral("inputs"), inputs_},
          {QStringLiteral("steps"), steps},
          {QStringLiteral("position"), restoring_.isEmpty() ? position_ : restorePosition_}};
}

void Document::restore(const QJsonObject& state) {
  const QString path = at(state, "model").toString();
  if (path.isEmpty()) return;
  open(path, at(state, "inputs").toString());
  restoring_.clear();
  for (const QJsonValue step : at(state, "steps").toArray()) restoring_ << step.toObject();
  restorePosition_ = at(state, "position").toInt(-1);
}

void Document::restoreNext() {
  if (restoring_.isEmpty()) {
    if (restorePosition_ >= 0 && restorePosition_ != position_) showStep(restorePosition_);
    restorePosition_ = -1;
    return;
  }
  const QJsonObject step = restoring_.front();
  sendApply(at(step, "label").toString(), at(step, "request").toObject());
}

/// A new engine: give it the model and all steps again.
void Document::enginePlay() {
  if (steps_.empty()) {
    checkRules();
    return;
  }
  constexpr int enough = 3;
  if (lostReplays_ >= enough) {
    Q_EMIT failed(tr("The engine has died %1 times over this model and is not given it again").arg(lostReplays_),
                  tr("Your rules and steps are still here and can be saved; open the model again to try once more"));
    return;
  }
  replaying_ = true;
  const int generation = generation_;
  engine_.call(QStringLiteral("model/open"), withoutGraph(openRequest(path_, inputs_)),
               [this, generation](const EngineReply& reply) {
                 if (generation != generation_) return;
                 if (!reply.ok()) {
                   if (reply.errorCode != EngineReply::lostCode)
                     Q_EMIT failed(tr("The new engine could not open the model again"), reply.error);
                   return;
                 }
                 document_ = at(reply.result, "document").toInt();
                 enginePosition_ = 0;
                 replayFrom(1, generation);
               });
}

void Document::replayFrom(size_t step, int generation) {
  if (step >= steps_.size()) {
    replaying_ = false;
    lostReplays_ = 0;
    if (other_) readOther(otherPath_, true);
    syncEngine();
    Q_EMIT message(tr("A new engine is at work; the model and %1 are as before")
                       .arg(counted(static_cast<qint64>(steps_.size()) - 1, tr("step"), tr("steps"))));
    checkRules();
    if (!restoring_.isEmpty()) restoreNext();
    return;
  }
  QJsonObject request = steps_[step].request;
  request.insert(QStringLiteral("document"), document_);
  // What was proven once need not be again; where rewrites were taken back, the proof takes them back again.
  if (steps_[step].rolledBack.isEmpty()) request.insert(QStringLiteral("prove"), false);
  engine_.call(QStringLiteral("rules/apply"), withoutGraph(request),
               [this, step, generation](const EngineReply& reply) {
                 if (generation != generation_) return;
                 if (!reply.ok()) {
                   if (reply.errorCode != EngineReply::lostCode)
                     Q_EMIT failed(tr("A step could not be repeated in the new engine"), reply.error);
                   return;
                 }
                 enginePosition_ = static_cast<int>(step);
                 replayFrom(step + 1, generation);
               });
}

/// Brings the engine to the step that is shown.
void Document::syncEngine() {
  if (!document_ || enginePosition_ == position_) return;
  enginePosition_ = position_;
  engine_.call(QStringLiteral("model/undoTo"),
               withoutGraph({{QStringLiteral("document"), document_}, {QStringLiteral("step"), position_}}),
               [this](const EngineReply& reply) {
                 if (!reply.ok() && reply.errorCode != EngineReply::lostCode)
                   Q_EMIT failed(tr("The engine lost a step"), reply.error);
               });
  matchRules(textRevision_);
}

void Document::showStep(int step) {
  if (step < 0 || step >= static_cast<int>(steps_.size())) return;
  undo_.setIndex(step);
}

void Document::setSelection(const QStringList& nodes) {
  if (nodes == selection_) return;
  selection_ = nodes;
  Q_EMIT selectionChanged();
}

void Document::addStep(const QString& label, const QJsonObject& request, const QJsonObject& result, GraphRef graph) {
  steps_.resize(static_cast<size_t>(position_) + 1);
  steps_.push_back({label, std::move(graph), readRecords(at(result, "records").toArray()),
                    strings(at(result, "refused")), readRolledBack(at(result, "rolledBack").toArray()),
                    proofText(at(result, "proof").toObject()), request});
  const int step = static_cast<int>(steps_.size()) - 1;
  enginePosition_ = step;
  const StepInfo& s = steps_.back();
  const QString text =
      tr("%1: %2").arg(label, counted(static_cast<qint64>(s.records.size()), tr("rewrite"), tr("rewrites")));
  undo_.push(new StepCommand(*this, step, label));
  Q_EMIT message(
      text +
      (s.rolledBack.isEmpty() ? QString()
                              : tr(", %1 taken back: %2").arg(s.rolledBack.size()).arg(s.rolledBack.first())) +
      (s.refused.isEmpty() ? QString() : tr(", %1 refused: %2").arg(s.refused.size()).arg(s.refused.first())) +
      (s.proof.isEmpty() ? QString() : QStringLiteral(", ") + s.proof));
  matchRules(textRevision_);
  if (!restoring_.isEmpty() && request == withDocument(at(restoring_.front(), "request").toObject())) {
    restoring_.removeFirst();
    restoreNext();
  }
}

QJsonObject Document::withDocument(QJsonObject request) const {
  request.insert(QStringLiteral("document"), document_);
  return request;
}

QJsonObject Document::withRules(QJsonObject request) const {
  request = withDocument(std::move(request));
  request.insert(QStringLiteral("text"), text_);
  request.insert(QStringLiteral("file"), file_);
  return request;
}

void Document::requestApply(const QString& label, QJsonObject request) {
  request.insert(QStringLiteral("prove"), proving_);
  // A file of inputs belongs to the model; without one, what the model was last run on.
  if (proving_ && inputs_.isEmpty())
    for (const QString& key : runInputs_.keys()) request.insert(key, runInputs_.value(key));
  sendApply(label, withRules(request));
}

void Document::sendApply(const QString& label, QJsonObject request) {
  if (!document_) {
    Q_EMIT failed(tr("Nothing was applied"), tr("The engine is starting: try again in a moment"));
    return;
  }
  request = withDocument(std::move(request));
  const int generation = generation_, position = position_;
  engine_.call(QStringLiteral("rules/apply"), inParts(request), [=, this](const EngineReply& reply) {
    if (generation != generation_) return;
    if (!reply.ok()) {
      if (reply.errorCode != EngineReply::lostCode) restoring_.clear();
      if (!reply.cancelled()) Q_EMIT failed(tr("%1 was not applied").arg(label), reply.error);
      return;
    }
    const QJsonObject result = reply.result;
    decodeAside(this, reply, [=, this](const GraphStream::Decoded& decoded) {
      if (generation != generation_) return;
      if (!decoded.graph) return Q_EMIT failed(tr("%1 was not applied").arg(label), decoded.why);
      if (position != position_) {  // undone meanwhile: the engine follows
        enginePosition_ = -1;
        syncEngine();
        return;
      }
      addStep(label, request, result, decoded.graph);
    });
  });
}

namespace {

QJsonObject ruleRequest(const QString& rule, const QList<int>& only) {
  QJsonObject request{{QStringLiteral("rule"), rule}};
  if (!only.isEmpty()) {
    QJsonArray list;
    for (int i : only) list.append(i);
    request.insert(QStringLiteral("only"), list);
  }
  return request;
}

}  // namespace

void Document::apply(const QString& rule, const QList<int>& only) { requestApply(rule, ruleRequest(rule, only)); }

void Document::applyRecipe(const QString& recipe) { requestApply(recipe, {{QStringLiteral("recipe"), recipe}}); }

void Document::preview(const QString& rule, const QList<int>& only) {
  if (!document_) return;
  QJsonObject request = withRules(ruleRequest(rule, only));
  request.insert(QStringLiteral("preview"), true);
  const int generation = generation_, position = position_;
  engine_.call(QStringLiteral("rules/apply"), inParts(request), [=, this](const EngineReply& reply) {
    if (generation != generation_ || position != position_) return;
    if (!reply.ok()) {
      Q_EMIT failed(tr("There is no preview"), reply.error);
      return;
    }
    const QJsonObject result = reply.result;
    decodeAside(this, reply, [=, this](const GraphStream::Decoded& decoded) {
      if (generation != generation_ || position != position_) return;
      if (!decoded.graph) return Q_EMIT failed(tr("There is no preview"), decoded.why);
      preview_ = decoded.graph;
      previewRecords_ = readRecords(at(result, "records").toArray());
      Q_EMIT previewChanged();
    });
  });
}

void Document::endPreview() {
  if (!preview_) return;
  preview_ = nullptr;
  previewRecords_.clear();
  Q_EMIT previewChanged();
}

void Document::exportTo(const QString& path) {
  if (!document_) return Q_EMIT failed(tr("Nothing was exported"), tr("The engine is starting: try again in a moment"));
  engine_.call(QStringLiteral("model/export"),
               {{QStringLiteral("document"), document_}, {QStringLiteral("path"), path}},
               [this, path](const EngineReply& reply) {
                 if (reply.ok())
                   Q_EMIT exported(path);
                 else
                   Q_EMIT failed(tr("%1 was not written").arg(path), reply.error);
               });
}

void Document::run(const QJsonObject& settings) {
  if (!document_ || runId_) return;
  QJsonObject request = withDocument(settings);
  QJsonObject asked;
  for (const QString& key : {QStringLiteral("inputs"), QStringLiteral("seed")})
    if (settings.contains(key)) asked.insert(key, settings.value(key));
  if (otherDocument_) request.insert(QStringLiteral("other"), otherDocument_);
  runId_ = engine_.call(QStringLiteral("model/run"), request, [this, asked](const EngineReply& reply) {
    runId_ = 0;
    runWorked_ = reply.ok();
    if (reply.ok()) runInputs_ = asked;
    if (reply.ok())
      run_ = reply.result;
    else if (!reply.cancelled())
      Q_EMIT failed(tr("The run did not finish"), reply.error);
    Q_EMIT runChanged();
  });
  Q_EMIT runChanged();
}

void Document::stopRun() {
  if (runId_) engine_.cancel(runId_);
}

void Document::compareWith(const QString& path) {
  if (path.isEmpty()) {
    if (otherDocument_) engine_.call(QStringLiteral("model/close"), {{QStringLiteral("document"), otherDocument_}}, {});
    other_ = nullptr;
    otherDocument_ = 0;
    otherPath_.clear();
    run_ = {};
    Q_EMIT otherChanged();
    Q_EMIT runChanged();
    return;
  }
  readOther(QFileInfo::exists(path) ? QFileInfo(path).absoluteFilePath() : path, false);
}

/// `again`: a new engine gets what the window has already.
void Document::readOther(const QString& path, bool again) {
  const int generation = generation_;
  const QJsonObject request = openRequest(path, inputs_);
  engine_.call(QStringLiteral("model/open"), again ? withoutGraph(request) : inParts(request),
               [=, this](const EngineReply& reply) {
                 if (generation != generation_) return;
                 if (!reply.ok()) {
                   if (!reply.cancelled())
                     Q_EMIT failed(tr("%1 was not opened").arg(QFileInfo(path).fileName()), reply.error);
                   return;
                 }
                 const int document = at(reply.result, "document").toInt();
                 if (again) {
                   otherDocument_ = document;
                   return;
                 }
                 const QString format = at(reply.result, "format").toString();
                 decodeAside(this, reply, [=, this](const GraphStream::Decoded& decoded) {
                   if (generation != generation_) return;
                   if (!decoded.graph)
                     return Q_EMIT failed(tr("%1 was not opened").arg(QFileInfo(path).fileName()), decoded.why);
                   if (otherDocument_)
                     engine_.call(QStringLiteral("model/close"), {{QStringLiteral("document"), otherDocument_}}, {});
                   other_ = decoded.graph;
                   otherDocument_ = document;
                   otherPath_ = path;
                   otherFormat_ = format;
                   run_ = {};
                   Q_EMIT otherChanged();
                   Q_EMIT runChanged();
                 });
               });
}

void Document::askDiff(ReplyCallback done) {
  if (!document_) return;
  QJsonObject request = withDocument({});
  if (otherDocument_) request.insert(QStringLiteral("other"), otherDocument_);
  engine_.call(QStringLiteral("model/diff"), request, std::move(done));
}

void Document::askWeight(const QString& name, ReplyCallback done) {
  if (!document_) return;
  engine_.call(QStringLiteral("node/weight"), {{QStringLiteral("document"), document_}, {QStringLiteral("name"), name}},
               std::move(done));
}

void Document::askOperator(const QString& node, ReplyCallback done) {
  if (!document_) return;
  engine_.call(QStringLiteral("node/describe"), withDocument({{QStringLiteral("node"), node}}), std::move(done));
}

void Document::askSource(const QString& node, ReplyCallback done) {
  if (!document_) return;
  engine_.call(QStringLiteral("node/source"), withDocument({{QStringLiteral("node"), node}}), std::move(done));
}

}  // namespace graft
