#include "views/panels/run/plots.h"

#include <QPainter>
#include <algorithm>
#include <array>
#include <cmath>

#include "views/canvas/canvas_paint.h"
#include "views/document/graph_decode.h"
#include "views/document/run_figures.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

constexpr int latencyNames = 116;  // wide enough for the longest name

QString toQtCount(double n) { return toQt(shortCount(n)); }

/// A bucket is named by its lower end: 0, 1, 2, 4, … 512, 1k, 2k, …
QString bucketName(qsizetype i) {
  const qint64 low = i == 0 ? 0 : qint64{1} << (i - 1);
  return low < 1024      ? QString::number(low)
         : low < 1 << 20 ? QStringLiteral("%1k").arg(low >> 10)
         : low < 1 << 30 ? QStringLiteral("%1M").arg(low >> 20)
                         : QStringLiteral("%1G").arg(low >> 30);
}

}  // namespace

LatencyPlot::LatencyPlot(QWidget* parent) : Plot(QStringLiteral("latency"), tr("Latencies"), parent) {
  setMinimumHeight(140);  // of three rows, so that pinning a run moves nothing
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void LatencyPlot::setRun(const QJsonObject& run, const QJsonObject& baseline) {
  rows_.clear();
  if (!run.isEmpty())
    rows_ = {{tr("original"), baselineName(run), at(run, "original").toObject()},
             {tr("rewritten"), {}, at(run, "rewritten").toObject()}};
  if (!run.isEmpty() && !baseline.isEmpty()) rows_.push_back({tr("pinned"), {}, at(baseline, "rewritten").toObject()});
  stopsChanged();
}

QRectF LatencyPlot::area() const { return QRectF(rect()).adjusted(latencyNames + 10, 8, -16, -28); }

QString LatencyPlot::stopText(int row) const {
  const Row& r = rows_[static_cast<size_t>(row)];
  return tr("%1: %2 ms at the median\n%3 to %4 ms between the 10th and the 90th percentile")
      .arg(r.how.isEmpty() ? r.name : QStringLiteral("%1, %2").arg(r.name, r.how))
      .arg(number(at(r.side, "medianMs")), 0, 'g', 4)
      .arg(number(at(r.side, "p10Ms")), 0, 'g', 4)
      .arg(number(at(r.side, "p90Ms")), 0, 'g', 4);
}

QRectF LatencyPlot::stopRect(int row) const {
  const QRectF a = area();
  const double lane = a.height() / static_cast<double>(rows_.size());
  return {4, a.top() + lane * row + 1, a.right() - 4, lane - 2};
}

void LatencyPlot::draw(QPainter& p) {
  if (rows_.empty()) return;
  const Palette& colors = themePalette();
  const std::array<Color, 3> dots = {colors.change(Change::Removed), colors.change(Change::Added), colors.dim};
  double low = INFINITY, high = 0;
  for (const Row& r : rows_) {
    QList<double> samples;
    for (const QJsonValue s : at(r.side, "samplesMs").toArray()) samples << s.toDouble();
    std::sort(samples.begin(), samples.end());
    low = std::min(low, number(at(r.side, "p10Ms")));
    high = std::max(high, number(at(r.side, "p90Ms")));
    if (!samples.isEmpty())
      high = std::max(high, samples[samples.size() * 97 / 100]), low = std::min(low, samples.first());
  }
  if (!(high > 0)) return;
  const double pad = (high - low) * 0.06 + high * 0.01;
  low = std::max(0.0, low - pad);
  high += pad;
  const QRectF area = this->area();
  auto x = [&](double v) { return area.left() + area.width() * (v - low) / (high - low); };
  const double step = roundStep((high - low) / 5);
  p.setFont(drawingFont(11, QFont::Normal));
  for (double v = std::ceil(low / step) * step; v <= high; v += step) {
    p.setPen(toQt(colors.grid));
    p.drawLine(QPointF(x(v), area.top()), QPointF(x(v), area.bottom()));
    p.setPen(toQt(colors.dim));
    p.drawText(QRectF(x(v) - 40, area.bottom() + 4, 80, 16), Qt::AlignCenter, QString::number(v, 'g', 4));
  }
  p.drawText(QRectF(0, area.bottom() + 4, latencyNames, 16), Qt::AlignRight, tr("ms"));
  const double lane = area.height() / static_cast<double>(rows_.size());
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& r = rows_[i];
    const double y = area.top() + lane * (static_cast<double>(i) + 0.5);
    p.setFont(drawingFont(12, QFont::Medium));
    p.setPen(toQt(colors.text));
    p.drawText(QRectF(0, y - (r.how.isEmpty() ? 10 : 18), latencyNames, 20), Qt::AlignRight | Qt::AlignVCenter, r.name);
    if (!r.how.isEmpty()) {
      p.setFont(drawingFont(11, QFont::Normal));
      p.setPen(toQt(colors.dim));
      p.drawText(QRectF(0, y - 2, latencyNames, 18), Qt::AlignRight | Qt::AlignVCenter, r.how);
    }
    QColor dot = toQt(dots[i]);
    dot.setAlpha(90);
    p.setPen(Qt::NoPen);
    p.setBrush(dot);
    const QJsonArray samples = at(r.side, "samplesMs").toArray();
    for (qsizetype k = 0; k < samples.size(); ++k) {
      const double v = samples[k].toDouble();
      if (v > high) continue;
      const double jitter = std::fmod(static_cast<double>(k) * 0.618034, 1.0) - 0.5;
      p.drawEllipse(QPointF(x(v), y + jitter * lane * 0.5), 2, 2);
    }
    QColor box = toQt(dots[i]);
    p.setPen(QPen(box, 1.6));
    box.setAlpha(50);
    p.setBrush(box);
    const double a = x(number(at(r.side, "p10Ms"))), b = x(number(at(r.side, "p90Ms"))),
                 m = x(number(at(r.side, "medianMs")));
    p.drawRoundedRect(QRectF(a, y - 9, std::max(2.0, b - a), 18), 3, 3);
    p.setPen(QPen(toQt(colors.text), 2.4));
    p.drawLine(QPointF(m, y - 11), QPointF(m, y + 11));
  }
}

UlpPlot::UlpPlot(QWidget* parent) : Plot(QStringLiteral("ulp"), tr("Units in the last place"), parent) {
  setMinimumHeight(88);
}

void UlpPlot::setCounts(const QString& title, const QJsonArray& counts) {
  title_ = title;
  counts_ = counts;
  stopsChanged();
}

QRectF UlpPlot::area() const { return {8, 38, width() - 16.0, height() - 62.0}; }

double UlpPlot::barWidth() const {
  return std::min(44.0, area().width() / static_cast<double>(std::max<qsizetype>(6, counts_.size())));
}

QString UlpPlot::stopText(int bucket) const {
  double all = 0;
  for (const QJsonValue c : counts_) all += c.toDouble();
  const double count = counts_[bucket].toDouble();
  const QString how =
      bucket == 0 ? tr("equal")
      : bucket == 1
          ? tr("1 unit in the last place off")
          : tr("%1 or more units in the last place off, less than %2").arg(bucketName(bucket), bucketName(bucket + 1));
  return tr("%1 elements are %2: %3 %").arg(toQtCount(count), how).arg(all > 0 ? 100 * count / all : 0, 0, 'g', 3);
}

QRectF UlpPlot::stopRect(int bucket) const {
  const QRectF a = area();
  return {a.left() + barWidth() * bucket, a.top(), barWidth(), a.height() + 18};
}

void UlpPlot::draw(QPainter& p) {
  const Palette& colors = themePalette();
  p.setFont(drawingFont(11, QFont::Medium));
  p.setPen(toQt(colors.dim));
  p.drawText(QRectF(8, 2, width() - 16, 18), Qt::AlignLeft | Qt::AlignVCenter, title_);
  if (counts_.isEmpty()) return;
  double most = 1, all = 0;
  for (const QJsonValue c : counts_) most = std::max(most, c.toDouble()), all += c.toDouble();
  const QRectF area = this->area();
  const double w = barWidth();
  p.setFont(drawingFont(10, QFont::Normal));
  const int every = w < p.fontMetrics().horizontalAdvance(QStringLiteral("512M")) + 4 ? 2 : 1;  // labels keep apart
  for (qsizetype i = 0; i < counts_.size(); ++i) {
    const double count = counts_[i].toDouble();
    // The root of the share: a thousandth is still seen.
    const double h = count > 0 ? std::max(1.5, area.height() * std::sqrt(count / most)) : 0;
    const QRectF bar(area.left() + w * static_cast<double>(i) + 1, area.bottom() - h, w - 2, h);
    p.setPen(Qt::NoPen);
    p.setBrush(toQt(mix(colors.background, colors.accent, i == 0 ? 0.45 : 0.8)));
    p.drawRect(bar);
    p.setPen(toQt(colors.dim));
    if (i % every == 0)
      p.drawText(QRectF(bar.center().x() - 20, area.bottom() + 3, 40, 14), Qt::AlignCenter, bucketName(i));
    if (count > 0 && w > 26)
      p.drawText(QRectF(bar.x() - 10, bar.y() - 15, w + 18, 14), Qt::AlignCenter,
                 count / all >= 0.01 ? QStringLiteral("%1 %").arg(100 * count / all, 0, 'f', 0) : toQtCount(count));
  }
  p.setPen(toQt(colors.grid));
  p.drawLine(area.bottomLeft(), area.bottomRight());
}

SweepPlot::SweepPlot(QWidget* parent) : Plot(QStringLiteral("sweep"), tr("Latencies of the sweep"), parent) {
  setMinimumHeight(120);
}

void SweepPlot::setPoints(std::vector<Point> points) {
  points_ = std::move(points);
  stopsChanged();
}

QRectF SweepPlot::area() const { return {56, 26, width() - 76.0, height() - 54.0}; }

QString SweepPlot::stopText(int point) const {
  const Point& q = points_[static_cast<size_t>(point)];
  return tr("%1\noriginal: %2 ms\nrewritten: %3 ms")
      .arg(q.label)
      .arg(q.original, 0, 'g', 4)
      .arg(q.rewritten, 0, 'g', 4);
}

QRectF SweepPlot::stopRect(int point) const {
  const QRectF a = area();
  const double room = a.width() / static_cast<double>(points_.size());
  return {a.left() + room * point, a.top(), room, a.height() + 24};
}

void SweepPlot::draw(QPainter& p) {
  if (points_.empty()) return;
  const Palette& colors = themePalette();
  double high = 0;
  for (const Point& q : points_) high = std::max({high, q.original, q.rewritten});
  if (high <= 0) return;
  const QRectF area = this->area();
  const double step = roundStep(high / 4);
  auto y = [&](double v) { return area.bottom() - area.height() * v / (high * 1.05); };
  const auto n = static_cast<double>(points_.size());
  auto x = [&](size_t i) { return area.left() + area.width() * (static_cast<double>(i) + 0.5) / n; };
  p.setFont(drawingFont(11, QFont::Normal));
  for (double v = 0; v <= high * 1.05; v += step) {
    p.setPen(toQt(colors.grid));
    p.drawLine(QPointF(area.left(), y(v)), QPointF(area.right(), y(v)));
    p.setPen(toQt(colors.dim));
    p.drawText(QRectF(0, y(v) - 8, area.left() - 8, 16), Qt::AlignRight | Qt::AlignVCenter, QString::number(v, 'g', 4));
  }
  p.drawText(QRectF(0, 4, area.left() - 8, 16), Qt::AlignRight | Qt::AlignVCenter, tr("ms"));
  const double room = area.width() / n;
  for (size_t i = 0; i < points_.size(); ++i)
    p.drawText(QRectF(x(i) - room / 2, area.bottom() + 6, room, 16), Qt::AlignCenter,
               p.fontMetrics().elidedText(points_[i].label, Qt::ElideRight, static_cast<int>(room)));
  double key = area.left();
  for (const bool isOriginal : {true, false}) {
    const QColor color = toQt(colors.change(isOriginal ? Change::Removed : Change::Added));
    QPolygonF line;
    for (size_t i = 0; i < points_.size(); ++i)
      line << QPointF(x(i), y(isOriginal ? points_[i].original : points_[i].rewritten));
    QPen pen(color, 2);
    if (isOriginal) pen.setDashPattern({4, 2.5});  // told apart without colour, too
    p.setPen(pen);
    p.setBrush(Qt::NoBrush);
    p.drawPolyline(line);
    p.drawLine(QPointF(key, 12), QPointF(key + 22, 12));
    p.setPen(Qt::NoPen);
    p.setBrush(color);
    for (const QPointF& q : line) p.drawEllipse(q, 3.5, 3.5);
    p.setPen(toQt(colors.text));
    p.drawText(QPointF(key + 28, 16), isOriginal ? tr("original") : tr("rewritten"));
    key += 104;
  }
}

}  // namespace graft
