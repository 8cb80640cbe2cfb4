// The small map in the canvas's corner: the whole drawing and what of it is in view. Click or drag to go there.
#pragma once

#include <QPixmap>
#include <QWidget>

namespace graft {

class Canvas;

class Overview : public QWidget {
 public:
  explicit Overview(Canvas* canvas);
  void refresh() { picture_ = {}, update(); }

 protected:
  void paintEvent(QPaintEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;

 private:
  double factor() const;
  QPointF offset() const;
  void go(QPointF at);
  Canvas* canvas_;
  QPixmap picture_;
};

}  // namespace graft
