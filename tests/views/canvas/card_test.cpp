// The card beside a box: what it says, when it comes and goes, and that the keyboard reaches it.
#include <QHelpEvent>
#include <QTest>

#include "tests/views/support/sample_graphs.h"
#include "views/canvas/canvas.h"
#include "views/canvas/hover_card.h"

using namespace graft;

namespace {

QString valueOf(const CardText& card, const char* name) {
  for (const auto& [label, value] : card.rows)
    if (label == QLatin1String(name)) return value;
  return {};
}

class CardTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void itSaysWhatANodeIs() {
    const SceneRef scene = makeScene(std::make_shared<Graph>(test::encoder(1)), {.depth = -1});
    const CardText card = cardOf(*scene, scene->boxOf(QStringLiteral("linear")), {QStringLiteral("a kernel"), {}});
    QCOMPARE(card.title, QStringLiteral("linear"));
    QCOMPARE(valueOf(card, "operator"), QStringLiteral("aten.linear.default"));
    QVERIFY(valueOf(card, "module").endsWith(QStringLiteral("query")));
    QCOMPARE(valueOf(card, "arguments"), QStringLiteral("384 → 384"));
    QCOMPARE(valueOf(card, "kernel"), QStringLiteral("a kernel"));
    // Shapes, dtypes and bytes of what it takes, holds and gives.
    QVERIFY2(valueOf(card, "weights").contains(QStringLiteral("weight 384×384 f32 · 590 kB")),
             qPrintable(valueOf(card, "weights")));
    for (const char* name : {"takes", "gives"})
      QVERIFY2(valueOf(card, name).contains(QStringLiteral("×384 f32 · ")), qPrintable(valueOf(card, name)));
    for (const auto& [label, value] : card.rows) QVERIFY(card.plain().contains(label));
  }

  void ofABlockItSaysHowToOpenIt() {
    const SceneRef scene = makeScene(std::make_shared<Graph>(test::encoder(6)), {.depth = 1});
    const CardText card = cardOf(*scene, scene->boxOf(QStringLiteral("@encoder.layer.0")));
    QVERIFY(card.hint.contains(QStringLiteral("6 identical blocks")));
    QVERIFY(valueOf(card, "holds").contains(QStringLiteral("operators")));
  }

  void thePointerAndTheKeyboardReachIt() {
    Canvas canvas;
    canvas.resize(800, 600);
    canvas.setViewOptions({.depth = -1});
    canvas.setKernelOf([](const QString& node) { return QStringLiteral("kernel of ") + node; });
    canvas.setGraph(std::make_shared<Graph>(test::encoder(1)));
    canvas.show();
    QVERIFY(QTest::qWaitForWindowExposed(&canvas));
    canvas.reveal(QStringLiteral("softmax"));
    const QPoint middle =
        canvas.toWidget(canvas.scene()->rect(canvas.scene()->boxOf(QStringLiteral("softmax"))).center()).toPoint();
    QHelpEvent rest(QEvent::ToolTip, middle, canvas.mapToGlobal(middle));
    QCoreApplication::sendEvent(&canvas, &rest);
    QVERIFY(canvas.card()->isVisible());
    QVERIFY(canvas.card()->accessibleDescription().contains(QStringLiteral("kernel of softmax")));
    canvas.zoomIn();  // the drawing moves
    QVERIFY(!canvas.card()->isVisible());
    QTest::keyClick(&canvas, Qt::Key_H);
    QVERIFY(canvas.card()->isVisible());
    QVERIFY(canvas.accessibleDescription().contains(QStringLiteral("aten.softmax")));  // read to who does not see it
    QTest::keyClick(&canvas, Qt::Key_Escape);
    QVERIFY(!canvas.card()->isVisible());
    QCOMPARE(canvas.selection(), QStringList{QStringLiteral("softmax")});  // the first Esc takes the card alone
    canvas.setSelection({});
    QTest::keyClick(&canvas, Qt::Key_H);
    QVERIFY(!canvas.card()->isVisible());
  }

  void shiftSpaceShowsWhatStandsBehindACount() {
    Canvas canvas;
    canvas.resize(800, 600);
    canvas.setGraph(std::make_shared<Graph>(test::encoder(3)));
    const auto count = [&] { return canvas.scene()->view.boxes.size(); };
    const size_t folded = count();
    canvas.setSelection({QStringLiteral("@encoder.layer.0")});
    QTest::keyClick(&canvas, Qt::Key_Space, Qt::ShiftModifier);
    QVERIFY(canvas.scene()->boxOf(QStringLiteral("@encoder.layer.2")) !=
            canvas.scene()->boxOf(QStringLiteral("@encoder.layer.0")));
    canvas.setDepth(1);  // and folds it again
    QCOMPARE(count(), folded);
  }

  void aLongNetworkThatRunsToTheRightBeginsAtItsLeft() {
    Canvas canvas;
    canvas.resize(500, 300);
    canvas.setStyle(Flow::Right, false, true);
    canvas.setViewOptions({.depth = -1, .columns = false, .flow = Flow::Right});
    canvas.setGraph(std::make_shared<Graph>(test::encoder(1)));
    const SceneRef scene = canvas.scene();
    QVERIFY(scene->layout.width > 3 * scene->layout.height);
    const QRectF first = scene->rect(scene->view.roots.front());
    QVERIFY(canvas.visibleSceneRect().contains(first));
    QVERIFY(canvas.scale() >= 0.7);
    canvas.setStyle(Flow::Down, false, true);
    QVERIFY(canvas.scene()->layout.height > canvas.scene()->layout.width);
  }
};

}  // namespace

QTEST_MAIN(CardTest)
#include "card_test.moc"
