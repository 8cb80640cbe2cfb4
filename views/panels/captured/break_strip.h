// BreakStrip: where torch.compile broke the capture, above the drawing: graph → source line and reason → graph. A click
// on a graph opens it; on a break it tells what PyTorch advises. It hides where nothing broke.
#pragma once

#include <QScrollArea>

#include "views/document/captured/capture.h"
#include "views/panels/panel.h"

class QHBoxLayout;

namespace graft {

class BreakStrip : public QScrollArea {
  Q_OBJECT

 public:
  BreakStrip(PanelContext& context, Capture& capture, QWidget* parent = nullptr);
  /// What it shows from left to right.
  QStringList shown() const { return shown_; }
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {0, sizeHint().height()}; }

 protected:
  void wheelEvent(QWheelEvent*) override;

 private:
  void refresh();
  void addGraph(QHBoxLayout& row, const CapturedGraphInfo& graph);
  void addBreak(QHBoxLayout& row, const CapturedGraphInfo& graph);
  void tellBreak(QWidget* button, const CapturedGraphInfo& graph);

  PanelContext& context_;
  Capture& capture_;
  QStringList shown_;
};

}  // namespace graft
