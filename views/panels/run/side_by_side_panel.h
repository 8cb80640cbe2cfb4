// SideBySidePanel: three or more models or steps in one table: nodes, operators, time, error. Any two of them open as
// drawings beside each other.
#pragma once

#include <QAction>
#include <QTableWidget>
#include <QWidget>

#include "views/document/captured/side_by_side_list.h"
#include "views/panels/panel.h"
#include "views/widgets/fixed_height_label.h"

class QDoubleSpinBox;
class QMenu;
class QToolButton;

namespace graft {

class SideBySidePanel : public QWidget {
  Q_OBJECT

 public:
  explicit SideBySidePanel(PanelContext& context, QWidget* parent = nullptr);
  SideBySideList& list() { return list_; }
  QTableWidget* table() { return table_; }
  QString sentence() const { return sentence_->fullText(); }
  /// Runs all, or stops the run that is under way.
  void runOrStop();
  /// Draws the two rows that are selected.
  void openDrawings();

 Q_SIGNALS:
  /// Draw the two beside each other.
  void pairAsked(const GraphRef& before, const GraphRef& after, const QString& beforeTitle, const QString& afterTitle);

 private:
  enum Column { Name, Nodes, Operators, Time, Spread, Speed, Error, Verdict, columns };
  void refresh();
  void refreshRow(int row);
  void refreshActions();
  void fillAddMenu();
  void addAllSteps();
  void chooseFile();
  QList<int> selectedRows() const;

  PanelContext& context_;
  SideBySideList list_;
  QTableWidget* table_;
  FixedHeightLabel* sentence_;
  QDoubleSpinBox* seconds_;
  QMenu* adding_;
  QToolButton *run_, *drawings_, *remove_, *first_;
};

PanelDescription sideBySidePanel();

}  // namespace graft
