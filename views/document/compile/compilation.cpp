#include "views/document/compile/compilation.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QRegularExpression>
#include <algorithm>
#include <utility>

#include "views/document/document.h"
#include "views/document/document_replies.h"

namespace graft {
namespace {

/// Graft's own plan.
const char* const kNothingWanted = R"({"fusion": 1})";

/// `{"fusion": 1}` and nothing else wants nothing.
bool wantsNothing(const QString& steering) {
  const QJsonObject o = QJsonDocument::fromJson(steering.toUtf8()).object();
  for (const QString& key : o.keys())
    if (key != QLatin1String("fusion") && !(key == QLatin1String("automatic") && o.value(key).toBool())) return false;
  return true;
}

QJsonObject entry(const char* key, const QJsonValue& value) {
  return {{QStringLiteral("add"), QJsonObject{{QLatin1String(key), QJsonArray{value}}}}};
}

}  // namespace

Compilation::Compilation(Document& document, EngineClient& engine)
    : QObject(&document), document_(document), engine_(engine), captured_(new CapturedModel(document, this)) {
  forget();
  connect(&document_, &Document::opened, this, &Compilation::forget);
  connect(&document_, &Document::graphChanged, this, &Compilation::follow);
  connect(&engine_, &EngineClient::down, this, [this] {
    busy_ = askingOther_ = 0;
    engineHasSteering_ = steering_.isEmpty();
  });
  connect(&document_, &Document::engineReplaced, this, &Compilation::follow);
}

void Compilation::forget() {
  steps_.assign(1, {.isPlain = true});
  measured_.clear();
  at_ = 0;
  ++revision_;
  steering_.clear();
  engineHasSteering_ = true;
  plan_ = {};
  timeline_ = {};
  graph_ = nullptr;
  comparing_ = false;
  compared_ = -1;
  whyNone_.clear();
  current_.clear();
  isDefault_ = true;
}

bool Compilation::isKnown() const { return graph_ && graph_ == document_.graph(); }

void Compilation::setActive(bool on) {
  active_ = on;
  follow();
}

void Compilation::follow() {
  if (!active_ || !document_.isOpen()) return;
  captured_->ask();
  if (isKnown()) return askOther();
  refresh();
}

void Compilation::setCurrent(const QString& kernel) {
  if (kernel == current_ && !isDefault_) return;
  current_ = kernel;
  isDefault_ = false;
  Q_EMIT currentChanged();
}

/// A new engine has the model and its steps, but nobody's wishes.
void Compilation::syncSteering() {
  if (std::exchange(engineHasSteering_, true) || steering_.isEmpty()) return;
  engine_.call(QStringLiteral("compile/steer"), document_.withDocument({{QStringLiteral("text"), steering_}}),
               [this](const EngineReply& reply) {
                 if (!reply.ok()) engineHasSteering_ = false;
               });
}

/// `request`: of compile/steer, where the plan is to change; then `label` names the change.
void Compilation::ask(const QString& label, QJsonObject request, Measure wanted) {
  const bool measure = wanted != Measure::Nothing;
  const bool isChange = !request.isEmpty();
  if (!document_.engineHasAll()) {
    // The new engine's plan is asked for when it has the model again.
    if (isChange || measure) Q_EMIT document_.failed(tr("The kernels stay as they are"), document_.whyNotReady());
    return;
  }
  syncSteering();
  if (busy_ && !isChange) engine_.cancel(busy_);
  if (measure) {
    request.insert(QStringLiteral("measure"), true);
    if (wanted == Measure::Schedules) request.insert(QStringLiteral("trySchedules"), true);
    request = document_.withRunInputs(request);
  }
  const int revision = ++revision_;
  const GraphRef graph = document_.graph();
  measuring_ = measure;
  busy_ = engine_.call(isChange ? QStringLiteral("compile/steer") : QStringLiteral("compile/plan"),
                       withGpu(document_.withDocument(request)), [=, this](const EngineReply& reply) {
                         if (revision != revision_) return;
                         busy_ = 0;
                         if (reply.errorCode == EngineReply::lostCode) return Q_EMIT changed();
                         if (graph != document_.graph()) return follow();
                         if (reply.ok()) {
                           if (isChange) push(label, at(reply.result, "plan").toString());
                           take(reply.result, graph);
                         } else if (!reply.cancelled()) {
                           if (!isKnown()) whyNone_ = reply.error;
                           Q_EMIT document_.failed(measure    ? tr("Nothing was measured")
                                                   : isChange ? tr("The plan stays as it is")
                                                              : tr("There is no plan of kernels"),
                                                   reply.error);
                         }
                         Q_EMIT changed();
                       });
  Q_EMIT changed();
}

void Compilation::take(const QJsonObject& plan, const GraphRef& graph) {
  const KernelInfo* was = current();
  const QString node = was ? was->nodes.value(0) : QString();
  if (graph != graph_ || at(plan, "plan").toString() != plan_.steering) timeline_ = {};
  plan_ = read(plan, graph);
  graph_ = graph;
  steering_ = plan_.steering;
  whyNone_.clear();
  steps_[static_cast<size_t>(at_)].plan = std::make_shared<CompilePlan>(plan_);
  steps_[static_cast<size_t>(at_)].graph = graph;
  // What was looked at may have another name now.
  const KernelInfo* now = plan_.find(current_) ? plan_.find(current_) : plan_.kernelOf(node);
  // At first there is one to look at: of the node that is selected, or the largest.
  if (!now) now = plan_.kernelOf(document_.selection().value(0));
  if (!now) now = plan_.largest(), isDefault_ = true;
  current_ = now ? now->name : QString();
  askOther();
  Q_EMIT currentChanged();
  askUsage();
}

CompilePlan Compilation::read(const QJsonObject& answer, const GraphRef& graph) {
  CompilePlan plan = readPlan(answer, *graph);
  measured_.erase(std::remove_if(measured_.begin(), measured_.end(), [](const auto& m) { return m.first.expired(); }),
                  measured_.end());
  auto known = std::find_if(measured_.begin(), measured_.end(), [&](const auto& m) { return m.first.lock() == graph; });
  if (known == measured_.end() && plan.isMeasured()) known = measured_.emplace(known, graph, MeasuredTimes());
  if (known == measured_.end()) return plan;
  if (plan.isMeasured()) known->second.note(plan);
  known->second.addTo(plan);
  return plan;
}

QJsonArray Compilation::measuredState() const {
  QJsonArray out;
  for (size_t i = 0; i < document_.steps().size(); ++i)
    for (const auto& [graph, times] : measured_)
      if (graph.lock() == document_.steps()[i].graph)
        out.append(
            QJsonObject{{QStringLiteral("step"), static_cast<int>(i)}, {QStringLiteral("times"), times.state()}});
  return out;
}

void Compilation::restoreMeasured(const QJsonArray& state) {
  for (const QJsonValue v : state) {
    const int step = at(v.toObject(), "step").toInt(-1);
    if (document_.isAsBefore(step))
      measured_.emplace_back(document_.steps()[static_cast<size_t>(step)].graph,
                             MeasuredTimes(objectAt(v.toObject(), "times")));
  }
  if (state.isEmpty() || !isKnown()) return;
  graph_ = nullptr;  // planned before the times were here
  follow();
}

void Compilation::askUsage() {
  if (!plan_.isForGpu || plan_.generatedCount() == 0) return;
  const int revision = revision_;
  engine_.call(QStringLiteral("compile/usage"), withGpu(document_.withDocument({})),
               [this, revision](const EngineReply& reply) {
                 if (revision != revision_ || !isKnown() || !reply.ok()) return;
                 addUsage(plan_, reply.result);
                 steps_[static_cast<size_t>(at_)].plan = std::make_shared<CompilePlan>(plan_);
                 Q_EMIT changed();
               });
}

/// What the plan is for stays what it is for: a kernel of a plan for the CPU may have CUDA C++, too.
QJsonObject Compilation::withGpu(QJsonObject request) const {
  if (forGpu_) request.insert(QStringLiteral("gpu"), true);
  return request;
}

void Compilation::setForGpu(bool on) {
  if (on == forGpu_) return;
  forGpu_ = on;
  graph_ = nullptr;  // the plans are of another machine
  for (Step& step : steps_) step.plan = nullptr;
  if (active_) refresh();
  Q_EMIT changed();
}

std::vector<Compilation::OtherPlan> Compilation::otherPlans() const {
  std::vector<OtherPlan> out;
  for (int i = static_cast<int>(steps_.size()) - 1; i >= 0; --i) {
    if (i == at_) continue;
    const Step& step = steps_[static_cast<size_t>(i)];
    OtherPlan other{.step = i, .title = i == 0 ? tr("Graft's own") : tr("after “%1”").arg(step.label)};
    if (isOfGraph(step)) other.kernels = static_cast<int>(step.plan->generatedCount());
    out.push_back(std::move(other));
  }
  return out;
}

bool Compilation::isOfGraph(const Step& step) const { return step.plan && step.graph == document_.graph(); }

int Compilation::otherStep() const {
  const bool isChosen = compared_ >= 0 && compared_ != at_ && compared_ < static_cast<int>(steps_.size());
  return isChosen ? compared_ : at_ - 1;
}

std::shared_ptr<const CompilePlan> Compilation::otherPlan() const {
  const int other = otherStep();
  return other >= 0 && isOfGraph(steps_[static_cast<size_t>(other)]) ? steps_[static_cast<size_t>(other)].plan
                                                                     : nullptr;
}

QString Compilation::otherPlanTitle() const {
  const int other = otherStep();
  if (other < 0) return {};
  if (other == 0) return tr("Graft's own plan");
  return other == at_ - 1 ? tr("the plan before “%1”").arg(undoLabel())
                          : tr("the plan after “%1”").arg(steps_[static_cast<size_t>(other)].label);
}

void Compilation::setComparing(bool on, int step) {
  const int compared = on ? step : -1;
  if (on == comparing_ && compared == compared_) return;
  comparing_ = on;
  compared_ = compared;
  askOther();
  Q_EMIT changed();
}

/// The plan that is compared with may be of another graph, of another machine, or a file's that never was planned.
void Compilation::askOther() {
  const int other = comparing_ && isKnown() ? otherStep() : -1;
  if (other < 0 || askingOther_ || !document_.engineHasAll() || isOfGraph(steps_[static_cast<size_t>(other)])) return;
  const QString steering = steps_[static_cast<size_t>(other)].steering;
  const QString text = steering.isEmpty() ? QString::fromLatin1(kNothingWanted) : steering;
  const int revision = revision_;
  const GraphRef graph = document_.graph();
  askingOther_ = engine_.call(
      QStringLiteral("compile/plan"), withGpu(document_.withDocument({{QStringLiteral("text"), text}})),
      [=, this](const EngineReply& reply) {
        askingOther_ = 0;
        if (revision != revision_ || graph != document_.graph()) return askOther();
        if (reply.ok()) {
          steps_[static_cast<size_t>(other)].plan = std::make_shared<CompilePlan>(read(reply.result, graph));
          steps_[static_cast<size_t>(other)].graph = graph;
          askOther();  // by now another one may be wanted
        } else if (!reply.cancelled() && reply.errorCode != EngineReply::lostCode) {
          Q_EMIT document_.failed(tr("There is no plan to compare with"), reply.error);
        }
        Q_EMIT changed();
      });
}

const PlanDifference* Compilation::difference() const {
  if (!comparing_ || !isKnown()) return nullptr;
  const std::shared_ptr<const CompilePlan> before = otherPlan(), now = steps_[static_cast<size_t>(at_)].plan;
  if (!before || !now) return nullptr;
  if (before != differsFrom_ || now != differsTo_) {
    difference_ = planDifference(*before, *now);
    differsFrom_ = before;
    differsTo_ = now;
  }
  return &*difference_;
}

void Compilation::push(const QString& label, const QString& steering) {
  steps_.resize(static_cast<size_t>(at_) + 1);
  steps_.push_back({.label = label, .steering = steering, .isPlain = wantsNothing(steering)});
  if (compared_ > at_) compared_ = -1;  // that step is gone
  ++at_;
}

void Compilation::recordRun() {
  if (!document_.engineHasAll()) return Q_EMIT document_.failed(tr("Nothing was recorded"), document_.whyNotReady());
  if (recording_ || !isKnown()) return;
  syncSteering();
  const int revision = revision_;
  const QJsonObject request = document_.withRunInputs({{QStringLiteral("kernels"), true}});
  recording_ = engine_.call(QStringLiteral("model/timeline"), document_.withDocument(request),
                            [this, revision](const EngineReply& reply) {
                              recording_ = 0;
                              if (reply.ok() && revision == revision_) timeline_ = readTimeline(reply.result);
                              if (!reply.ok() && !reply.cancelled() && reply.errorCode != EngineReply::lostCode)
                                Q_EMIT document_.failed(tr("Nothing was recorded"), reply.error);
                              Q_EMIT changed();
                            });
  Q_EMIT changed();
}

void Compilation::fuse(const QStringList& nodes) {
  ask(tr("fuse %1").arg(nodes.join(QStringLiteral(", "))), entry("merge", QJsonArray::fromStringList(nodes)));
}

void Compilation::keepApart(const QStringList& nodes) {
  ask(tr("keep apart %1").arg(nodes.join(QStringLiteral(", "))), entry("apart", QJsonArray::fromStringList(nodes)));
}

void Compilation::move(const QString& node, const QString& to) {
  ask(tr("move %1 to %2").arg(node, to),
      entry("move", QJsonObject{{QStringLiteral("node"), node}, {QStringLiteral("to"), to}}));
}

void Compilation::removeEntry(const QString& entry) {
  ask(tr("take %1 away").arg(entry), {{QStringLiteral("remove"), entry}});
}

void Compilation::undo() {
  if (canUndo()) goTo(at_ - 1);
}

void Compilation::redo() {
  if (canRedo()) goTo(at_ + 1);
}

void Compilation::goTo(int step) {
  if (!document_.engineHasAll()) return Q_EMIT document_.failed(tr("The plan stays as it is"), document_.whyNotReady());
  const QString wanted = steps_[static_cast<size_t>(step)].steering;
  const QString text = wanted.isEmpty() ? QString::fromLatin1(kNothingWanted) : wanted;
  const int revision = ++revision_;
  const GraphRef graph = document_.graph();
  measuring_ = false;
  engineHasSteering_ = true;  // it gets this one
  busy_ =
      engine_.call(QStringLiteral("compile/steer"), withGpu(document_.withDocument({{QStringLiteral("text"), text}})),
                   [=, this](const EngineReply& reply) {
                     if (revision != revision_) return;
                     busy_ = 0;
                     if (reply.ok()) {
                       at_ = step;
                       if (graph != document_.graph()) return follow();
                       take(reply.result, graph);
                     } else if (!reply.cancelled() && reply.errorCode != EngineReply::lostCode) {
                       Q_EMIT document_.failed(tr("The plan stays as it is"), reply.error);
                     }
                     Q_EMIT changed();
                   });
  Q_EMIT changed();
}

void Compilation::saveTo(const QString& path) {
  if (!document_.engineHasAll()) return Q_EMIT document_.failed(tr("Nothing was saved"), document_.whyNotReady());
  syncSteering();
  engine_.call(QStringLiteral("compile/steer"), document_.withDocument({{QStringLiteral("save"), path}}),
               [=, this](const EngineReply& reply) {
                 if (reply.ok())
                   Q_EMIT saved(path);
                 else if (!reply.cancelled())
                   Q_EMIT document_.failed(tr("The plan was not saved"), reply.error);
               });
}

void Compilation::loadFrom(const QString& path) {
  ask(tr("read %1").arg(QFileInfo(path).fileName()), {{QStringLiteral("file"), placeOf(path)}});
}

void Compilation::restore(const QString& steering) {
  if (steering.isEmpty() || wantsNothing(steering)) return;
  steps_.assign(1, {.isPlain = true});
  steps_.push_back({.label = tr("restore the plan"), .steering = steering});
  at_ = 1;
  compared_ = -1;
  steering_ = steering;
  engineHasSteering_ = false;
  graph_ = nullptr;
  follow();
}

void Compilation::apply() {
  if (forGpu_)
    return Q_EMIT document_.failed(tr("The kernels were not put in place"),
                                   tr("they are planned for a GPU, and the model lies on the CPU: take “Plan for a "
                                      "GPU” back first"));
  QJsonObject request;
  if (!steering_.isEmpty()) request.insert(QStringLiteral("text"), steering_);
  document_.applyKernels(request);
}

void Compilation::askCode(const QString& kernel, const QString& form, const CodeCallback& done) {
  if (!document_.engineHasAll()) return done({}, document_.whyNotReady());
  syncSteering();
  const GraphRef graph = document_.graph();
  engine_.call(
      QStringLiteral("compile/code"),
      document_.withDocument(
          {{QStringLiteral("kernel"), kernel}, {QStringLiteral("as"), form}, {QStringLiteral("gpu"), plan_.isForGpu}}),
      [=, this](const EngineReply& reply) {
        if (graph != document_.graph() || reply.cancelled() || reply.errorCode == EngineReply::lostCode) return;
        done(objectAt(reply.result, "kernel"), reply.ok() ? QString() : reply.error);
      });
}

void Compilation::chooseSchedule(const QString& kernel, const QString& schedule) {
  QJsonObject choices;
  for (const QString& choice : schedule.split(QStringLiteral(", "), Qt::SkipEmptyParts)) {
    const QString key = choice.section(QLatin1Char(' '), 0, 0), value = choice.section(QLatin1Char(' '), 1);
    bool isNumber = false;
    const int number = value.toInt(&isNumber);
    choices.insert(key, key == QLatin1String("order")
                            ? QJsonValue(QJsonArray::fromStringList(value.split(QLatin1Char(' '))))
                        : key == QLatin1String("transpose") ? QJsonValue(value == QLatin1String("yes"))
                        : isNumber                          ? QJsonValue(number)
                                                            : QJsonValue(value));
  }
  edit(kernel, QStringLiteral("schedule"), choices, [this](const EditOutcome& outcome) {
    if (outcome.isRight) return Q_EMIT document_.message(outcome.what);
    Q_EMIT document_.failed(outcome.what, outcome.why);
  });
}

void Compilation::edit(const QString& kernel, const QString& part, const QJsonValue& own,
                       const std::function<void(const EditOutcome&)>& done) {
  if (!document_.engineHasAll()) return done({.what = tr("It was not verified"), .why = document_.whyNotReady()});
  syncSteering();
  const GraphRef graph = document_.graph();
  const QJsonObject request =
      document_.withRunInputs({{QStringLiteral("kernel"), kernel}, {part, own}, {QStringLiteral("measure"), true}});
  const int revision = ++revision_;
  measuring_ = false;
  busy_ = engine_.call(
      QStringLiteral("compile/edit"), document_.withDocument(request), [=, this](const EngineReply& reply) {
        if (revision == revision_) busy_ = 0;
        EditOutcome out;
        if (!reply.ok()) {
          out.what = reply.cancelled() ? tr("It was stopped, and not verified") : tr("It was not verified");
          out.why = reply.cancelled() ? QString() : reply.error;
        } else if (out.isRight = at(reply.result, "isRight").toBool(); out.isRight) {
          out.what = tr("Verified and kept: it computes what its operators do");
          push(tr("edit %1").arg(kernel), at(objectAt(reply.result, "kernels"), "plan").toString());
          if (graph == document_.graph()) take(objectAt(reply.result, "kernels"), graph);
        } else {
          const QJsonObject verification =
              objectAt(at(reply.result, "rolledBack").toArray().at(0).toObject(), "verification");
          out.output = at(verification, "output").toString();
          out.element = at(verification, "element").toString();
          out.expected = at(verification, "expected").toString();
          out.actual = at(verification, "actual").toString();
          const QStringList refused = strings(at(reply.result, "refused"));
          out.why = refused.isEmpty() ? at(verification, "why").toString() : refused.join(QLatin1Char('\n'));
          // Which entry of the plan's file it is about says nothing here: one kernel is edited at a time.
          static const QRegularExpression entry(
              QStringLiteral("^(the hand-edited kernel \\(kernels\\[\\d+\\]\\)|the plan's kernels\\[\\d+\\]): "));
          out.why.remove(entry);
          if (out.why.contains(QLatin1String("GRAFT_TRUST_SOURCES")))
            out.why = tr("the engine compiles C++ that was edited only if it is started with GRAFT_TRUST_SOURCES=1");
          out.what = out.element.isEmpty() ? tr("Refused") : tr("Refused: it computes something else");
        }
        done(out);
        Q_EMIT changed();
      });
  Q_EMIT changed();
}

}  // namespace graft
