// look --pictures FOLDER [--depth N]... [--repeats] [--dead-ends] [--flow down|right] [--theme T] [--size WxH] [--cut]
// GRAPH.json... Pictures of graphs as the canvas draws them, first and at fit, to look at. GRAPH.json is what `graft
// text MODEL --json` prints. At double scale: QT_SCALE_FACTOR=2. tests/views/layout/layout_look.cpp has the numbers.
#include <QApplication>
#include <QCommandLineParser>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonDocument>
#include <QTest>
#include <cstdio>

#include "tests/views/support/named_boxes.h"
#include "views/canvas/canvas.h"
#include "views/canvas/hover_card.h"
#include "views/document/graph_decode.h"
#include "views/widgets/theme.h"

using namespace graft;

int main(int argc, char** argv) {
  QApplication app(argc, argv);
  QCommandLineParser parser;
  const QCommandLineOption depth(QStringLiteral("depth"),
                                 QStringLiteral("Modules nested this deep are closed; -1: none"), QStringLiteral("N"),
                                 QStringLiteral("1")),
      repeats(QStringLiteral("repeats"), QStringLiteral("Show equal blocks one by one")),
      pictures(QStringLiteral("pictures"), QStringLiteral("Write pictures there"), QStringLiteral("FOLDER")),
      deadEnds(QStringLiteral("dead-ends"), QStringLiteral("Do not fold dead ends")),
      flow(QStringLiteral("flow"), QStringLiteral("down or right"), QStringLiteral("F"), QStringLiteral("down")),
      theme(QStringLiteral("theme"), QStringLiteral("light or dark"), QStringLiteral("T"), QStringLiteral("light")),
      card(QStringLiteral("card"), QStringLiteral("A picture of the card of this node"), QStringLiteral("NODE")),
      cut(QStringLiteral("cut"), QStringLiteral("List the titles that are cut")),
      size(QStringLiteral("size"), QStringLiteral("Of the canvas"), QStringLiteral("WxH"), QStringLiteral("1100x760"));
  parser.addOptions({depth, repeats, deadEnds, flow, pictures, theme, card, cut, size});
  parser.process(app);
  if (!parser.isSet(pictures) || parser.positionalArguments().isEmpty())
    return std::fprintf(stderr, "usage: look --pictures FOLDER [OPTION...] GRAPH.json...\n"), 2;
  QDir().mkpath(parser.value(pictures));
  const QStringList sides = parser.value(size).split(QLatin1Char('x'));
  const bool isDark = parser.value(theme) == QLatin1String("dark");
  applyTheme(isDark ? Theme::Dark : Theme::Light);
  for (const QString& path : parser.positionalArguments()) {
    QFile file(path);
    const QJsonDocument json =
        file.open(QIODevice::ReadOnly) ? QJsonDocument::fromJson(file.readAll()) : QJsonDocument();
    const std::shared_ptr<const Graph> graph = json.isObject() ? decodeGraph(json.object()) : nullptr;
    if (!graph) return std::fprintf(stderr, "look: %s has no graph\n", qPrintable(path)), 1;
    for (const QString& level : parser.values(depth)) {
      ViewOptions options;
      options.depth = level.toInt();
      if (parser.isSet(repeats))
        for (const ModuleCall& call : graph->moduleCalls()) options.unfolded.insert(call.path);
      options.foldDeadEnds = !parser.isSet(deadEnds);
      options.flow = parser.value(flow) == QLatin1String("right") ? Flow::Right : Flow::Down;
      Canvas canvas;
      canvas.setTheme(isDark ? Theme::Dark : Theme::Light);
      canvas.setOverviewVisible(true);
      canvas.setLegendVisible(true);
      canvas.resize(sides.value(0).toInt(), sides.value(1).toInt());
      canvas.show();
      canvas.setViewOptions(options);
      canvas.setGraph(graph);
      if (!QTest::qWaitFor([&] { return canvas.scene() && !canvas.isPartial(); }, 60000)) return 1;
      const QString stem = QStringLiteral("%1/%2_%3_%4_%5")
                               .arg(parser.value(pictures), QFileInfo(path).completeBaseName(), level,
                                    parser.value(flow), parser.value(theme));
      canvas.grab().save(stem + QStringLiteral("_first.png"));
      if (parser.isSet(card)) {
        canvas.reveal(parser.value(card));
        canvas.showCardOfSelection();
        canvas.grab().save(stem + QStringLiteral("_selected.png"));
        canvas.findChild<HoverCard*>()->grab().save(stem + QStringLiteral("_card.png"));
      }
      canvas.fit();
      canvas.grab().save(stem + QStringLiteral("_fit.png"));
      const test::NamedBoxes named = test::namedBoxes(*canvas.scene(), test::scaleOfFit(*canvas.scene()));
      std::printf("%s, depth %s: words in %.0f %% of the boxes at fit, cut in %.0f %%; %.0f %% named\n",
                  qPrintable(QFileInfo(path).completeBaseName()), qPrintable(level), 100 * named.words, 100 * named.cut,
                  100 * named.named);
      if (parser.isSet(cut))
        for (const auto& [title, count] : named.cutTitles) std::printf("  %3d  %s\n", count, title.c_str());
    }
  }
}
