// JointRows: a training step as rows from the first module to the last: on the left what a module does in the forward
// pass, on the right what it does in the backward pass, between them what crosses the cut. Both halves of a module
// stand in one row. Modules fold; an open one also has a row for each tensor that is saved or computed again.
//
//   JointRows rows = JointRows::make(*document.graph(), cut.report(), opened);
//   rows.rows[3].savedBytes, rows.mostBytes
#pragma once

#include <QSet>
#include <QString>
#include <array>
#include <vector>

#include "core/ir/graph.h"
#include "views/document/captured/training_cut.h"

namespace graft {

struct JointRow {
  enum class Kind { Module, Tensor };
  Kind kind = Kind::Module;
  int depth = 0;
  QString name;    ///< of a module the last part of its path, of a tensor its value's name
  QString path;    ///< the module's path, of a tensor that which it is in; "" for the model itself
  QString detail;  ///< of a module its type, of a tensor the operator that makes it
  // Of modules: everything inside, their submodules' too.
  int forwardNodes = 0, backwardNodes = 0, againNodes = 0;  ///< views are not counted among those computed again
  int tensors = 0;                                          ///< that are saved
  qint64 savedBytes = 0, againBytes = 0;
  double againMicroseconds = 0;
  bool canOpen = false, isOpen = false;
  std::array<qint64, 4> bytesBy{};  ///< of `savedBytes`, by Crossing
  // Of tensors
  Crossing crossing = Crossing::Cheap;
  QString type, reason, pin;  ///< pin: the name that holds it where it is; empty: none
  QStringList consumers;
  double microseconds = 0;  ///< that computing it again takes
};

struct JointRows {
  std::vector<JointRow> rows;
  qint64 mostBytes = 0;  ///< of the widest bundle of one row

  /// `opened`: paths of modules that are open.
  static JointRows make(const Graph& graph, const TrainingCut& cut, const QSet<QString>& opened);
  /// Modules that are opened at first: down to where a level has more than one module.
  static QSet<QString> openedAtFirst(const Graph& graph);
  /// The row of a tensor, or else of the innermost module shown that holds it; -1 where there is none.
  int find(const QString& value, const QString& module) const;
};
}  // namespace graft
