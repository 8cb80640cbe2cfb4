// TrainingPage: a training step in the canvas's place: the joint graph mirrored at its cut, how much may be saved, what
// that costs, a table of what crosses the cut, memory over time, other budgets.
//
//   auto* page = new TrainingPage(context);   page->setShown(true);
#pragma once

#include <QDoubleSpinBox>
#include <QLabel>
#include <QSlider>
#include <QSplitter>
#include <QTabWidget>
#include <QTreeWidget>
#include <QWidget>

#include "views/panels/captured/training_charts.h"
#include "views/panels/panel.h"
#include "views/widgets/fixed_height_label.h"

class QBoxLayout;
class QToolButton;

namespace graft {

class TrainingPage : public QWidget {
  Q_OBJECT

 public:
  explicit TrainingPage(PanelContext& context, QWidget* parent = nullptr);
  JointView* view() { return view_; }
  QSlider* slider() { return slider_; }
  QDoubleSpinBox* field() { return field_; }
  QTreeWidget* saved() { return saved_; }
  QTreeWidget* again() { return again_; }
  LiveMemoryPlot* memoryPlot() { return memory_; }
  BudgetPlot* budgetPlot() { return budgets_; }
  QString totals() const { return totals_->fullText(); }
  /// What the pins are, or why the wishes cannot be met.
  QString remark() const { return remark_->fullText(); }
  /// While it does not show, the engine is not asked.
  void setShown(bool shown);
  void readWishes();
  void writeWishes();
  void refreshTheme();

 protected:
  void resizeEvent(QResizeEvent*) override;
  bool eventFilter(QObject* charts, QEvent*) override;

 private:
  QWidget* makeHead();
  QWidget* makeSide();
  QTreeWidget* makeTable(const QStringList& headings);
  void refresh();
  void fillTables();
  void showTableMenu(QTreeWidget* table, const QPoint& at);
  void refreshLegend();

  PanelContext& context_;
  TrainingCut& cut_;
  JointView* view_ = nullptr;
  QSplitter* parts_ = nullptr;
  QTabWidget* side_ = nullptr;
  QSlider* slider_ = nullptr;
  QDoubleSpinBox* field_ = nullptr;
  QBoxLayout* charts_ = nullptr;
  QBoxLayout* first_ = nullptr;  ///< the budget and the totals: in one line, or in two where that is too narrow
  FixedHeightLabel *totals_ = nullptr, *remark_ = nullptr;
  QLabel* legend_ = nullptr;
  QToolButton* free_ = nullptr;
  QTreeWidget *saved_ = nullptr, *again_ = nullptr;
  LiveMemoryPlot* memory_ = nullptr;
  BudgetPlot* budgets_ = nullptr;
  bool filling_ = false;
};

}  // namespace graft
