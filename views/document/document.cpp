#include "views/document/document.h"

#include <QFileInfo>
#include <QJsonArray>
#include <utility>

#include "views/document/async.h"
#include "views/document/compile/compilation.h"
#include "views/document/document_replies.h"

namespace graft {

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

Document::Document(EngineClient& engine, QObject* parent)
    : QObject(parent), engine_(engine), compilation_(new Compilation(*this, engine)) {
  typing_.setSingleShot(true);
  typing_.setInterval(150);
  connect(&typing_, &QTimer::timeout, this, &Document::checkRules);
  connect(&engine_, &EngineClient::up, this, &Document::enginePlay);
  connect(&engine_, &EngineClient::down, this, [this] {
    if (replaying_) ++lostReplays_;
    if (checking_ > 0) ++diedOfRules_;
    replaying_ = false;
    checking_ = 0;
    document_ = otherDocument_ = 0;
    history_.forgetEngine();
    checkedRevision_ = -1;
  });
  connect(&engine_, &EngineClient::gaveUp, this, [this](const QString& why) {
    if (opening_ == forNextEngine) refuseOpening(why);
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

namespace {

QJsonObject openRequest(const QString& path, const QString& inputs, const QString& method) {
  QJsonObject request{{QStringLiteral("path"), path}};
  if (!method.isEmpty()) request.insert(QStringLiteral("method"), method);
  if (!inputs.isEmpty()) request.insert(QStringLiteral("inputs"), inputs);
  return request;
}

}  // namespace

void Document::open(const QString& path, const QString& inputs, const QString& method) {
  cancelOpening();
  ++generation_;
  lostOpenings_ = 0;
  unrestored_ = {};
  restoring_.clear();  // steps of another model
  restoringFusion_.clear();
  restoringFigures_ = restoringRun_ = {};
  restoreAt_ = {-1, -1};
  if (std::exchange(replaying_, false)) document_ = 0;  // it has only a part of the steps
  openingPath_ = placeOf(path);
  openingInputs_ = inputs;
  openingMethod_ = method;
  sendOpen();
}

void Document::sendOpen() {
  const int generation = generation_;
  opening_ = engine_.call(
      QStringLiteral("model/open"), inParts(openRequest(openingPath_, openingInputs_, openingMethod_)),
      [=, this](const EngineReply& reply) {
        if (generation != generation_) return;
        if (reply.errorCode == EngineReply::lostCode && engine_.isComing()) {
          // Perhaps it was not the file's fault: the next engines try it, too, but only so many.
          constexpr int enough = 3;
          if (++lostOpenings_ < enough) return void(opening_ = forNextEngine);
          return refuseOpening(tr("the engine has died %1 times over it: %2").arg(enough).arg(reply.error));
        }
        if (!reply.ok()) return refuseOpening(reply.cancelled() ? QString() : reply.error);
        const QJsonObject result = reply.result;
        decodeAsync(this, reply, [=, this](const GraphStream::Decoded& decoded) {
          if (generation != generation_) return;
          if (!decoded.graph) return refuseOpening(decoded.why);
          path_ = openingPath_;
          inputs_ = openingInputs_;
          opening_ = 0;
          begin(result, decoded.graph);
        });
      });
  Q_EMIT openingChanged();
}

/// `why`: empty where it was stopped on purpose.
void Document::refuseOpening(const QString& why) {
  opening_ = 0;
  restoring_.clear();
  Q_EMIT openingChanged();
  if (!why.isEmpty()) Q_EMIT failed(tr("%1 was not opened").arg(QFileInfo(openingPath_).fileName()), why);
  // An engine that came meanwhile has nothing of what is open.
  if (!document_ && !replaying_ && engine_.isUp()) enginePlay();
}

/// What was open makes way for the graph that the engine has just read.
void Document::begin(const QJsonObject& opened, GraphRef graph) {
  for (const int old : {document_, otherDocument_})
    if (old) engine_.call(QStringLiteral("model/close"), {{QStringLiteral("document"), old}}, {});
  other_ = nullptr;
  otherPath_.clear();
  otherMethod_.clear();
  otherDocument_ = 0;
  lostReplays_ = 0;
  format_ = at(opened, "format").toString();
  method_ = at(opened, "method").toString();
  capturedGraphs_ = strings(at(opened, "graphs"));
  isJoint_ = at(opened, "isJoint").toBool();
  document_ = at(opened, "document").toInt();
  unrestored_ = {};
  StepInfo first;
  first.label = tr("Opened");
  first.graph = std::move(graph);
  // The old steps are freed once the panels have let go of them, too.
  constexpr int soon = 2000;
  QTimer::singleShot(soon, this,
                     [old = std::make_shared<std::vector<StepInfo>>(history_.opened(std::move(first)))]() mutable {
                       freeAsync(std::exchange(old, nullptr));
                     });
  forgetRun();
  gains_.clear();
  selection_.clear();
  misses_.clear();
  endPreview();
  for (RuleInfo& r : rules_) r.matches.clear(), r.matched = false;
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
  if (!document_ && !replaying_ && engine_.isUp()) enginePlay();
}

/// A new engine: give it the model and all steps again.
void Document::enginePlay() {
  if (opening_ == forNextEngine) return sendOpen();
  if (opening_) return;  // it may make way for what is being opened
  if (history_.isEmpty()) {
    Q_EMIT engineReplaced();
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
  engine_.call(QStringLiteral("model/open"),
               withoutGraph(openRequest(path_, inputs_, capturedGraphs_.isEmpty() ? QString() : method_)),
               [this, generation](const EngineReply& reply) {
                 if (generation != generation_) return;
                 if (!reply.ok()) {
                   if (reply.errorCode == EngineReply::lostCode) return;
                   replaying_ = false;
                   Q_EMIT failed(tr("The new engine could not open the model again"), reply.error);
                   return;
                 }
                 document_ = at(reply.result, "document").toInt();
                 history_.setEngineAt({0, -1});
                 replayFrom(1, generation);
               });
}

/// The new engine has all that the window shows.
void Document::finishReplay() {
  replaying_ = false;
  lostReplays_ = 0;
  syncEngine();
  Q_EMIT engineReplaced();
  const auto steps = static_cast<qint64>(history_.lastStep());
  Q_EMIT message(
      steps == 0
          ? tr("A new engine is at work; the model is as before")
          : tr("A new engine is at work; the model and %1 are as before").arg(counted(steps, tr("step"), tr("steps"))));
  checkRules();
  if (!restoring_.isEmpty()) restoreNext();
}

void Document::replayFrom(size_t step, int generation) {
  if (step >= steps().size()) {
    if (other_) return readOther(otherPath_, otherMethod_, true);
    return finishReplay();
  }
  QJsonObject request = steps()[step].request;
  request.insert(QStringLiteral("document"), document_);
  // A verified step need not be verified again. Where rewrites were taken back, verifying takes them back again.
  if (steps()[step].rolledBack.isEmpty()) request.insert(QStringLiteral("verify"), false);
  engine_.call(steps()[step].method, withoutGraph(request), [this, step, generation](const EngineReply& reply) {
    if (generation != generation_) return;
    if (!reply.ok()) {
      if (reply.errorCode == EngineReply::lostCode) return;
      replaying_ = false;
      document_ = 0;  // what it has is not what is shown
      Q_EMIT failed(tr("A step could not be repeated in the new engine"), reply.error);
      return;
    }
    history_.setEngineAt({static_cast<int>(step), -1});
    replayFrom(step + 1, generation);
  });
}

void Document::setSelection(const QStringList& nodes) {
  if (nodes == selection_) return;
  selection_ = nodes;
  Q_EMIT selectionChanged();
}

QString Document::whyNotReady() const {
  const bool comes = replaying_ || (engine_.isComing() && !engine_.isUp());
  return comes ? tr("The engine is starting: try again in a moment")
               : tr("The engine does not have this model as it is shown: open it again");
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

void Document::loadLibrary(const QString& path) {
  const QString file = placeOf(path);
  engine_.call(QStringLiteral("library/load"), {{QStringLiteral("path"), file}},
               [this, file](const EngineReply& reply) {
                 if (reply.cancelled()) return;
                 if (!reply.ok())
                   return Q_EMIT failed(tr("%1 was not loaded").arg(QFileInfo(file).fileName()), reply.error);
                 engine_.addWords({QStringLiteral("--library"), file});
                 QStringList operators;
                 for (const QJsonValue name : reply.result.value(QLatin1String("operators")).toArray())
                   operators << name.toString();
                 Q_EMIT libraryLoaded(file, operators);
               });
}

void Document::exportTo(const QString& path) {
  if (!engineHasAll()) return Q_EMIT failed(tr("Nothing was exported"), whyNotReady());
  engine_.call(QStringLiteral("model/export"),
               {{QStringLiteral("document"), document_}, {QStringLiteral("path"), path}},
               [this, path](const EngineReply& reply) {
                 if (reply.ok())
                   Q_EMIT exported(path);
                 else
                   Q_EMIT failed(tr("The model was not written"), reply.error);
               });
}

void Document::run(const QJsonObject& settings) {
  if (runId_) return;
  if (!engineHasAll()) {
    runWorked_ = false;
    runError_ = whyNotReady();
    Q_EMIT runChanged();
    return;
  }
  QJsonObject request = withDocument(settings);
  QJsonObject asked;
  for (const QString& key : {QStringLiteral("inputs"), QStringLiteral("seed")})
    if (settings.contains(key)) asked.insert(key, settings.value(key));
  if (otherDocument_) request.insert(QStringLiteral("other"), otherDocument_);
  // The engine runs what it has once its queue is done: a rewrite that is under way is in it.
  const bool isAhead = applying_ > 0;
  const GraphRef asked0 = original(), asked1 = graph();
  runId_ = engine_.call(QStringLiteral("model/run"), request, [=, this](const EngineReply& reply) {
    runId_ = 0;
    runWorked_ = reply.ok();
    runError_ = reply.cancelled() ? QString() : reply.error;
    if (reply.ok()) runInputs_ = asked;
    if (reply.ok()) {
      run_ = reply.result;
      ranGraphs_[0] = asked0;
      ranGraphs_[1] = isAhead ? graph() : asked1;
      runAt_ = QDateTime::currentDateTime();
      runIsOfBefore_ = false;
      restoringRun_ = {};
    } else if (!reply.cancelled()) {
      Q_EMIT failed(tr("The run did not finish"), reply.error);
    }
    Q_EMIT runChanged();
  });
  Q_EMIT runChanged();
}

void Document::forgetRun() {
  run_ = {};
  runWorked_ = true;  // there is none that failed
  runError_.clear();
  runIsOfBefore_ = false;
  ranGraphs_[0] = ranGraphs_[1] = nullptr;
}

void Document::stopRun() {
  if (runId_) engine_.cancel(runId_);
}

void Document::compareWith(const QString& path, const QString& method) {
  if (path.isEmpty()) {
    if (otherDocument_) engine_.call(QStringLiteral("model/close"), {{QStringLiteral("document"), otherDocument_}}, {});
    other_ = nullptr;
    otherDocument_ = 0;
    otherPath_.clear();
    otherMethod_.clear();
    forgetRun();
    Q_EMIT otherChanged();
    Q_EMIT runChanged();
    return;
  }
  readOther(placeOf(path), method, false);
}

/// `again`: a new engine gets what the window has already.
void Document::readOther(const QString& path, const QString& method, bool again) {
  const int generation = generation_;
  // Example inputs are those of the model that is open: another graph of a capture takes others.
  const QJsonObject request = openRequest(path, path == path_ && method != method_ ? QString() : inputs_, method);
  engine_.call(QStringLiteral("model/open"), again ? withoutGraph(request) : inParts(request),
               [=, this](const EngineReply& reply) {
                 if (generation != generation_) return;
                 if (!reply.ok()) {
                   if (again && reply.errorCode != EngineReply::lostCode) finishReplay();  // as far as it goes
                   if (!reply.cancelled())
                     Q_EMIT failed(tr("%1 was not opened").arg(QFileInfo(path).fileName()), reply.error);
                   return;
                 }
                 const int document = at(reply.result, "document").toInt();
                 if (again) {
                   otherDocument_ = document;
                   return finishReplay();
                 }
                 const QString format = at(reply.result, "format").toString();
                 decodeAsync(this, reply, [=, this](const GraphStream::Decoded& decoded) {
                   if (generation != generation_) return;
                   if (!decoded.graph)
                     return Q_EMIT failed(tr("%1 was not opened").arg(QFileInfo(path).fileName()), decoded.why);
                   if (otherDocument_)
                     engine_.call(QStringLiteral("model/close"), {{QStringLiteral("document"), otherDocument_}}, {});
                   other_ = decoded.graph;
                   otherDocument_ = document;
                   otherPath_ = path;
                   otherMethod_ = method;
                   otherFormat_ = format;
                   forgetRun();
                   restoreRun();
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

int Document::ask(const QString& method, const QJsonObject& params, ReplyCallback done) {
  return document_ ? engine_.call(method, withDocument(params), std::move(done)) : 0;
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
