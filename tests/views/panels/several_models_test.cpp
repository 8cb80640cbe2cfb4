// Several models and steps in one table, against the scripted engine; any two of them as drawings.
#include <QLabel>
#include <QMenu>
#include <QToolButton>

#include "tests/views/support/sample_graphs.h"
#include "tests/views/support/window_fixture.h"
#include "views/panels/run/side_by_side_panel.h"

using namespace graft;

namespace {

class SeveralModelsTest : public test::WindowFixture {
  Q_OBJECT

  SideBySidePanel* panel() { return window_->panel<SideBySidePanel>(); }
  QString file(const char* name) {
    const QString path = folder_.filePath(QString::fromLatin1(name));
    QFile out(path);
    return out.open(QIODevice::WriteOnly) ? path : QString();
  }
  QString cell(int row, int column) { return panel()->table()->item(row, column)->text(); }
  QToolButton* button(const char* text) {
    for (QToolButton* b : panel()->findChildren<QToolButton*>())
      if (b->text() == QLatin1String(text)) return b;
    return nullptr;
  }
  void select(const QList<int>& rows) {
    panel()->table()->clearSelection();
    for (const int row : rows)
      for (int c = 0; c < panel()->table()->columnCount(); ++c) panel()->table()->item(row, c)->setSelected(true);
  }
  /// The model as opened, the step that rewrote it, and another file.
  void fill() {
    open();
    type(QString::fromLatin1(test::rulesText));
    document().apply(QStringLiteral("Attention"));
    QTRY_COMPARE(document().position(), 1);
    window_->docks().show(QStringLiteral("sideBySide"));
    SideBySideList& list = panel()->list();
    list.addStep(0);
    list.addStep(1);
    list.addStep(1);  // it is there already
    list.addFile(file("other.pt"));
    QTRY_VERIFY_WITH_TIMEOUT(list.canRun(), 10000);
    QCOMPARE(panel()->table()->rowCount(), 3);
  }

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void stepsAndFilesAreRunInOneTable() {
    fill();
    QCOMPARE(cell(0, 0), QStringLiteral("as opened"));
    QCOMPARE(cell(1, 0), QStringLiteral("1 Attention"));
    QCOMPARE(cell(2, 0), QStringLiteral("other.pt"));
    QCOMPARE(cell(0, 1), QStringLiteral("52"));
    QCOMPARE(cell(2, 1), QStringLiteral("26"));
    QVERIFY(cell(0, 3).isEmpty());
    panel()->runOrStop();
    QCOMPARE(panel()->sentence(), QStringLiteral("Running all in turn …"));
    QTRY_VERIFY_WITH_TIMEOUT(!panel()->list().isRunning(), 10000);
    QCOMPARE(cell(0, 2), QStringLiteral("48"));
    QCOMPARE(cell(0, 3), QStringLiteral("3 ms"));
    QCOMPARE(cell(1, 5), QStringLiteral("×2.00"));
    QVERIFY(cell(0, 5).isEmpty());
    QCOMPARE(cell(1, 6), QStringLiteral("4e-07"));
    QCOMPARE(cell(1, 7), QStringLiteral("agree"));
    QVERIFY(cell(2, 7).startsWith(QStringLiteral("differ")));
    QVERIFY(panel()->sentence().contains(QStringLiteral("9 rounds")));
  }

  void anyTwoOpenAsDrawings() {
    fill();
    select({1});
    QVERIFY(!button("Open drawings")->isEnabled());
    select({0, 2});
    QVERIFY(button("Open drawings")->isEnabled());
    QTest::mouseClick(button("Open drawings"), Qt::LeftButton);
    Comparison& comparison = window_->comparison();
    QVERIFY(comparison.showsPair());
    QVERIFY(window_->beforeCanvas()->isVisible());
    QTRY_COMPARE(window_->canvas()->scene()->graph->nodeCount(), size_t{26});
    QTRY_COMPARE(window_->beforeCanvas()->scene()->graph->nodeCount(), size_t{52});
    QVERIFY(window_->canvas()->boxDecorations().anyChange || window_->beforeCanvas()->boxDecorations().anyChange);
    QVERIFY(!window_->canvas()->title().contains(QStringLiteral("identical")));
    // The model's own history is shown again as soon as it moves, or comparing ends.
    document().undo();
    QVERIFY(!comparison.showsPair());
    QTRY_COMPARE(window_->canvas()->scene()->graph->nodeCount(), size_t{52});
    select({0, 1});
    QTest::mouseClick(button("Open drawings"), Qt::LeftButton);
    QVERIFY(comparison.showsPair());
    window_->setCompare(false);
    QVERIFY(!comparison.showsPair());
    QVERIFY(!window_->beforeCanvas()->isVisible());
  }

  void twoDrawingsAreFittedAsTheyOpen() {
    fill();
    Comparison& comparison = window_->comparison();
    Canvas &before = *window_->beforeCanvas(), &now = *window_->canvas();
    const auto isWhole = [](const Canvas& c) { return c.visibleSceneRect().contains(c.scene()->bounds()); };
    const GraphRef one = document().original(), two = document().graph();
    now.setView({4000, 4000}, 1.2);
    comparison.showPair({one, two, QStringLiteral("one"), QStringLiteral("two")});
    QTRY_VERIFY(before.scene() && isWhole(before) && isWhole(now));
    QCOMPARE(before.scale(), now.scale());
    // Another model has a scale of its own, and keeps it while one looks closer at this one.
    const auto other = std::make_shared<const Graph>(test::trainingStep(2));
    comparison.showPair({one, other, QStringLiteral("one"), QStringLiteral("two")});
    QTRY_COMPARE(now.scale(), now.wholeScale());
    QCOMPARE(before.scale(), before.wholeScale());
    QVERIFY(isWhole(before) && isWhole(now) && now.scale() < before.scale());
    const double scale = before.scale();
    now.zoomIn();
    QCOMPARE(before.scale(), scale);
    QVERIFY(isWhole(before));
    comparison.fit();
    QCOMPARE(now.scale(), now.wholeScale());
    QCOMPARE(before.scale(), before.wholeScale());
    // What is too long for that is read from its beginning.
    const auto deep = std::make_shared<const Graph>(test::randomGraph(300));
    comparison.showPair({deep, deep, QStringLiteral("one"), QStringLiteral("two")});
    QTRY_VERIFY(now.scene() && now.scene()->graph == deep && now.scale() >= 0.7);
    QCOMPARE(before.scale(), now.scale());
    QVERIFY(!isWhole(now));
    comparison.fit();
    QVERIFY(isWhole(now) && isWhole(before));
  }

  void equalOnesSaySo() {
    fill();
    Comparison& comparison = window_->comparison();
    const GraphRef original = document().original();
    comparison.showPair({original, original, QStringLiteral("one"), QStringLiteral("two")});
    QCOMPARE(window_->canvas()->title(), QStringLiteral("two: identical"));
    const auto copy = std::make_shared<Graph>(*original);
    comparison.showPair({original, copy, QStringLiteral("one"), QStringLiteral("two")});
    QCOMPARE(window_->canvas()->title(), QStringLiteral("two: identical; weights are not compared"));
    comparison.showPair({original, document().graph(), QStringLiteral("one"), QStringLiteral("two")});
    QCOMPARE(window_->canvas()->title(), QStringLiteral("two"));
  }

  void aRowCanComeFirstOrGo() {
    fill();
    panel()->runOrStop();
    QTRY_VERIFY_WITH_TIMEOUT(!panel()->list().isRunning(), 10000);
    select({2});
    QTest::mouseClick(button("Compare with this"), Qt::LeftButton);
    QCOMPARE(cell(0, 0), QStringLiteral("other.pt"));
    QVERIFY(cell(1, 3).isEmpty());  // what was measured was beside another model
    select({0, 1});
    QTest::mouseClick(button("Remove"), Qt::LeftButton);
    QCOMPARE(panel()->table()->rowCount(), 1);
    QVERIFY(!button("Run all")->isEnabled());
  }

  void whatCannotBeReadOrRunSaysSo() {
    open();
    window_->docks().show(QStringLiteral("sideBySide"));
    panel()->list().addStep(0);
    panel()->list().addFile(file("broken.pt"));
    panel()->list().addFile(folder_.filePath(QStringLiteral("none.pt")));
    QTRY_VERIFY(cell(2, 7).contains(QStringLiteral("no such file")));
    QVERIFY(!panel()->list().canRun());
    select({2});
    QTest::mouseClick(button("Remove"), Qt::LeftButton);
    QTRY_VERIFY(panel()->list().canRun());
    panel()->runOrStop();
    QTRY_VERIFY_WITH_TIMEOUT(!panel()->list().isRunning(), 10000);
    QCOMPARE(cell(1, 7), QStringLiteral("not run: it takes other inputs"));
    QCOMPARE(cell(0, 7), QStringLiteral("reference for the others"));
  }

  void aNewEngineGetsTheFilesAgain() {
    fill();
    window_->engine().call(QStringLiteral("test/misbehave"), {{QStringLiteral("kind"), QStringLiteral("abort")}}, {});
    QTRY_VERIFY(!panel()->list().canRun());
    QTRY_VERIFY_WITH_TIMEOUT(panel()->list().canRun(), 20000);
    panel()->runOrStop();
    QTRY_VERIFY_WITH_TIMEOUT(!cell(2, 3).isEmpty(), 10000);
  }
};

}  // namespace

QTEST_MAIN(SeveralModelsTest)
#include "several_models_test.moc"
