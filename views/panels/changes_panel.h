// ChangesPanel: what was changed from the original to the model as it is shown, as a list: by rule and place, or node
// by node where another file is compared with.
//
//   connect(panel, &ChangesPanel::nodeChosen, canvas, &Canvas::reveal);
#pragma once

#include <QTreeWidget>

#include "views/panels/panel.h"

namespace graft {

class ChangesPanel : public QTreeWidget {
  Q_OBJECT

 public:
  explicit ChangesPanel(Document& document, QWidget* parent = nullptr);

 Q_SIGNALS:
  void nodeChosen(const QString& node);

 protected:
  void showEvent(QShowEvent*) override;

 private:
  void refresh();
  QTreeWidgetItem* groupOf(const QString& title);

  Document& document_;
};

PanelDescription changesPanel();

}  // namespace graft
