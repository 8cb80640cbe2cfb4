// The canvas's mouse and keyboard.
#include <QContextMenuEvent>
#include <QDragEnterEvent>
#include <QGuiApplication>
#include <QHelpEvent>
#include <QMimeData>
#include <QStyleHints>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "views/canvas/canvas.h"
#include "views/canvas/canvas_frame.h"
#include "views/canvas/hover_card.h"
#include "views/document/graph_decode.h"

namespace graft {

void Canvas::wheelEvent(QWheelEvent* e) {
  if (!scene_) return;
  const bool zoom = !(e->modifiers() & (Qt::ShiftModifier | Qt::AltModifier));
  if (e->phase() != Qt::NoScrollPhase && !(e->modifiers() & Qt::ControlModifier) && !e->pixelDelta().isNull()) {
    pan(e->pixelDelta());  // a touch pad scrolls; pinching and Ctrl zoom
  } else if (zoom) {
    zoomBy(std::pow(1.0016, e->angleDelta().y()), e->position());
  } else {
    pan(QPointF(e->angleDelta().y(), e->angleDelta().x()) / 2);
  }
  e->accept();
}

void Canvas::mousePressEvent(QMouseEvent* e) {
  setFocus(Qt::MouseFocusReason);
  press_ = last_ = e->pos();
  pressed_ = e->button() == Qt::LeftButton || e->button() == Qt::MiddleButton;
  dragging_ = false;
}

void Canvas::mouseMoveEvent(QMouseEvent* e) {
  if (!scene_) return;
  if (pressed_) {
    if (!dragging_ && (e->pos() - press_).manhattanLength() < QGuiApplication::styleHints()->startDragDistance())
      return;
    dragging_ = true;
    setCursor(Qt::ClosedHandCursor);
    pan(e->pos() - last_);
    last_ = e->pos();
    return;
  }
  // An arrow to what is out of sight says what a click does.
  const CanvasFrame framed = frame();
  const auto& marks = framed.marks();
  const bool isMark =
      std::any_of(marks.begin(), marks.end(), [&](const auto& m) { return m.place.contains(e->position()); });
  if (isMark)
    setCursor(Qt::PointingHandCursor);
  else
    unsetCursor();
  pointAtFrame(framed.legendPlace().contains(e->position()), framed.topPlace().contains(e->position()));
  const int box = isMark || isLegendOpen_ ? -1 : scene_->boxAt(toScene(e->position()));
  if (box == hover_) return;
  card_->hide();
  hover_ = box >= 0 && scene_->view.boxes[static_cast<size_t>(box)].open ? -1 : box;
  update();
  Q_EMIT hovered(hover_ < 0 ? QString() : selectionKey(*graph_, scene_->view.boxes[static_cast<size_t>(hover_)]));
}

void Canvas::mouseReleaseEvent(QMouseEvent* e) {
  const bool clicked = pressed_ && !dragging_ && e->button() == Qt::LeftButton;
  pressed_ = dragging_ = false;
  unsetCursor();
  if (!clicked || !scene_) return;
  const CanvasFrame framed = frame();
  for (const EdgeMark& m : framed.marks())
    if (m.place.contains(e->position())) return panTo(scene_->rect(m.nearest).center());
  if (const int edge = edgeUnder(e->position()); edge >= 0 && edgeLeads_(edge) && e->modifiers() == Qt::NoModifier)
    return Q_EMIT edgeClicked(edge);
  const int box = scene_->boxAt(toScene(e->position()));
  QStringList keys;
  if (e->modifiers() & (Qt::ControlModifier | Qt::ShiftModifier)) keys = selection_;
  if (box >= 0) {
    const QString key = selectionKey(*graph_, scene_->view.boxes[static_cast<size_t>(box)]);
    if (keys.contains(key))
      keys.removeAll(key);
    else
      keys << key;
  }
  setSelection(keys);
  Q_EMIT selectionEdited(keys);
}

void Canvas::mouseDoubleClickEvent(QMouseEvent* e) {
  if (!scene_) return;
  const QPointF p = toScene(e->position());
  const int box = scene_->boxAt(p);
  if (box < 0) return;
  const Box& b = scene_->view.boxes[static_cast<size_t>(box)];
  // A click on ×N shows all the blocks of the run.
  if (b.repeat > 1 && p.x() > scene_->rect(box).right() - 44 && p.y() < scene_->rect(box).top() + 26)
    return unfold(box);
  toggle(box, e->position());
}

void Canvas::keyPressEvent(QKeyEvent* e) {
  if (e->key() == Qt::Key_Escape && card_->isVisible()) return card_->hide();
  switch (e->key()) {
    case Qt::Key_I:
      return e->modifiers() & Qt::ShiftModifier ? navigateToSibling(-1) : navigate(-1);
    case Qt::Key_O:
      return e->modifiers() & Qt::ShiftModifier ? navigateToSibling(1) : navigate(1);
    case Qt::Key_N:
      return navigate(e->modifiers() & Qt::ShiftModifier ? -2 : 2);
    case Qt::Key_Space:
      if (e->modifiers() & Qt::ShiftModifier && scene_ && !selection_.isEmpty())
        return unfold(scene_->boxOf(selection_.first()));
      return toggleSelected();
    case Qt::Key_H:
      return showCardOfSelection();
    case Qt::Key_Left:
      return pan({60, 0});
    case Qt::Key_Right:
      return pan({-60, 0});
    case Qt::Key_Up:
      return pan({0, 60});
    case Qt::Key_Down:
      return pan({0, -60});
    case Qt::Key_PageDown:
      return pan({0, -height() * 0.8});
    case Qt::Key_PageUp:
      return pan({0, height() * 0.8});
    case Qt::Key_Plus:
    case Qt::Key_Equal:
      return zoomIn();
    case Qt::Key_Minus:
      return zoomOut();
    case Qt::Key_Home:
      return fit();
    case Qt::Key_Escape:
      setSelection({});
      Q_EMIT selectionEdited({});
      return Q_EMIT escaped();
    default:
      QWidget::keyPressEvent(e);
  }
}

void Canvas::navigate(int direction) {
  if (!scene_ || scene_->view.boxes.empty()) return;
  const int box = selection_.isEmpty() ? -1 : scene_->boxOf(selection_.first());
  if (box >= 0 && std::abs(direction) == 1) return navigateTo(selection_.first(), direction, 0);
  int to = 0;
  if (box < 0) {
    to = scene_->view.roots.empty() ? 0 : scene_->view.roots.front();
  } else {
    const int count = static_cast<int>(scene_->view.boxes.size());
    to = (box + (direction > 0 ? 1 : count - 1)) % count;
  }
  reveal(selectionKey(*graph_, scene_->view.boxes[static_cast<size_t>(to)]));
}

void Canvas::navigateTo(QString from, int direction, qsizetype number) {
  const int box = scene_->boxOf(from);
  if (box < 0) return;
  // Several values may flow along one way.
  std::vector<int> ends;
  for (const int e :
       direction < 0 ? scene_->inEdges[static_cast<size_t>(box)] : scene_->outEdges[static_cast<size_t>(box)]) {
    const VisibleEdge& edge = scene_->view.edges[static_cast<size_t>(e)];
    const int end = direction < 0 ? edge.from : edge.to;
    if (std::find(ends.begin(), ends.end(), end) == ends.end()) ends.push_back(end);
  }
  if (ends.empty()) return;
  number %= static_cast<qsizetype>(ends.size());
  const QString to = selectionKey(*graph_, scene_->view.boxes[static_cast<size_t>(ends[static_cast<size_t>(number)])]);
  reveal(to);
  navigation_ = {std::move(from), to, direction, number};
}

void Canvas::navigateToSibling(int direction) {
  if (!scene_ || selection_.isEmpty()) return navigate(direction);
  if (navigation_.direction == direction && navigation_.to == selection_.first())
    navigateTo(navigation_.from, direction, navigation_.number + 1);
  else
    navigateTo(selection_.first(), direction, 1);
}

/// Who comes by keyboard sees where it is.
void Canvas::focusInEvent(QFocusEvent* e) {
  const Qt::FocusReason reason = e->reason();
  showsFocus_ = reason == Qt::TabFocusReason || reason == Qt::BacktabFocusReason || reason == Qt::ShortcutFocusReason;
  QWidget::focusInEvent(e);
  update();
}

void Canvas::focusOutEvent(QFocusEvent* e) {
  showsFocus_ = false;
  card_->hide();
  QWidget::focusOutEvent(e);
  update();
}

void Canvas::leaveEvent(QEvent*) {
  hover_ = -1;
  pointAtFrame(false, false);
  card_->hide();
  update();
  Q_EMIT hovered({});
}

CardText Canvas::tellOf(int index) {
  const auto i = static_cast<size_t>(index);
  const Box& box = scene_->view.boxes[i];
  CardExtra extra;
  if (kernelOf_ && box.node) extra.kernel = kernelOf_(toQt(graph_->node(box.node).name));
  if (const double heat = boxes_.heat[i]; boxes_.anyHeat && !std::isnan(heat))
    extra.measured = decorations_.heatTitle + QStringLiteral(": ") + heatText(heat, decorations_.heatUnit);
  const size_t spelling = places_.scale() == scale_ ? places_.spellings().of(box.title) : 0;
  if (spelling > 0) extra.shownAs = toQt(spelled(box.title, formsOf(box.title), spelling));
  CardText text = cardOf(*scene_, index, extra);
  setAccessibleDescription(text.plain());
  return text;
}

void Canvas::showCard(int index) {
  if (!scene_ || index < 0) return card_->hide();
  const QRectF place(toWidget(scene_->rect(index).topLeft()), scene_->rect(index).size() * scale_);
  const QRect seen = (place.toAlignedRect() & rect()).translated(mapToGlobal(QPoint()));
  card_->show(tellOf(index), seen, palette_);
}

void Canvas::showCardOfSelection() {
  if (!scene_ || selection_.isEmpty()) return card_->hide();
  showCard(card_->isVisible() ? -1 : scene_->boxOf(selection_.first()));
}

int Canvas::edgeUnder(QPointF point) const {
  if (!edgeTip_ || !scene_) return -1;
  const int box = scene_->boxAt(toScene(point));
  if (box >= 0 && !scene_->view.boxes[static_cast<size_t>(box)].open) return -1;
  constexpr double near = 5;  // pixels
  int other = -1;
  for (const int edge : scene_->edgesAt(toScene(point), near / scale_)) {
    if (edgeLeads_(edge)) return edge;
    if (other < 0 && !edgeTip_(edge).isEmpty()) other = edge;
  }
  return other;
}

bool Canvas::event(QEvent* e) {
  if (e->type() == QEvent::ToolTip && scene_) {
    auto* help = static_cast<QHelpEvent*>(e);
    if (const int edge = edgeUnder(help->pos()); edge >= 0) {
      QToolTip::showText(help->globalPos(), edgeTip_(edge), this);
      return true;
    }
    const int box = scene_->boxAt(toScene(help->pos()));
    if (box >= 0 && !scene_->view.boxes[static_cast<size_t>(box)].open)
      showCard(box);
    else
      QToolTip::hideText();
    return true;
  }
  return QWidget::event(e);
}

void Canvas::dragEnterEvent(QDragEnterEvent* e) {
  if (e->mimeData()->hasUrls()) e->acceptProposedAction();
}

void Canvas::dropEvent(QDropEvent* e) {
  for (const QUrl& url : e->mimeData()->urls())
    if (url.isLocalFile()) Q_EMIT fileDropped(url.toLocalFile());
}

void Canvas::contextMenuEvent(QContextMenuEvent* e) {
  if (!scene_) return;
  if (e->reason() == QContextMenuEvent::Keyboard) {  // it is about what is selected, wherever the pointer is
    const int selected = selection_.isEmpty() ? -1 : scene_->boxOf(selection_.first());
    const QPointF at = selected < 0 ? QPointF(rect().center()) : toWidget(scene_->rect(selected).center());
    const QPoint seen(std::clamp(static_cast<int>(at.x()), 0, width()),
                      std::clamp(static_cast<int>(at.y()), 0, height()));
    return Q_EMIT menuAsked(mapToGlobal(seen), selected < 0 ? QString() : selection_.first());
  }
  if (const int edge = edgeUnder(e->pos()); edge >= 0) return Q_EMIT edgeMenuAsked(e->globalPos(), edge);
  const int box = scene_->boxAt(toScene(e->pos()));
  Q_EMIT menuAsked(e->globalPos(),
                   box < 0 ? QString() : selectionKey(*graph_, scene_->view.boxes[static_cast<size_t>(box)]));
}

}  // namespace graft
