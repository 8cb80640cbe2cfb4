#include "views/panels/run/plots.h"

#include <QApplication>
#include <QBuffer>
#include <QClipboard>
#include <QContextMenuEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QMenu>
#include <QPainter>
#include <QSvgGenerator>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "views/canvas/canvas_paint.h"
#include "views/document/graph_decode.h"
#include "views/document/run_figures.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

QString toQtCount(double n) { return toQt(shortCount(n)); }

}  // namespace

double roundStep(double raw) {
  const double magnitude = std::pow(10, std::floor(std::log10(raw)));
  return raw / magnitude < 1.5   ? magnitude
         : raw / magnitude < 3.5 ? 2 * magnitude
         : raw / magnitude < 7.5 ? 5 * magnitude
                                 : 10 * magnitude;
}

Plot::Plot(const QString& name, QWidget* parent) : QWidget(parent), name_(name) {
  setToolTip(tr("Right click: copy or save the picture"));
}

void Plot::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  draw(p);
}

bool Plot::save(const QString& path) {
  if (path.endsWith(QLatin1String(".svg"), Qt::CaseInsensitive)) {
    QSvgGenerator svg;
    svg.setFileName(path);
    svg.setSize(size());
    svg.setViewBox(rect());
    svg.setTitle(name_);
    QPainter p;
    if (!p.begin(&svg)) return false;
    p.fillRect(rect(), toQt(themePalette().background));
    draw(p);
    return p.end();
  }
  constexpr int scale = 2;
  QImage image(size() * scale, QImage::Format_RGB32);
  image.setDevicePixelRatio(scale);
  image.fill(toQt(themePalette().background));
  QPainter p(&image);
  p.setRenderHint(QPainter::Antialiasing);
  draw(p);
  p.end();
  return image.save(path);
}

QByteArray Plot::svg(QSize wanted) {
  const PaletteScope light(Theme::Light);
  const QSize before = size();
  resize(wanted);  // plots are drawn to their widget's size
  QBuffer bytes;
  QSvgGenerator svg;
  svg.setOutputDevice(&bytes);
  svg.setSize(size());
  svg.setViewBox(rect());
  svg.setTitle(name_);
  QPainter p(&svg);
  draw(p);
  p.end();
  resize(before);
  return bytes.data();
}

void Plot::contextMenuEvent(QContextMenuEvent* e) {
  QMenu menu;
  menu.addAction(tr("Copy picture"), this, [this] { QApplication::clipboard()->setPixmap(grab()); });
  menu.addAction(tr("Save picture…"), this, [this] {
    QString path = QFileDialog::getSaveFileName(this, tr("Save picture"), name_ + QStringLiteral(".svg"),
                                                tr("Pictures (*.svg *.png)"));
    if (!path.isEmpty() && QFileInfo(path).suffix().isEmpty()) path += QStringLiteral(".svg");
    if (!path.isEmpty() && !save(path))
      QToolTip::showText(QCursor::pos(), tr("%1 could not be written").arg(path), this);
  });
  menu.exec(e->globalPos());
}

LatencyPlot::LatencyPlot(QWidget* parent) : Plot(QStringLiteral("latency"), parent) {
  setMinimumHeight(140);  // of three rows, so that pinning a run moves nothing
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void LatencyPlot::setRun(const QJsonObject& run, const QJsonObject& baseline) {
  run_ = run;
  baseline_ = baseline;
  update();
}

void LatencyPlot::draw(QPainter& p) {
  if (run_.isEmpty()) return;
  const Palette& colors = themePalette();
  struct Row {
    QString name, how;
    QJsonObject side;
    Color color;
  };
  std::vector<Row> rows = {
      {tr("original"), baselineName(run_), at(run_, "original").toObject(), colors.change(Change::Removed)},
      {tr("rewritten"), {}, at(run_, "rewritten").toObject(), colors.change(Change::Added)}};
  if (!baseline_.isEmpty()) rows.push_back({tr("pinned"), {}, at(baseline_, "rewritten").toObject(), colors.dim});
  double low = INFINITY, high = 0;
  for (const Row& r : rows) {
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
  constexpr int names = 116;  // wide enough for the longest name
  const QRectF area(names + 10, 8, width() - names - 26, height() - 36);
  auto x = [&](double v) { return area.left() + area.width() * (v - low) / (high - low); };
  const double step = roundStep((high - low) / 5);
  p.setFont(drawingFont(11, QFont::Normal));
  for (double v = std::ceil(low / step) * step; v <= high; v += step) {
    p.setPen(toQt(colors.grid));
    p.drawLine(QPointF(x(v), area.top()), QPointF(x(v), area.bottom()));
    p.setPen(toQt(colors.dim));
    p.drawText(QRectF(x(v) - 40, area.bottom() + 4, 80, 16), Qt::AlignCenter, QString::number(v, 'g', 4));
  }
  p.drawText(QRectF(0, area.bottom() + 4, names, 16), Qt::AlignRight, tr("ms"));
  const double lane = area.height() / static_cast<double>(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& r = rows[i];
    const double y = area.top() + lane * (static_cast<double>(i) + 0.5);
    p.setFont(drawingFont(12, QFont::Medium));
    p.setPen(toQt(colors.text));
    p.drawText(QRectF(0, y - (r.how.isEmpty() ? 10 : 18), names, 20), Qt::AlignRight | Qt::AlignVCenter, r.name);
    if (!r.how.isEmpty()) {
      p.setFont(drawingFont(11, QFont::Normal));
      p.setPen(toQt(colors.dim));
      p.drawText(QRectF(0, y - 2, names, 18), Qt::AlignRight | Qt::AlignVCenter, r.how);
    }
    QColor dot = toQt(r.color);
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
    QColor box = toQt(r.color);
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

UlpPlot::UlpPlot(QWidget* parent) : Plot(QStringLiteral("ulp"), parent) { setMinimumHeight(88); }

void UlpPlot::setCounts(const QString& title, const QJsonArray& counts) {
  title_ = title;
  counts_ = counts;
  update();
}

void UlpPlot::draw(QPainter& p) {
  const Palette& colors = themePalette();
  p.setFont(drawingFont(11, QFont::Medium));
  p.setPen(toQt(colors.dim));
  p.drawText(QRectF(8, 2, width() - 16, 18), Qt::AlignLeft | Qt::AlignVCenter, title_);
  if (counts_.isEmpty()) return;
  double most = 1, all = 0;
  for (const QJsonValue c : counts_) most = std::max(most, c.toDouble()), all += c.toDouble();
  const QRectF area(8, 38, width() - 16, height() - 62);
  const auto n = static_cast<double>(std::max<qsizetype>(6, counts_.size()));
  const double w = std::min(44.0, area.width() / n);
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
    // A bucket is named by its lower end: 0, 1, 2, 4, … 512, 1k, 2k, …
    const qint64 low = i == 0 ? 0 : qint64{1} << (i - 1);
    const QString off = low < 1024      ? QString::number(low)
                        : low < 1 << 20 ? QStringLiteral("%1k").arg(low >> 10)
                        : low < 1 << 30 ? QStringLiteral("%1M").arg(low >> 20)
                                        : QStringLiteral("%1G").arg(low >> 30);
    if (i % every == 0) p.drawText(QRectF(bar.center().x() - 20, area.bottom() + 3, 40, 14), Qt::AlignCenter, off);
    if (count > 0 && w > 26)
      p.drawText(QRectF(bar.x() - 10, bar.y() - 15, w + 18, 14), Qt::AlignCenter,
                 count / all >= 0.01 ? QStringLiteral("%1 %").arg(100 * count / all, 0, 'f', 0) : toQtCount(count));
  }
  p.setPen(toQt(colors.grid));
  p.drawLine(area.bottomLeft(), area.bottomRight());
}

SweepPlot::SweepPlot(QWidget* parent) : Plot(QStringLiteral("sweep"), parent) { setMinimumHeight(120); }

void SweepPlot::setPoints(std::vector<Point> points) {
  points_ = std::move(points);
  update();
}

void SweepPlot::draw(QPainter& p) {
  if (points_.empty()) return;
  const Palette& colors = themePalette();
  double high = 0;
  for (const Point& q : points_) high = std::max({high, q.original, q.rewritten});
  if (high <= 0) return;
  const QRectF area(56, 26, width() - 76, height() - 54);
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
