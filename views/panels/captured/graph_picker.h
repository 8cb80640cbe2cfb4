// GraphPicker: the button in front of the breadcrumb that says which graph of a capture is open, and opens another one.
// It hides for models that were not captured.
//
//   auto* picker = new GraphPicker(context, capture);   // asks the context for a graph, or to compare with one
#pragma once

#include <QMenu>
#include <QToolButton>

#include "views/document/captured/capture.h"
#include "views/panels/panel.h"

namespace graft {

class GraphPicker : public QToolButton {
  Q_OBJECT

 public:
  GraphPicker(PanelContext& context, Capture& capture, QWidget* parent = nullptr);

 private:
  void refresh();
  void fill();

  PanelContext& context_;
  Capture& capture_;
  QMenu menu_;
};

}  // namespace graft
