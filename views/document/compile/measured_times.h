// MeasuredTimes: what was measured of a graph's kernels, whatever their plan. A plan that changes keeps the times of
// each kernel that it leaves as it is; so does one that is taken back, and a window that starts again.
//
//   MeasuredTimes times;   times.note(measuredPlan);   times.addTo(changedPlan);   auto again =
//   MeasuredTimes(times.state());
#pragma once

#include <QDateTime>
#include <QJsonObject>

#include "views/document/compile/compile_plan.h"

namespace graft {

class MeasuredTimes {
 public:
  MeasuredTimes() = default;
  /// Of an earlier window's `state`.
  explicit MeasuredTimes(const QJsonObject& state);
  bool isEmpty() const { return kernels_.isEmpty(); }
  /// Takes the times of a plan that has just been measured.
  void note(const CompilePlan& plan);
  /// Gives the plan what is known of its kernels, of the pairs between them, and of all of it.
  void addTo(CompilePlan& plan) const;
  QJsonObject state() const;

 private:
  QJsonObject kernels_;        ///< by nodes and choices: the fields that readTimes knows
  QJsonObject plans_;          ///< microseconds, by all kernels of the plan
  QJsonObject model_;          ///< what holds for any plan: the model as it is, this machine's speeds
  QDateTime at_;               ///< of the last one
  bool isFromBefore_ = false;  ///< an earlier window measured all of it
};

}  // namespace graft
