// TrainingCut: the cut of the open joint graph as the engine makes it of what its user wishes: how much may be saved,
// what is always saved, what is computed again. It asks again, a moment after each change, and drops answers that come
// too late. It costs nothing until somebody looks: setActive.
//
//   TrainingCut cut(document);  cut.setActive(true);  cut.setMemory(0.6);  cut.save("addmm_4");
//   connect(&cut, &TrainingCut::changed, …);   // cut.report().saved, cut.report().savedBytes, cut.error()
#pragma once

#include <QJsonObject>
#include <QObject>
#include <QStringList>
#include <QTimer>
#include <vector>

#include "views/document/document.h"

namespace graft {

/// What kind of reason a tensor crosses the cut for, or that it does not.
enum class Crossing { Must, Dear, Cheap, Asked, Again };

struct SavedTensorInfo {
  QString name, type, producer, module;  ///< producer: the operator; empty of an input
  QStringList consumers;                 ///< nodes of the backward half
  qint64 bytes = 0;
  double microseconds = 0;
  QString reason;
  Crossing kind = Crossing::Cheap;
};
struct RecomputedInfo {
  QString name, op, module;
  qint64 bytes = 0;  ///< 0: a view, which takes no memory
  double microseconds = 0;
  QString reason;
};
struct LiveNodeInfo {
  QString name;
  qint64 bytes = 0;
};
struct BudgetPointInfo {
  double memory = 1;
  qint64 savedBytes = 0, peak = 0;
  double microseconds = 0;
};
struct CutReport {
  std::vector<SavedTensorInfo> saved;
  std::vector<RecomputedInfo> recomputed;
  std::vector<LiveNodeInfo> forward, backward;  ///< the halves' nodes in order, with what is alive while they run
  qint64 savedBytes = 0, defaultBytes = 0, nothingBytes = 0, leastBytes = 0;
  qint64 peakForward = 0, peakBackward = 0;
  double recomputedMicroseconds = 0;
  QStringList notes;
  bool isEmpty() const { return forward.empty(); }
  qint64 peak() const { return std::max(peakForward, peakBackward); }
  /// The least budget that can be met, as a share of the default cut.
  double least() const {
    return defaultBytes > 0 ? static_cast<double>(leastBytes) / static_cast<double>(defaultBytes) : 1;
  }
};

class TrainingCut : public QObject {
  Q_OBJECT

 public:
  explicit TrainingCut(Document& document, QObject* parent = nullptr);

  const CutReport& report() const { return report_; }
  const std::vector<BudgetPointInfo>& curve() const { return curve_; }
  /// Why the wishes could not be met; the report is then of the last ones that could.
  QString error() const { return error_; }
  bool isBusy() const { return asked_ != 0 || soon_.isActive(); }

  double memory() const { return memory_; }
  const QStringList& alwaysSaved() const { return save_; }
  /// Nodes and modules.
  const QStringList& computedAgain() const { return recompute_; }
  bool hasPins() const { return !save_.isEmpty() || !recompute_.isEmpty(); }
  /// The pin that holds a value on its side: its own name, or a module that it is in; empty where the cut is free.
  QString pinOf(const QString& value, const QString& module) const;

  /// While nobody looks, nothing is asked.
  void setActive(bool active);
  bool isActive() const { return active_; }
  /// The share of the default cut's bytes that may be saved, 0 to 1.
  void setMemory(double share);
  void alwaysSave(const QString& value);
  /// A value's name, or a module's path.
  void computeAgain(const QString& name);
  void unpin(const QString& name);
  void unpinAll();
  /// Wishes as `graft partition --cut` takes them. The engine reads and writes the file.
  void read(const QString& path);
  void write(const QString& path);

  /// What is wished, to be restored for the same graph.
  QJsonObject wishes() const;
  void setWishes(const QJsonObject& wishes);

 Q_SIGNALS:
  void changed();
  void failed(const QString& what, const QString& why);
  void message(const QString& text);

 private:
  void askSoon(bool pinsChanged);
  void ask();
  void take(const EngineReply& reply, bool withCurve);
  void clear();

  Document& document_;
  QTimer soon_;
  CutReport report_;
  std::vector<BudgetPointInfo> curve_;
  QString error_, key_;
  double memory_ = 1;
  QStringList save_, recompute_;
  int asked_ = 0, generation_ = 0;
  bool active_ = false, isCurrent_ = false, curveIsCurrent_ = false;
};

}  // namespace graft
