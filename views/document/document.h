// Document: one open model in the window: its graph, the steps applied to it, the rules being written, what they match
// and what the last run measured. It asks the engine, mirrors the answers in a HistoryCache and tells the views by
// signals. It knows no widgets, and drops answers that come too late.
//
//   Document d(engine);  d.open("bert.pt");  d.setRules(text, "rules.py");  d.apply("Attention");  d.undo();
#pragma once

#include <QDateTime>
#include <QJsonArray>
#include <QObject>
#include <QStringList>
#include <QTimer>
#include <memory>
#include <optional>
#include <vector>

#include "views/document/document_info.h"
#include "views/document/engine_client.h"
#include "views/document/history_cache.h"
#include "views/document/rule_patterns.h"

namespace graft {

class Compilation;

class Document : public QObject {
  Q_OBJECT

 public:
  explicit Document(EngineClient& engine, QObject* parent = nullptr);

  // State
  bool isOpen() const { return !history_.isEmpty(); }
  bool isOpening() const { return opening_ != 0; }
  /// The file's name without its folder.
  QString openingName() const { return openingPath_.section(QLatin1Char('/'), -1); }
  /// What the engine says of itself: its version and devices.
  const QJsonObject& engineHello() const { return engine_.hello(); }
  QString path() const { return path_; }
  QString inputs() const { return inputs_; }
  /// Which of the file's graphs is open: "forward", and of a capture "joint", "forward.1", …
  QString method() const { return method_; }
  /// The graphs of a capture, in the file's order; empty where the file is a model of another kind.
  QStringList capturedGraphs() const { return capturedGraphs_; }
  /// The graph has the forward and the backward pass of a training step.
  bool isJoint() const { return isJoint_; }
  QString format() const { return format_; }
  /// The format of the file that `original()` was read from.
  QString originalFormat() const { return other_ ? otherFormat_ : format_; }
  GraphRef graph() const { return history_.graph(); }
  /// What the current graph is compared with: the model as opened, or another file's.
  GraphRef original() const { return other_ ? other_ : history_.firstGraph(); }
  /// The file that is compared with; empty while it is the model itself.
  QString otherPath() const { return otherPath_; }
  const HistoryCache& history() const { return history_; }
  const std::vector<StepInfo>& steps() const { return history_.steps(); }
  int position() const { return history_.at().step; }
  /// Of the recipe at `position()`, how many of its steps are shown; -1: all.
  int subStep() const { return history_.at().subStep; }
  QString rulesText() const { return text_; }
  QString rulesFile() const { return file_; }
  const std::vector<RuleInfo>& rules() const { return rules_; }
  const std::vector<RecipeInfo>& recipes() const { return recipes_; }
  /// False until the engine has read the text as it is now.
  bool rulesAreRead() const { return checkedRevision_ == textRevision_; }
  const RuleError& ruleError() const { return error_; }
  const RuleInfo* rule(const QString& name) const;
  QString currentRule() const { return current_; }
  const std::vector<NearMissInfo>& nearMisses() const { return misses_; }
  QString nearMissesOf() const { return missesOf_; }
  double matchMilliseconds() const { return matchMs_; }
  const QJsonObject& lastRun() const { return run_; }
  bool isRunning() const { return runId_ != 0; }
  /// False where the last run failed or was stopped: `lastRun` is of an earlier one.
  bool lastRunWorked() const { return runWorked_; }
  /// Why the last run did not work; empty where it was stopped.
  QString lastRunError() const { return runError_; }
  /// What `lastRun` ran: the original (0) and the rewritten model (1).
  GraphRef ranGraph(int side) const { return ranGraphs_[side]; }
  /// When `lastRun` ended, where an earlier window ran it; null otherwise.
  QDateTime lastRunOfBefore() const { return runIsOfBefore_ ? runAt_ : QDateTime(); }
  /// False where the model or what it is compared with has become another since `lastRun`.
  bool lastRunIsCurrent() const { return ranGraphs_[0] == original() && ranGraphs_[1] == graph(); }
  /// False where an earlier window had another graph at that step: what it measured is not of this one.
  bool isAsBefore(int step) const;
  QStringList selection() const { return selection_; }
  /// Its generated kernels.
  Compilation& compilation() { return *compilation_; }
  /// Everything removed, added and changed from the original to the current graph.
  std::vector<RecordInfo> recordsToHere() const;

  // Actions
  /// `inputs`: a file of example inputs, from which shapes and dtypes are known; may be empty. `method`: which graph of
  /// a capture; empty: the first.
  void open(const QString& path, const QString& inputs = {}, const QString& method = {});
  void cancelOpening();
  /// Reads another file, or another graph of this one, and compares with it from then on; empty: with the model as
  /// opened again.
  void compareWith(const QString& path, const QString& method = {});
  QString otherMethod() const { return otherMethod_; }
  /// What brings a new window to where this one is: model, inputs, steps as requests, position, what was measured.
  QJsonObject state() const;
  /// Opens the model of `state` and applies its steps again.
  void restore(const QJsonObject& state);
  /// The state whose model `restore` is opening; empty once that is open.
  const QJsonObject& unrestored() const { return unrestored_; }
  /// Its steps are being done again.
  bool isRestoring() const { return !restoring_.isEmpty(); }
  /// Checks and matches 150 ms after the last call; at once with `now`.
  void setRules(const QString& text, const QString& file, bool now = false);
  void setCurrentRule(const QString& name);
  void setTicked(const QString& rule, int match, bool ticked);
  /// Whether each rewrite runs beside what it replaces before it stays; on by default.
  void setVerifying(bool on) { verifying_ = on; }
  bool isVerifying() const { return verifying_; }
  /// Rewrites the matches numbered `only`; all of them where it is empty.
  void apply(const QString& rule, const QList<int>& only = {});
  void applyRecipe(const QString& recipe);
  /// Makes the model faster by the recipes that come with Graft, as `graft optimize` does: a step, or `keptAsItWas`.
  void optimize();
  bool isOptimizing() const { return optimizing_ != 0; }
  /// What the last optimization measured of rules that it kept, by name: how many times as fast the model is with it.
  const QHash<QString, double>& gains() const { return gains_; }
  /// Draws what `apply` would do; `endPreview` takes it back.
  void preview(const QString& rule, const QList<int>& only = {});
  void endPreview();
  bool isPreviewing() const { return preview_ != nullptr; }
  GraphRef previewGraph() const { return preview_; }
  const std::vector<RecordInfo>& previewRecords() const { return previewRecords_; }
  void explain(const QString& rule, const QString& at = {});
  /// `subStep`: of a recipe's steps, only so many; -1: all.
  void showStep(int step, int subStep = -1);
  /// Takes back the last step, a recipe whole.
  void undo();
  /// Does the next step again; inside a recipe, the rest of the recipe.
  void redo();
  bool canUndo() const { return history_.canUndo(); }
  bool canRedo() const { return history_.canRedo(); }
  void exportTo(const QString& path);
  /// Loads a library of operators into the engine, and into each one after it. Models and rules that need it are to be
  /// read again.
  void loadLibrary(const QString& path);
  /// Reads the rules again, as they are.
  void readRulesAgain();
  void run(const QJsonObject& settings);
  void stopRun();
  void setSelection(const QStringList& nodes);
  using ReplyCallback = std::function<void(const EngineReply&)>;
  void askWeight(const QString& name, ReplyCallback done);
  /// What the node's operator does: {"schema", "doc", "effects"}.
  void askOperator(const QString& node, ReplyCallback done);
  /// The Python that the node comes from: {"file", "line", "first", "lines", "from"}.
  void askSource(const QString& node, ReplyCallback done);
  /// The canonical texts of `original()` and the current graph as lines {"kind", "old", "new", "text"}.
  void askDiff(ReplyCallback done);
  /// Asks a method of the engine about the document; returns the call's number, 0 where the engine does not have it.
  int ask(const QString& method, const QJsonObject& params, ReplyCallback done);
  void stopAsking(int call) { engine_.cancel(call); }

 Q_SIGNALS:
  void openingChanged();
  void opened();
  void graphChanged();  ///< another snapshot is current
  void stepsChanged();
  void keptAsItWas(const QString& why, const QStringList& advice);  ///< nothing made the model faster
  void optimizingChanged();
  void stepApplied();   ///< the last step is new: it was just applied, not restored
  void rulesChanged();  ///< parsed anew, or an error
  void matchesChanged();
  void currentRuleChanged();
  void nearMissesChanged();
  void previewChanged();
  void selectionChanged();
  void runChanged();
  void runProgress(const QString& what, qint64 done, qint64 total);
  void otherChanged();  ///< compared with something else
  void exported(const QString& path);
  void libraryLoaded(const QString& path, const QStringList& operators);
  void failed(const QString& what, const QString& why);  ///< `what` went wrong, everything is as it was
  void message(const QString& text);
  void restored();        ///< the steps of an earlier window are done again, if there were any
  void engineReplaced();  ///< a new engine has everything that the one before had

 private:
  friend class Compilation;  // the part of it that asks about kernels
  /// A text that the engine reads, and its matches where they are there before the rules.
  struct RuleCheck {
    bool isAnswered = false;
    std::optional<EngineReply> matches;
  };
  void sendOpen();
  void refuseOpening(const QString& why);
  void begin(const QJsonObject& opened, GraphRef graph);
  void enginePlay();
  void replayFrom(size_t step, int generation);
  void finishReplay();
  void checkRules();
  void matchRules(int revision);
  void askMatches(int revision, const std::shared_ptr<RuleCheck>& check);
  void takeMatches(const EngineReply&);
  void addStep(const QString& method, const QString& label, const QJsonObject& request, const QJsonObject& result,
               GraphRef graph);
  void requestApply(const QString& label, QJsonObject request);
  void applyKernels(const QJsonObject& request);
  /// A file of inputs belongs to the model; without one, what the model was last run on.
  QJsonObject withRunInputs(QJsonObject request) const;
  void sendApply(const QString& label, QJsonObject request, const QString& method = QStringLiteral("rules/apply"));
  void takeOptimization(const QJsonObject& report);
  void restoreNext();
  void restoreFigures();
  void tellOfOtherSteps();
  void restoreRun();
  QJsonObject figuresState() const;
  QJsonObject runState() const;
  void readOther(const QString& path, const QString& method, bool again);
  void forgetRun();
  /// False while a new engine is given the model, its steps and what it is compared with.
  bool engineHasAll() const { return document_ && !replaying_ && (!other_ || otherDocument_); }
  QString whyNotReady() const;
  QJsonObject withDocument(QJsonObject request) const;
  QJsonObject withRules(QJsonObject request) const;
  void syncEngine();
  void moveTo(int step);
  void showInside(HistoryPosition to);
  void readRules(const QJsonObject& result, const HeldPatterns& held);

  EngineClient& engine_;
  Compilation* compilation_;
  QString path_, inputs_, format_, method_, otherPath_, otherFormat_, otherMethod_;
  QStringList capturedGraphs_;
  bool isJoint_ = false;
  GraphRef other_;
  int otherDocument_ = 0;
  int document_ = 0;  ///< the engine's number for it; 0: the engine does not have it
  static constexpr int forNextEngine = -1;
  int opening_ = 0;  ///< the call that opens a model, or `forNextEngine`; 0: none
  QString openingPath_, openingInputs_, openingMethod_;
  int lostOpenings_ = 0;  ///< engines in a row that died while they opened it
  int generation_ = 0;    ///< of models opened: answers about an earlier one are dropped
  HistoryCache history_;
  QList<QJsonObject> restoring_;       ///< steps of an earlier window that are still to be applied
  QString restoringFusion_;            ///< that window's plan of kernels
  QJsonObject restoringFigures_;       ///< what it measured of rules and kernels
  QJsonObject restoringRun_;           ///< its last run, until what it compared with is there, too
  QJsonObject unrestored_;             ///< an earlier window's state, until its model is open: it is not lost meanwhile
  HistoryPosition restoreAt_{-1, -1};  ///< where that window stood; step -1: nothing is being restored
  int lostReplays_ = 0;                ///< engines in a row that died while they were given the document
  int diedOfRules_ = 0;                ///< engines in a row that died while they read or matched the rules
  bool replaying_ = false;
  int checking_ = 0;  ///< requests under way that read or match the rules
  QTimer typing_;
  QString text_, file_;
  int textRevision_ = 0, checkedRevision_ = -1;
  std::vector<RuleInfo> rules_;
  std::vector<RecipeInfo> recipes_;
  RuleError error_;
  QString current_;
  double matchMs_ = 0;
  std::vector<NearMissInfo> misses_;
  QString missesOf_;
  GraphRef preview_;
  std::vector<RecordInfo> previewRecords_;
  QJsonObject run_;
  int optimizing_ = 0;  ///< the call that makes the model faster; 0: none
  QHash<QString, double> gains_;
  int runId_ = 0, applying_ = 0;  ///< the call that runs; how many rewrites are under way
  QString runError_;
  GraphRef ranGraphs_[2];
  QDateTime runAt_;
  bool runWorked_ = true, runIsOfBefore_ = false, verifying_ = true;
  QJsonObject runInputs_;  ///< "inputs" and "seed" of the last run: rewrites are verified on these, too
  QStringList selection_;
};

/// Nodes of one name and module on both sides that differ, and nodes that one side lacks, as records that rewrote them.
std::vector<RecordInfo> recordsBetween(const Graph& before, const Graph& after);

}  // namespace graft
