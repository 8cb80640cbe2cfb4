// GuardsPanel: under which conditions the captured graph holds, and which call would break each, so that torch.compile
// captures anew: what the call is about first, PyTorch's own switches last.
#pragma once

#include <QLineEdit>
#include <QTreeWidget>
#include <QWidget>

#include "views/document/captured/capture.h"
#include "views/panels/panel.h"
#include "views/widgets/fixed_height_label.h"

namespace graft {

class GuardsPanel : public QWidget {
  Q_OBJECT

 public:
  explicit GuardsPanel(PanelContext& context, QWidget* parent = nullptr);
  QTreeWidget* tree() { return tree_; }
  QLineEdit* filter() { return filter_; }

 private:
  void refresh();
  void applyFilter();

  Capture& capture_;
  Document& document_;
  FixedHeightLabel* sentence_;
  QLineEdit* filter_;
  QTreeWidget* tree_;
};

PanelDescription guardsPanel();

}  // namespace graft
