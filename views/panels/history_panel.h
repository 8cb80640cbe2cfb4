// HistoryPanel: the steps from the model as opened to now, below each recipe what its rules and passes did. A click
// goes there, inside a recipe too. Steps that changed nothing can be hidden.
#pragma once

#include <QCheckBox>
#include <QTreeWidget>
#include <QWidget>

#include "views/panels/panel.h"

namespace graft {

class HistoryPanel : public QWidget {
  Q_OBJECT

 public:
  explicit HistoryPanel(Document& document, QWidget* parent = nullptr);
  QTreeWidget* tree() { return tree_; }
  QCheckBox* hide() { return hide_; }
  void refreshTheme() { refresh(); }

 protected:
  bool eventFilter(QObject* watched, QEvent* e) override;

 private:
  void refresh();
  void fitTimes();
  QTreeWidgetItem* addStep(int step);
  void addSubSteps(QTreeWidgetItem* recipe, int step);
  void go(QTreeWidgetItem* item);

  Document& document_;
  QTreeWidget* tree_;
  QCheckBox* hide_;
  QSet<int> closed_;  ///< recipes whose rules are folded away
  bool filling_ = false;
};

PanelDescription historyPanel();

}  // namespace graft
