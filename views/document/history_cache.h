// HistoryCache: the window's copy of the history that the engine owns.
//
// The engine owns the history: it holds the model behind each step, applies rules and goes back and forth. The window
// keeps the graphs that the engine has sent it, one for each step and one for the sub-step of a recipe that is shown.
// So undo is instant. With each step it also keeps the request that made it: a new engine can be given the same steps.
//
// Only the functions under "The engine's answers" change steps. Where the window stands (`at`) and where the engine
// stands (`engineAt`) are the only positions; everything else, what can be undone included, follows from them.
//
//   history.opened({.label = "Opened", .graph = g});   history.applied(step);
//   history.goTo(0);   if (history.engineIsElsewhere()) …ask it to go to history.at()
#pragma once

#include <optional>
#include <vector>

#include "views/document/document_info.h"

namespace graft {

/// A place in the history: behind a step, or inside a recipe behind the first `subStep` of its steps.
struct HistoryPosition {
  int step = 0;
  int subStep = -1;  ///< -1: behind the whole step
  bool isWholeStep() const { return subStep < 0; }
  bool operator==(const HistoryPosition&) const = default;
};

class HistoryCache {
 public:
  bool isEmpty() const { return steps_.empty(); }
  const std::vector<StepInfo>& steps() const { return steps_; }
  int lastStep() const { return static_cast<int>(steps_.size()) - 1; }
  HistoryPosition at() const { return at_; }
  /// The graph at `at()`; null before a model is open.
  GraphRef graph() const;
  GraphRef firstGraph() const { return isEmpty() ? nullptr : steps_.front().graph; }
  /// Every rewrite from the model as opened to `at()`.
  std::vector<RecordInfo> records() const;

  bool canUndo() const { return at_.step > 0; }
  bool canRedo() const { return !at_.isWholeStep() || at_.step < lastStep(); }
  /// The label of the step that undo takes back, or that redo does again; empty where there is none.
  QString undoLabel() const;
  QString redoLabel() const;

  /// The same place, spelled as a whole step where the recipe's remaining steps changed nothing.
  HistoryPosition normalized(HistoryPosition) const;
  /// Shows the graph behind a whole step. The engine is to follow.
  void goTo(int step);

  // The engine's answers
  /// It has read another model. Returns the steps of the one before, to be freed.
  std::vector<StepInfo> opened(StepInfo first);
  /// It has applied a step behind `at()`: what followed there is no more.
  void applied(StepInfo step);
  /// It has gone inside a recipe and has sent the graph there.
  void wentInside(HistoryPosition at, GraphRef graph);

  // Where the engine stands
  /// It has this history and is at that place, or will be once it has worked off its queue.
  void setEngineAt(HistoryPosition at) { engineAt_ = at; }
  /// Nobody knows: it is new, or an answer of it came too late.
  void forgetEngine() { engineAt_.reset(); }
  bool engineIsElsewhere() const { return engineAt_ != at_; }

 private:
  void cutInside();

  std::vector<StepInfo> steps_;
  HistoryPosition at_;
  GraphRef insideGraph_;  ///< at `at_`, where that is inside a recipe
  std::optional<HistoryPosition> engineAt_;
};

}  // namespace graft
