// look [--depth N]... [--repeats] [--pictures FOLDER] [--theme T] [--size WxH] ENGINE... -- MODEL...: how good the
// drawings of these models are, in numbers, and pictures of them at fit and at 100 % to look at. At double scale:
// QT_SCALE_FACTOR=2. docs/measurements/window.md has the table.
#include <QApplication>
#include <QCommandLineParser>
#include <QDir>
#include <QElapsedTimer>
#include <QFileInfo>
#include <QStandardPaths>
#include <QTest>
#include <cstdio>

#include "tests/views/support/layout_quality.h"
#include "views/canvas/canvas.h"
#include "views/document/document.h"

using namespace graft;

namespace {

void printNumbers(const QString& name, const GraphRef& graph, const ViewOptions& options) {
  const VisibleGraph view = makeVisibleGraph(*graph, options);
  QElapsedTimer clock;
  clock.start();
  const Result<Layout> layout = layoutGraph(view);
  const double ms = static_cast<double>(clock.nsecsElapsed()) / 1e6;
  if (!layout) return;
  const test::LayoutQuality q = test::qualityOf(view, *layout);
  std::printf("| %s, depth %d | %zu | %zu | %zu | %zu | %.0f %% | %.0f × %.0f | %.0f %% | %.0f |\n", qPrintable(name),
              options.depth, q.boxes, q.edges, q.crossings, q.bends, 100 * q.straightness, q.width, q.height,
              100 * q.readable, ms);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  QApplication app(argc, argv);
  QStandardPaths::setTestModeEnabled(true);
  const QStringList words = QApplication::arguments();
  const qsizetype split = words.indexOf(QStringLiteral("--"));
  QCommandLineParser parser;
  parser.setOptionsAfterPositionalArgumentsMode(QCommandLineParser::ParseAsPositionalArguments);
  const QCommandLineOption depth(QStringLiteral("depth"),
                                 QStringLiteral("Modules nested this deep are closed; -1: none"), QStringLiteral("N"),
                                 QStringLiteral("1")),
      repeats(QStringLiteral("repeats"), QStringLiteral("Show equal blocks one by one")),
      pictures(QStringLiteral("pictures"), QStringLiteral("Write pictures there"), QStringLiteral("FOLDER")),
      theme(QStringLiteral("theme"), QStringLiteral("light or dark"), QStringLiteral("T"), QStringLiteral("light")),
      size(QStringLiteral("size"), QStringLiteral("Of the canvas"), QStringLiteral("WxH"), QStringLiteral("1100x760"));
  parser.addOptions({depth, repeats, pictures, theme, size});
  if (split < 0 || !parser.parse(words.mid(0, split)) || parser.positionalArguments().isEmpty())
    return std::fprintf(stderr, "usage: look [OPTION...] ENGINE... -- MODEL...\n"), 2;
  EngineClient engine(parser.positionalArguments());
  Document document(engine);
  engine.start();
  const QStringList sides = parser.value(size).split(QLatin1Char('x'));
  std::puts("| model | boxes | edges | crossings | bends | straight | size | words at fit | ms |");
  std::puts("|---|---|---|---|---|---|---|---|---|");
  for (const QString& path : words.mid(split + 1)) {
    document.open(path);
    if (!QTest::qWaitFor([&] { return !document.isOpening(); }, 120000) || !document.isOpen())
      return std::fprintf(stderr, "look: %s was not opened\n", qPrintable(path)), 1;
    const QString name = QFileInfo(path).completeBaseName();
    for (const QString& level : parser.values(depth)) {
      ViewOptions options;
      options.depth = level.toInt();
      options.foldRepeats = !parser.isSet(repeats);
      printNumbers(name, document.graph(), options);
      if (!parser.isSet(pictures)) continue;
      QDir().mkpath(parser.value(pictures));
      Canvas canvas;
      canvas.setTheme(parser.value(theme) == QLatin1String("dark") ? Theme::Dark : Theme::Light);
      canvas.resize(sides.value(0).toInt(), sides.value(1).toInt());
      canvas.show();
      canvas.setViewOptions(options);
      canvas.setGraph(document.graph());
      if (!QTest::qWaitFor([&] { return canvas.scene() && !canvas.isPartial(); }, 60000)) return 1;
      const QString stem = QStringLiteral("%1/%2_%3_%4").arg(parser.value(pictures), name, level, parser.value(theme));
      canvas.grab().save(stem + QStringLiteral("_first.png"));
      canvas.fit();
      canvas.grab().save(stem + QStringLiteral("_fit.png"));
    }
  }
}
