// KernelTable: all that runs when the model runs, a row each: generated kernels, a library's, PyTorch's own operators;
// what they read and write, what they take, and how near that is to the speed of memory.
#pragma once

#include <QTreeWidget>

#include "views/document/compile/compilation.h"
#include "views/document/document.h"

namespace graft {

class KernelTable : public QTreeWidget {
  Q_OBJECT

 public:
  enum Column {
    Name,
    Origin,
    Read,
    Written,
    Predicted,
    Measured,
    Before,
    Share,
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
  static QString kernelOf(const QTreeWidgetItem& row);

 Q_SIGNALS:
  void chosen(const QString& kernel);  ///< by the user

 protected:
  void resizeEvent(QResizeEvent*) override;

 private:
  void follow();
  void fitNames();

  Document& document_;
  bool filling_ = false;
};

}  // namespace graft
