// The canvas: what opens where it stands, what can be read from afar, and very many boxes.
#include <QSignalSpy>
#include <numeric>

#include "tests/views/support/frames.h"
#include "tests/views/support/sample_graphs.h"
#include "tests/views/support/window_fixture.h"

using namespace graft;

namespace {

class CanvasTest : public test::WindowFixture {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void aDoubleClickOpensAModuleWhereItStands() {
    open();
    Canvas* canvas = window_->canvas();
    canvas->setDepth(0);
    const QPoint at =
        canvas->toWidget(canvas->scene()->rect(canvas->scene()->boxOf(QStringLiteral("@encoder"))).center()).toPoint();
    const QPointF before =
        canvas->toWidget(canvas->scene()->rect(canvas->scene()->boxOf(QStringLiteral("@encoder"))).topLeft());
    QTest::mouseDClick(canvas, Qt::LeftButton, {}, at);
    const int box = canvas->scene()->boxOf(QStringLiteral("@encoder"));
    QVERIFY(canvas->scene()->view.boxes[static_cast<size_t>(box)].open);
    QVERIFY((canvas->toWidget(canvas->scene()->rect(box).topLeft()) - before).manhattanLength() < 2);
  }

  void modulesAreNamedFromFarAway() {
    open();
    Canvas* canvas = window_->canvas();
    canvas->setDepth(-1);
    constexpr double scale = 0.3;  // operators are blocks without words
    const QRectF r = canvas->scene()->rect(canvas->scene()->boxOf(QStringLiteral("@encoder")));
    canvas->setView(r.topLeft() - QPointF(20, 20) / scale, scale);
    canvas->setSelection({});
    const QImage image = canvas->grab().toImage();
    int dark = 0;
    for (int x = 24; x < 80; ++x)
      for (int y = 21; y < 33; ++y) dark += image.pixelColor(x, y).lightness() < 100;
    QVERIFY2(dark > 40, qPrintable(QString::number(dark)));  // "encoder"
  }

  void ofVeryManyBoxesTheFirstComeAtOnce() {
    const auto graph = std::make_shared<Graph>(test::encoder(600));
    QVERIFY(!firstSight(graph, {}).rest);  // collapsed it is small
    ViewOptions open;
    open.depth = -1;
    open.foldRepeats = false;
    const FirstSight sight = firstSight(graph, open);
    QVERIFY(sight.scene && sight.rest);
    QVERIFY(sight.scene->view.boxes.size() * 4 < sight.rest->boxes.size());
    Canvas canvas;
    canvas.resize(800, 600);
    canvas.setViewOptions(open);
    QSignalSpy scenes(&canvas, &Canvas::sceneChanged);
    canvas.setGraph(graph);
    QTRY_VERIFY_WITH_TIMEOUT(scenes.size() == 2, 30000);
    QVERIFY(!canvas.isPartial());
    QCOMPARE(canvas.scene()->view.boxes.size(), sight.rest->boxes.size());
  }

  void panningTenThousandBoxesKeepsUp() {
    Canvas canvas;
    QVERIFY(test::showTenThousandBoxes(canvas));
    QVERIFY(canvas.scene()->view.boxes.size() > 10000);
    for (const double scale : {0.02, 0.15, 0.8}) {
      const std::vector<double> ms = test::panningFrames(canvas, scale, 40);
      const double mean = std::accumulate(ms.begin(), ms.end(), 0.0) / static_cast<double>(ms.size());
      qInfo("panning %zu boxes at scale %.2f: %.1f ms a frame", canvas.scene()->view.boxes.size(), scale, mean);
      QVERIFY(mean < 16.7);  // 60 frames a second, of which it takes a twentieth
    }
  }
};

}  // namespace

QTEST_MAIN(CanvasTest)
#include "canvas_test.moc"
