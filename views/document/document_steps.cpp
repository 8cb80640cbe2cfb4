// The document's steps: what is applied, previewed, taken back and shown again.
#include <QUndoCommand>
#include <algorithm>

#include "views/document/document.h"
#include "views/document/document_replies.h"

namespace graft {

/// One applied step on the undo stack. The snapshots lie in the document.
class StepCommand : public QUndoCommand {
 public:
  StepCommand(Document& document, int step, const QString& label)
      : QUndoCommand(label), document_(document), step_(step) {}
  void redo() override { go(step_); }
  void undo() override { go(step_ - 1); }

 private:
  void go(int step) {
    if (document_.jumping_) return;
    document_.position_ = step;
    document_.inside_ = -1;
    document_.insideGraph_ = nullptr;
    document_.endPreview();
    document_.syncEngine();
    Q_EMIT document_.graphChanged();
    Q_EMIT document_.stepsChanged();
  }
  Document& document_;
  int step_;
};

std::vector<RecordInfo> Document::recordsToHere() const {
  if (other_) return recordsBetween(*other_, *graph());
  std::vector<RecordInfo> out;
  for (int i = 1; i <= position_ && i < static_cast<int>(steps_.size()); ++i) {
    const StepInfo& s = steps_[static_cast<size_t>(i)];
    if (i < position_ || inside_ < 0)
      out.insert(out.end(), s.records.begin(), s.records.end());
    else
      for (int k = 0; k < inside_; ++k) {
        const std::vector<RecordInfo>& some = s.parts[static_cast<size_t>(k)].records;
        out.insert(out.end(), some.begin(), some.end());
      }
  }
  return out;
}

QJsonObject Document::state() const {
  QJsonArray steps;
  for (size_t i = 1; i < steps_.size(); ++i) {
    QJsonObject request = steps_[i].request;
    request.remove(QStringLiteral("document"));
    // What was proven once need not be again; where rewrites were taken back, the proof takes them back again.
    if (steps_[i].rolledBack.isEmpty()) request.insert(QStringLiteral("verify"), false);
    steps.append(QJsonObject{{QStringLiteral("label"), steps_[i].label},
                             {QStringLiteral("request"), request},
                             {QStringLiteral("verification"), steps_[i].verification}});
  }
  // Steps that are still being applied again are as good as applied.
  for (const QJsonObject& step : restoring_) steps.append(step);
  if (!isOpen() && !unrestored_.isEmpty()) return unrestored_;
  return {{QStringLiteral("model"), path_},
          {QStringLiteral("inputs"), inputs_},
          {QStringLiteral("steps"), steps},
          {QStringLiteral("position"), restoring_.isEmpty() ? position_ : restorePosition_},
          {QStringLiteral("inside"), restoring_.isEmpty() ? inside_ : restoreInside_}};
}

void Document::restore(const QJsonObject& state) {
  const QString path = at(state, "model").toString();
  if (path.isEmpty()) return;
  open(path, at(state, "inputs").toString());
  restoring_.clear();
  for (const QJsonValue step : at(state, "steps").toArray()) restoring_ << step.toObject();
  restorePosition_ = at(state, "position").toInt(-1);
  restoreInside_ = at(state, "inside").toInt(-1);
  unrestored_ = {};
  for (const char* key : {"model", "inputs", "steps", "position", "inside"})
    unrestored_.insert(QLatin1String(key), at(state, key));
}

void Document::restoreNext() {
  if (restoring_.isEmpty()) {
    if (restorePosition_ >= 0) showStep(restorePosition_, restoreInside_);
    restorePosition_ = restoreInside_ = -1;
    return;
  }
  const QJsonObject step = restoring_.front();
  sendApply(at(step, "label").toString(), at(step, "request").toObject());
}

/// Brings the engine to the step that is shown.
void Document::syncEngine() {
  if (!document_ || (enginePosition_ == position_ && engineInside_ == inside_)) return;
  enginePosition_ = position_;
  engineInside_ = inside_;
  QJsonObject request = withDocument({{QStringLiteral("step"), position_}});
  if (inside_ >= 0) request.insert(QStringLiteral("subStep"), inside_);
  engine_.call(QStringLiteral("model/undoTo"), withoutGraph(request), [this](const EngineReply& reply) {
    if (!reply.ok() && reply.errorCode != EngineReply::lostCode)
      Q_EMIT failed(tr("The engine lost a step"), reply.error);
  });
  matchRules(textRevision_);
}

void Document::showStep(int step, int inside) {
  if (step < 0 || step >= static_cast<int>(steps_.size())) return;
  const std::vector<PartInfo>& parts = steps_[static_cast<size_t>(step)].parts;
  // What follows changed nothing: it is the whole recipe's graph.
  const bool isAll =
      inside < 1 || inside >= static_cast<int>(parts.size()) ||
      std::all_of(parts.begin() + inside, parts.end(), [](const PartInfo& p) { return p.records.empty(); });
  if (!isAll) return showInside(step, inside);
  if (step == position_ && inside_ >= 0) {
    inside_ = -1;
    insideGraph_ = nullptr;
    endPreview();
    syncEngine();
    Q_EMIT graphChanged();
    Q_EMIT stepsChanged();
  }
  undo_.setIndex(step);
}

void Document::redo() {
  if (inside_ >= 0)
    showStep(position_);
  else
    undo_.redo();
}

/// Graphs inside a recipe are the engine's: they are asked for when they are to be shown.
void Document::showInside(int step, int inside) {
  if (step == position_ && inside == inside_) return;
  if (!engineHasAll()) return Q_EMIT failed(tr("The recipe's step is not shown"), whyNotReady());
  const int generation = generation_, position = position_, insideBefore = inside_;
  const auto stay = [this](const QString& why) {
    enginePosition_ = -1;
    syncEngine();
    Q_EMIT stepsChanged();  // the list goes back to what is shown
    if (!why.isEmpty()) Q_EMIT failed(tr("The recipe's step is not shown"), why);
  };
  const QJsonObject request = withDocument({{QStringLiteral("step"), step}, {QStringLiteral("subStep"), inside}});
  engine_.call(QStringLiteral("model/undoTo"), inParts(request), [=, this](const EngineReply& reply) {
    if (generation != generation_ || reply.errorCode == EngineReply::lostCode) return;
    if (!reply.ok()) return stay(reply.cancelled() ? QString() : reply.error);
    decodeAside(this, reply, [=, this](const GraphStream::Decoded& decoded) {
      if (generation != generation_) return;
      if (!decoded.graph) return stay(decoded.why);
      if (position != position_ || insideBefore != inside_) return stay({});  // somebody went elsewhere meanwhile
      jumping_ = true;
      undo_.setIndex(step);
      jumping_ = false;
      position_ = enginePosition_ = step;
      inside_ = engineInside_ = inside;
      insideGraph_ = decoded.graph;
      endPreview();
      Q_EMIT graphChanged();
      Q_EMIT stepsChanged();
      matchRules(textRevision_);
    });
  });
}

/// Something is applied inside a recipe: what followed there is no more.
void Document::cutInside() {
  if (inside_ < 0) return;
  StepInfo& s = steps_[static_cast<size_t>(position_)];
  s.graph = insideGraph_;
  s.parts.resize(static_cast<size_t>(inside_));
  s.request.insert(QStringLiteral("upTo"), inside_);
  s.records.clear();
  s.refused.clear();
  s.rolledBack.clear();
  for (const PartInfo& p : s.parts) {
    s.records.insert(s.records.end(), p.records.begin(), p.records.end());
    s.refused += p.refused;
    s.rolledBack += p.rolledBack;
  }
  inside_ = -1;
  insideGraph_ = nullptr;
}

void Document::addStep(const QString& label, const QJsonObject& request, const QJsonObject& result, GraphRef graph) {
  steps_.resize(static_cast<size_t>(position_) + 1);
  cutInside();
  steps_.push_back({label, std::move(graph), readRecords(at(result, "records").toArray()),
                    strings(at(result, "refused")), readRolledBack(at(result, "rolledBack").toArray()),
                    verificationText(at(result, "verdicts").toObject()), request, at(result, "ms").toDouble(),
                    readParts(at(result, "steps").toArray())});
  const bool isAgain = !restoring_.isEmpty() && request == withDocument(at(restoring_.front(), "request").toObject());
  if (const QJsonValue known = isAgain ? at(restoring_.front(), "verification") : QJsonValue(); known.isString())
    steps_.back().verification = known.toString();
  const int step = static_cast<int>(steps_.size()) - 1;
  enginePosition_ = step;
  engineInside_ = -1;
  const StepInfo& s = steps_.back();
  const QString text =
      tr("%1: %2").arg(label, counted(static_cast<qint64>(s.records.size()), tr("rewrite"), tr("rewrites")));
  undo_.push(new StepCommand(*this, step, label));
  Q_EMIT message(
      text +
      (s.rolledBack.isEmpty() ? QString()
                              : tr(", %1 taken back: %2").arg(s.rolledBack.size()).arg(s.rolledBack.first())) +
      (s.refused.isEmpty() ? QString() : tr(", %1 refused: %2").arg(s.refused.size()).arg(s.refused.first())) +
      (s.verification.isEmpty() ? QString() : QStringLiteral(", ") + s.verification));
  matchRules(textRevision_);
  if (isAgain) {
    restoring_.removeFirst();
    restoreNext();
  }
}

void Document::requestApply(const QString& label, QJsonObject request) {
  request.insert(QStringLiteral("verify"), verifying_);
  // A file of inputs belongs to the model; without one, what the model was last run on.
  if (verifying_ && inputs_.isEmpty())
    for (const QString& key : runInputs_.keys()) request.insert(key, runInputs_.value(key));
  sendApply(label, withRules(request));
}

void Document::sendApply(const QString& label, QJsonObject request) {
  if (!engineHasAll()) {
    Q_EMIT failed(tr("Nothing was applied"), whyNotReady());
    return;
  }
  request = withDocument(std::move(request));
  const int generation = generation_, position = position_, inside = inside_;
  ++applying_;
  engine_.call(QStringLiteral("rules/apply"), inParts(request), [=, this](const EngineReply& reply) {
    if (generation != generation_ || !reply.ok()) --applying_;
    if (generation != generation_) return;
    if (!reply.ok()) {
      if (reply.errorCode != EngineReply::lostCode) restoring_.clear();
      if (!reply.cancelled()) Q_EMIT failed(tr("%1 was not applied").arg(label), reply.error);
      return;
    }
    const QJsonObject result = reply.result;
    decodeAside(this, reply, [=, this](const GraphStream::Decoded& decoded) {
      --applying_;
      if (generation != generation_) return;
      if (!decoded.graph) return Q_EMIT failed(tr("%1 was not applied").arg(label), decoded.why);
      if (position != position_ || inside != inside_) {  // undone meanwhile: the engine follows
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
  if (!engineHasAll()) {
    Q_EMIT failed(tr("There is no preview"), whyNotReady());
    return;
  }
  QJsonObject request = withRules(ruleRequest(rule, only));
  request.insert(QStringLiteral("preview"), true);
  const int generation = generation_, position = position_, inside = inside_;
  engine_.call(QStringLiteral("rules/apply"), inParts(request), [=, this](const EngineReply& reply) {
    if (generation != generation_ || position != position_ || inside != inside_) return;
    if (!reply.ok()) {
      Q_EMIT failed(tr("There is no preview"), reply.error);
      return;
    }
    const QJsonObject result = reply.result;
    decodeAside(this, reply, [=, this](const GraphStream::Decoded& decoded) {
      if (generation != generation_ || position != position_ || inside != inside_) return;
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
