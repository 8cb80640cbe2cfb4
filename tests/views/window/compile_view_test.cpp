// The arrangement Compile in the window: the ribbon of stages, the canvas by kernels, edges that say why they lie
// between two kernels, and two stages beside each other.
#include <QMenu>
#include <QSignalSpy>
#include <QToolBar>

#include "tests/views/support/named_boxes.h"
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
    QCOMPARE(stage(Stage::Groups).change, QStringLiteral("−16"));  // from 52, of which four are views
    QVERIFY2(stage(Stage::Groups).tip.contains(QStringLiteral("4 views, which run nothing")),
             qPrintable(stage(Stage::Groups).tip));
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
    // Without kernels it stands beside the model by modules; F8 goes to what differs. And back.
    window_->action(QStringLiteral("byKernels"))->trigger();
    QVERIFY(!view().isByKernels() && window_->comparison().isComparing());
    QVERIFY(window_->comparison().before()->scene()->graph->findNode("detach"));
    QCOMPARE(window_->comparison().before()->title(), QStringLiteral("captured"));
    QCOMPARE(canvas().title(), QStringLiteral("now"));
    QVERIFY(!canvas().scene()->graph->findNode("detach"));
    QVERIFY(!canvas().scene()->boxOfKey.contains(QStringLiteral("@kernel gelu_layer_norm")));
    QCOMPARE(window_->comparison().before()->decorations().changes.value(QStringLiteral("detach")), Change::Removed);
    window_->action(QStringLiteral("byKernels"))->trigger();
    QVERIFY(view().isByKernels() && canvas().scene()->boxOfKey.contains(QStringLiteral("@kernel gelu_layer_norm")));
    QVERIFY(window_->comparison().before()->scene()->graph->findNode("detach"));
    // Once that has ended, the model as opened is what is compared with.
    window_->action(QStringLiteral("byKernels"))->trigger();
    window_->setCompare(false);
    window_->setCompare(true);
    QVERIFY(!window_->comparison().before()->scene()->graph->findNode("detach"));
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

  void theLegendSaysWhatABoxOfKernelsIs() {
    openCompile();
    window_->resize(1600, 1200);
    const auto says = [&](const char* word) {
      for (const auto& [text, color] : canvas().frame().legend())
        if (text == QLatin1String(word)) return true;
      return false;
    };
    canvas().setDepth(0);
    QVERIFY(says("module") && !says("generated kernel"));
    view().setByKernels(true);
    QVERIFY(!says("module") && says("generated kernel"));
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

  void anEdgeThatFusionDidNotLookAtSaysWhy() {
    openCompile();
    view().setByKernels(true);
    int edge = -1;  // out of a product of a library, into the kernel that reads it
    for (size_t e = 0; e < canvas().scene()->view.edges.size() && edge < 0; ++e)
      if (canvas().scene()->view.edges[e].to == canvas().scene()->boxOf(QStringLiteral("@kernel gelu_layer_norm")) &&
          canvas().scene()->view.boxes[static_cast<size_t>(canvas().scene()->view.edges[e].from)].title == "linear")
        edge = static_cast<int>(e);
    QVERIFY(edge >= 0);
    const QString tip = view().edgeTip(edge);
    QVERIFY2(tip.contains(QStringLiteral("Fusion did not look at linear")), qPrintable(tip));
    QVERIFY2(tip.contains(QStringLiteral("kernels with matrix products are generated for GPUs alone")),
             qPrintable(tip));
    // Its menu has the actions, which are not to be had, and the reason.
    QStringList words;
    QTimer::singleShot(0, this, [&] {
      auto* menu = qobject_cast<QMenu*>(QApplication::activePopupWidget());
      QVERIFY(menu);
      for (const QAction* a : menu->actions()) {
        words << a->text();
        QVERIFY(!a->isEnabled() || a->isSeparator());
      }
      menu->close();
    });
    Q_EMIT canvas().edgeMenuAsked(canvas().mapToGlobal(QPoint(50, 50)), edge);
    QVERIFY(words.value(0).startsWith(QStringLiteral("&Fuse linear")));
    QVERIFY(words.last().contains(QStringLiteral("generated for GPUs alone")));
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
    Canvas& before = *window_->beforeCanvas();
    QVERIFY(canvas().scene()->boxOfKey.contains(QStringLiteral("gelu")));
    QVERIFY(!before.scene()->boxOfKey.contains(QStringLiteral("gelu")));
    QCOMPARE(canvas().title(), QStringLiteral("the plan now: 1 group differs, 2 nodes moved"));
    QCOMPARE(before.title(), QStringLiteral("Graft's own plan"));
    // Kernels are numbered as they come: without the first one, the next has its name. It is the same all the same.
    const auto changeOf = [](Canvas& c, const char* key) {
      const int box = c.scene()->boxOfKey.value(QString::fromLatin1(key), -1);
      return box < 0 ? Change::None : c.boxDecorations().change[static_cast<size_t>(box)];
    };
    QVERIFY(before.scene()->boxOfKey.contains(QStringLiteral("@kernel gelu_layer_norm")));
    QCOMPARE(changeOf(before, "@kernel gelu_layer_norm"), Change::None);
    QCOMPARE(changeOf(canvas(), "@kernel gelu_layer_norm"), Change::None);
    // What is gone is marked in the drawing, in words too, and in the table.
    QCOMPARE(changeOf(before, "@kernel before gelu_layer_norm"), Change::Removed);
    const int gone = before.scene()->boxOfKey.value(QStringLiteral("@kernel before gelu_layer_norm"));
    QVERIFY(before.scene()->view.boxes[static_cast<size_t>(gone)].detail == "− only in the other plan");
    QCOMPARE(changeOf(canvas(), "gelu"), Change::Moved);
    QCOMPARE(changeOf(canvas(), "layer_norm"), Change::Moved);
    QStringList legend;
    for (const auto& [text, color] : canvas().frame().legend()) legend << text;
    // Of both drawings, which are read as one.
    QCOMPARE(legend, (QStringList{QStringLiteral("− only in the other plan"), QStringLiteral("→ in another group")}));
    auto* panel = window_->panel<KernelsPanel>();
    QVERIFY2(panel->summary().startsWith(QStringLiteral("Against Graft's own plan: 1 group differs, 2 nodes moved")),
             qPrintable(panel->summary()));
    KernelTable* table = panel->table();
    QVERIFY(!table->isColumnHidden(KernelTable::Difference));
    const auto rows =
        table->findItems(QStringLiteral("− only in the other plan"), Qt::MatchExactly, KernelTable::Difference);
    QCOMPARE(rows.size(), qsizetype{1});
    QVERIFY(KernelTable::kernelOf(*rows[0]).isEmpty());
    QVERIFY2(rows[0]->toolTip(0).contains(QStringLiteral("only in the other plan")), qPrintable(rows[0]->toolTip(0)));
    table->setCurrentItem(rows[0]);
    QCOMPARE(canvas().litNodes(), (QStringList{QStringLiteral("gelu"), QStringLiteral("layer_norm")}));
    // The end of comparing ends it in the table, too.
    window_->setCompare(false);
    QVERIFY(!compilation().difference() && table->isColumnHidden(KernelTable::Difference));
    QVERIFY(!panel->summary().contains(QStringLiteral("Against")));
  }

  void theSwitchOfGroupingLeavesPlansCompared() {
    openCompile();
    compilation().keepApart({QStringLiteral("gelu"), QStringLiteral("layer_norm")});
    QTRY_VERIFY(isReady() && compilation().isSteered());
    window_->action(QStringLiteral("comparePlans"))->trigger();
    Canvas& before = *window_->beforeCanvas();
    const QString now = canvas().title(), other = before.title();
    // Both can be read, from their beginning.
    const auto begins = [](const Canvas& c) {
      const bool isLegible = c.scale() >= 0.7 || test::namedBoxes(*c.scene(), c.scale()).words >= 0.9;
      return isLegible && c.visibleSceneRect().contains(c.scene()->rect(c.scene()->view.roots.front()).center());
    };
    QTRY_VERIFY(before.scene() && begins(before) && begins(canvas()));
    QCOMPARE(before.scale(), canvas().scale());
    window_->action(QStringLiteral("byKernels"))->trigger();
    QVERIFY(!view().isByKernels() && compilation().difference());
    QCOMPARE(canvas().title(), now);
    QCOMPARE(before.title(), other);
    ViewOptions all = canvas().viewOptions();
    all.depth = -1;
    all.foldRepeats = false;  // of equal blocks one moved alone
    canvas().setViewOptions(all);
    for (Canvas* c : {&canvas(), &before}) {
      QVERIFY(c->scene()->boxOfKey.contains(QStringLiteral("@encoder")));
      QVERIFY(!c->scene()->boxOfKey.contains(QStringLiteral("@kernel gelu_layer_norm")));
      const auto gelu = static_cast<size_t>(c->scene()->boxOf(QStringLiteral("gelu")));
      QCOMPARE(c->boxDecorations().change[gelu], Change::Moved);
    }
    QSignalSpy said(&window_->comparison(), &Comparison::message);
    window_->comparison().nextChange(1);
    QVERIFY(said.value(0).value(0).toString().startsWith(QStringLiteral("1 of 1")));
    // And back, with the modules that were opened kept for the next time.
    window_->action(QStringLiteral("byKernels"))->trigger();
    QCOMPARE(canvas().title(), now);
    QCOMPARE(before.title(), other);
    QVERIFY(before.scene()->boxOfKey.contains(QStringLiteral("@kernel before gelu_layer_norm")));
    window_->action(QStringLiteral("byKernels"))->trigger();
    QCOMPARE(canvas().viewOptions().depth, -1);
    window_->setCompare(false);
    QVERIFY(!compilation().difference() && canvas().title().isEmpty());
    QCOMPARE(canvas().viewOptions().depth, -1);
  }

  void anyOtherPlanIsCompared() {
    openCompile();
    auto* menu = window_->findChild<QMenu*>(QStringLiteral("otherPlans"));
    QVERIFY(menu && !menu->isEnabled());
    compilation().keepApart({QStringLiteral("gelu"), QStringLiteral("layer_norm")});
    QTRY_VERIFY(isReady() && compilation().isSteered());
    compilation().fuse({QStringLiteral("layer_norm_1"), QStringLiteral("add_5")});
    QTRY_VERIFY(isReady() && compilation().undoLabel().startsWith(QStringLiteral("fuse")));
    QVERIFY(menu->isEnabled());
    Q_EMIT menu->aboutToShow();
    QCOMPARE(menu->actions().size(), qsizetype{2});
    QVERIFY(menu->actions()[0]->text().startsWith(QStringLiteral("after “keep apart gelu, layer_norm” · ")));
    QVERIFY(menu->actions()[1]->text().startsWith(QStringLiteral("Graft's own · ")));
    const auto differs = [&](const char* node) {
      return compilation().difference() && compilation().difference()->ofNode(QString::fromLatin1(node));
    };
    menu->actions()[0]->trigger();
    QTRY_VERIFY(window_->comparison().isComparing() && compilation().difference());
    QCOMPARE(compilation().otherPlanTitle(), QStringLiteral("the plan before “fuse layer_norm_1, add_5”"));
    QVERIFY(!differs("gelu") && differs("add_5"));
    // The first one knows neither change.
    menu->actions()[1]->trigger();
    QCOMPARE(compilation().otherPlanTitle(), QStringLiteral("Graft's own plan"));
    QVERIFY(differs("gelu") && differs("add_5"));
    // Another change leaves it where it is; the comparison's end forgets it.
    compilation().undo();
    QTRY_VERIFY(isReady() && compilation().undoLabel().startsWith(QStringLiteral("keep apart")));
    QVERIFY(compilation().difference() && differs("gelu") && !differs("add_5"));
    compilation().redo();
    QTRY_VERIFY(isReady() && compilation().undoLabel().startsWith(QStringLiteral("fuse")));
    window_->setCompare(false);
    view().comparePlans();
    QVERIFY(!differs("gelu") && differs("add_5"));
    // One that was taken back is still there.
    window_->setCompare(false);
    compilation().undo();
    QTRY_VERIFY(isReady() && compilation().undoLabel().startsWith(QStringLiteral("keep apart")));
    Q_EMIT menu->aboutToShow();
    QVERIFY(menu->actions()[0]->text().startsWith(QStringLiteral("after “fuse layer_norm_1, add_5” · ")));
    menu->actions()[0]->trigger();
    QCOMPARE(compilation().otherPlanTitle(), QStringLiteral("the plan after “fuse layer_norm_1, add_5”"));
    QVERIFY(!differs("gelu") && differs("add_5"));
  }

  void aRestoredPlanIsComparedWithGraftsOwn() {
    openCompile();
    compilation().restore(QStringLiteral(R"({"fusion": 1, "apart": [["gelu", "layer_norm"]]})"));
    QTRY_VERIFY(isReady() && compilation().isSteered());
    auto* menu = window_->findChild<QMenu*>(QStringLiteral("otherPlans"));
    QVERIFY(menu->isEnabled());
    Q_EMIT menu->aboutToShow();
    QCOMPARE(menu->actions().size(), qsizetype{1});
    QCOMPARE(menu->actions()[0]->text(), QStringLiteral("Graft's own"));  // nobody has planned it
    menu->actions()[0]->trigger();
    QTRY_VERIFY(compilation().difference());
    QVERIFY(compilation().difference()->ofNode(QStringLiteral("gelu")));
    QCOMPARE(window_->beforeCanvas()->title(), QStringLiteral("Graft's own plan"));
    QVERIFY(window_->beforeCanvas()->scene()->boxOfKey.contains(QStringLiteral("@kernel gelu_layer_norm")));
    // That one was only looked at.
    const QString restored = compilation().steering();
    compilation().refresh();
    QTRY_VERIFY(isReady());
    QVERIFY(restored.contains(QStringLiteral("apart")));
    QCOMPARE(compilation().steering(), restored);
    // A plan for another machine is compared with Graft's own for that machine.
    compilation().setForGpu(true);
    QTRY_VERIFY(isReady() && compilation().difference());
    QVERIFY(compilation().plan().isForGpu && compilation().otherPlan()->isForGpu);
  }

  void theKeysGoFromDifferenceToDifference() {
    openCompile();
    compilation().keepApart({QStringLiteral("gelu"), QStringLiteral("layer_norm")});
    QTRY_VERIFY(isReady() && compilation().isSteered());
    compilation().fuse({QStringLiteral("layer_norm_1"), QStringLiteral("add_5")});
    QTRY_VERIFY(isReady() && compilation().undoLabel().startsWith(QStringLiteral("fuse")));
    QSignalSpy told(&window_->comparison(), &Comparison::message);
    view().comparePlans();
    const PlanDifference* difference = compilation().difference();
    QVERIFY(difference && !difference->groups.empty());
    const auto count = static_cast<int>(difference->groups.size());
    for (int i = 0; i <= count; ++i) {  // and around
      const GroupDifference& g = difference->groups[static_cast<size_t>(i % count)];
      window_->action(QStringLiteral("nextChange"))->trigger();
      QVERIFY2(told.last().value(0).toString().startsWith(QStringLiteral("%1 of %2: ").arg(i % count + 1).arg(count)),
               qPrintable(told.last().value(0).toString()));
      QVERIFY(told.last().value(0).toString().endsWith(g.word()));
      QCOMPARE(document().selection(), QStringList{g.place()});
      // It is open on both sides.
      for (Canvas* c : {&canvas(), window_->beforeCanvas()}) QVERIFY(c->scene()->boxOfKey.contains(g.place()));
    }
    window_->action(QStringLiteral("previousChange"))->trigger();
    QVERIFY(told.last().value(0).toString().startsWith(QStringLiteral("%1 of %1: ").arg(count)));
  }

  void whatBecameOfAGroupOpensWithIt() {
    openCompile();
    compilation().move(QStringLiteral("add_3"), QStringLiteral("layer_norm"));
    QTRY_VERIFY(isReady() && compilation().isSteered());
    view().comparePlans();
    const GroupDifference* g = nullptr;
    for (const GroupDifference& one : compilation().difference()->groups)
      if (!one.before.isEmpty() && !one.now.isEmpty()) g = &one;
    QVERIFY(g);
    const QString now = QStringLiteral("@kernel ") + g->now, was = QStringLiteral("@kernel before ") + g->before;
    Canvas& before = *window_->beforeCanvas();
    const auto isOpen = [](Canvas& c, const QString& key) {
      return c.scene()->view.boxes[static_cast<size_t>(c.scene()->boxOfKey.value(key))].open;
    };
    const auto toggle = [](Canvas& c, const QString& key) { c.toggle(c.scene()->boxOfKey.value(key)); };
    QVERIFY(!isOpen(canvas(), now) && !isOpen(before, was));
    toggle(canvas(), now);
    QVERIFY(isOpen(canvas(), now) && isOpen(before, was));
    QCOMPARE(canvas().boxDecorations().change[static_cast<size_t>(canvas().scene()->boxOfKey.value(now))],
             Change::Changed);
    toggle(before, was);
    QVERIFY(!isOpen(canvas(), now) && !isOpen(before, was));
  }
};

}  // namespace

QTEST_MAIN(CompileViewTest)
#include "compile_view_test.moc"
