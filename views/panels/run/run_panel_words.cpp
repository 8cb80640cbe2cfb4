// What the run panel says of a run in words: the headline, a note where the figures are of another run, tables as text.
#include <QHeaderView>
#include <QRegularExpression>
#include <algorithm>

#include "views/canvas/canvas_scene.h"
#include "views/document/run_figures.h"
#include "views/panels/run/run_panel.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

/// The first check that has not passed: on which inputs, which output, by how much, and the node where it begins.
QString whyNot(const QJsonObject& run) {
  QString why = at(run, "why").toString();
  for (const QJsonValue v : at(run, "outputs").toArray())
    if (const QJsonObject o = v.toObject(); !at(o, "passed").toBool() && why.isEmpty())
      why = RunPanel::tr("output %1: %2").arg(at(o, "name").toString(), at(o, "why").toString());
  for (const QJsonValue v : at(run, "layers").toArray())
    if (const QJsonObject layer = v.toObject(); !at(layer, "passed").toBool())
      return why + RunPanel::tr("; the numbers first differ at %1").arg(at(layer, "rewritten").toString());
  return why;
}

}  // namespace

QString RunPanel::tableText(const QTableWidget& table) {
  QStringList lines;
  QStringList head;
  for (int c = 0; c < table.columnCount(); ++c) head << table.horizontalHeaderItem(c)->data(Qt::UserRole).toString();
  lines << head.join(QLatin1Char('\t'));
  for (int r = 0; r < table.rowCount(); ++r) {
    QStringList cells;
    for (int c = 0; c < table.columnCount(); ++c) cells << (table.item(r, c) ? table.item(r, c)->text() : QString());
    lines << cells.join(QLatin1Char('\t'));
  }
  return lines.join(QLatin1Char('\n')) + QLatin1Char('\n');
}

bool RunPanel::agrees(const QJsonObject& run) {
  bool all = !at(run, "passed").isBool() || at(run, "passed").toBool();
  for (const QJsonValue v : at(run, "outputs").toArray()) all = all && at(v.toObject(), "passed").toBool();
  return all;
}

QString RunPanel::headline(const QJsonObject& run) {
  const double a = median(run, "original"), b = median(run, "rewritten"), ratio = ratioOf(run);
  const RatioRange range = ratioRangeOf(run);
  const QString before = ms(a) + (baselineName(run).isEmpty() ? QString() : tr(" with ") + baselineName(run));
  const Speed told = speedOf(ratio, range);
  const QString speed =
      (told == Speed::Faster || told == Speed::Slower ? tr("%1 instead of %2: %3") : tr("%1 beside %2: %3"))
          .arg(ms(b), before, speedWords(ratio, range));
  if (!agrees(run)) return tr("A check failed: %1. %2").arg(whyNot(run), speed);
  double worst = 0, cosine = 1;
  for (const QJsonValue v : at(run, "outputs").toArray()) {
    const QJsonObject o = v.toObject();
    if (at(o, "nothingCompared").toBool())
      return tr("Nothing was compared of output %1: %2. %3")
          .arg(at(o, "name").toString(), at(o, "why").toString(), speed);
    worst = std::max(worst, number(at(o, "maxAbs")));
    cosine = std::min(cosine, number(at(o, "cosine")));
  }
  return speed + tr(", outputs agree (max %1, cosine %2)").arg(worst, 0, 'g', 2).arg(cosine, 0, 'f', 6);
}

QString RunPanel::sweepHeadline(const QList<std::pair<QString, QJsonObject>>& runs) {
  double least = INFINITY, most = 0;
  qsizetype failed = 0, untold = 0;
  QString first;
  for (const auto& [label, run] : runs) {
    const double ratio = ratioOf(run);
    const Speed told = speedOf(ratio, ratioRangeOf(run));
    untold += told != Speed::Faster && told != Speed::Slower;
    least = std::min(least, ratio);
    most = std::max(most, ratio);
    if (!agrees(run) && ++failed == 1) first = tr("%1: %2").arg(label, whyNot(run));
  }
  QString speed = tr("%1 to %2 times as fast").arg(least, 0, 'f', 2).arg(most, 0, 'f', 2);
  if (untold > 0) speed += tr(" (at %1 of %2 no difference that these runs can tell)").arg(untold).arg(runs.size());
  if (failed > 0) return tr("%1 of %2 sizes fail, %3 (%4)").arg(failed).arg(runs.size()).arg(first, speed);
  return tr("%1 over %2 sizes, all outputs agree").arg(speed).arg(runs.size());
}

QString RunPanel::memoryLine(const QJsonObject& run) {
  const QJsonObject a = objectAt(objectAt(run, "memory"), "original"),
                    b = objectAt(objectAt(run, "memory"), "rewritten");
  if (a.isEmpty() || b.isEmpty()) return {};
  const auto pair = [](double before, double now) {
    return bytes(before) == bytes(now) ? bytes(now) : tr("%1 instead of %2").arg(bytes(now), bytes(before));
  };
  const auto calls = [&](const char* side) {
    double all = 0, ours = 0;
    const QJsonObject list = objectAt(objectAt(run, "calls"), side);
    for (auto it = list.begin(); it != list.end(); ++it) {
      all += it->toDouble();
      if (it.key().startsWith(QLatin1String("graft."))) ours += it->toDouble();
    }
    return std::pair(all, ours);
  };
  const auto [before, none] = calls("original");
  const auto [now, ours] = calls("rewritten");
  QString operators =
      before == now ? tr("%1 operators").arg(now) : tr("%1 operators instead of %2").arg(now).arg(before);
  if (ours > 0) operators += tr(", %1 of them graft kernels").arg(ours);
  return tr("%1. Intermediates at most %2; weights %3.")
      .arg(operators, pair(number(at(a, "intermediates")), number(at(b, "intermediates"))),
           pair(number(at(a, "weights")), number(at(b, "weights"))));
}

/// The figures may be of an earlier run, or of a model that has changed since: then a note above them says so.
void RunPanel::refreshNote() {
  const bool any = !document_.lastRun().isEmpty(), running = document_.isRunning(), sweeping = sizes_ > 1;
  const QString before =
      sweeping && !sweep_.isEmpty() ? tr("Below: %1.").arg(sweep_.last().first) : tr("Below: the run before.");
  QString text;
  bool isBad = false;
  if (running) {
    text = doing_.isEmpty() ? tr("measuring…") : doing_ + QStringLiteral("…");
    if (sweeping) text += tr(" (%1, size %2 of %3)").arg(runningLabel_).arg(sweep_.size() + 1).arg(sizes_);
    text[0] = text[0].toUpper();
  } else if (any && !document_.lastRunWorked()) {
    isBad = !document_.lastRunError().isEmpty();
    text = isBad ? tr("The last run did not finish: %1.").arg(document_.lastRunError()) : tr("Stopped.");
    if (sweeping) text += tr(" %1 of %2 sizes were measured.").arg(sweep_.size()).arg(sizes_);
  } else if (any && !document_.lastRunIsCurrent()) {
    text = tr("The model has been changed since this run: run again (F5).");
    isBad = true;
  } else if (any && sweep_.size() > 1) {
    text = before;
  }
  if (text.isEmpty() && any && document_.ranGraph(0) && document_.ranGraph(0) == document_.ranGraph(1) &&
      ratioRangeOf(document_.lastRun()).tellsDifference())
    text = baselineName(document_.lastRun()).isEmpty()
               ? tr("The model is unchanged: both runs are of the same graph.")
               : tr("The model is unchanged: what differs is who runs it, PyTorch or Graft.");
  if (const QDateTime when = document_.lastRunOfBefore(); !running && when.isValid())
    text = tr("Measured %1, before this window was opened. ").arg(whenText(when)) + text;
  if (any && (running || !document_.lastRunWorked())) text += QLatin1Char(' ') + before;
  note_->showText(text);
  const bool isShown = !text.isEmpty() && (any || running);
  note_->setVisible(isShown);
  headline_->setLines(isShown ? 1 : 2);  // both have two lines together
  const Palette& p = themePalette();
  tint(*note_, isBad ? p.wrong() : p.dim);
}

QString RunPanel::insideText() const {
  QString text = insideHead_->text();
  static const QRegularExpression tags(QStringLiteral("<[^>]*>"));
  return text.remove(tags);
}

QString RunPanel::report() const {
  const QJsonObject& run = document_.lastRun();
  QString text = (sweep_.size() > 1 ? sweepHeadline(sweep_) + QLatin1Char('\n') : QString()) + headline(run) +
                 QLatin1Char('\n') + memoryLine(run) + QLatin1Char('\n') + at(run, "protocol").toString() +
                 QLatin1Char('\n');
  for (const char* side : {"original", "rewritten"}) {
    const QJsonObject s = objectAt(run, side);
    text += tr("%1: median %2 ms, p10 %3 ms, p90 %4 ms\n")
                .arg(QLatin1String(side))
                .arg(number(at(s, "medianMs")))
                .arg(number(at(s, "p10Ms")))
                .arg(number(at(s, "p90Ms")));
  }
  if (!delta_->fullText().isEmpty()) text += delta_->fullText() + QLatin1Char('\n');
  text += QLatin1Char('\n') + tableText(*tables_[Outputs]);
  if (!sweep_.isEmpty()) text += QLatin1Char('\n') + tableText(*tables_[Sweep]);
  return text;
}

}  // namespace graft
