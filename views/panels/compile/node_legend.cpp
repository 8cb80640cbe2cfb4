#include "views/panels/compile/node_legend.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>

#include "views/widgets/qt_color.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

constexpr int inset = 5, gap = 4, arrowWidth = 18, mostLetters = 28;

/// Of the field that has the colour and the number.
int swatchWidth(const QFontMetrics& metrics, qsizetype place) {
  return std::max(metrics.height(), metrics.horizontalAdvance(nodeNumber(place)) + 6);
}

}  // namespace

NodeMark nodeMark(qsizetype place) {
  const qsizetype round = std::min<qsizetype>(place / NodeMark::colours, NodeMark::Dotted);
  return {static_cast<size_t>(place % NodeMark::colours), static_cast<NodeMark::Line>(round)};
}

QString nodeNumber(qsizetype place) { return QString::number(place + 1); }

NodeLegend::NodeLegend(QWidget* parent) : QWidget(parent) {
  setAccessibleName(tr("Nodes of the kernel and their colours"));
  setFocusPolicy(Qt::TabFocus);
  setMouseTracking(true);
  setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
}

QSize NodeLegend::minimumSizeHint() const { return {0, fontMetrics().height() + 8}; }
QSize NodeLegend::sizeHint() const { return {whole_, minimumSizeHint().height()}; }

void NodeLegend::setNodes(const QStringList& nodes) {
  if (nodes == nodes_) return;
  nodes_ = nodes;
  offset_ = 0;
  hovered_ = -1;
  lay();
}

void NodeLegend::setNode(const QString& node) {
  node_ = node;
  bringIntoView(nodes_.indexOf(node));
  update();
}

void NodeLegend::lay() {
  entries_.clear();
  whole_ = 0;
  const QFontMetrics metrics = fontMetrics();
  for (qsizetype i = 0; i < nodes_.size(); ++i) {
    Entry e;
    e.words = nodes_[i].size() > mostLetters ? nodes_[i].left(mostLetters - 1) + QChar(0x2026) : nodes_[i];
    e.left = whole_;
    e.width = 2 * inset + swatchWidth(metrics, i) + gap + metrics.horizontalAdvance(e.words);
    whole_ += e.width + gap;
    entries_ << e;
  }
  setToolTip(QString());
  updateGeometry();
  scrollTo(offset_);
  update();
}

bool NodeLegend::isScrollable() const { return whole_ - gap > width(); }

QRect NodeLegend::room() const { return isScrollable() ? rect().adjusted(arrowWidth, 0, -arrowWidth, 0) : rect(); }

void NodeLegend::scrollTo(int offset) {
  offset_ = std::clamp(offset, 0, std::max(0, whole_ - gap - room().width()));
  update();
}

/// The least that brings all of the entry into view.
void NodeLegend::bringIntoView(qsizetype entry) {
  if (entry < 0 || entry >= entries_.size()) return;
  const Entry& e = entries_[entry];
  if (e.left < offset_)
    scrollTo(e.left);
  else if (e.left + e.width > offset_ + room().width())
    scrollTo(e.left + e.width - room().width());
}

QRect NodeLegend::rectOf(const QString& node) const {
  const qsizetype i = nodes_.indexOf(node);
  if (i < 0) return {};
  const Entry& e = entries_[i];
  return QRect(room().left() + e.left - offset_, 0, e.width, height()) & room();
}

qsizetype NodeLegend::entryAt(const QPoint& at) const {
  if (!room().contains(at)) return -1;
  const int x = at.x() - room().left() + offset_;
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& e) { return x >= e.left && x < e.left + e.width; });
  return it == entries_.end() ? -1 : it - entries_.begin();
}

void NodeLegend::hover(qsizetype entry) {
  if (entry == hovered_) return;
  hovered_ = entry;
  Q_EMIT hovered(entry < 0 ? QString() : nodes_[entry]);
  update();
}

bool NodeLegend::event(QEvent* e) {
  if (e->type() != QEvent::ToolTip) return QWidget::event(e);
  const auto* help = static_cast<QHelpEvent*>(e);
  const qsizetype entry = entryAt(help->pos());
  if (entry >= 0)
    QToolTip::showText(
        help->globalPos(),
        tr("%1: number %2 of %3. A click selects it").arg(nodes_[entry], nodeNumber(entry)).arg(nodes_.size()));
  else if (isScrollable() && !room().contains(help->pos()))
    QToolTip::showText(help->globalPos(), tr("Scrolls to the kernel's other nodes"));
  else
    QToolTip::hideText();
  return true;
}

void NodeLegend::paintEntry(QPainter& painter, qsizetype entry) const {
  const Palette& p = themePalette();
  const Entry& e = entries_[entry];
  const QFontMetrics metrics = fontMetrics();
  const QRect r(room().left() + e.left - offset_, 1, e.width, height() - 2);
  const bool isChosen = nodes_[entry] == node_;
  if (isChosen || entry == hovered_) {
    painter.setPen(isChosen ? QPen(toQt(p.accent), hasFocus() ? 2.2 : 1.4) : QPen(Qt::NoPen));
    painter.setBrush(toQt(mix(p.surface, p.text, entry == hovered_ ? 0.08 : 0)));
    painter.drawRoundedRect(QRectF(r).adjusted(1, 1, -1, -1), 4, 4);
  }
  const NodeMark mark = nodeMark(entry);
  const Color hue = p.pattern(mark.colour);
  const int side = metrics.height();
  const QRect swatch(r.left() + inset, r.center().y() - side / 2 + 1, swatchWidth(metrics, entry), side - 2);
  painter.setPen(Qt::NoPen);
  painter.setBrush(toQt(mix(p.background, hue, p.dark ? 0.4 : 0.3)));
  painter.drawRoundedRect(swatch, 3, 3);
  QPen border(toQt(hue), 1.4);
  if (mark.line == NodeMark::None) {
    painter.setPen(border);
    painter.drawRoundedRect(QRectF(swatch), 3, 3);
  } else {
    border.setWidthF(2.4);
    if (mark.line == NodeMark::Dotted) border.setStyle(Qt::DotLine);
    painter.setPen(border);
    painter.drawLine(swatch.bottomLeft(), swatch.bottomRight());
  }
  painter.setPen(toQt(p.text));
  painter.drawText(swatch, Qt::AlignCenter, nodeNumber(entry));
  painter.drawText(QRect(swatch.right() + 1 + gap, r.top(), r.right() - swatch.right(), r.height()),
                   Qt::AlignLeft | Qt::AlignVCenter, e.words);
}

void NodeLegend::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setClipRect(room());
  for (qsizetype i = 0; i < entries_.size(); ++i)
    if (entries_[i].left + entries_[i].width > offset_ && entries_[i].left < offset_ + room().width())
      paintEntry(painter, i);
  painter.setClipping(false);
  if (!isScrollable()) return;
  const Palette& p = themePalette();
  const bool hasMore[] = {offset_ > 0, offset_ < whole_ - gap - room().width()};
  for (const bool isRight : {false, true}) {
    const double x = isRight ? width() - arrowWidth / 2.0 : arrowWidth / 2.0, y = height() / 2.0, d = isRight ? 3 : -3;
    painter.setPen(QPen(toQt(hasMore[isRight] ? p.text : mix(p.surface, p.text, 0.25)), 1.6));
    painter.drawPolyline(QPolygonF{QPointF(x - d / 2, y - 4), QPointF(x + d / 2, y), QPointF(x - d / 2, y + 4)});
  }
}

void NodeLegend::resizeEvent(QResizeEvent* e) {
  QWidget::resizeEvent(e);
  scrollTo(offset_);
  bringIntoView(nodes_.indexOf(node_));
}

void NodeLegend::mousePressEvent(QMouseEvent* e) {
  if (e->button() != Qt::LeftButton) return QWidget::mousePressEvent(e);
  const QPoint at = e->position().toPoint();
  if (const qsizetype entry = entryAt(at); entry >= 0) return Q_EMIT clicked(nodes_[entry]);
  if (!room().contains(at)) scrollTo(offset_ + (at.x() < width() / 2 ? -1 : 1) * room().width() * 2 / 3);
}

void NodeLegend::mouseMoveEvent(QMouseEvent* e) { hover(entryAt(e->position().toPoint())); }

void NodeLegend::leaveEvent(QEvent*) { hover(-1); }

void NodeLegend::wheelEvent(QWheelEvent* e) {
  if (!isScrollable()) return e->ignore();
  const QPoint turned = e->angleDelta();
  scrollTo(offset_ - (turned.x() != 0 ? turned.x() : turned.y()) / 2);
  e->accept();
}

void NodeLegend::keyPressEvent(QKeyEvent* e) {
  const qsizetype now = nodes_.indexOf(node_), last = nodes_.size() - 1;
  qsizetype to = -1;
  if (e->key() == Qt::Key_Left) to = std::max<qsizetype>(0, now - 1);
  if (e->key() == Qt::Key_Right) to = std::min(last, now + 1);
  if (e->key() == Qt::Key_Home) to = 0;
  if (e->key() == Qt::Key_End) to = last;
  if (to < 0 || last < 0) return QWidget::keyPressEvent(e);
  if (to != now) Q_EMIT clicked(nodes_[to]);
}

void NodeLegend::changeEvent(QEvent* e) {
  QWidget::changeEvent(e);
  if (e->type() == QEvent::FontChange || e->type() == QEvent::StyleChange) lay();
}

}  // namespace graft
