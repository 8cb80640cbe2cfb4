// Compilation: what the document knows of its generated kernels. It asks the engine for the plan of the graph that is
// shown, for code and for times; changes the plan as people want it, with a history of its own; and puts the kernels
// in place. Answers about another graph, or about a plan that has changed meanwhile, are dropped.
//
//   Compilation& c = document.compilation();   c.setActive(true);     // it asks whenever another graph is shown
//   c.fuse({"div", "softmax"});   c.undo();   c.apply();
#pragma once

#include <QJsonArray>
#include <QJsonObject>
#include <QObject>
#include <QStringList>
#include <functional>
#include <optional>

#include "views/document/compile/captured_model.h"
#include "views/document/compile/compile_plan.h"
#include "views/document/compile/measured_times.h"
#include "views/document/compile/plan_difference.h"
#include "views/document/compile/run_timeline.h"
#include "views/document/document_info.h"
#include "views/document/engine_client.h"

namespace graft {

class Document;

/// What became of an edited kernel.
struct EditOutcome {
  bool isRight = false;  ///< it computes what the operators do, and is part of the plan
  QString what;          ///< in one sentence
  QString why{};         ///< of one that is not right: what the engine says
  // The first element that differs, where one does
  QString output{}, element{}, expected{}, actual{};
};

class Compilation : public QObject {
  Q_OBJECT

 public:
  Compilation(Document& document, EngineClient& engine);

  /// Whether somebody looks: then plans are asked for as graphs come.
  void setActive(bool on);
  bool isActive() const { return active_; }
  /// Whether `plan()` is of the graph that is shown.
  bool isKnown() const;
  bool isBusy() const { return busy_ != 0; }
  /// Whether another plan is asked for beside it.
  bool isComparing() const { return comparing_; }
  /// The model as its file has it: asked for while somebody looks.
  CapturedModel& captured() { return *captured_; }
  bool isMeasuring() const { return busy_ != 0 && measuring_; }
  const CompilePlan& plan() const { return plan_; }
  /// Why there is no plan; empty while there is one, or one is on its way.
  QString whyNone() const { return whyNone_; }
  QString steering() const { return steering_; }
  bool isSteered() const { return !steps_[static_cast<size_t>(at_)].isPlain; }
  /// The plan's changes so far, the last one first to be taken back.
  bool canUndo() const { return at_ > 0; }
  bool canRedo() const { return at_ + 1 < static_cast<int>(steps_.size()); }
  QString undoLabel() const { return canUndo() ? steps_[static_cast<size_t>(at_)].label : QString(); }
  QString redoLabel() const { return canRedo() ? steps_[static_cast<size_t>(at_) + 1].label : QString(); }
  /// All plans of the graph but the one that is shown, also those that were taken back; the latest first, Graft's own
  /// last.
  struct OtherPlan {
    int step = 0;
    QString title{};               ///< "after “fuse gelu, add”"
    std::optional<int> kernels{};  ///< that Graft generates, where that is known
  };
  std::vector<OtherPlan> otherPlans() const;
  /// The plan that is compared with: the one before the last change, where nothing else was said; null where there is
  /// none, or it is on its way.
  std::shared_ptr<const CompilePlan> otherPlan() const;
  /// "the plan before “fuse gelu, add”"
  QString otherPlanTitle() const;
  /// Whether somebody looks at the plan and another one side by side: that of the step, or the one before. It is asked
  /// for where it is not known.
  void setComparing(bool on, int step = -1);
  /// While somebody does, what differs; null otherwise, and where there is no other plan.
  const PlanDifference* difference() const;
  /// Whether kernels are planned as for a model on a GPU wherever the model lies: to be looked at.
  void setForGpu(bool on);
  bool isForGpu() const { return forGpu_; }
  /// The kernel that is looked at; null for none.
  const KernelInfo* current() const { return plan_.find(current_); }
  /// Nobody has chosen it: it is the one to look at first.
  bool isCurrentByDefault() const { return isDefault_; }
  void setCurrent(const QString& kernel);

  void refresh() { ask({}, {}); }
  /// Runs the model as it is and with its kernels, on its inputs or random ones.
  void measure() { ask({}, {}, Measure::Times); }
  /// The same, with other schedules of each kernel as well.
  void trySchedules() { ask({}, {}, Measure::Schedules); }
  /// Runs the model with its kernels once more, and keeps what the host and the other threads or streams did.
  void recordRun();
  bool isRecording() const { return recording_ != 0; }
  /// Of the last run that was recorded; empty where the graph or the plan has become another since.
  const RunTimeline& timeline() const { return timeline_; }
  void fuse(const QStringList& nodes);
  void keepApart(const QStringList& nodes);
  /// The node leaves its kernel for the one that holds `to`.
  void move(const QString& node, const QString& to);
  /// A schedule that was tried becomes the kernel's own: "lanes i1, registers 2".
  void chooseSchedule(const QString& kernel, const QString& schedule);
  /// Takes one entry of the plan away: "merge[0]".
  void removeEntry(const QString& entry);
  void undo();
  void redo();
  /// As fusion.json.
  void saveTo(const QString& path);
  void loadFrom(const QString& path);
  /// The plan of a window before.
  void restore(const QString& steering);
  /// What was measured of the graph of each step: {"step", "times"} each.
  QJsonArray measuredState() const;
  void restoreMeasured(const QJsonArray& state);
  /// Puts the kernels in place: a step of the document's history, verified as rewrites are.
  void apply();
  /// `form`: "loops", "cpp", "cuda", "ptx" or "sass".
  using CodeCallback = std::function<void(const QJsonObject& kernel, const QString& error)>;
  void askCode(const QString& kernel, const QString& form, const CodeCallback& done);
  /// `part`: "loops" or "source", whose text it is, or "schedule". Verified; kept in the plan where it is right.
  void edit(const QString& kernel, const QString& part, const QJsonValue& own,
            const std::function<void(const EditOutcome&)>& done);

 Q_SIGNALS:
  void changed();         ///< another plan, or whether one is on its way
  void currentChanged();  ///< another kernel is looked at
  void saved(const QString& path);

 private:
  struct Step {
    QString label{}, steering{};
    bool isPlain = false;  ///< nothing is wanted otherwise
    std::shared_ptr<const CompilePlan> plan{};
    GraphRef graph{};  ///< that it is of
  };
  enum class Measure { Nothing, Times, Schedules };
  void ask(const QString& label, QJsonObject request, Measure measure = Measure::Nothing);
  void take(const QJsonObject& plan, const GraphRef& graph);
  /// The plan with all times that are known of the graph's kernels.
  CompilePlan read(const QJsonObject& plan, const GraphRef& graph);
  /// What kernels take of a GPU is compiled, which takes a moment: the plan is shown meanwhile.
  void askUsage();
  QJsonObject withGpu(QJsonObject request) const;
  void push(const QString& label, const QString& steering);
  void syncSteering();
  void forget();
  void goTo(int step);
  /// The place of the plan that is compared with; -1 where there is none.
  int otherStep() const;
  bool isOfGraph(const Step& step) const;
  void askOther();
  void follow();

  Document& document_;
  EngineClient& engine_;
  CapturedModel* captured_;
  CompilePlan plan_;
  GraphRef graph_;  ///< that the plan is of
  QString whyNone_, current_, steering_;
  bool isDefault_ = true;  ///< of `current_`
  std::vector<std::pair<std::weak_ptr<const Graph>, MeasuredTimes>> measured_;
  std::vector<Step> steps_;
  int at_ = 0;
  int compared_ = -1;  ///< the step whose plan is compared with; -1: the one before
  int busy_ = 0;       ///< the call under way
  int askingOther_ = 0;
  int revision_ = 0;
  int recording_ = 0;  ///< the call
  RunTimeline timeline_;
  bool active_ = false, measuring_ = false, forGpu_ = false, comparing_ = false;
  /// Of the plans of which it was made last.
  mutable std::optional<PlanDifference> difference_;
  mutable std::shared_ptr<const CompilePlan> differsFrom_, differsTo_;
  bool engineHasSteering_ = true;  ///< false where a new engine has not heard of it
};

}  // namespace graft
