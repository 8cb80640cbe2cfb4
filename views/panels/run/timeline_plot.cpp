#include "views/panels/run/timeline_plot.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "views/canvas/canvas_paint.h"
#include "views/canvas/small_text.h"
#include "views/widgets/qt_color.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

constexpr double mostHeight = 46;  ///< of a lane
constexpr double nameWidth = 78, totalWidth = 104;

}  // namespace

TimelinePlot::TimelinePlot(QWidget* parent) : Plot(QStringLiteral("timeline"), tr("Timeline"), parent), lanes_(2) {
  setMinimumHeight(110);
  setMouseTracking(true);
  setNames(tr("original"), tr("rewritten"));
}

void TimelinePlot::setNames(const QString& first, const QString& second) {
  names_[0] = first;
  names_[1] = second;
}

void TimelinePlot::setSpans(std::vector<Span> original, std::vector<Span> rewritten) {
  setLanes({{names_[0], std::move(original), {}}, {names_[1], std::move(rewritten), {}}});
}

void TimelinePlot::setLanes(std::vector<Lane> lanes, double total) {
  lanes_ = std::move(lanes);
  total_ = total;
  for (const Lane& lane : lanes_)
    if (!lane.spans.empty()) total_ = std::max(total_, lane.spans.back().start + lane.spans.back().microseconds);
  from_ = 0;
  shown_ = total_;
  setMinimumHeight(std::max(110, 34 + 16 * static_cast<int>(lanes_.size())));
  stopsChanged();
}

QRectF TimelinePlot::laneRect(size_t lane) const {
  const double count = std::max<double>(1, static_cast<double>(lanes_.size()));
  const double h = count > 2 ? std::min(mostHeight, (height() - 34) / count) : (height() - 34) / count;
  const bool hasTotals = std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& l) { return !l.total.isEmpty(); });
  const double gap = std::min(8.0, h / 4);
  return {nameWidth, 4 + static_cast<double>(lane) * h, width() - nameWidth - (hasTotals ? totalWidth : 12), h - gap};
}

double TimelinePlot::xOf(double us) const {
  const QRectF r = laneRect(0);
  return r.left() + r.width() * (us - from_) / std::max(1e-9, shown_);
}

namespace {

/// As many of the last parts of a module's path as have room: "output.dense".
QString endOf(const QString& path, const SmallText& letters, double room) {
  QString end;
  const QStringList parts = path.split(QLatin1Char('.'));
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const QString longer = end.isEmpty() ? *part : *part + QLatin1Char('.') + end;
    if (letters.width(QStringView(longer)) > room) break;
    end = longer;
  }
  return end;
}

/// What ran, as titles of boxes are set, and below it where.
void writeLabel(QPainter& p, const QString& label, const QRectF& bar) {
  constexpr int size = 10;
  constexpr double line = 13;
  const qsizetype end = label.lastIndexOf(QLatin1Char(' '));  // a path has none
  const SmallTitle what =
      smallTitle(label.left(end).toStdString(), size, bar.width(), bar.height() >= 2 * line ? 2 : 1);
  if (what.form == SmallTitle::Form::None) return;
  const QString where = end < 0 ? QString() : label.mid(end + 1);
  const SmallText& thin = SmallText::ofSize(size, QFont::Normal);
  QString second = what.second;
  if (what.form == SmallTitle::Form::Whole && bar.height() >= 2 * line) second = endOf(where, thin, bar.width());
  const double middle = bar.center().y() - (second.isEmpty() ? 0 : line / 2);
  p.setPen(toQt(themePalette().text));
  p.setFont(what.letters->font());
  p.drawText(QPointF(bar.left(), middle + what.letters->drop()), what.first);
  if (what.second.isEmpty()) p.setFont(thin.font());
  p.drawText(QPointF(bar.left(), middle + line + what.letters->drop()), second);
}

}  // namespace

void TimelinePlot::draw(QPainter& p) {
  const Palette& colors = themePalette();
  if (total_ <= 0 || lanes_.empty()) return;
  const QRectF first = laneRect(0);
  const double bottom = laneRect(lanes_.size() - 1).bottom() + 4;
  p.setFont(drawingFont(11, QFont::Normal));
  const double step = roundStep(shown_ / 6);
  for (double v = std::ceil(from_ / step) * step; v <= from_ + shown_; v += step) {
    p.setPen(toQt(colors.grid));
    p.drawLine(QPointF(xOf(v), first.top()), QPointF(xOf(v), bottom));
    p.setPen(toQt(colors.dim));
    p.drawText(
        QRectF(xOf(v) - 40, bottom + 2, 80, 16), Qt::AlignCenter,
        shown_ >= 5000 ? QStringLiteral("%1 ms").arg(v / 1000, 0, 'g', 4) : QStringLiteral("%1 µs").arg(v, 0, 'g', 5));
  }
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    const QRectF r = laneRect(lane);
    p.setFont(drawingFont(12, QFont::Medium));
    p.setPen(toQt(colors.text));
    p.drawText(QRectF(0, r.top(), 70, r.height()), Qt::AlignRight | Qt::AlignVCenter,
               p.fontMetrics().elidedText(lanes_[lane].name, Qt::ElideRight, 70));
    if (!lanes_[lane].total.isEmpty()) {
      p.setFont(drawingFont(11, QFont::Normal));
      p.setPen(toQt(colors.dim));
      p.drawText(QRectF(r.right() + 8, r.top(), totalWidth - 12, r.height()), Qt::AlignLeft | Qt::AlignVCenter,
                 lanes_[lane].total);
    }
    p.save();
    p.setClipRect(r.adjusted(-1, 0, 1, 0));
    double drawnTo = -INFINITY;
    for (const Span& s : lanes_[lane].spans) {
      const double a = xOf(s.start), b = xOf(s.start + s.microseconds);
      if (b < r.left() || a > r.right() || b - drawnTo < 0.4) continue;  // thinner than can be seen
      drawnTo = b;
      const QRectF bar(a, r.top() + 1, std::max(0.6, b - a), std::max(2.0, r.height() - 2));
      p.fillRect(bar, toQt(mix(colors.background, colors.border(s.kind), 0.62)));
      if (b - a > 3) {
        p.setPen(QPen(toQt(colors.background), 1));
        p.drawLine(bar.topLeft(), bar.bottomLeft());
      }
      if (b - a > 18 && r.height() >= 12) writeLabel(p, s.label, bar.adjusted(4, 0, -2, 0));
    }
    p.restore();
  }
}

const TimelinePlot::Span* TimelinePlot::spanAt(QPointF at) const {
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (!laneRect(lane).contains(at)) continue;
    const double us = from_ + shown_ * (at.x() - laneRect(0).left()) / laneRect(0).width();
    for (const Span& s : lanes_[lane].spans)
      if (us >= s.start && us < s.start + s.microseconds) return &s;
  }
  return nullptr;
}

void TimelinePlot::clampView() {
  shown_ = std::clamp(shown_, std::min(total_, 1.0), total_);
  from_ = std::clamp(from_, 0.0, total_ - shown_);
  update();
}

void TimelinePlot::zoom(double factor, double fixed) {
  const double part = (fixed - from_) / std::max(1e-9, shown_);
  shown_ = std::clamp(shown_ * factor, std::min(total_, 1.0), total_);
  from_ = fixed - part * shown_;
  clampView();
}

void TimelinePlot::wheelEvent(QWheelEvent* e) {
  const double part = (e->position().x() - laneRect(0).left()) / laneRect(0).width();
  zoom(std::pow(0.998, e->angleDelta().y()), from_ + part * shown_);
  e->accept();
}

int TimelinePlot::stopCount() const {
  size_t count = 0;
  for (const Lane& lane : lanes_) count += lane.spans.size();
  return static_cast<int>(count);
}

std::pair<size_t, size_t> TimelinePlot::placeOf(int stop) const {
  auto left = static_cast<size_t>(stop);
  size_t lane = 0;
  while (left >= lanes_[lane].spans.size()) left -= lanes_[lane++].spans.size();
  return {lane, left};
}

const TimelinePlot::Span& TimelinePlot::spanOf(int stop) const {
  const auto [lane, i] = placeOf(stop);
  return lanes_[lane].spans[i];
}

QString TimelinePlot::stopText(int stop) const {
  const Span& s = spanOf(stop);
  return tr("%1, %2\n%3 µs of %4")
      .arg(lanes_[placeOf(stop).first].name, s.label)
      .arg(s.microseconds, 0, 'f', 1)
      .arg(total_, 0, 'f', 0);
}

QRectF TimelinePlot::stopRect(int stop) const {
  constexpr double least = 4;
  const Span& s = spanOf(stop);
  const QRectF lane = laneRect(placeOf(stop).first);
  const double a = xOf(s.start), b = std::max(xOf(s.start + s.microseconds), a + least);
  return QRectF(a, lane.top(), b - a, lane.height()).adjusted(-1, -1, 1, 1);
}

void TimelinePlot::chooseStop(int stop) {
  if (const Span& s = spanOf(stop); !s.node.isEmpty()) Q_EMIT chosen(s.node);
}

/// Up and down lead to what runs at the same time in another lane.
int TimelinePlot::stopBy(int key) const {
  if (stop() < 0 || (key != Qt::Key_Up && key != Qt::Key_Down)) return Plot::stopBy(key);
  const auto [own, at] = placeOf(stop());
  const double middle = lanes_[own].spans[at].start + lanes_[own].spans[at].microseconds / 2;
  int first = 0, found = stop();
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    const auto& spans = lanes_[lane].spans;
    const bool isNext = key == Qt::Key_Down ? lane > own && found == stop() : lane < own;
    if (isNext && !spans.empty()) {
      const auto after = std::upper_bound(spans.begin(), spans.end(), middle,
                                          [](double time, const Span& s) { return time < s.start; });
      found = first + std::max(0, static_cast<int>(after - spans.begin()) - 1);
    }
    first += static_cast<int>(spans.size());
  }
  return found;
}

void TimelinePlot::keyPressEvent(QKeyEvent* e) {
  constexpr double step = 0.6;
  const bool isIn = e->key() == Qt::Key_Plus || e->key() == Qt::Key_Equal;
  if (total_ > 0 && !(e->modifiers() & Qt::ControlModifier)) {
    const double fixed = stop() < 0 ? from_ + shown_ / 2 : spanOf(stop()).start + spanOf(stop()).microseconds / 2;
    if (isIn || e->key() == Qt::Key_Minus) return zoom(isIn ? step : 1 / step, fixed);
    if (e->key() == Qt::Key_0) return zoom(INFINITY, fixed);
  }
  const int before = stop();
  Plot::keyPressEvent(e);
  if (stop() < 0 || stop() == before) return;
  const Span& s = spanOf(stop());
  if (s.start >= from_ && s.start + s.microseconds <= from_ + shown_) return;
  from_ = s.start + s.microseconds / 2 - shown_ / 2;
  clampView();
  setStop(stop());  // its words move with it
}

void TimelinePlot::mousePressEvent(QMouseEvent* e) {
  pressX_ = e->position().x();
  pressFrom_ = from_;
  dragged_ = false;
}

void TimelinePlot::mouseMoveEvent(QMouseEvent* e) {
  if (!(e->buttons() & Qt::LeftButton)) return;
  if (std::abs(e->position().x() - pressX_) > 4) dragged_ = true;
  from_ = pressFrom_ - (e->position().x() - pressX_) / laneRect(0).width() * shown_;
  clampView();
}

void TimelinePlot::mouseReleaseEvent(QMouseEvent* e) {
  if (e->button() != Qt::LeftButton || dragged_) return;
  if (const Span* s = spanAt(e->position()); s && !s->node.isEmpty()) Q_EMIT chosen(s->node);
}

void TimelinePlot::mouseDoubleClickEvent(QMouseEvent*) {
  from_ = 0;
  shown_ = total_;
  clampView();
}

bool TimelinePlot::event(QEvent* e) {
  if (e->type() == QEvent::ToolTip) {
    auto* help = static_cast<QHelpEvent*>(e);
    if (const Span* s = spanAt(help->pos()))
      QToolTip::showText(help->globalPos(),
                         tr("%1\n%2 µs of %3\nWheel or + and −: zoom. Double click or 0: all. Right click: save")
                             .arg(s->label)
                             .arg(s->microseconds, 0, 'f', 1)
                             .arg(total_, 0, 'f', 0),
                         this);
    else
      QToolTip::hideText();
    return true;
  }
  return Plot::event(e);
}

}  // namespace graft
