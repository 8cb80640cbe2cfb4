// How the run panel reads and spells the figures of a run: the engine's model/run as JSON.
#pragma once

#include <QDateTime>
#include <QJsonArray>
#include <QJsonObject>
#include <QLocale>
#include <QString>
#include <cmath>

#include "core/base/numbers/ratio_range.h"
#include "views/document/json_fields.h"

namespace graft {

/// Three digits at least, and no exponent in front of a unit: "7.91", "31.4", "1743".
inline QString threeDigits(double v) { return v >= 99.95 ? QString::number(v, 'f', 0) : QString::number(v, 'g', 3); }
inline QString ms(double v) {
  constexpr double few = 0.1;
  return v > 0 && v < few ? threeDigits(1000 * v) + QStringLiteral(" µs") : threeDigits(v) + QStringLiteral(" ms");
}
/// Of microseconds: "7.91 µs", "31.4 µs", "7.91 ms".
inline QString micros(double us) {
  if (std::isnan(us)) return QStringLiteral("–");
  return us >= 1000 ? QString::number(us / 1000, 'f', 2) + QStringLiteral(" ms")
                    : QString::number(us, 'f', us < 10 ? 2 : 1) + QStringLiteral(" µs");
}
/// "at 14:05" of today, "on 29 November at 14:05" of another day.
inline QString whenText(const QDateTime& t) {
  const QString time = QStringLiteral("at ") + t.toString(QStringLiteral("HH:mm"));
  return t.date() == QDate::currentDate()
             ? time
             : QStringLiteral("on %1 %2").arg(QLocale::c().toString(t.date(), QStringLiteral("d MMMM")), time);
}
inline QString small(double v) { return std::isnan(v) ? QStringLiteral("–") : QString::number(v, 'g', 3); }
inline QString bytes(double v) {
  return v >= 1e9   ? threeDigits(v / 1e9) + QStringLiteral(" GB")
         : v >= 1e6 ? threeDigits(v / 1e6) + QStringLiteral(" MB")
         : v >= 1e3 ? threeDigits(v / 1e3) + QStringLiteral(" kB")
                    : QStringLiteral("%1 B").arg(v, 0, 'f', 0);
}
/// So many times as fast: "×1.06". Sentences say it in words, by speedWords.
inline QString timesText(double ratio) { return QStringLiteral("×%1").arg(ratio, 0, 'f', 2); }
inline QString signedPercent(double now, double before) {
  const double percent = 100 * (now / before - 1);
  return (percent >= 0 ? QStringLiteral("+") : QStringLiteral("−")) + QString::number(std::abs(percent), 'f', 1) +
         QStringLiteral(" %");
}
/// What ran the original, where it was not Graft: "frozen TorchScript".
inline QString baselineName(const QJsonObject& run) {
  return at(run, "baseline").toString() == QLatin1String("torchscript") ? QStringLiteral("frozen TorchScript")
                                                                        : QString();
}
inline double median(const QJsonObject& run, const char* side) { return number(at(objectAt(run, side), "medianMs")); }

/// How many times as fast the rewritten model is, by the median of the pairs.
inline double ratioOf(const QJsonObject& run) { return number(at(run, "ratio")); }
/// Where that lies as far as the pairs can tell; made by the engine of all its samples.
inline RatioRange ratioRangeOf(const QJsonObject& run) {
  return {number(at(run, "ratioLow")), number(at(run, "ratioHigh"))};
}

/// "2.80 times as fast"; "as fast (0.98 to 1.03 times)" where the pairs tell no difference, or that they tell nothing.
inline QString speedWords(double ratio, const RatioRange& range) {
  switch (speedOf(ratio, range)) {
    case Speed::Faster:
    case Speed::Slower:
      return QStringLiteral("%1 times as fast").arg(ratio, 0, 'f', ratio < 10 ? 2 : 1);
    case Speed::Same:
      return QStringLiteral("as fast (%1 to %2 times)").arg(range.low, 0, 'f', 2).arg(range.high, 0, 'f', 2);
    case Speed::Untold:
      break;
  }
  return QString::fromStdString(speedText(ratio, range));
}
/// In a table: "×1.06", or "≈ ×1.01" where the pairs tell no difference.
inline QString timesText(double ratio, const RatioRange& range) {
  const Speed told = speedOf(ratio, range);
  return (told == Speed::Faster || told == Speed::Slower ? QString() : QStringLiteral("≈ ")) + timesText(ratio);
}

}  // namespace graft
