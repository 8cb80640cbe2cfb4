#include "views/canvas/overview.h"

#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "views/canvas/canvas.h"

namespace graft {

Overview::Overview(Canvas* canvas) : QWidget(canvas), canvas_(canvas) {
  resize(132, 150);
  setAccessibleName(tr("Overview of the drawing"));
  setCursor(Qt::PointingHandCursor);
  setToolTip(tr("Overview: click to go there, drag to look around"));
}

void Overview::refresh() {
  fitRoom();
  picture_ = {};
  update();
}

void Overview::fitRoom() {
  const SceneRef scene = canvas_->scene();
  if (!scene || scene->bounds().isEmpty()) return;
  constexpr double area = 20000, least = 84, most = 240, part = 0.34, share = 0.03;  // of a low canvas, of a small one
  const double aspect = scene->bounds().width() / scene->bounds().height();
  double w = std::clamp(std::sqrt(area * aspect), least, most), h = std::clamp(std::sqrt(area / aspect), least, most);
  const double shrink = std::min({1.0, part * canvas_->width() / w, part * canvas_->height() / h,
                                  std::sqrt(share * canvas_->width() * canvas_->height() / (w * h))});
  const QSize wanted(static_cast<int>(std::max(shrink * w, least / 2)), static_cast<int>(shrink * h));
  if (wanted == size()) return;
  resize(wanted);
  picture_ = {};
}

double Overview::factor() const {
  const QRectF b = canvas_->scene()->bounds();
  return std::min((width() - 12) / b.width(), (height() - 12) / b.height());
}

QPointF Overview::offset() const {
  const QSizeF s = canvas_->scene()->bounds().size() * factor();
  return {(width() - s.width()) / 2, (height() - s.height()) / 2};
}

void Overview::paintEvent(QPaintEvent*) {
  const SceneRef scene = canvas_->scene();
  if (!scene || scene->view.boxes.empty()) return;
  const QPalette colors = palette();
  if (picture_.isNull()) {
    const double dpr = devicePixelRatioF();
    picture_ = QPixmap(size() * dpr);
    picture_.setDevicePixelRatio(dpr);
    picture_.fill(Qt::transparent);
    QPainter p(&picture_);
    p.setRenderHint(QPainter::Antialiasing);
    QColor back = colors.color(QPalette::Base);
    back.setAlpha(235);
    p.setBrush(back);
    p.setPen(colors.color(QPalette::Mid));
    p.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6);
    p.translate(offset());
    p.scale(factor(), factor());
    const Palette shades = graft::palette(back.lightness() < 128 ? Theme::Dark : Theme::Light);
    p.setPen(Qt::NoPen);
    for (size_t i = 0; i < scene->view.boxes.size(); ++i) {
      const Box& box = scene->view.boxes[i];
      p.setBrush(
          toQt(box.open ? shades.container(scene->depth[i] + 1) : mix(shades.surface, shades.border(box.kind), 0.55)));
      p.drawRect(scene->rect(static_cast<int>(i)));
    }
    // What matches or changed, large enough to be seen.
    const BoxDecorations& marks = canvas_->boxDecorations();
    const double least = 4 / factor();
    for (const int box : marks.marked) {
      const auto i = static_cast<size_t>(box);
      if (i >= marks.change.size() || i >= scene->view.boxes.size()) continue;
      const QRectF r = scene->rect(box);
      const double w = std::max(r.width(), least), h = std::max(r.height(), least);
      p.setBrush(toQt(marks.change[i] != Change::None ? shades.change(marks.change[i]) : shades.pattern(0)));
      p.drawRect(QRectF(r.center().x() - w / 2, r.center().y() - h / 2, w, h));
    }
  }
  QPainter p(this);
  p.drawPixmap(0, 0, picture_);
  p.setRenderHint(QPainter::Antialiasing);
  const QRectF r = seen();
  QColor accent = colors.color(QPalette::Highlight);
  p.setPen(QPen(accent, 1.5));
  accent.setAlpha(28);
  p.setBrush(accent);
  p.drawRoundedRect(r, 2, 2);
}

QRectF Overview::seen() const {
  const QRectF v = canvas_->visibleSceneRect() & canvas_->scene()->bounds();
  const double f = factor();
  return {v.x() * f + offset().x(), v.y() * f + offset().y(), std::max(5.0, v.width() * f),
          std::max(5.0, v.height() * f)};
}

void Overview::go(QPointF at) { canvas_->panTo((at - held_ - offset()) / factor()); }

/// What is in view is taken where it is held; a click beside it goes there.
void Overview::mousePressEvent(QMouseEvent* e) {
  if (!canvas_->scene()) return;
  const QPointF middle = canvas_->visibleSceneRect().center() * factor() + offset();
  isHeld_ = true;
  held_ = seen().contains(e->position()) ? e->position() - middle : QPointF();
  go(e->position());
}

void Overview::mouseReleaseEvent(QMouseEvent*) { isHeld_ = false; }

void Overview::mouseMoveEvent(QMouseEvent* e) {
  if (canvas_->scene() && e->buttons() != Qt::NoButton) go(e->position());
}

}  // namespace graft
