#include "views/run_panel.h"

#include <QApplication>
#include <QClipboard>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QPainter>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "views/canvas_paint.h"
#include "views/theme.h"

namespace graft {
namespace {

QJsonValue at(const QJsonObject& o, const char* key) { return o.value(QLatin1String(key)); }
double number(const QJsonValue& v) { return v.isString() ? v.toString().toDouble() : v.toDouble(NAN); }

QString ms(double v) {
  return (v >= 100 ? QString::number(v, 'f', 0) : QString::number(v, 'g', 3)) + QStringLiteral(" ms");
}
QString small(double v) { return std::isnan(v) ? QStringLiteral("–") : QString::number(v, 'g', 3); }

}  // namespace

LatencyPlot::LatencyPlot(QWidget* parent) : QWidget(parent) {
  setMinimumHeight(132);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void LatencyPlot::setRun(const QJsonObject& run, const QJsonObject& baseline) {
  run_ = run;
  baseline_ = baseline;
  setMinimumHeight(baseline_.isEmpty() ? 132 : 176);
  update();
}

void LatencyPlot::paintEvent(QPaintEvent*) {
  if (run_.isEmpty()) return;
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  const Palette& colors = themePalette();
  struct Row {
    QString name;
    QJsonObject side;
    Color color;
  };
  std::vector<Row> rows = {{tr("original"), at(run_, "original").toObject(), colors.change(Change::Removed)},
                           {tr("rewritten"), at(run_, "rewritten").toObject(), colors.change(Change::Added)}};
  if (!baseline_.isEmpty()) rows.push_back({tr("pinned"), at(baseline_, "rewritten").toObject(), colors.dim});
  double low = INFINITY, high = 0;
  for (const Row& r : rows) {
    QList<double> samples;
    for (const QJsonValue s : at(r.side, "samples").toArray()) samples << s.toDouble();
    std::sort(samples.begin(), samples.end());
    low = std::min(low, number(at(r.side, "p10")));
    high = std::max(high, number(at(r.side, "p90")));
    if (!samples.isEmpty())
      high = std::max(high, samples[samples.size() * 97 / 100]), low = std::min(low, samples.first());
  }
  if (!(high > 0)) return;
  const double pad = (high - low) * 0.06 + high * 0.01;
  low = std::max(0.0, low - pad);
  high += pad;
  const QRectF area(92, 10, width() - 112, height() - 40);
  auto x = [&](double v) { return area.left() + area.width() * (v - low) / (high - low); };
  // The axis: about five round numbers.
  const double raw = (high - low) / 5, magnitude = std::pow(10, std::floor(std::log10(raw)));
  const double step = raw / magnitude < 1.5   ? magnitude
                      : raw / magnitude < 3.5 ? 2 * magnitude
                      : raw / magnitude < 7.5 ? 5 * magnitude
                                              : 10 * magnitude;
  p.setFont(drawingFont(11, QFont::Normal));
  for (double v = std::ceil(low / step) * step; v <= high; v += step) {
    p.setPen(toQt(colors.grid));
    p.drawLine(QPointF(x(v), area.top()), QPointF(x(v), area.bottom()));
    p.setPen(toQt(colors.dim));
    p.drawText(QRectF(x(v) - 40, area.bottom() + 4, 80, 16), Qt::AlignCenter, QString::number(v, 'g', 4));
  }
  p.drawText(QRectF(0, area.bottom() + 4, 84, 16), Qt::AlignRight, tr("ms"));
  const double lane = area.height() / static_cast<double>(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& r = rows[i];
    const double y = area.top() + lane * (static_cast<double>(i) + 0.5);
    p.setFont(drawingFont(12, QFont::Medium));
    p.setPen(toQt(colors.text));
    p.drawText(QRectF(0, y - 10, 84, 20), Qt::AlignRight | Qt::AlignVCenter, r.name);
    QColor dot = toQt(r.color);
    dot.setAlpha(90);
    p.setPen(Qt::NoPen);
    p.setBrush(dot);
    const QJsonArray samples = at(r.side, "samples").toArray();
    const qsizetype every = std::max<qsizetype>(1, samples.size() / 400);
    for (qsizetype k = 0; k < samples.size(); k += every) {
      const double v = samples[k].toDouble();
      if (v > high) continue;
      const double jitter = std::fmod(static_cast<double>(k) * 0.618034, 1.0) - 0.5;
      p.drawEllipse(QPointF(x(v), y + jitter * lane * 0.5), 2, 2);
    }
    QColor box = toQt(r.color);
    p.setPen(QPen(box, 1.6));
    box.setAlpha(50);
    p.setBrush(box);
    const double a = x(number(at(r.side, "p10"))), b = x(number(at(r.side, "p90"))),
                 m = x(number(at(r.side, "median")));
    p.drawRoundedRect(QRectF(a, y - 9, std::max(2.0, b - a), 18), 3, 3);
    p.setPen(QPen(toQt(colors.text), 2.4));
    p.drawLine(QPointF(m, y - 11), QPointF(m, y + 11));
  }
}

RunPanel::RunPanel(Document& document, QWidget* parent) : QWidget(parent), document_(document) {
  inputs_ = new QLineEdit(this);
  inputs_->setPlaceholderText(
      tr("inputs.pt, or one specification for each input: f32[8,128]:randn i64[8,128]:0..1000. Empty: random"));
  auto* browse = new QPushButton(tr("Browse…"), this);
  device_ = new QComboBox(this);
  device_->addItems({QStringLiteral("cpu"), QStringLiteral("cuda")});
  device_->setToolTip(tr("Device"));
  dtype_ = new QComboBox(this);
  dtype_->addItem(tr("as is"), QString());
  for (const char* d : {"float32", "float16", "bfloat16"})
    dtype_->addItem(QString::fromLatin1(d), QString::fromLatin1(d));
  dtype_->setToolTip(tr("Weights and inputs are converted to this before running"));
  seconds_ = new QDoubleSpinBox(this);
  seconds_->setRange(0.1, 600);
  seconds_->setValue(2);
  seconds_->setSuffix(tr(" s"));
  seconds_->setToolTip(tr("How long to measure"));
  run_ = new QPushButton(icon(QStringLiteral("play")), tr("Run"), this);
  run_->setDefault(true);
  progress_ = new QProgressBar(this);
  progress_->setMaximumHeight(6);
  progress_->setTextVisible(false);
  headline_ = new QLabel(this);
  headline_->setWordWrap(true);
  headline_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  QFont big = font();
  big.setPointSizeF(big.pointSizeF() * 1.25);
  big.setWeight(QFont::DemiBold);
  headline_->setFont(big);
  protocol_ = new QLabel(this);
  protocol_->setWordWrap(true);
  protocol_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  plot_ = new LatencyPlot(this);
  table_ = new QTableWidget(this);
  table_->setColumnCount(8);
  table_->setHorizontalHeaderLabels({tr("Output"), tr("Type"), tr("max abs"), tr("max rel"), tr("RMSE"),
                                     tr("RMSE ratio"), tr("cosine"), tr("Verdict")});
  table_->verticalHeader()->hide();
  table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  table_->setShowGrid(false);
  table_->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  table_->horizontalHeader()->setStretchLastSection(true);
  table_->horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  pin_ = new QPushButton(tr("Pin as baseline"), this);
  pin_->setToolTip(tr("Keep this run in the plot beside later ones"));
  copy_ = new QPushButton(tr("Copy"), this);
  copy_->setToolTip(tr("All figures with units and how they were measured"));

  auto* controls = new QHBoxLayout;
  controls->addWidget(inputs_, 1);
  for (QWidget* w : std::initializer_list<QWidget*>{browse, device_, dtype_, seconds_, run_}) controls->addWidget(w);
  auto* title = new QHBoxLayout;
  title->addWidget(headline_, 1);
  title->addWidget(pin_);
  title->addWidget(copy_);
  auto* left = new QVBoxLayout;
  left->addWidget(plot_);
  left->addWidget(protocol_);
  left->addStretch();
  auto* body = new QHBoxLayout;
  body->setSpacing(16);
  body->addLayout(left, 4);
  body->addWidget(table_, 5);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(12, 10, 12, 8);
  column->addLayout(controls);
  column->addWidget(progress_);
  column->addLayout(title);
  column->addLayout(body, 1);

  connect(browse, &QPushButton::clicked, this, [this] {
    const QString path =
        QFileDialog::getOpenFileName(this, tr("Inputs"), {}, tr("Tensors saved by torch.save (*.pt);;All files (*)"));
    if (!path.isEmpty()) inputs_->setText(path);
  });
  connect(run_, &QPushButton::clicked, this, [this] { document_.isRunning() ? document_.stopRun() : start(); });
  connect(pin_, &QPushButton::clicked, this, [this] {
    baseline_ = document_.lastRun();
    refresh();
  });
  connect(copy_, &QPushButton::clicked, this, [this] { QApplication::clipboard()->setText(report()); });
  connect(&document_, &Document::runProgress, this, [this](const QString& what, qint64 done, qint64 total) {
    progress_->setRange(0, static_cast<int>(total));
    progress_->setValue(static_cast<int>(done));
    progress_->setToolTip(what);
  });
  for (auto signal : {&Document::runChanged, &Document::opened, &Document::stepsChanged})
    connect(&document_, signal, this, &RunPanel::refresh);
  refresh();
}

void RunPanel::start() {
  QJsonObject settings{{QStringLiteral("device"), device_->currentText()},
                       {QStringLiteral("seconds"), seconds_->value()}};
  if (!dtype_->currentData().toString().isEmpty())
    settings.insert(QStringLiteral("dtype"), dtype_->currentData().toString());
  const QString text = inputs_->text().trimmed();
  if (text.endsWith(QLatin1String(".pt")) || text.contains(QLatin1Char('/')))
    settings.insert(QStringLiteral("inputs"), text);
  else if (!text.isEmpty())
    settings.insert(QStringLiteral("inputs"),
                    QJsonArray::fromStringList(text.split(QLatin1Char(' '), Qt::SkipEmptyParts)));
  document_.run(settings);
}

QString RunPanel::headline(const QJsonObject& run) {
  const double a = number(at(at(run, "original").toObject(), "median")),
               b = number(at(at(run, "rewritten").toObject(), "median"));
  const double ratio = a / b;
  QString speed = ratio >= 1.02
                      ? tr("%1 instead of %2: %3 times faster").arg(ms(b), ms(a)).arg(ratio, 0, 'f', ratio < 10 ? 2 : 1)
                  : ratio <= 0.98 ? tr("%1 instead of %2: %3 times slower").arg(ms(b), ms(a)).arg(1 / ratio, 0, 'f', 2)
                                  : tr("%1 and %2: equally fast").arg(ms(b), ms(a));
  double worst = 0, cosine = 1;
  QString failed;
  for (const QJsonValue v : at(run, "outputs").toArray()) {
    const QJsonObject o = v.toObject();
    worst = std::max(worst, number(at(o, "maxAbs")));
    cosine = std::min(cosine, number(at(o, "cosine")));
    if (!at(o, "passed").toBool() && failed.isEmpty())
      failed = tr("output %1 differs: %2").arg(at(o, "name").toString(), at(o, "why").toString());
  }
  if (!failed.isEmpty()) return speed + tr(", but ") + failed;
  if (at(run, "passed").isBool() && !at(run, "passed").toBool())
    return speed + tr(", but ") + at(run, "why").toString();
  return speed + tr(", outputs agree (max %1, cosine %2)").arg(worst, 0, 'g', 2).arg(cosine, 0, 'f', 6);
}

void RunPanel::refresh() {
  const QJsonObject& run = document_.lastRun();
  const bool running = document_.isRunning();
  run_->setText(running ? tr("Stop") : tr("Run"));
  run_->setIcon(icon(running ? QStringLiteral("stop") : QStringLiteral("play")));
  run_->setEnabled(document_.isOpen());
  progress_->setVisible(running);
  if (running) progress_->setRange(0, 0);
  const bool any = !run.isEmpty();
  pin_->setVisible(any);
  copy_->setVisible(any);
  plot_->setVisible(any);
  table_->setVisible(any);
  const Palette& p = themePalette();
  if (!any) {
    headline_->setText(
        running
            ? tr("Measuring…")
            : tr("Run compares the model as opened with the one that is shown: time, and numbers output by output."));
    headline_->setStyleSheet(QStringLiteral("color:%1").arg(css(p.dim)));
    protocol_->clear();
    return;
  }
  headline_->setText(headline(run));
  bool passed = !at(run, "passed").isBool() || at(run, "passed").toBool();
  for (const QJsonValue v : at(run, "outputs").toArray()) passed = passed && at(v.toObject(), "passed").toBool();
  headline_->setStyleSheet(QStringLiteral("color:%1").arg(css(passed ? p.text : p.change(Change::Removed))));
  protocol_->setText(at(run, "protocol").toString());
  protocol_->setStyleSheet(QStringLiteral("color:%1").arg(css(p.dim)));
  plot_->setRun(run, baseline_);
  fillTable(run);
}

void RunPanel::fillTable(const QJsonObject& run) {
  const QJsonArray outputs = at(run, "outputs").toArray();
  table_->setRowCount(static_cast<int>(outputs.size()));
  for (int i = 0; i < table_->rowCount(); ++i) {
    const QJsonObject o = outputs[i].toObject();
    const bool passed = at(o, "passed").toBool();
    const QStringList cells = {at(o, "name").toString(),
                               at(o, "type").toString(),
                               small(number(at(o, "maxAbs"))),
                               small(number(at(o, "maxRel"))),
                               small(number(at(o, "rmse"))),
                               small(number(at(o, "rmseRatio"))),
                               QString::number(number(at(o, "cosine")), 'f', 6),
                               passed ? tr("✓ agrees") : tr("✗ %1").arg(at(o, "why").toString())};
    for (int c = 0; c < cells.size(); ++c) {
      auto* item = new QTableWidgetItem(cells[c]);
      if (c == 7) item->setForeground(toQt(themePalette().change(passed ? Change::Added : Change::Removed)));
      table_->setItem(i, c, item);
    }
  }
}

QString RunPanel::report() const {
  const QJsonObject& run = document_.lastRun();
  QString text = headline(run) + QLatin1Char('\n') + at(run, "protocol").toString() + QLatin1Char('\n');
  for (const char* side : {"original", "rewritten"}) {
    const QJsonObject s = at(run, side).toObject();
    text += tr("%1: median %2 ms, p10 %3 ms, p90 %4 ms\n")
                .arg(QLatin1String(side))
                .arg(number(at(s, "median")))
                .arg(number(at(s, "p10")))
                .arg(number(at(s, "p90")));
  }
  for (int r = 0; r < table_->rowCount(); ++r) {
    QStringList cells;
    for (int c = 0; c < table_->columnCount(); ++c) cells << table_->item(r, c)->text();
    text += cells.join(QLatin1Char('\t')) + QLatin1Char('\n');
  }
  return text;
}

}  // namespace graft
