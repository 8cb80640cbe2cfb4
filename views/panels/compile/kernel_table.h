// KernelTable: all that runs when the model runs, a row each: generated kernels, a library's, PyTorch's own operators;
// what they read and write, what they take, and how near that is to what this machine's memory and arithmetic allow.
#pragma once

#include <QMenu>
#include <QTreeWidget>

#include "views/document/compile/compilation.h"
#include "views/document/document.h"

namespace graft {

class KernelTable : public QTreeWidget {
  Q_OBJECT

 public:
  enum Column {
    Name,
    Difference,  ///< from the plan before, while both are shown
    Origin,
    Measured,
    Share,
    Before,
    Tried,
    Predicted,
    Read,
    Written,
    Registers,
    Shared,
    Occupancy,
    Spills,
    Schedule
  };

  explicit KernelTable(Document& document, QWidget* parent = nullptr);
  void refresh();
  /// The row of that kernel; null for none.
  QTreeWidgetItem* row(const QString& kernel) const;
  /// Offers the schedules that were tried of a kernel; empty where none were.
  void fillMenu(QMenu& menu, const QString& kernel);
  /// Empty for one of the plan before.
  static QString kernelOf(const QTreeWidgetItem& row);
  static QStringList nodesOf(const QTreeWidgetItem& row);

 Q_SIGNALS:
  void chosen(QTreeWidgetItem* row);  ///< by the user

 protected:
  void resizeEvent(QResizeEvent*) override;
  void contextMenuEvent(QContextMenuEvent*) override;

 private:
  QTreeWidgetItem* newRow(const KernelInfo&, const CompilePlan&, const GroupDifference*) const;
  void follow();
  void fitNames();

  Document& document_;
  bool filling_ = false;
};

}  // namespace graft
