#include "views/panels/captured/training_charts.h"

#include <QHelpEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "views/widgets/qt_color.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

constexpr double left = 62, right = 14, top = 26, bottom = 34;
constexpr int least = 110;

void drawTitle(QPainter& p, const QRectF& area, const QString& title) {
  p.setPen(toQt(themePalette().text));
  p.drawText(QRectF(area.left() - left + 8, 2, area.width() + left, top - 4), Qt::AlignVCenter,
             p.fontMetrics().elidedText(title, Qt::ElideRight, static_cast<int>(area.width() + left - 16)));
}

/// The axis' least and largest value, at the left or below.
void drawAxes(QPainter& p, const QRectF& area, const QString& most) {
  p.setPen(toQt(themePalette().edge));
  p.drawLine(area.bottomLeft(), area.bottomRight());
  p.drawLine(area.bottomLeft(), area.topLeft());
  p.setPen(toQt(themePalette().dim));
  p.drawText(QRectF(0, area.top() - 8, left - 6, 16), Qt::AlignRight | Qt::AlignVCenter, most);
  p.drawText(QRectF(0, area.bottom() - 8, left - 6, 16), Qt::AlignRight | Qt::AlignVCenter, QStringLiteral("0"));
}

}  // namespace

LiveMemoryPlot::LiveMemoryPlot(TrainingCut& cut, QWidget* parent)
    : Plot(QStringLiteral("memory"), tr("Memory of activations over the step"), parent), cut_(cut) {
  setMouseTracking(true);
  setMinimumHeight(least);
  connect(&cut_, &TrainingCut::changed, this, [this] { stopsChanged(); });
}

QRectF LiveMemoryPlot::area() const { return QRectF(rect()).adjusted(left, top, -right, -bottom); }

int LiveMemoryPlot::stepAt(QPointF p) const {
  const size_t count = cut_.report().forward.size() + cut_.report().backward.size();
  const QRectF a = area();
  if (count == 0 || p.x() < a.left() || p.x() > a.right()) return -1;
  const auto i = static_cast<int>((p.x() - a.left()) / a.width() * static_cast<double>(count));
  return std::clamp(i, 0, static_cast<int>(count) - 1);
}

const LiveNodeInfo& LiveMemoryPlot::nodeOf(int i) const {
  const CutReport& r = cut_.report();
  const auto step = static_cast<size_t>(i);
  return step < r.forward.size() ? r.forward[step] : r.backward[step - r.forward.size()];
}

QString LiveMemoryPlot::nodeAt(QPointF p) const {
  const int i = stepAt(p);
  return i < 0 ? QString() : nodeOf(i).name;
}

int LiveMemoryPlot::stopCount() const {
  return static_cast<int>(cut_.report().forward.size() + cut_.report().backward.size());
}

QString LiveMemoryPlot::stopText(int i) const {
  const bool isForward = static_cast<size_t>(i) < cut_.report().forward.size();
  return tr("%1, %2 pass: %3 alive")
      .arg(nodeOf(i).name, isForward ? tr("forward") : tr("backward"), bytesInWords(nodeOf(i).bytes));
}

QRectF LiveMemoryPlot::stopRect(int i) const {
  constexpr double least = 4;
  const QRectF a = area();
  const double step = a.width() / stopCount(), most = std::max(1.0, static_cast<double>(cut_.report().peak()));
  const double height = a.height() * static_cast<double>(nodeOf(i).bytes) / most, wide = std::max(least, step);
  return {a.left() + step * (i + 0.5) - wide / 2, a.bottom() - height - 1, wide, height + 2};
}

void LiveMemoryPlot::chooseStop(int i) { Q_EMIT chosen(nodeOf(i).name); }

void LiveMemoryPlot::draw(QPainter& p) {
  const CutReport& r = cut_.report();
  const QRectF a = area();
  drawTitle(
      p, a,
      r.isEmpty() ? tr("Activations in memory") : tr("Activations: peak %1, simulated").arg(bytesInWords(r.peak())));
  if (r.isEmpty() || r.peak() == 0) return;
  const auto count = static_cast<double>(r.forward.size() + r.backward.size()), most = static_cast<double>(r.peak());
  const auto x = [&](double i) { return a.left() + a.width() * i / count; };
  const auto y = [&](qint64 bytes) { return a.bottom() - a.height() * static_cast<double>(bytes) / most; };
  const auto shape = [&](const std::vector<LiveNodeInfo>& half, size_t first) {
    QPolygonF out;
    out << QPointF(x(static_cast<double>(first)), a.bottom());
    for (size_t i = 0; i < half.size(); ++i)
      out << QPointF(x(static_cast<double>(first + i)), y(half[i].bytes))
          << QPointF(x(static_cast<double>(first + i + 1)), y(half[i].bytes));
    out << QPointF(x(static_cast<double>(first + half.size())), a.bottom());
    return out;
  };
  p.setPen(Qt::NoPen);
  p.setBrush(toQt(themePalette().hue(BoxKind::Product)));
  p.drawPolygon(shape(r.forward, 0));
  p.setBrush(toQt(themePalette().hue(BoxKind::Kernel)));
  p.drawPolygon(shape(r.backward, r.forward.size()));
  // What is saved lies below all of the backward pass.
  const double turn = x(static_cast<double>(r.forward.size()));
  p.setPen(QPen(toQt(themePalette().text), 1, Qt::DashLine));
  p.drawLine(QPointF(turn, y(r.savedBytes)), QPointF(a.right(), y(r.savedBytes)));
  p.setPen(QPen(toQt(themePalette().dim), 1));
  p.drawLine(QPointF(turn, a.top()), QPointF(turn, a.bottom()));
  drawAxes(p, a, bytesInWords(static_cast<qint64>(most)));
  p.setPen(toQt(themePalette().text));
  const auto name = [&](double from, double to, const QString& whole, const QString& part) {
    const bool fits = p.fontMetrics().horizontalAdvance(whole) < to - from;
    const double wide = std::max(to - from, static_cast<double>(p.fontMetrics().horizontalAdvance(part)));
    p.drawText(QRectF((from + to - wide) / 2, a.bottom() + 4, wide, 18), Qt::AlignCenter, fits ? whole : part);
  };
  name(a.left(), turn, tr("forward pass"), tr("forward"));
  name(turn, a.right(), tr("backward pass"), tr("backward"));
}

void LiveMemoryPlot::mousePressEvent(QMouseEvent* e) {
  const QString node = nodeAt(e->position());
  if (e->button() == Qt::LeftButton && !node.isEmpty()) Q_EMIT chosen(node);
}

bool LiveMemoryPlot::event(QEvent* e) {
  if (e->type() == QEvent::ToolTip) {
    auto* help = static_cast<QHelpEvent*>(e);
    const int i = stepAt(help->pos());
    if (i >= 0) {
      QToolTip::showText(help->globalPos(), stopText(i), this);
      return true;
    }
  }
  return Plot::event(e);
}

BudgetPlot::BudgetPlot(TrainingCut& cut, QWidget* parent)
    : Plot(QStringLiteral("budgets"), tr("Budgets"), parent), cut_(cut) {
  setMouseTracking(true);
  setMinimumHeight(least);
  connect(&cut_, &TrainingCut::changed, this, [this] { stopsChanged(); });
}

QRectF BudgetPlot::area() const { return QRectF(rect()).adjusted(left, top, -right, -bottom); }

QPointF BudgetPlot::place(qint64 bytes, double microseconds) const {
  double most = 1, slowest = 1;
  for (const BudgetPointInfo& b : cut_.curve()) {
    most = std::max(most, static_cast<double>(b.savedBytes));
    slowest = std::max(slowest, b.microseconds);
  }
  const QRectF a = area();
  return {a.left() + a.width() * std::min(1.0, static_cast<double>(bytes) / most),
          a.bottom() - a.height() * std::min(1.0, microseconds / slowest)};
}

QPointF BudgetPlot::placeOf(size_t point) const {
  return place(cut_.curve()[point].savedBytes, cut_.curve()[point].microseconds);
}

int BudgetPlot::pointAt(QPointF p) const {
  int best = -1;
  double nearest = 14;
  for (size_t i = 0; i < cut_.curve().size(); ++i)
    if (const double d = QLineF(p, placeOf(i)).length(); d < nearest) nearest = d, best = static_cast<int>(i);
  return best;
}

int BudgetPlot::stopCount() const { return static_cast<int>(cut_.curve().size()); }

QString BudgetPlot::stopText(int i) const {
  const BudgetPointInfo& b = cut_.curve()[static_cast<size_t>(i)];
  return tr("Budget %1 %: %2 saved, %3 computed again, peak %4\nA click or Return cuts for this budget")
      .arg(100 * b.memory, 0, 'f', 0)
      .arg(bytesInWords(b.savedBytes), timeInWords(b.microseconds), bytesInWords(b.peak));
}

QRectF BudgetPlot::stopRect(int i) const {
  constexpr double around = 7;
  const QPointF at = placeOf(static_cast<size_t>(i));
  return {at.x() - around, at.y() - around, 2 * around, 2 * around};
}

void BudgetPlot::chooseStop(int i) {
  cut_.setMemory(std::ceil(1000 * cut_.curve()[static_cast<size_t>(i)].memory) / 1000);
}

void BudgetPlot::draw(QPainter& p) {
  const QRectF a = area();
  drawTitle(p, a, tr("Computing again: time by bytes saved"));
  if (cut_.curve().empty()) {
    p.setPen(toQt(themePalette().dim));
    p.drawText(a, Qt::AlignCenter, cut_.isBusy() ? tr("Cutting for other budgets …") : QString());
    return;
  }
  double most = 1, slowest = 1;
  for (const BudgetPointInfo& b : cut_.curve()) {
    most = std::max(most, static_cast<double>(b.savedBytes));
    slowest = std::max(slowest, b.microseconds);
  }
  drawAxes(p, a, timeInWords(slowest));
  p.setPen(toQt(themePalette().dim));
  p.drawText(QRectF(a.left(), a.bottom() + 4, a.width(), 18), Qt::AlignRight, bytesInWords(static_cast<qint64>(most)));
  p.drawText(QRectF(a.left(), a.bottom() + 4, a.width(), 18), Qt::AlignCenter, tr("saved"));
  QPolygonF line;
  for (size_t i = 0; i < cut_.curve().size(); ++i) line << placeOf(i);
  const QColor color = toQt(themePalette().hue(BoxKind::Product));
  p.setPen(QPen(color, 1.5));
  p.drawPolyline(line);
  p.setBrush(color);
  for (const QPointF& at : line) p.drawEllipse(at, 3.5, 3.5);
  if (cut_.report().isEmpty()) return;
  const QPointF here = place(cut_.report().savedBytes, cut_.report().recomputedMicroseconds);
  p.setPen(QPen(toQt(themePalette().text), 2));
  p.setBrush(Qt::NoBrush);
  p.drawEllipse(here, 7, 7);
}

void BudgetPlot::mousePressEvent(QMouseEvent* e) {
  const int i = pointAt(e->position());
  if (e->button() == Qt::LeftButton && i >= 0) chooseStop(i);
}

bool BudgetPlot::event(QEvent* e) {
  if (e->type() == QEvent::ToolTip) {
    auto* help = static_cast<QHelpEvent*>(e);
    const int i = pointAt(help->pos());
    if (i >= 0) {
      QToolTip::showText(help->globalPos(), stopText(i), this);
      return true;
    }
  }
  return Plot::event(e);
}

}  // namespace graft
