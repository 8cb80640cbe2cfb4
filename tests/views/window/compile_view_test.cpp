// The arrangement Compile in the window: the ribbon of stages, the canvas by kernels, edges that say why they lie
// between two kernels, and two stages beside each other.
#include <QMenu>
#include <QSignalSpy>
#include <QToolBar>

#include "tests/views/support/window_fixture.h"
#include "views/panels/compile/kernels_panel.h"
#include "views/window/compile/compile_view.h"

using namespace graft;

namespace {

class CompileViewTest : public test::WindowFixture {
  Q_OBJECT

  Compilation& compilation() { return document().compilation(); }
  CompileView& view() { return window_->compileView(); }
  Canvas& canvas() { return *window_->canvas(); }
  bool isReady() { return compilation().isKnown() && !compilation().isBusy(); }
  const Stage& stage(Stage::Kind kind) { return view().ribbon()->chip(kind)->stage(); }
  void openCompile() {
    open();
    window_->arrange(Arrangement::Compile);
    QTRY_VERIFY(isReady());
  }
  /// The edge between the boxes of two nodes.
  int edgeBetween(const char* from, const char* to) {
    const SceneRef scene = canvas().scene();
    for (size_t e = 0; e < scene->view.edges.size(); ++e)
      if (scene->view.edges[e].from == scene->boxOf(QString::fromLatin1(from)) &&
          scene->view.edges[e].to == scene->boxOf(QString::fromLatin1(to)))
        return static_cast<int>(e);
    return -1;
  }

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void theArrangementAsksOnlyWhileItShows() {
    open();
    QTest::qWait(100);
    QVERIFY(!compilation().isKnown() && !compilation().isBusy());
    auto* bar = window_->findChild<QToolBar*>(QStringLiteral("stages"));
    QVERIFY(!bar->isVisible());
    window_->action(QStringLiteral("compile"))->trigger();
    QTRY_VERIFY(isReady());
    QVERIFY(bar->isVisible() && window_->action(QStringLiteral("compile"))->isChecked());
    for (const char* panel : {"kernels", "code"})
      QVERIFY2(window_->docks().dock(QString::fromLatin1(panel))->isVisible(), panel);
    window_->arrange(Arrangement::Explore);
    QVERIFY(!bar->isVisible() && !window_->docks().dock(QStringLiteral("kernels"))->isVisible());
    QVERIFY(canvas().decorations().pattern.isEmpty());
  }

  void eachStageSaysHowMuchThereIs() {
    openCompile();
    QCOMPARE(stage(Stage::Normalised).count, QStringLiteral("52"));
    QCOMPARE(stage(Stage::Rules).verdict, QStringLiteral("none applied"));
    QCOMPARE(stage(Stage::Groups).count, QStringLiteral("36"));
    QCOMPARE(stage(Stage::Groups).change, QStringLiteral("−12"));
    QCOMPARE(stage(Stage::Kernels).count, QStringLiteral("8"));
    QCOMPARE(stage(Stage::Kernels).verdict, QStringLiteral("planned"));
    QCOMPARE(stage(Stage::Time).verdict, QStringLiteral("measure"));
    QTest::mouseClick(view().ribbon()->chip(Stage::Time), Qt::LeftButton);
    QTRY_COMPARE(stage(Stage::Time).count, QStringLiteral("0.8 ms"));
    QCOMPARE(stage(Stage::Time).change, QStringLiteral("×1.25"));
    QVERIFY(view().ribbon()->chip(Stage::Time)->accessibleName().contains(QStringLiteral("0.8 ms ×1.25 measured")));
    // Rules, then kernels in place: each stage keeps its snapshot.
    type(QString::fromLatin1(test::rulesText));
    document().apply(rule().name);
    QTRY_COMPARE(document().position(), 1);
    window_->arrange(Arrangement::Compile);
    QTRY_VERIFY(isReady());
    QCOMPARE(stage(Stage::Rules).count, QStringLiteral("36"));
    QCOMPARE(stage(Stage::Rules).change, QStringLiteral("−16"));
    QCOMPARE(stage(Stage::Rules).verdict, QStringLiteral("verified"));
    compilation().apply();
    QTRY_COMPARE(document().position(), 2);
    QTRY_VERIFY(isReady());
    QCOMPARE(stage(Stage::Kernels).verdict, QStringLiteral("in place, verified"));
    QCOMPARE(stage(Stage::Rules).step, 1);
    QTest::mouseClick(view().ribbon()->chip(Stage::Rules), Qt::LeftButton);
    QTRY_COMPARE(document().position(), 1);
  }

  void theFirstStageIsTheModelAsItsFileHasIt() {
    openCompile();
    QTRY_COMPARE(stage(Stage::Captured).count, QStringLiteral("53"));
    QCOMPARE(stage(Stage::Normalised).change, QStringLiteral("−1"));
    QCOMPARE(stage(Stage::Captured).verdict, QStringLiteral("torchscript"));
    canvas().setDepth(-1);
    QTest::mouseClick(view().ribbon()->chip(Stage::Captured), Qt::LeftButton);
    QVERIFY(view().isCaptured() && stage(Stage::Captured).isShown && !stage(Stage::Normalised).isShown);
    QVERIFY(canvas().scene()->boxOfKey.contains(QStringLiteral("detach")));
    // Beside the next stage.
    QTest::mouseClick(view().ribbon()->chip(Stage::Normalised), Qt::LeftButton, Qt::ControlModifier);
    QVERIFY(window_->comparison().showsPair());
    QCOMPARE(window_->comparison().before()->title(), QStringLiteral("captured"));
    QVERIFY(window_->comparison().before()->scene()->graph->findNode("detach"));
    QVERIFY(!canvas().scene()->graph->findNode("detach"));
    window_->setCompare(false);
    // Beside the kernels.
    QTest::mouseClick(view().ribbon()->chip(Stage::Captured), Qt::LeftButton);
    QTest::mouseClick(view().ribbon()->chip(Stage::Groups), Qt::LeftButton, Qt::ControlModifier);
    QVERIFY(window_->comparison().isComparing() && window_->comparison().isGrouped());
    QVERIFY(window_->comparison().before()->scene()->graph->findNode("detach"));
    // Another step is another drawing.
    window_->setCompare(false);
    QTest::mouseClick(view().ribbon()->chip(Stage::Captured), Qt::LeftButton);
    QVERIFY(view().isCaptured());
    QTest::mouseClick(view().ribbon()->chip(Stage::Normalised), Qt::LeftButton);
    QVERIFY(!view().isCaptured() && !canvas().scene()->graph->findNode("detach"));
  }

  void theCanvasIsDrawnByKernels() {
    openCompile();
    canvas().setDepth(-1);
    QVERIFY(canvas().scene()->boxOfKey.contains(QStringLiteral("@encoder.layer.0.attention")));
    window_->action(QStringLiteral("byKernels"))->trigger();
    QVERIFY(view().isByKernels() && window_->comparison().isGrouped());
    const SceneRef scene = canvas().scene();
    const int box = scene->boxOfKey.value(QStringLiteral("@kernel div_add_softmax"), -1);
    QVERIFY(box >= 0);
    const Box& kernel = scene->view.boxes[static_cast<size_t>(box)];
    QCOMPARE(QString::fromStdString(kernel.title), QStringLiteral("div · add · softmax"));
    QCOMPARE(QString::fromStdString(kernel.name), QStringLiteral("2.75 µs · 3 nodes · 12.3 kB"));
    QVERIFY(!kernel.open && scene->boxOfKey.contains(QStringLiteral("linear")));
    QVERIFY(!scene->widths.empty());
    // A node inside is found; its kernel opens.
    canvas().reveal(QStringLiteral("add"));
    QVERIFY(canvas().scene()->boxOfKey.contains(QStringLiteral("add")));
    QCOMPARE(compilation().current()->name, QStringLiteral("div_add_softmax"));
    // Another plan, another drawing; what is open stays open.
    compilation().keepApart({QStringLiteral("gelu"), QStringLiteral("layer_norm")});
    QTRY_VERIFY(isReady() && canvas().scene()->boxOfKey.contains(QStringLiteral("gelu")));
    QVERIFY(canvas().scene()->boxOfKey.contains(QStringLiteral("add")));
    window_->action(QStringLiteral("byKernels"))->trigger();
    QVERIFY(canvas().scene()->boxOfKey.contains(QStringLiteral("@encoder.layer.0.attention")));  // open as before
    QVERIFY(canvas().scene()->widths.empty());
  }

  void anotherArrangementDrawsByModules() {
    openCompile();
    view().setByKernels(true);
    QVERIFY(window_->comparison().isGrouped());
    window_->arrange(Arrangement::Explore);
    QVERIFY(!window_->comparison().isGrouped());
    window_->arrange(Arrangement::Compile);
    QTRY_VERIFY(window_->comparison().isGrouped());
  }

  void anEdgeSaysWhyAndOffersToFuse() {
    openCompile();
    view().setByKernels(true);
    const int edge = edgeBetween("@kernel gelu_layer_norm", "add_3");
    QVERIFY(edge >= 0);
    const QString tip = view().edgeTip(edge);
    QVERIFY2(tip.contains(QStringLiteral("layer_norm and add_3 are two kernels")), qPrintable(tip));
    QVERIFY(tip.contains(QStringLiteral("it would not be faster")));
    QVERIFY(tip.contains(QStringLiteral("5.5 µs apart, 2.75 µs together")));
    // A click on it, between the boxes, opens the pair.
    const QPainterPath way = canvas().scene()->wholePath(edge);
    canvas().setView(canvas().origin(), 1);
    canvas().panTo(way.pointAtPercent(0.5));
    const QPoint at = canvas().toWidget(way.pointAtPercent(0.5)).toPoint();
    QTest::mouseClick(&canvas(), Qt::LeftButton, {}, at);
    auto* pairs = window_->panel<KernelsPanel>()->pairs();
    QTRY_VERIFY(pairs->tree()->currentItem());
    QCOMPARE(pairs->tree()->currentItem()->text(0), QStringLiteral("layer_norm → add_3"));
    // Its menu fuses.
    QTimer::singleShot(0, this, [] {
      auto* menu = qobject_cast<QMenu*>(QApplication::activePopupWidget());
      QVERIFY(menu);
      menu->actions().first()->trigger();
      menu->close();
    });
    Q_EMIT canvas().edgeMenuAsked(canvas().mapToGlobal(at), edgeBetween("layer_norm", "add_3"));  // it is open now
    QTRY_VERIFY(isReady() && compilation().plan().find(QStringLiteral("gelu_layer_norm_add")));
    QVERIFY(canvas().scene()->boxOfKey.contains(QStringLiteral("@kernel gelu_layer_norm_add")));
  }

  void twoChipsOpenCompare() {
    openCompile();
    compilation().apply();
    QTRY_COMPARE(document().position(), 1);
    QTRY_VERIFY(isReady());
    QTest::mouseClick(view().ribbon()->chip(Stage::Rules), Qt::LeftButton);
    QTRY_COMPARE(document().position(), 0);
    document().redo();
    QTRY_VERIFY(isReady());
    Q_EMIT view().ribbon()->compareAsked(stage(Stage::Normalised), stage(Stage::Kernels));
    QVERIFY(window_->comparison().isComparing());
    QCOMPARE(window_->beforeCanvas()->scene()->graph->nodeCount(), size_t{52});
    QVERIFY(window_->beforeCanvas()->isVisible());
    window_->action(QStringLiteral("compare"))->trigger();
    QVERIFY(!window_->comparison().isComparing());
  }

  void twoPlansStandBesideEachOther() {
    openCompile();
    QSignalSpy failed(&document(), &Document::failed);
    window_->action(QStringLiteral("comparePlans"))->trigger();
    QCOMPARE(failed.size(), 1);  // there is one alone
    compilation().keepApart({QStringLiteral("gelu"), QStringLiteral("layer_norm")});
    QTRY_VERIFY(isReady() && compilation().isSteered());
    window_->action(QStringLiteral("comparePlans"))->trigger();
    const auto hasKernel = [](Canvas& c) {
      return c.scene()->boxOfKey.contains(QStringLiteral("@kernel gelu_layer_norm"));
    };
    // Kernels are numbered as they come: without the first one, the next has its name.
    QVERIFY(hasKernel(*window_->beforeCanvas()));
    QVERIFY(canvas().scene()->boxOfKey.contains(QStringLiteral("gelu")));
    QVERIFY(!window_->beforeCanvas()->scene()->boxOfKey.contains(QStringLiteral("gelu")));
  }
};

}  // namespace

QTEST_MAIN(CompileViewTest)
#include "compile_view_test.moc"
