// The small map in the canvas's corner: the whole drawing and what of it is in view. A click goes
// there, dragging moves what is in view.
#pragma once

#include <QPixmap>
#include <QWidget>

namespace graft {

class Canvas;

class Overview : public QWidget {
 public:
  explicit Overview(Canvas* canvas);
  /// The drawing is another: as wide or as high as that asks for.
  void refresh();
  /// The canvas is another size: a small one keeps most of its room.
  void fitRoom();
  /// Somebody drags it.
  bool isHeld() const { return isHeld_; }

 protected:
  void paintEvent(QPaintEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseReleaseEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;

 private:
  double factor() const;
  QPointF offset() const;
  QRectF seen() const;  ///< what is in view, in the map
  void go(QPointF at);
  Canvas* canvas_;
  QPixmap picture_;
  bool isHeld_ = false;
  QPointF held_;  ///< from the middle of what is in view to where the pointer took it
};

}  // namespace graft
