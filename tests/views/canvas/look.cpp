// look --pictures FOLDER [--depth N]... [--repeats] [--dead-ends] [--flow down|right] [--theme T] [--size WxH]
//      ENGINE... -- MODEL...
// Pictures of these models as the canvas draws them, first and at fit, to look at. At double scale: QT_SCALE_FACTOR=2.
// A graph of a capture is FILE#NAME. tests/views/layout/layout_look.cpp has the numbers.
#include <QApplication>
#include <QCommandLineParser>
#include <QDir>
#include <QFileInfo>
#include <QStandardPaths>
#include <QTest>
#include <cstdio>

#include "views/canvas/canvas.h"
#include "views/document/document.h"

using namespace graft;

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
      deadEnds(QStringLiteral("dead-ends"), QStringLiteral("Do not fold dead ends")),
      flow(QStringLiteral("flow"), QStringLiteral("down or right"), QStringLiteral("F"), QStringLiteral("down")),
      theme(QStringLiteral("theme"), QStringLiteral("light or dark"), QStringLiteral("T"), QStringLiteral("light")),
      size(QStringLiteral("size"), QStringLiteral("Of the canvas"), QStringLiteral("WxH"), QStringLiteral("1100x760"));
  parser.addOptions({depth, repeats, deadEnds, flow, pictures, theme, size});
  if (split < 0 || !parser.parse(words.mid(0, split)) || parser.positionalArguments().isEmpty() ||
      !parser.isSet(pictures))
    return std::fprintf(stderr, "usage: look --pictures FOLDER [OPTION...] ENGINE... -- MODEL...\n"), 2;
  EngineClient engine(parser.positionalArguments());
  Document document(engine);
  engine.start();
  const QStringList sides = parser.value(size).split(QLatin1Char('x'));
  QDir().mkpath(parser.value(pictures));
  for (const QString& path : words.mid(split + 1)) {
    document.open(path.section(QLatin1Char('#'), 0, 0), {}, path.section(QLatin1Char('#'), 1));
    if (!QTest::qWaitFor([&] { return !document.isOpening(); }, 120000) || !document.isOpen())
      return std::fprintf(stderr, "look: %s was not opened\n", qPrintable(path)), 1;
    const QString name = QFileInfo(path).completeBaseName();
    for (const QString& level : parser.values(depth)) {
      ViewOptions options;
      options.depth = level.toInt();
      options.foldRepeats = !parser.isSet(repeats);
      options.foldDeadEnds = !parser.isSet(deadEnds);
      options.flow = parser.value(flow) == QLatin1String("right") ? Flow::Right : Flow::Down;
      Canvas canvas;
      canvas.setTheme(parser.value(theme) == QLatin1String("dark") ? Theme::Dark : Theme::Light);
      canvas.resize(sides.value(0).toInt(), sides.value(1).toInt());
      canvas.show();
      canvas.setViewOptions(options);
      canvas.setGraph(document.graph());
      if (!QTest::qWaitFor([&] { return canvas.scene() && !canvas.isPartial(); }, 60000)) return 1;
      const QString stem = QStringLiteral("%1/%2_%3_%4_%5")
                               .arg(parser.value(pictures), name, level, parser.value(flow), parser.value(theme));
      canvas.grab().save(stem + QStringLiteral("_first.png"));
      canvas.fit();
      canvas.grab().save(stem + QStringLiteral("_fit.png"));
    }
  }
}
