// KernelsPanel: the kernels of the model as tables: what runs, what lies between kernels and why it was not fused, and
// what people want otherwise. What is chosen here is chosen on the canvas and in the code, and the other way round.
#pragma once

#include <QTabWidget>
#include <QToolButton>

#include "views/panels/compile/kernel_table.h"
#include "views/panels/compile/pairs_list.h"
#include "views/panels/compile/timeline_page.h"
#include "views/panels/compile/wishes_list.h"
#include "views/panels/panel.h"
#include "views/widgets/fixed_height_label.h"

namespace graft {

class KernelsPanel : public QWidget {
  Q_OBJECT

 public:
  enum Tab { Kernels, Between, Wishes, Timeline };

  explicit KernelsPanel(PanelContext& context);
  KernelTable* table() { return table_; }
  PairsList* pairs() { return pairs_; }
  WishesList* wishes() { return wishes_; }
  TimelinePage* timelinePage() { return timeline_; }
  TimelinePlot* timeline() { return timeline_->plot(); }
  void showTab(Tab tab) { tabs_->setCurrentIndex(tab); }
  /// Shows why the two are not one kernel, or that they are.
  void showPair(const FusionPair& pair);
  /// What is said above the tables.
  QString summary() const { return summary_->fullText(); }

 protected:
  void resizeEvent(QResizeEvent*) override;

 private:
  QToolButton* button(const char* action, const QString& text, const QString& tip);
  void choose(const QString& kernel);
  void chooseRow(QTreeWidgetItem* row);
  void followSelection();
  void refresh();

  PanelContext& context_;
  Document& document_;
  FixedHeightLabel* summary_;
  QTabWidget* tabs_;
  KernelTable* table_;
  PairsList* pairs_;
  WishesList* wishes_;
  TimelinePage* timeline_;
};

PanelDescription kernelsPanel();

}  // namespace graft
