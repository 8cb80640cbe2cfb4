// The document's steps: what is applied, previewed, taken back and shown again.
#include <algorithm>
#include <utility>

#include "views/document/compile/compilation.h"
#include "views/document/document.h"
#include "views/document/document_replies.h"
#include "views/document/run_figures.h"

namespace graft {

std::vector<RecordInfo> Document::recordsToHere() const {
  return other_ ? recordsBetween(*other_, *graph()) : history_.records();
}

QJsonObject Document::state() const {
  QJsonArray steps;
  for (size_t i = 1; i < this->steps().size(); ++i) {
    const StepInfo& step = this->steps()[i];
    QJsonObject request = step.request;
    request.remove(QStringLiteral("document"));
    // A verified step need not be verified again. Where rewrites were taken back, verifying takes them back again.
    if (step.rolledBack.isEmpty()) request.insert(QStringLiteral("verify"), false);
    QJsonArray times{step.milliseconds};
    for (const SubStepInfo& s : step.subSteps) times.append(s.milliseconds);
    steps.append(QJsonObject{{QStringLiteral("label"), step.label},
                             {QStringLiteral("method"), step.method},
                             {QStringLiteral("request"), request},
                             {QStringLiteral("verification"), step.verification},
                             {QStringLiteral("gain"), step.gain},
                             {QStringLiteral("nodes"), static_cast<qint64>(step.graph->nodeCount())},
                             {QStringLiteral("ms"), times}});
  }
  // Steps that are still being applied again are as good as applied.
  for (const QJsonObject& step : restoring_) steps.append(step);
  if (!isOpen() && !unrestored_.isEmpty()) return unrestored_;
  const QString fusion = !restoringFusion_.isEmpty() ? restoringFusion_
                         : compilation_->isSteered() ? compilation_->steering()
                                                     : QString();
  const HistoryPosition at = restoring_.isEmpty() ? history_.at() : restoreAt_;
  return {{QStringLiteral("model"), path_},      {QStringLiteral("inputs"), inputs_},
          {QStringLiteral("method"), method_},   {QStringLiteral("steps"), steps},
          {QStringLiteral("position"), at.step}, {QStringLiteral("inside"), at.subStep},
          {QStringLiteral("fusion"), fusion},    {QStringLiteral("figures"), figuresState()},
          {QStringLiteral("run"), runState()}};
}

QJsonObject Document::figuresState() const {
  if (!restoringFigures_.isEmpty()) return restoringFigures_;
  QJsonObject gains;
  for (auto it = gains_.begin(); it != gains_.end(); ++it) gains.insert(it.key(), it.value());
  return {{QStringLiteral("gains"), gains}, {QStringLiteral("kernels"), compilation_->measuredState()}};
}

/// With the steps whose graphs ran; -1 of any other graph.
QJsonObject Document::runState() const {
  if (!restoringRun_.isEmpty()) return restoringRun_;
  if (run_.isEmpty()) return {};
  QJsonArray ran;
  for (const GraphRef& graph : ranGraphs_) {
    const auto step = std::find_if(steps().begin(), steps().end(), [&](const auto& s) { return s.graph == graph; });
    ran.append(step == steps().end() ? -1 : static_cast<int>(step - steps().begin()));
  }
  return {{QStringLiteral("result"), run_},      {QStringLiteral("inputs"), runInputs_},
          {QStringLiteral("ran"), ran},          {QStringLiteral("at"), runAt_.toString(Qt::ISODate)},
          {QStringLiteral("other"), otherPath_}, {QStringLiteral("otherMethod"), otherMethod_}};
}

void Document::restoreFigures() {
  const QJsonObject figures = std::exchange(restoringFigures_, {});
  const QJsonObject gains = objectAt(figures, "gains");
  if (isAsBefore(history_.lastStep()))
    for (auto it = gains.begin(); it != gains.end(); ++it) gains_.insert(it.key(), it.value().toDouble());
  if (!gains_.isEmpty()) Q_EMIT matchesChanged();
  compilation_->restoreMeasured(at(figures, "kernels").toArray());
  restoreRun();
  if (!run_.isEmpty()) Q_EMIT runChanged();
}

/// What is measured behind that step is of the graph that it was measured of.
bool Document::isAsBefore(int step) const {
  if (step < 0 || step > history_.lastStep()) return false;
  return std::none_of(steps().begin(), steps().begin() + step + 1, [](const StepInfo& s) { return s.isOther; });
}

void Document::tellOfOtherSteps() {
  QStringList names;
  for (const StepInfo& s : steps())
    if (s.isOther) names << s.label;
  if (!names.isEmpty())
    Q_EMIT failed(tr("Done again, a step gives another model than in the last window"),
                  tr("%1. What was measured of that model is not shown").arg(names.join(QStringLiteral(", "))));
}

/// Its figures are of the model as it is, and of what that is compared with.
void Document::restoreRun() {
  if (restoringRun_.isEmpty() || isRestoring() || at(restoringRun_, "other").toString() != otherPath_ ||
      at(restoringRun_, "otherMethod").toString() != otherMethod_)
    return;
  const QJsonObject was = std::exchange(restoringRun_, {});
  run_ = objectAt(was, "result");
  runInputs_ = objectAt(was, "inputs");
  runAt_ = QDateTime::fromString(at(was, "at").toString(), Qt::ISODate);
  runIsOfBefore_ = true;
  const auto graphOf = [&](qsizetype side) -> GraphRef {
    const int step = at(was, "ran").toArray().at(side).toInt(-1);
    return step >= 0 && isAsBefore(step) ? steps()[static_cast<size_t>(step)].graph : nullptr;
  };
  ranGraphs_[0] = other_ ? other_ : graphOf(0);
  ranGraphs_[1] = graphOf(1);
}

void Document::restore(const QJsonObject& state) {
  const QString path = at(state, "model").toString();
  if (path.isEmpty()) return;
  open(path, at(state, "inputs").toString(), at(state, "method").toString());
  restoring_.clear();
  for (const QJsonValue step : at(state, "steps").toArray()) restoring_ << step.toObject();
  restoreAt_ = {at(state, "position").toInt(-1), at(state, "inside").toInt(-1)};
  restoringFusion_ = at(state, "fusion").toString();
  restoringFigures_ = objectAt(state, "figures");
  restoringRun_ = objectAt(state, "run");
  unrestored_ = {};
  for (const char* key : {"model", "inputs", "method", "steps", "position", "inside", "fusion", "figures", "run"})
    unrestored_.insert(QLatin1String(key), at(state, key));
}

void Document::restoreNext() {
  if (restoring_.isEmpty()) {
    const HistoryPosition to = std::exchange(restoreAt_, {-1, -1});
    if (to.step >= 0) showStep(to.step, to.subStep);
    restoreFigures();
    tellOfOtherSteps();
    compilation_->restore(std::exchange(restoringFusion_, QString()));
    return Q_EMIT restored();
  }
  const QJsonObject step = restoring_.front();
  // Older sessions name no method.
  sendApply(at(step, "label").toString(), at(step, "request").toObject(),
            at(step, "method").toString(QStringLiteral("rules/apply")));
}

/// Brings the engine to the step that is shown.
void Document::syncEngine() {
  // An engine that is being given the steps again follows once it has them all.
  if (!document_ || replaying_ || !history_.engineIsElsewhere()) return;
  const HistoryPosition to = history_.at();
  history_.setEngineAt(to);
  QJsonObject request = withDocument({{QStringLiteral("step"), to.step}});
  if (!to.isWholeStep()) request.insert(QStringLiteral("subStep"), to.subStep);
  engine_.call(QStringLiteral("model/undoTo"), withoutGraph(request), [this](const EngineReply& reply) {
    if (!reply.ok() && reply.errorCode != EngineReply::lostCode)
      Q_EMIT failed(tr("The engine lost a step"), reply.error);
  });
  matchRules(textRevision_);
}

void Document::moveTo(int step) {
  history_.goTo(step);
  endPreview();
  syncEngine();
  Q_EMIT graphChanged();
  Q_EMIT stepsChanged();
}

void Document::showStep(int step, int subStep) {
  if (step < 0 || step > history_.lastStep()) return;
  const HistoryPosition to = history_.normalized({step, subStep});
  if (!to.isWholeStep()) return showInside(to);
  if (to != history_.at()) moveTo(to.step);
}

void Document::undo() {
  if (canUndo()) moveTo(position() - 1);
}

void Document::redo() {
  if (canRedo()) moveTo(history_.at().isWholeStep() ? position() + 1 : position());
}

/// The engine keeps the graphs inside a recipe: the window asks for one when it is to be shown.
void Document::showInside(HistoryPosition to) {
  if (to == history_.at()) return;
  if (!engineHasAll()) return Q_EMIT failed(tr("The recipe's step is not shown"), whyNotReady());
  const int generation = generation_;
  const HistoryPosition before = history_.at();
  const auto stay = [this](const QString& why) {
    history_.forgetEngine();
    syncEngine();
    Q_EMIT stepsChanged();  // the list goes back to what is shown
    if (!why.isEmpty()) Q_EMIT failed(tr("The recipe's step is not shown"), why);
  };
  const QJsonObject request =
      withDocument({{QStringLiteral("step"), to.step}, {QStringLiteral("subStep"), to.subStep}});
  engine_.call(QStringLiteral("model/undoTo"), inParts(request), [=, this](const EngineReply& reply) {
    if (generation != generation_ || reply.errorCode == EngineReply::lostCode) return;
    if (!reply.ok()) return stay(reply.cancelled() ? QString() : reply.error);
    decodeAsync(this, reply, [=, this](const GraphStream::Decoded& decoded) {
      if (generation != generation_) return;
      if (!decoded.graph) return stay(decoded.why);
      if (before != history_.at()) return stay({});  // the user went elsewhere meanwhile
      history_.wentInside(to, decoded.graph);
      endPreview();
      Q_EMIT graphChanged();
      Q_EMIT stepsChanged();
      matchRules(textRevision_);
    });
  });
}

namespace {

/// How fast what was made is, by the written file; empty where it was not timed.
QString gainText(const QJsonObject& report) {
  const QJsonObject timing = at(at(report, "result").toObject(), "timing").toObject();
  const double ratio = at(timing, "ratio").toDouble();
  if (ratio <= 0) return {};
  const double low = at(timing, "ratioLow").toDouble(), high = at(timing, "ratioHigh").toDouble();
  const QString against = at(timing, "against").toString();
  const Speed told = speedOf(ratio, {low, high});
  const bool hasRange = low > 0 && (told == Speed::Faster || told == Speed::Slower);  // else the words have it
  return speedWords(ratio, {low, high}) +
         (hasRange ? Document::tr(" (%1 to %2)").arg(low, 0, 'f', 2).arg(high, 0, 'f', 2) : QString()) +
         (against.isEmpty()       ? QString()
          : told == Speed::Untold ? Document::tr(", beside the %1").arg(against)
                                  : Document::tr(" as the %1").arg(against));
}

}  // namespace

namespace {

/// Once more it is not verified, and takes another time.
void restoreTimes(StepInfo& step, const QJsonArray& ms) {
  step.milliseconds = ms.at(0).toDouble(step.milliseconds);
  for (size_t i = 0; i < step.subSteps.size(); ++i) {
    double& own = step.subSteps[i].milliseconds;
    own = ms.at(static_cast<qsizetype>(i) + 1).toDouble(own);
  }
}

}  // namespace

void Document::addStep(const QString& method, const QString& label, const QJsonObject& request,
                       const QJsonObject& result, GraphRef graph) {
  const bool isAgain = !restoring_.isEmpty() && request == withDocument(at(restoring_.front(), "request").toObject());
  const QJsonValue known = isAgain ? at(restoring_.front(), "verification") : QJsonValue();
  StepInfo step;
  step.label = label;
  step.method = method;
  step.gain = isAgain ? at(restoring_.front(), "gain").toString() : gainText(at(result, "report").toObject());
  step.graph = std::move(graph);
  step.records = readRecords(at(result, "records").toArray());
  step.refused = strings(at(result, "refused"));
  step.rolledBack = readRolledBack(at(result, "rolledBack").toArray());
  step.verification = known.isString() ? known.toString() : verificationText(at(result, "verdicts").toObject());
  step.request = request;
  step.milliseconds = at(result, "ms").toDouble();
  step.subSteps = readSubSteps(at(result, "steps").toArray());
  if (isAgain) {
    restoreTimes(step, at(restoring_.front(), "ms").toArray());
    const auto nodes = static_cast<qint64>(step.graph->nodeCount());
    step.isOther = at(restoring_.front(), "nodes").toInteger(nodes) != nodes;
    if (step.isOther) step.gain.clear();  // of another model
  }
  history_.applied(std::move(step));
  moveTo(history_.lastStep());
  const StepInfo& s = steps().back();
  const QString text =
      tr("%1: %2").arg(label, counted(static_cast<qint64>(s.records.size()), tr("rewrite"), tr("rewrites")));
  Q_EMIT message(
      text +
      (s.rolledBack.isEmpty() ? QString()
                              : tr(", %1 taken back: %2").arg(s.rolledBack.size()).arg(s.rolledBack.first().text)) +
      (s.refused.isEmpty() ? QString() : tr(", %1 refused: %2").arg(s.refused.size()).arg(s.refused.first())) +
      (s.verification.isEmpty() ? QString() : QStringLiteral(", ") + s.verification));
  matchRules(textRevision_);
  if (!isAgain) {
    Q_EMIT stepApplied();
    return;
  }
  restoring_.removeFirst();
  restoreNext();
}

void Document::requestApply(const QString& label, QJsonObject request) {
  request.insert(QStringLiteral("verify"), verifying_);
  sendApply(label, withRules(verifying_ ? withRunInputs(std::move(request)) : request));
}

void Document::applyKernels(const QJsonObject& request) {
  QJsonObject whole = verifying_ ? withRunInputs(request) : request;
  whole.insert(QStringLiteral("verify"), verifying_);
  sendApply(tr("Kernels"), whole, QStringLiteral("compile/apply"));
}

QJsonObject Document::withRunInputs(QJsonObject request) const {
  if (inputs_.isEmpty())
    for (const QString& key : runInputs_.keys()) request.insert(key, runInputs_.value(key));
  return request;
}

void Document::sendApply(const QString& label, QJsonObject request, const QString& method) {
  if (!engineHasAll()) {
    Q_EMIT failed(tr("Nothing was applied"), whyNotReady());
    return;
  }
  request = withDocument(std::move(request));
  const int generation = generation_;
  const HistoryPosition before = history_.at();
  ++applying_;
  engine_.call(method, inParts(request), [=, this](const EngineReply& reply) {
    if (generation != generation_ || !reply.ok()) --applying_;
    if (generation != generation_) return;
    if (!reply.ok()) {
      if (reply.errorCode != EngineReply::lostCode && !std::exchange(restoring_, {}).isEmpty()) Q_EMIT restored();
      if (!reply.cancelled()) Q_EMIT failed(tr("%1 was not applied").arg(label), reply.error);
      return;
    }
    const QJsonObject result = reply.result;
    decodeAsync(this, reply, [=, this](const GraphStream::Decoded& decoded) {
      --applying_;
      if (generation != generation_) return;
      if (!decoded.graph) return Q_EMIT failed(tr("%1 was not applied").arg(label), decoded.why);
      if (before != history_.at()) {  // undone meanwhile: the engine follows
        history_.forgetEngine();
        syncEngine();
        return;
      }
      addStep(method, label, request, result, decoded.graph);
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

void Document::optimize() {
  if (!engineHasAll()) return Q_EMIT failed(tr("The model was not optimized"), whyNotReady());
  if (optimizing_ || applying_ > 0) return Q_EMIT message(tr("The engine is still at work on the last step"));
  QJsonObject request = withDocument({});
  for (const QString& key : runInputs_.keys()) request.insert(key, runInputs_.value(key));
  if (!inputs_.isEmpty()) request.insert(QStringLiteral("inputs"), inputs_);
  const int generation = generation_;
  const HistoryPosition before = history_.at();
  const QString method = QStringLiteral("model/optimize");
  const auto end = [this] {
    optimizing_ = 0;
    Q_EMIT optimizingChanged();
  };
  optimizing_ = engine_.call(method, inParts(request), [=, this](const EngineReply& reply) {
    end();
    if (generation != generation_) return;
    if (!reply.ok()) {
      if (!reply.cancelled()) Q_EMIT failed(tr("The model was not optimized"), reply.error);
      return;
    }
    const QJsonObject result = reply.result, report = at(result, "report").toObject();
    takeOptimization(report);
    if (!result.contains(QLatin1String("records")))
      return Q_EMIT keptAsItWas(at(report, "whyUnchanged").toString(), strings(at(report, "advice")));
    ++applying_;
    decodeAsync(this, reply, [=, this](const GraphStream::Decoded& decoded) {
      --applying_;
      if (generation != generation_) return;
      if (!decoded.graph) return Q_EMIT failed(tr("The model was not optimized"), decoded.why);
      if (before != history_.at()) {  // another state is shown meanwhile: the engine follows
        history_.forgetEngine();
        syncEngine();
        return;
      }
      // Once more it is the plan alone: without trials, and with the same end.
      addStep(method, at(result, "label").toString(), withDocument({{QStringLiteral("plan"), at(result, "plan")}}),
              result, decoded.graph);
    });
  });
  Q_EMIT optimizingChanged();
}

/// "without": how many times as fast the model is without the rule.
void Document::takeOptimization(const QJsonObject& report) {
  gains_.clear();
  for (const QJsonValue v : at(report, "rules").toArray()) {
    const QJsonObject rule = v.toObject();
    const double without = at(at(rule, "without").toObject(), "ratio").toDouble();
    if (at(rule, "kept").toBool() && without > 0) gains_.insert(at(rule, "rule").toString(), 1 / without);
  }
  Q_EMIT matchesChanged();
}

void Document::preview(const QString& rule, const QList<int>& only) {
  if (!engineHasAll()) {
    Q_EMIT failed(tr("There is no preview"), whyNotReady());
    return;
  }
  QJsonObject request = withRules(ruleRequest(rule, only));
  request.insert(QStringLiteral("preview"), true);
  const int generation = generation_;
  const HistoryPosition before = history_.at();
  engine_.call(QStringLiteral("rules/apply"), inParts(request), [=, this](const EngineReply& reply) {
    if (generation != generation_ || before != history_.at()) return;
    if (!reply.ok()) {
      Q_EMIT failed(tr("There is no preview"), reply.error);
      return;
    }
    const QJsonObject result = reply.result;
    decodeAsync(this, reply, [=, this](const GraphStream::Decoded& decoded) {
      if (generation != generation_ || before != history_.at()) return;
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

}  // namespace graft
