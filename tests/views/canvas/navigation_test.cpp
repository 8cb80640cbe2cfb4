// Finding one's way: breadcrumb, module tree, overview map, search.
#include <QApplication>
#include <QDockWidget>
#include <QSignalSpy>
#include <QTreeWidget>

#include "tests/views/support/sample_graphs.h"
#include "tests/views/support/window_fixture.h"
#include "views/canvas/breadcrumb.h"
#include "views/canvas/overview.h"
#include "views/panels/explorer.h"
#include "views/panels/inspector.h"
#include "views/panels/run/run_panel.h"

using namespace graft;
using test::rulesText;

namespace {

class NavigationTest : public test::WindowFixture {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void theBreadcrumbLeadsUpAndAsksForNoRoom() {
    open();
    auto* way = window_->findChild<Breadcrumb*>();
    const auto clickAt = [&](int x) { QTest::mouseClick(way, Qt::LeftButton, {}, QPoint(x, way->height() / 2)); };
    const auto widthOf = [&](const QString& text) { return way->fontMetrics().horizontalAdvance(text); };
    window_->canvas()->reveal(QStringLiteral("softmax_2"));
    QCOMPARE(way->shown(),
             (QStringList{QStringLiteral("FakeEncoder"), QStringLiteral("encoder"), QStringLiteral("layer.2"),
                          QStringLiteral("attention"), QStringLiteral("softmax_2")}));
    const int inset = way->contentsMargins().left();
    clickAt(inset + widthOf(QStringLiteral("FakeEncoder ▸ enc")));
    QCOMPARE(document().selection(), QStringList{QStringLiteral("@encoder")});
    clickAt(inset + 4);
    QVERIFY(document().selection().isEmpty());
    QVERIFY(window_->panel<Inspector>()->plain().startsWith(QStringLiteral("FakeEncoder")));
    // In a narrow window the modules in between give way, and no panel.
    window_->resize(820, 560);
    QTRY_COMPARE(window_->width(), 820);
    QDockWidget* panel = window_->findChild<QDockWidget*>(QStringLiteral("inspector"));
    QTest::qWait(50);
    window_->resizeDocks({panel}, {400}, Qt::Horizontal);
    QTest::qWait(50);
    const int before = panel->width();
    window_->canvas()->reveal(QStringLiteral("softmax_2"));
    QTest::qWait(50);
    QCOMPARE(panel->width(), before);
    QVERIFY(way->shown().contains(QStringLiteral("…")));
    QCOMPARE(way->shown().first(), QStringLiteral("FakeEncoder"));
    QCOMPARE(way->shown().last(), QStringLiteral("softmax_2"));
    QVERIFY(widthOf(way->shown().join(QStringLiteral(" ▸ "))) <= way->contentsRect().width());
    QVERIFY(way->toolTip().contains(QStringLiteral("layer.2")));
  }

  /// Both passes of a training step call modules of one path.
  void aNodeOfTheBackwardPassIsFoundInItsOwnModule() {
    const auto graph = std::make_shared<const Graph>(test::trainingStep(3));
    Explorer explorer;
    explorer.setGraph(graph);
    Breadcrumb way;
    way.resize(900, 30);
    for (const bool isBack : {false, true}) {
      const QString node = isBack ? QStringLiteral("mul_1") : QStringLiteral("relu_1");
      explorer.setSelection({node});
      const QTreeWidgetItem* item = explorer.tree()->currentItem();
      QVERIFY(item && item->parent());
      QCOMPARE(item->text(0), isBack ? QStringLiteral("layer.2") : QStringLiteral("layer.0"));
      QCOMPARE(explorer.tree()->indexOfTopLevelItem(item->parent()), isBack ? 1 : 0);
      way.show(*graph, node);
      QCOMPARE(way.shown().value(1), isBack ? QStringLiteral("model, backward") : QStringLiteral("model"));
    }
  }

  void aModuleOfEitherPassIsSelectedWhereItIsClicked() {
    const auto graph = std::make_shared<const Graph>(test::trainingStep(3));
    Canvas canvas;
    canvas.resize(1200, 800);
    canvas.show();
    ViewOptions options;
    options.depth = 1;
    options.foldRepeats = false;
    canvas.setViewOptions(options);
    canvas.setGraph(graph);
    QVERIFY(canvas.scene());
    canvas.fit();
    connect(&canvas, &Canvas::selectionEdited, &canvas, &Canvas::setSelection);
    Explorer explorer;
    explorer.setGraph(graph);
    int closed = 0;
    const auto& boxes = canvas.scene()->view.boxes;
    for (size_t i = 0; i < boxes.size(); ++i) {
      if (boxes[i].kind != BoxKind::Module || boxes[i].open) continue;
      ++closed;
      const QRectF r = canvas.scene()->rect(static_cast<int>(i));
      QTest::mouseClick(&canvas, Qt::LeftButton, {}, canvas.toWidget(r.center()).toPoint());
      QCOMPARE(canvas.selection().size(), 1);
      QCOMPARE(canvas.scene()->boxOf(canvas.selection().first()), static_cast<int>(i));
      explorer.setSelection(canvas.selection());
      const QTreeWidgetItem* item = explorer.tree()->currentItem();
      QVERIFY(item && item->parent());
      QCOMPARE(explorer.tree()->indexOfTopLevelItem(item->parent()), boxes[i].isInBackward ? 1 : 0);
      QCOMPARE(item->text(0), QString::fromStdString(boxes[i].title));
    }
    QCOMPARE(closed, 6);
    // A row of the tree names its own, too.
    QSignalSpy chosen(&explorer, &Explorer::chosen);
    explorer.tree()->setCurrentItem(explorer.tree()->topLevelItem(0));
    explorer.tree()->setCurrentItem(explorer.tree()->topLevelItem(1));
    QCOMPARE(chosen.size(), 2);
    QCOMPARE(chosen[0][0].toString(), QStringLiteral("@model"));
    QCOMPARE(chosen[1][0].toString(), QStringLiteral("@model, backward"));
  }

  void theTreeStandsAsItWasLeft() {
    open();
    QTreeWidget* tree = window_->panel<Explorer>()->tree();
    window_->canvas()->reveal(QStringLiteral("softmax_2"));
    const auto current = [&] { return tree->currentItem() ? tree->currentItem()->text(0) : QString(); };
    QCOMPARE(current(), QStringLiteral("attention"));
    window_->arrange(Arrangement::Measure);  // compares: the canvases are set anew
    window_->arrange(Arrangement::Explore);
    QCOMPARE(current(), QStringLiteral("attention"));
    QVERIFY(tree->currentItem()->parent()->isExpanded());
    type(QString::fromLatin1(rulesText));
    document().apply(QStringLiteral("Attention"));  // the graph is another: what was open is open
    QTRY_COMPARE(document().position(), 1);
    int open = 0;
    for (QTreeWidgetItemIterator it(tree); *it; ++it)
      open += (*it)->text(0) == QLatin1String("layer.2") && (*it)->isExpanded();
    QCOMPARE(open, 1);
  }

  void theOverviewIsDraggedWhereItIsHeld() {
    open();
    Canvas* canvas = window_->canvas();
    canvas->setDepth(-1);
    canvas->setView(canvas->scene()->bounds().topLeft(), 1);
    auto* map = static_cast<QWidget*>(canvas->findChild<Overview*>());
    QVERIFY(map && map->isVisible());
    const QRectF all = canvas->scene()->bounds();
    const double factor = std::min((map->width() - 12) / all.width(), (map->height() - 12) / all.height());
    const QPointF corner((map->width() - all.width() * factor) / 2, (map->height() - all.height() * factor) / 2);
    const auto seen = [&] { return canvas->visibleSceneRect().center(); };
    // Held near its upper edge, it does not jump; then it follows.
    const QPoint held = (canvas->visibleSceneRect().center() * factor + corner - QPointF(0, 3)).toPoint();
    const QPointF before = seen();
    QTest::mousePress(map, Qt::LeftButton, {}, held);
    QVERIFY((seen() - before).manhattanLength() * factor < 1);
    QMouseEvent move(QEvent::MouseMove, held + QPoint(0, 40), map->mapToGlobal(held + QPoint(0, 40)), Qt::NoButton,
                     Qt::LeftButton, {});
    QCoreApplication::sendEvent(map, &move);
    QVERIFY(std::abs((seen().y() - before.y()) * factor - 40) < 1.5);
    QTest::mouseRelease(map, Qt::LeftButton, {}, held + QPoint(0, 40));
    // A click elsewhere goes there.
    const QPoint elsewhere = (QPointF(all.center().x(), all.bottom() - 1) * factor + corner).toPoint();
    QTest::mouseClick(map, Qt::LeftButton, {}, elsewhere);
    QVERIFY(std::abs(seen().y() - all.bottom()) * factor < 1.5);
  }

  void theOverviewLeavesRoomToTheDrawing() {
    open();
    Canvas* canvas = window_->canvas();
    auto* map = static_cast<QWidget*>(canvas->findChild<Overview*>());
    canvas->setDepth(-1);
    canvas->fit();
    QVERIFY(!map->isVisible());  // all is in view
    canvas->zoomBy(2, QPointF(40, 40));
    QVERIFY(map->isVisible());
    canvas->fit();
    QVERIFY(!map->isVisible());
    // A low canvas, as in the arrangement Compile.
    canvas->zoomBy(2, QPointF(40, 40));
    window_->resize(1440, 100);  // as low as the panels let it be
    QTest::qWait(100);
    QVERIFY2(canvas->height() > 300 && canvas->height() < 600, qPrintable(QString::number(canvas->height())));
    QVERIFY(map->isVisible());
    QVERIFY2(map->height() <= 0.35 * canvas->height(), qPrintable(QString::number(map->height())));
  }

  void whatWasOpenedByHandIsNotFittedAnew() {
    open();
    Canvas* canvas = window_->canvas();
    canvas->setDepth(0);
    const int box = canvas->scene()->boxOf(QStringLiteral("@encoder"));
    QTest::mouseDClick(canvas, Qt::LeftButton, {}, canvas->toWidget(canvas->scene()->rect(box).center()).toPoint());
    const double scale = canvas->scale();
    const QPointF middle = canvas->toScene(canvas->rect().center());
    const QSize size = canvas->size();
    for (QDockWidget* dock : window_->findChildren<QDockWidget*>()) dock->hide();
    QTRY_VERIFY(canvas->width() > size.width() + 200);
    QCOMPARE(canvas->scale(), scale);
    QVERIFY((canvas->toScene(canvas->rect().center()) - middle).manhattanLength() < 4);
    window_->resize(window_->width(), window_->height() - 200);
    QTRY_VERIFY(canvas->height() < size.height() - 100);
    QVERIFY((canvas->toScene(canvas->rect().center()) - middle).manhattanLength() < 4);
  }

  void everyInputAndUserIsReachedByKey() {
    open();
    Canvas* canvas = window_->canvas();
    const auto press = [&](int key, Qt::KeyboardModifiers with = {}) {
      QTest::keyClick(canvas, static_cast<Qt::Key>(key), with);
      return document().selection().value(0);
    };
    canvas->reveal(QStringLiteral("matmul"));
    QSet<QString> inputs{press(Qt::Key_I)};
    const QString first = document().selection().value(0);
    inputs << press(Qt::Key_I, Qt::ShiftModifier);
    QCOMPARE(inputs, (QSet<QString>{QStringLiteral("linear"), QStringLiteral("transpose")}));
    QCOMPARE(press(Qt::Key_I, Qt::ShiftModifier), first);  // around
    QCOMPARE(press(Qt::Key_O), QStringLiteral("matmul"));
    QCOMPARE(press(Qt::Key_I), first);
    // Users, too; by a click in between one begins anew, with the second.
    canvas->reveal(QStringLiteral("<x"));
    QSet<QString> users{press(Qt::Key_O)};
    for (int i = 0; i < 3; ++i) users << press(Qt::Key_O, Qt::ShiftModifier);
    QCOMPARE(users.size(), 4);  // query, key, value, and the sum behind the attention
    canvas->reveal(QStringLiteral("matmul"));
    QVERIFY(press(Qt::Key_I, Qt::ShiftModifier) != first);
    // A node without others: nothing happens.
    canvas->reveal(QStringLiteral("gelu"));
    const QString before = press(Qt::Key_I);
    QCOMPARE(press(Qt::Key_I, Qt::ShiftModifier), before);
  }

  void anotherModelBeginsWithNothingSelected() {
    const QString other = folder_.filePath(QStringLiteral("another.pt"));
    QFile::copy(model_, other);
    open();
    window_->canvas()->reveal(QStringLiteral("softmax_2"));
    window_->openModel(other);
    QTRY_COMPARE(document().path(), other);
    QVERIFY(document().selection().isEmpty());
    QVERIFY(window_->canvas()->selection().isEmpty());
    // Beside it, what is selected is selected from the first.
    window_->canvas()->reveal(QStringLiteral("softmax_1"));
    window_->setCompare(true);
    QCOMPARE(window_->beforeCanvas()->selection(), QStringList{QStringLiteral("softmax_1")});
  }

  void thatNothingWasMeasuredIsOverWithTheRun() {
    open();
    auto* bar = window_->findChild<QWidget*>(QStringLiteral("failure"));
    window_->setOverlay(Overlay::Time);
    QVERIFY(bar->isVisible());
    window_->panel<RunPanel>()->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty() && !document().isRunning(), 10000);
    QVERIFY(!bar->isVisible());
    QVERIFY(window_->canvas()->boxDecorations().anyHeat);
  }

  void resultsAreVisitedFromTheSearchLine() {
    open();
    const Graph& g = *document().graph();
    // What is found by its type says so.
    QVERIFY(findInGraph(g, QStringLiteral("1x64x16")).front().second.contains(QStringLiteral("1×64×16")));
    QVERIFY(!findInGraph(g, QStringLiteral("softmax")).front().second.contains(QStringLiteral("f32")));
    QLineEdit* line = window_->panel<Explorer>()->search();
    line->setText(QStringLiteral("softmax"));
    QTest::keyClick(line, Qt::Key_Return);
    QCOMPARE(document().selection(), QStringList{QStringLiteral("softmax")});
    QTest::keyClick(line, Qt::Key_Down);
    QCOMPARE(document().selection(), QStringList{QStringLiteral("softmax_1")});
    QTest::keyClick(line, Qt::Key_Up);
    QTest::keyClick(line, Qt::Key_Up);  // around the end
    QCOMPARE(document().selection(), QStringList{QStringLiteral("softmax_3")});
    QTest::keyClick(line, Qt::Key_Escape);  // back to the drawing
    QVERIFY(line->text().isEmpty() && window_->panel<Explorer>()->tree()->isVisible());
    QCOMPARE(window_->focusWidget(), window_->canvas());
    // Another model is not searched for what was in this one.
    line->setText(QStringLiteral("softmax"));
    window_->openModel(model_);
    QTRY_VERIFY(line->text().isEmpty());
  }
};

}  // namespace

QTEST_MAIN(NavigationTest)
#include "navigation_test.moc"
