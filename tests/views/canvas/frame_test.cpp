// What stands still over a drawing: arrows to what is out of sight, the modules one is inside of, the legend; and two
// drawings that are fitted and compared as one.
#include <QDockWidget>
#include <algorithm>

#include "tests/views/support/sample_graphs.h"
#include "tests/views/support/window_fixture.h"
#include "views/canvas/canvas_frame.h"
#include "views/canvas/overview.h"
#include "views/document/graph_decode.h"

using namespace graft;
using test::rulesText;

namespace {

class FrameTest : public test::WindowFixture {
  Q_OBJECT

  Canvas& canvas() { return *window_->canvas(); }
  QStringList legend() {
    QStringList out;
    for (const auto& [text, color] : canvas().frame().legend()) out << text;
    return out;
  }
  bool isSeen(const QString& key) {
    const int box = canvas().scene()->boxOf(key);
    return canvas().visibleSceneRect().intersects(canvas().scene()->rect(box));
  }

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void anArrowLeadsToMatchesOutOfSight() {
    open();
    type(QString::fromLatin1(rulesText));
    canvas().setDepth(-1);
    // All four matches lie below the first node, one by one out of sight.
    canvas().setView({0, -4000}, 1);
    const std::vector<EdgeMark> marks = canvas().frame().marks();
    QCOMPARE(marks.size(), size_t{1});
    QCOMPARE(marks.front().side, EdgeMark::Below);
    QCOMPARE(marks.front().count, 4);
    QVERIFY(marks.front().text.endsWith(QLatin1Char('4')));
    QVERIFY(canvas().rect().contains(marks.front().place.toRect()));
    QVERIFY(!isSeen(QStringLiteral("matmul")));
    QTest::mouseClick(&canvas(), Qt::LeftButton, {}, marks.front().place.center().toPoint());
    QVERIFY(isSeen(QStringLiteral("matmul")));  // the nearest
    QVERIFY(document().selection().isEmpty());
    canvas().setView({0, 40000}, 1);
    QCOMPARE(canvas().frame().marks().front().side, EdgeMark::Above);
    // The overview shows them, too.
    int marked = 0;
    auto* overview = canvas().findChildren<QWidget*>().first();
    const QColor wanted = toQt(graft::palette(Theme::Light).pattern(0));
    const QImage map = overview->grab().toImage();
    for (int x = 0; x < map.width(); ++x)
      for (int y = 0; y < map.height(); ++y) marked += map.pixelColor(x, y) == wanted;
    QVERIFY2(marked >= 4, qPrintable(QString::number(marked)));
    window_->comparison().fit();
    QVERIFY(canvas().frame().marks().empty());
  }

  void anArrowCountsColouredNodesThatBelongToNoMatch() {
    open();
    canvas().setDepth(-1);
    Decorations colours;
    colours.pattern = {{QStringLiteral("matmul"), 0}, {QStringLiteral("softmax_1"), 1}};
    colours.countsMatches = false;
    canvas().setDecorations(colours);
    canvas().setView({0, -4000}, 1);
    const std::vector<EdgeMark> marks = canvas().frame().marks();
    QCOMPARE(std::accumulate(marks.begin(), marks.end(), 0, [](int n, const EdgeMark& m) { return n + m.count; }), 2);
  }

  void oneSeesWhichModulesOneIsInside() {
    open();
    canvas().setDepth(-1);
    window_->comparison().fit();
    QVERIFY(canvas().frame().inside().isEmpty());
    const QRectF r = canvas().scene()->rect(canvas().scene()->boxOf(QStringLiteral("softmax_1")));
    canvas().setView(r.center() - QPointF(canvas().width() / 2.0, 5), 1);
    const QStringList inside = canvas().frame().inside();
    QCOMPARE(inside.first(), QStringLiteral("encoder"));
    QCOMPARE(inside.last(), QStringLiteral("attention"));
  }

  void whatIsBehindTheNamesOfModulesShowsUnderThePointer() {
    Canvas canvas;
    canvas.resize(700, 500);
    ViewOptions open;
    open.depth = -1;
    canvas.setViewOptions(open);
    canvas.setGraph(std::make_shared<Graph>(test::encoder(6)));
    canvas.setView(canvas.scene()->bounds().center() - QPointF(350, 250), 1);
    canvas.show();
    const QRectF place = canvas.frame().topPlace();
    QVERIFY(!canvas.frame().inside().isEmpty() && place.width() > 60);
    const QRect there = place.adjusted(2, 2, -2, -2).toRect();
    const auto seen = [&] { return canvas.grab(there).toImage(); };
    const QImage covered = seen();
    QTest::mouseMove(&canvas, place.center().toPoint());
    QTRY_VERIFY(seen() != covered);
    QTest::mouseMove(&canvas, QPoint(350, 400));
    QTRY_VERIFY(seen() == covered);
  }

  void theLegendNamesWhatThereIs() {
    open();
    canvas().setDepth(-1);
    for (const BoxKind kind : {BoxKind::Product, BoxKind::Normalization})
      QVERIFY(legend().contains(QString::fromStdString(std::string(boxKindName(kind)))));
    QVERIFY(!legend().contains(QStringLiteral("lookup")) && !legend().contains(QStringLiteral("module")));
    canvas().setDepth(0);
    QVERIFY(legend().contains(QStringLiteral("module")));
    canvas().setDepth(-1);
    QAction* shown = window_->action(QStringLiteral("legend"));
    QVERIFY(shown->isChecked());
    window_->resize(1440, 900);
    QTest::qWait(30);
    const QImage with = canvas().grab().toImage();
    shown->trigger();
    QVERIFY(canvas().grab().toImage() != with);
    // While matches show, the colours are theirs; while changes show, theirs.
    type(QString::fromLatin1(rulesText));
    QVERIFY(legend().isEmpty());
    document().apply(rule().name);
    QTRY_COMPARE(document().position(), 1);
    window_->setCompare(true);
    // What the other drawing has, too: the two are read as one.
    QCOMPARE(legend(), (QStringList{QStringLiteral("− removed"), QStringLiteral("+ added")}));
  }

  void theLegendAndTheOverviewOfASmallCanvasCoverNoBoxes() {
    Canvas canvas;
    canvas.setLegendVisible(true);
    canvas.setOverviewVisible(true);
    canvas.resize(700, 420);
    canvas.show();
    ViewOptions all;
    all.depth = -1;
    canvas.setViewOptions(all);
    canvas.setGraph(std::make_shared<Graph>(test::encoder(6)));
    QVERIFY(canvas.scene());
    const auto covers = [&](const QRectF& r) {
      return canvas.scene()->covers({canvas.toScene(r.topLeft()), r.size() / canvas.scale()});
    };
    auto* overview = canvas.findChild<Overview*>();
    bool isFolded = false, isWhole = false, isMapSeen = false;
    for (const double scale : {0.15, 0.5, 1.0})
      for (int step = 0; step < 12; ++step) {
        canvas.setView({0, step * canvas.scene()->bounds().height() / 12}, scale);
        const CanvasFrame framed = canvas.frame();
        isFolded |= framed.isLegendFolded();
        isWhole |= !framed.isLegendFolded();
        QVERIFY(framed.isLegendFolded() || !covers(framed.legendPlace()));
        isMapSeen |= overview->isVisible();
        QVERIFY(!overview->isVisible() || !covers(overview->geometry()));
      }
    QVERIFY(isFolded && isWhole && isMapSeen);
    // Folded, it opens under the pointer.
    for (int step = 0; step < 12 && !canvas.frame().isLegendFolded(); ++step)
      canvas.setView({0, step * canvas.scene()->bounds().height() / 12}, 1.0);
    QVERIFY(canvas.frame().isLegendFolded());
    QTest::mouseMove(&canvas, canvas.frame().legendPlace().center().toPoint());
    QTRY_VERIFY(!canvas.frame().isLegendFolded());
  }

  void theLegendStandsWhereNothingIsDrawn() {
    Canvas canvas;
    canvas.setGraph(std::make_shared<Graph>(test::encoder(2)));
    QVERIFY(canvas.scene());
    const Scene& scene = *canvas.scene();
    const QRectF whole = scene.bounds();
    QVERIFY(scene.isBlank({whole.right() + 10, whole.bottom() + 10, 50, 50}));
    QVERIFY(!scene.isBlank(whole));
    // Neither an edge nor the outline of an open module counts as free, where no box is.
    for (const QPainterPath& path : scene.paths)
      QVERIFY(!scene.isBlank({path.pointAtPercent(0.5) - QPointF(2, 2), QSizeF(4, 4)}));
    for (size_t i = 0; i < scene.view.boxes.size(); ++i)
      if (const QRectF r = scene.rect(static_cast<int>(i)); scene.view.boxes[i].open)
        QVERIFY(!scene.isBlank({r.bottomRight() - QPointF(5, 5), QSizeF(10, 10)}));
    canvas.setLegendVisible(true);
    canvas.resize(1400, 900);
    canvas.fit();
    const QRectF r = canvas.frame().legendPlace();
    QVERIFY(scene.isBlank({canvas.toScene(r.topLeft()), r.size() / canvas.scale()}));
  }

  void theLegendCoversNoTitleOfAModule() {
    Canvas canvas;
    canvas.setGraph(std::make_shared<Graph>(test::encoder(2)));
    QVERIFY(canvas.scene());
    const Scene& scene = *canvas.scene();
    const auto open =
        std::find_if(scene.view.boxes.begin(), scene.view.boxes.end(), [](const Box& b) { return b.open; });
    QVERIFY(open != scene.view.boxes.end());
    const QRectF module = scene.rect(static_cast<int>(open - scene.view.boxes.begin()));
    QVERIFY(scene.covers({module.topLeft() + QPointF(4, 4), QSizeF(6, 6)}));
    QVERIFY(!scene.covers({module.bottomRight() - QPointF(5, 5), QSizeF(4, 4)}));
  }

  void theFoldedLegendStandsWhereItIsFree() {
    Canvas canvas;
    canvas.setLegendVisible(true);
    canvas.resize(700, 420);
    canvas.show();
    ViewOptions all;
    all.depth = -1;
    all.foldRepeats = false;
    canvas.setViewOptions(all);
    canvas.setGraph(std::make_shared<Graph>(test::encoder(60)));
    QVERIFY(canvas.scene());
    bool isFolded = false;
    for (const double scale : {0.12, 0.2, 0.3})
      for (int step = 0; step < 12; ++step) {
        canvas.setView({0, step * canvas.scene()->bounds().height() / 12}, scale);
        canvas.setLegendVisible(true);  // its corner is chosen anew
        const CanvasFrame framed = canvas.frame();
        if (!framed.isLegendFolded()) continue;
        isFolded = true;
        const auto covers = [&](Corner corner) {
          const QRectF r = inCorner(corner, framed.legendPlace().size(), canvas.size());
          return canvas.scene()->covers({canvas.toScene(r.topLeft()), r.size() / canvas.scale()});
        };
        const auto corners = {Corner::BottomLeft, Corner::TopLeft, Corner::TopRight, Corner::BottomRight};
        const bool isAnyFree = !std::all_of(corners.begin(), corners.end(), covers);
        const QRectF r = framed.legendPlace();
        QVERIFY(!isAnyFree || !canvas.scene()->covers({canvas.toScene(r.topLeft()), r.size() / canvas.scale()}));
      }
    QVERIFY(isFolded);
  }

  /// As the legend of kinds: in a corner without boxes, else folded to its colours.
  void theScaleOfHeatColoursCoversNoWords() {
    Canvas canvas;
    canvas.resize(520, 200);
    canvas.show();
    const auto graph = std::make_shared<Graph>(test::encoder(2));
    ViewOptions all;
    all.depth = -1;
    canvas.setViewOptions(all);
    canvas.setGraph(graph);
    QVERIFY(canvas.scene());
    Decorations decorations;
    for (const NodeId n : graph->order()) decorations.heat.insert(QString::fromStdString(graph->node(n).name), 1e-3);
    canvas.setDecorations(decorations);
    QVERIFY(canvas.boxDecorations().anyHeat);
    const auto covers = [&](const QRectF& r) {
      return canvas.scene()->covers({canvas.toScene(r.topLeft()), r.size() / canvas.scale()});
    };
    bool isFolded = false, isWhole = false;
    for (int step = 0; step < 24; ++step) {
      canvas.setView({0, step * canvas.scene()->bounds().height() / 24}, 1.0);
      const CanvasFrame framed = canvas.frame();
      QVERIFY(!framed.legendPlace().isEmpty());
      isFolded |= framed.isLegendFolded();
      isWhole |= !framed.isLegendFolded();
      QVERIFY(framed.isLegendFolded() || !covers(framed.legendPlace()));
    }
    QVERIFY(isFolded && isWhole);
  }

  /// As one types, most matches are those of before.
  void decorationsThatAreThereAreNotPaintedAnew() {
    open();
    Decorations decorations;
    decorations.pattern.insert(QStringLiteral("softmax"), 0);
    canvas().setDecorations(decorations);
    QTest::qWait(100);
    struct Counter : QObject {
      int painted = 0;
      bool eventFilter(QObject*, QEvent* e) override {
        painted += e->type() == QEvent::Paint;
        return false;
      }
    } counter;
    canvas().installEventFilter(&counter);
    canvas().setDecorations(decorations);
    QTest::qWait(100);
    QCOMPARE(counter.painted, 0);
    decorations.pattern.insert(QStringLiteral("softmax"), 1);
    canvas().setDecorations(decorations);
    QTRY_VERIFY(counter.painted > 0);
  }

  void whileMatchesShowKindsAreGrey() {
    open();
    window_->arrange(Arrangement::Rewrite);
    canvas().setDepth(-1);
    const auto colorOf = [&](const char* key) {
      const QRectF r = canvas().scene()->rect(canvas().scene()->boxOf(QString::fromLatin1(key)));
      canvas().setView(r.center() - QPointF(100, 100), 1);
      return canvas().grab().toImage().pixelColor(canvas().toWidget(r.topLeft() + QPointF(8, 4)).toPoint());
    };
    const auto isGrey = [](const QColor& c) {
      return std::max({c.red(), c.green(), c.blue()}) - std::min({c.red(), c.green(), c.blue()}) < 12;
    };
    QVERIFY(!isGrey(colorOf("layer_norm")));
    type(QString::fromLatin1(rulesText));
    QVERIFY(isGrey(colorOf("layer_norm")));
    QVERIFY(!isGrey(colorOf("softmax")));
  }

  void bothDrawingsAreFittedAndEqualOnesSaySo() {
    open();
    type(QString::fromLatin1(rulesText));
    canvas().setDepth(-1);
    const auto title = [&] { return canvas().title(); };
    window_->setCompare(true);
    QVERIFY(title().contains(QStringLiteral("identical")));
    document().apply(rule().name);
    QTRY_COMPARE(document().position(), 1);
    QCOMPARE(title(), QStringLiteral("now"));
    window_->action(QStringLiteral("fit"))->trigger();
    QTest::qWait(30);
    for (Canvas* c : {window_->canvas(), window_->beforeCanvas()})
      QVERIFY(c->visibleSceneRect().contains(c->scene()->bounds()));
    QCOMPARE(window_->canvas()->scale(), window_->beforeCanvas()->scale());
    // Their titles cover none of their boxes.
    for (Canvas* c : {window_->canvas(), window_->beforeCanvas()}) {
      QVERIFY(!c->title().isEmpty());
      QVERIFY(c->toWidget(c->scene()->bounds().topLeft()).y() >= CanvasFrame::titleHeight);
    }
    // Under heat colours − and + stay.
    document().run({});
    QTRY_VERIFY_WITH_TIMEOUT(!document().isRunning() && !document().lastRun().isEmpty(), 20000);
    window_->setOverlay(Overlay::Time);
    QVERIFY(canvas().boxDecorations().anyHeat);
    const int fused = canvas().scene()->boxOf(QStringLiteral("fused_0"));
    QCOMPARE(canvas().boxDecorations().change[static_cast<size_t>(fused)], Change::Added);
    // Another file with the same nodes.
    document().undo();
    const QString same = folder_.filePath(QStringLiteral("same.pt"));
    QVERIFY(QFile::copy(model_, same));
    document().compareWith(same);
    QTRY_COMPARE_WITH_TIMEOUT(document().otherPath(), same, 10000);
    QTRY_VERIFY2(title().contains(QStringLiteral("identical")), qPrintable(title()));
    const QString smaller = folder_.filePath(QStringLiteral("other.pt"));
    QVERIFY(QFile::copy(model_, smaller));
    document().compareWith(smaller);
    QTRY_COMPARE_WITH_TIMEOUT(document().otherPath(), smaller, 10000);
    QVERIFY(!title().contains(QStringLiteral("identical")));
  }

  void aNarrowWindowLeavesTheDrawingHalfOfTheWidth() {
    start();
    window_->resize(1024, 700);
    window_->openModel(model_);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen(), 10000);
    window_->arrange(Arrangement::Rewrite);
    QTest::qWait(100);
    QCOMPARE(window_->width(), 1024);
    QVERIFY2(canvas().width() >= 480, qPrintable(QString::number(canvas().width())));
  }

  void returnInTheInputsRuns() {
    open();
    window_->arrange(Arrangement::Measure);
    auto* inputs = window_->findChild<QDockWidget*>(QStringLiteral("run"))->findChild<QLineEdit*>();
    QTest::keyClick(inputs, Qt::Key_Return);
    QVERIFY(document().isRunning());
    QTRY_VERIFY_WITH_TIMEOUT(!document().isRunning(), 20000);
  }
};

}  // namespace

QTEST_MAIN(FrameTest)
#include "frame_test.moc"
