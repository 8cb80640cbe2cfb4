// CompileView: the arrangement Compile in the window: the ribbon of stages below the tool bar, the canvas by kernels or
// by modules, what edges between kernels say and offer, and two stages or plans beside each other.
#pragma once

#include <optional>

#include <QObject>
#include <QPoint>
#include <QStringList>

#include "views/window/comparison.h"
#include "views/window/compile/stage_ribbon.h"

class QToolBar;

namespace graft {

class MainWindow;

class CompileView : public QObject {
  Q_OBJECT

 public:
  explicit CompileView(MainWindow& window);
  StageRibbon* ribbon() { return ribbon_; }
  /// While the arrangement shows.
  void setShown(bool on);
  bool isByKernels() const { return byKernels_; }
  /// The canvas draws kernels in the modules' place.
  void setByKernels(bool on);
  /// Kernels in the modules' place, or modules again. What stands beside them stays: a plan, or the captured model.
  void switchGrouping() { group(!byKernels_); }
  /// The canvas draws the model as its file has it.
  bool isCaptured() const { return drawsCaptured_; }
  void showStage(const Stage& stage);
  void compareStages(const Stage& from, const Stage& to);
  /// The plan before its last change, or that of a step, beside the plan as it is.
  void comparePlans(int step = -1);
  /// What an edge says: why it lies between two kernels, with prices, or why fusion never looked at it; "" where it
  /// does not lead from node to node.
  QString edgeTip(int edge) const;
  /// What can be done with the nodes: fuse, keep apart, move.
  void fuseSelection();
  void separateSelection();

 private:
  /// The nodes that an edge leads from and to.
  struct Ends {
    QString producer, consumer;
  };
  const FusionPair* pairOf(int edge) const;
  std::optional<Ends> endsOf(int edge) const;
  QString whyNoPair(const Ends& ends) const;
  void showEdgeMenu(const QPoint& at, int edge);
  void group(bool byKernels);
  void regroup();
  void groupBefore(Comparison::Grouping& grouping);
  void groupBesideCaptured(Comparison::Grouping& grouping);
  void groupByModules(Comparison::Grouping& grouping);
  void tellDifference(Comparison::Grouping& grouping);
  void tellNotCaptured();
  QStringList selectedNodes() const;

  MainWindow& window_;
  Document& document_;
  Compilation& compilation_;
  QToolBar* bar_;
  StageRibbon* ribbon_;
  bool byKernels_ = false;
  bool drawsCaptured_ = false, comparesCaptured_ = false;
};

}  // namespace graft
