// measure ENGINE... -- MODEL RULES [INPUTS [LARGE...]]: what docs/measurements/window.md says of the window,
// measured with the given engine: start, memory, typing to matches, frames, a large graph; and how long each file LARGE
// takes to open.
// measure --frames [FOLDER]: panning and zooming alone; FOLDER gets a picture of each zoom.
#include <unistd.h>

#include <QApplication>
#include <QElapsedTimer>
#include <QFile>
#include <QFileInfo>
#include <QSettings>
#include <QStandardPaths>
#include <QTemporaryDir>
#include <QTest>
#include <QTimer>
#include <algorithm>
#include <cstdio>
#include <functional>

#include "core/text/text.h"
#include "tests/views/support/frames.h"
#include "views/canvas/canvas.h"
#include "views/panels/rules/rule_editor.h"
#include "views/widgets/theme.h"
#include "views/window/allocator.h"
#include "views/window/main_window.h"

using namespace graft;

namespace {

double residentMb() {
  QFile file(QStringLiteral("/proc/self/statm"));
  return file.open(QIODevice::ReadOnly) ? file.readAll().split(' ').value(1).toDouble() * 4096 / 1e6 : 0;
}

/// Since the process was started by its parent: what the loader does is in it. To 10 ms.
double millisecondsSinceStart() {
  QFile stat(QStringLiteral("/proc/self/stat")), uptime(QStringLiteral("/proc/uptime"));
  if (!stat.open(QIODevice::ReadOnly) || !uptime.open(QIODevice::ReadOnly)) return 0;
  const QByteArray line = stat.readAll();
  const double started = line.mid(line.lastIndexOf(')') + 2).split(' ').value(19).toDouble();
  return 1000 * (uptime.readAll().split(' ').value(0).toDouble() - started / static_cast<double>(sysconf(_SC_CLK_TCK)));
}

/// Of another process, to 10 ms.
double engineCpu(qint64 process) {
  QFile stat(QStringLiteral("/proc/%1/stat").arg(process));
  if (!stat.open(QIODevice::ReadOnly)) return 0;
  const QByteArray line = stat.readAll();
  const QList<QByteArray> fields = line.mid(line.lastIndexOf(')') + 2).split(' ');
  return 1000 * (fields.value(11).toDouble() + fields.value(12).toDouble()) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// Sleeps only while nothing comes: QTest's own waiting sleeps 10 ms after each look, which with 64 KB of a pipe in
/// each makes large answers slow by itself.
bool until(const std::function<bool()>& done, int ms = 120000) {
  QElapsedTimer waited;
  waited.start();
  QTimer wake;  // ends a wait in which nothing comes
  wake.start(50);
  while (!done() && !waited.hasExpired(ms)) {
    QApplication::processEvents(QEventLoop::WaitForMoreEvents);
    QApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
  }
  return done();
}

void report(const char* what, std::vector<double> ms, const char* clock) {
  std::sort(ms.begin(), ms.end());
  std::printf("%-44s median %7.1f ms   worst of %zu: %.1f ms (%s)\n", what, ms[ms.size() / 2], ms.size(), ms.back(),
              clock);
}

void panning(const char* what, Canvas& canvas, double scale) {
  report(what, test::panningFrames(canvas, scale, 60), "processor");
}

/// Panning and zooming of ten thousand boxes. `folder`: for pictures of each zoom, to compare one way to paint with
/// another; empty: none.
bool frames(const QString& folder) {
  Canvas canvas;
  if (!test::showTenThousandBoxes(canvas)) return false;
  std::printf("a canvas of 1200 x 800 with %zu boxes\n", canvas.scene()->view.boxes.size());
  const double whole = 800 / canvas.scene()->bounds().height();
  panning("  panning, all of them in view", canvas, whole);
  panning("  panning at 15 %", canvas, 0.15);
  panning("  panning at 80 %", canvas, 0.8);
  for (const double scale : {whole, 0.15, 0.3, 0.8}) {  // every frame is painted anew
    std::vector<double> zooming;
    for (int i = 0; i < 40; ++i) {
      const double start = test::processorMs();
      canvas.setView(canvas.scene()->bounds().topLeft(), i % 2 ? scale * 1.05 : scale);
      canvas.repaint();
      zooming.push_back(test::processorMs() - start);
    }
    const QString percent = QString::number(scale * 100, 'f', 1);
    report(qPrintable(QStringLiteral("  zooming at %1 %").arg(percent)), zooming, "processor");
    std::vector<double> turning;  // a turn of the wheel: frames in between, and the last one
    const QPointF middle(600, 400);
    canvas.setView(canvas.scene()->bounds().topLeft(), scale);
    canvas.repaint();
    for (int i = 0; i < 40; ++i) {
      const double start = test::processorMs();
      canvas.zoomBy(i % 8 < 4 ? 1.05 : 1 / 1.05, middle);
      canvas.repaint();
      turning.push_back(test::processorMs() - start);
    }
    report("    a notch of the wheel", turning, "processor");
    std::vector<double> places;
    for (int i = 0; i < 20; ++i) {
      const double start = test::processorMs();
      const LabelPlaces labels(*canvas.scene(), scale);
      places.push_back(test::processorMs() - start);
    }
    report("    of that, where labels stand", places, "processor");
    if (!folder.isEmpty()) canvas.grab().save(QStringLiteral("%1/zoom_%2.png").arg(folder, percent));
  }
  return true;
}

/// From the file to the painted window, through the engine: import, transfer, decoding, layout, paint.
void openLarge(MainWindow& window, const QString& path) {
  window.arrange(Arrangement::Explore);
  Document& d = window.document();
  const double own = test::processorMs(), engines = engineCpu(window.engine().processId());
  const qint64 bytes = window.engine().bytesReceived();
  QElapsedTimer timer, beat;
  qint64 silence = 0, answered = 0, decoded = 0;
  QTimer heart;
  QObject::connect(&heart, &QTimer::timeout, &heart, [&] { silence = std::max(silence, beat.restart()); });
  QObject::connect(&window.engine(), &EngineClient::finished, &heart, [&] {
    if (answered == 0) answered = timer.elapsed();
  });
  QObject::connect(&d, &Document::opened, &heart, [&] { decoded = timer.elapsed(); });
  timer.start();
  beat.start();
  heart.start(5);
  window.openModel(path);
  if (!until([&] { return d.path() == path && window.canvas()->scene(); })) return;
  window.repaint();
  const auto first = static_cast<long long>(timer.elapsed());
  if (!until([&] { return !window.canvas()->isPartial(); })) return;
  window.repaint();
  const auto clock = static_cast<long long>(timer.elapsed());
  silence = std::max(silence, beat.elapsed());
  std::printf(
      "%s: the engine answered after %lld ms, decoded after %lld, first seen after %lld, drawn whole after %lld; "
      "silent for %lld at most\n",
      qPrintable(QFileInfo(path).fileName()), static_cast<long long>(answered), static_cast<long long>(decoded), first,
      clock, static_cast<long long>(silence));
  std::printf(
      "%zu nodes opened and drawn, %zu boxes: %lld ms by the clock; on the processor %.0f ms in the window, %.0f ms in "
      "the engine; %.0f MB over the line, %.0f MB resident\n",
      d.graph()->nodeCount(), window.canvas()->scene()->view.boxes.size(), clock, test::processorMs() - own,
      engineCpu(window.engine().processId()) - engines,
      static_cast<double>(window.engine().bytesReceived() - bytes) / 1e6, residentMb());
}

void largeGraph(MainWindow& window, int layers) {
  QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("large.txt"));
  QFile file(path);
  if (!file.open(QIODevice::WriteOnly)) return;
  file.write(QByteArray::fromStdString(toText(test::encoder(layers))));
  file.close();
  openLarge(window, path);
}

}  // namespace

int main(int argc, char** argv) {
  tuneAllocator();  // as graft-gui does
  QApplication app(argc, argv);
  QStandardPaths::setTestModeEnabled(true);
  QApplication::setOrganizationName(QStringLiteral("graft-measure"));
  QSettings().clear();
  const QStringList words = QApplication::arguments().mid(1);
  if (words.value(0) == QLatin1String("--frames")) {
    applyTheme(Theme::Light);
    return frames(words.value(1)) ? 0 : 1;
  }
  const qsizetype split = words.indexOf(QStringLiteral("--"));
  if (split < 1 || words.size() < split + 3)
    return std::fprintf(stderr,
                        "usage: measure ENGINE... -- MODEL RULES [INPUTS [LARGE...]], or measure --frames [FOLDER]\n"),
           2;
  applyTheme(Theme::Light);
  MainWindow window(words.mid(0, split));
  window.show();
  if (!QTest::qWaitForWindowExposed(&window)) return 1;
  window.repaint();
  std::printf("%-44s %.0f ms, %.0f of them on the processor; %.0f MB resident\n", "process start to painted window",
              millisecondsSinceStart(), test::processorMs(), residentMb());
  until([&] { return window.engine().isUp(); });
  std::printf("%-44s %.0f ms\n", "process start to engine ready", millisecondsSinceStart());

  Document& d = window.document();
  QElapsedTimer timer;
  timer.start();
  window.openModel(words[split + 1], words.value(split + 3));
  if (!until([&] { return d.isOpen() && window.canvas()->scene(); })) return 1;
  window.repaint();
  std::printf("%-44s %lld ms; %zu nodes, %.1f MB over the line, %.0f MB resident\n", "the model opened and drawn",
              static_cast<long long>(timer.elapsed()), d.graph()->nodeCount(),
              static_cast<double>(window.engine().bytesReceived()) / 1e6, residentMb());

  QFile rules(words[split + 2]);
  if (!rules.open(QIODevice::ReadOnly)) return 1;
  QString text = QString::fromUtf8(rules.readAll());
  window.arrange(Arrangement::Rewrite);
  window.panel<RuleEditor>()->setText(text);
  until([&] { return !d.rules().empty() && d.rules().front().matched; });
  std::vector<double> typing;
  const double own = test::processorMs(), engines = engineCpu(window.engine().processId());
  constexpr int rounds = 15;
  constexpr double pause = 150;  // the editor waits that long after the last key
  for (int i = 0; i < rounds; ++i) {
    bool matched = false;
    const auto connection = QObject::connect(&d, &Document::matchesChanged, &window, [&] { matched = true; });
    text += QStringLiteral("# ");
    timer.restart();
    d.setRules(text, {});
    until([&] { return matched; });
    window.repaint();
    typing.push_back(static_cast<double>(timer.nsecsElapsed()) / 1e6 - pause);
    QObject::disconnect(connection);
  }
  report("typing to new matches, after the pause", typing, "clock");
  std::printf("  of that on the processor: %.1f ms in the window, %.1f ms in the engine\n",
              (test::processorMs() - own) / rounds, (engineCpu(window.engine().processId()) - engines) / rounds);
  std::printf("%-44s %.0f MB resident\n", "with rules and matches", residentMb());
  window.canvas()->setDepth(-1);
  until([&] { return window.canvas()->scene() != nullptr; });

  if (!frames({})) return 1;
  largeGraph(window, 4000);
  for (const QString& large : words.mid(split + 4)) openLarge(window, QFileInfo(large).absoluteFilePath());
  return 0;
}
