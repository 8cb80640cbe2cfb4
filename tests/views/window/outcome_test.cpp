// What the window says of rewrites that were just applied: in one line over the drawing, which stays where it is.
#include <QLabel>
#include <QPushButton>
#include <QSignalSpy>
#include <QTreeWidget>

#include "tests/views/support/window_fixture.h"
#include "views/document/outcome.h"
#include "views/panels/changes_panel.h"
#include "views/panels/history_panel.h"
#include "views/window/outcome_card.h"

using namespace graft;
using test::rulesText;

namespace {

RolledBackInfo differs(const QString& node, double by, const QString& limit = QStringLiteral("at most 1e-05")) {
  const QString why = QStringLiteral("on random values, `%1` (f32[2,4]) differs: max abs %2; %3 is allowed")
                          .arg(node)
                          .arg(by)
                          .arg(limit);
  return {node, why, QStringLiteral("`%1`: %2").arg(node, why), by};
}

class OutcomeTest : public test::WindowFixture {
  Q_OBJECT

  OutcomeCard* card() { return window_->findChild<OutcomeCard*>(); }
  QPushButton* go() { return card()->findChild<QPushButton*>(QStringLiteral("outcomeGo")); }

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void equalReasonsAreToldOnce() {
    StepInfo step;
    step.label = QStringLiteral("Attention");
    QCOMPARE(outcomeOf(step).text, QStringLiteral("Attention: nothing was rewritten"));
    QVERIFY(!outcomeOf(step).isGood);
    for (int i = 0; i < 6; ++i)
      step.records.push_back({QStringLiteral("Attention"), {}, {QStringLiteral("a")}, {QStringLiteral("b%1").arg(i)}});
    step.verification = QStringLiteral("all verified");
    QCOMPARE(outcomeOf(step).text, QStringLiteral("Attention: 6 applied, all verified"));
    QVERIFY(outcomeOf(step).isGood && outcomeOf(step).details.isEmpty());
    QCOMPARE(outcomeOf(step).places.size(), 6);

    QVERIFY(!outcomeOf(step).isUnverified);
    // Of a long reason, the line has its beginning and its advice.
    step.verification =
        QStringLiteral("not verified: on random inputs, the model does not run as it is: conv2d failed: ") +
        QStringLiteral("Kernel size (4 x 4) is greater than input size. ").repeated(4) +
        QStringLiteral("It got f32[2,3]; example inputs may help");
    const Outcome unverified = outcomeOf(step);
    QVERIFY(unverified.isGood && unverified.isUnverified);
    QVERIFY2(unverified.text.startsWith(QStringLiteral("Attention: 6 applied, not verified: on random inputs, ")) &&
                 unverified.text.endsWith(QStringLiteral(" …; example inputs may help")) &&
                 unverified.text.size() < 200,
             qPrintable(unverified.text));
    QVERIFY(unverified.details.contains(QStringLiteral("It got f32[2,3]")));
    QCOMPARE(unverified.places.size(), 6);
    step.verification = QStringLiteral("all verified");

    step.rolledBack = {differs(QStringLiteral("matmul_1"), 0.162), differs(QStringLiteral("matmul_3"), 0.158)};
    QCOMPARE(outcomeOf(step).text,
             QStringLiteral("Attention: 6 applied, all verified. 2 taken back: at matmul_1 the result differs by 0.162 "
                            "(at most 1e-05 is allowed), and 1 more like it"));
    QVERIFY(!outcomeOf(step).isGood);
    QCOMPARE(outcomeOf(step).places, (QStringList{QStringLiteral("matmul_1"), QStringLiteral("matmul_3")}));
    QVERIFY(outcomeOf(step).details.contains(QStringLiteral("`matmul_3`: on random values")));

    step.records.clear();
    step.verification.clear();
    QVERIFY(
        outcomeOf(step).text.startsWith(QStringLiteral("Attention: 0 kept: at matmul_1 the result differs by 0.162")));
    step.rolledBack.clear();
    step.refused = {
        QStringLiteral("at `add`: `mul` is used elsewhere"), QStringLiteral("at `add_1`: `mul_2` is used elsewhere"),
        QStringLiteral("at `div`: it draws random numbers"), QStringLiteral("at `sub`: the module is shared")};
    QCOMPARE(outcomeOf(step).text,
             QStringLiteral("Attention: 4 refused: at add: mul is used elsewhere, and 1 more like it; at div: it draws "
                            "random numbers; 1 other reason"));
    QCOMPARE(outcomeOf(step).places.first(), QStringLiteral("add"));
  }

  void theKeyboardGoesFromTheLineToTheDrawing() {
    open();
    window_->activateWindow();
    QVERIFY(QTest::qWaitForWindowActive(window_.get()));
    type(QString::fromLatin1(rulesText));
    document().apply(rule().name);
    QTRY_VERIFY(!card()->isHidden());
    go()->setFocus();
    QTest::mouseClick(go(), Qt::LeftButton);
    QVERIFY(go()->hasFocus());
    document().run({});  // the line goes, whoever made it go
    QTRY_VERIFY(card()->isHidden());
    QVERIFY(window_->canvas()->hasFocus());
    QTRY_VERIFY_WITH_TIMEOUT(!document().isRunning(), 20000);
    window_->action(QStringLiteral("undoAny"))->trigger();  // Ctrl+Z takes the step back
    QTRY_COMPARE(document().position(), 0);
  }

  void oneLineSaysWhatBecameOfThem() {
    open();
    type(QString::fromLatin1(rulesText));
    QVERIFY(card()->isHidden());
    const QRect drawing(window_->canvas()->mapTo(window_.get(), QPoint()), window_->canvas()->size());
    document().apply(rule().name);
    QTRY_VERIFY(card()->isVisible());
    QCOMPARE(card()->text(), QStringLiteral("Attention: 4 applied, all verified"));
    QTest::qWait(30);
    QCOMPARE(QRect(window_->canvas()->mapTo(window_.get(), QPoint()), window_->canvas()->size()), drawing);
    QVERIFY(window_->canvas()->rect().contains(card()->geometry()));
    // It visits what it tells of.
    QTest::mouseClick(go(), Qt::LeftButton);
    QCOMPARE(document().selection(), QStringList{QStringLiteral("fused_0")});
    QTest::keyClick(go(), Qt::Key_Space);
    QCOMPARE(document().selection(), QStringList{QStringLiteral("fused_1")});
    // Another state has another story.
    document().undo();
    QVERIFY(card()->isHidden());
    document().redo();
    QVERIFY(card()->isHidden());
    // Whoever goes on with the drawing has read it.
    document().undo();
    document().apply(rule().name);
    QTRY_VERIFY(card()->isVisible());
    QTest::mouseClick(window_->canvas(), Qt::LeftButton, {}, window_->canvas()->rect().bottomLeft() + QPoint(4, -4));
    QVERIFY(card()->isHidden());
  }

  void whatWasTakenBackIsSaidAndShown() {
    open();
    type(QString::fromLatin1(rulesText).replace(QLatin1String("class Attention"),
                                                QLatin1String("class WrongAttention")));
    document().apply(rule().name, {1});
    QTRY_VERIFY(card()->isVisible());
    QVERIFY2(
        card()->text().startsWith(QStringLiteral("WrongAttention: 0 kept: at matmul_3 the result differs by 0.25")),
        qPrintable(card()->text()));
    // The history says it where it can be read: counts that are the same say nothing.
    const QTreeWidget* history = window_->panel<HistoryPanel>()->tree();
    QTRY_COMPARE(history->topLevelItemCount(), 2);
    QCOMPARE(history->topLevelItem(1)->text(0), QStringLiteral("WrongAttention · 1 taken back"));
    QCOMPARE(history->textElideMode(), Qt::ElideMiddle);
    QTest::mouseClick(go(), Qt::LeftButton);
    QCOMPARE(document().selection(), QStringList{QStringLiteral("matmul_3")});
    QTest::mouseClick(window_->canvas(), Qt::LeftButton, {}, window_->canvas()->rect().bottomLeft() + QPoint(4, -4));
    QVERIFY(card()->isVisible());
    QTest::mouseClick(card()->findChild<QPushButton*>(QStringLiteral("outcomeDismiss")), Qt::LeftButton);
    QVERIFY(card()->isHidden());
  }

  void itFitsASmallDrawing() {
    open();
    type(QString::fromLatin1(rulesText));
    for (const QSize size : {QSize(1440, 900), QSize(1024, 700), QSize(820, 580)}) {
      window_->resize(size);
      document().apply(rule().name);
      QTRY_VERIFY(card()->isVisible());
      QTest::qWait(30);
      QVERIFY(window_->canvas()->rect().contains(card()->geometry()));
      for (const QWidget* part : card()->findChildren<QWidget*>())
        if (part->isVisible()) QVERIFY(card()->rect().contains(part->geometry()));
      document().undo();
      QTRY_VERIFY(rule().matched && rule().matches.size() == 4);
    }
  }

  void itCoversNoBoxWhereThereIsRoomBesideThem() {
    open();
    type(QString::fromLatin1(rulesText));
    window_->resize(1600, 900);
    Canvas* canvas = window_->canvas();
    canvas->setDepth(0);
    const auto apply = [&] {
      document().apply(rule().name);
      QTRY_VERIFY(card()->isVisible());
      QTest::qWait(50);
    };
    const auto covered = [&] {
      const QRectF place = card()->geometry();
      const SceneRef scene = canvas->scene();
      return scene->covers({canvas->toScene(place.topLeft()), place.size() / canvas->scale()}) ||
             canvas->frame().legendPlace().intersects(place);
    };
    canvas->fit();
    apply();
    QVERIFY(!covered());
    // Inputs where it stands usually: it goes elsewhere.
    document().undo();
    QTRY_VERIFY(rule().matched && rule().matches.size() == 4);
    canvas->setDepth(0);
    const SceneRef scene = canvas->scene();
    const QRectF first = scene->rect(scene->view.roots.front());
    canvas->setView(first.center() - QPointF(canvas->width() / 2.0, 60), 1);
    apply();
    QVERIFY(!covered());
    // Another size of the drawing, another place.
    canvas->fit();
    window_->arrange(Arrangement::Explore);
    window_->resize(1440, 900);
    QTest::qWait(50);
    QVERIFY(card()->isVisible() && !covered());
  }

  void optimizeIsAStepThatSaysWhatItGained() {
    open();
    type(QString::fromLatin1(rulesText));
    QAction* optimize = window_->action(QStringLiteral("optimize"));
    auto* rules = window_->findChild<QTreeWidget*>(QStringLiteral("ruleList"));
    QVERIFY(optimize->isEnabled() && rules->isColumnHidden(2));
    optimize->trigger();
    QVERIFY(!optimize->isEnabled());  // one at a time
    QTRY_COMPARE(document().position(), 1);
    QVERIFY(optimize->isEnabled());
    QCOMPARE(card()->text(),
             QStringLiteral("Encoder: 4 applied, all verified. 1.25 times as fast (1.21 to 1.28) as the "
                            "original (frozen TorchScript)"));
    QVERIFY(!rules->isColumnHidden(2));
    QCOMPARE(rules->topLevelItem(0)->text(2), QStringLiteral("+25 %"));
    // Where nothing is left to do, it says so and changes nothing.
    optimize->trigger();
    QTRY_VERIFY2(card()->text().contains(QStringLiteral("the model stays as it is")), qPrintable(card()->text()));
    QVERIFY(card()->isVisible());
    QCOMPARE(document().position(), 1);
    document().undo();
    QVERIFY(card()->isHidden());
  }

  void anOptimizationCanBeTakenBackStepByStep() {
    open();
    document().optimize();
    QTRY_COMPARE(document().position(), 1);
    const StepInfo& step = document().steps().back();
    QCOMPARE(step.subSteps.size(), size_t{3});
    QCOMPARE(step.subSteps[0].records.size(), size_t{1});
    // The history lists what each recipe and rule did, and goes behind each.
    window_->arrange(Arrangement::Rewrite);
    auto* history = window_->panel<HistoryPanel>();
    auto* tree = history->findChild<QTreeWidget*>();
    QTRY_VERIFY(tree->topLevelItem(1) && tree->topLevelItem(1)->childCount() >= 2);
    QTreeWidgetItem* encoder = tree->topLevelItem(1);
    QCOMPARE(encoder->child(0)->text(0), QStringLiteral("FirstAttention"));
    document().showStep(1, 1);
    QTRY_COMPARE(document().subStep(), 1);
    QCOMPARE(document().graph()->nodeCount(), size_t{48});
    QVERIFY(document().canRedo());
    document().redo();
    QTRY_COMPARE(document().subStep(), -1);
    QCOMPARE(document().graph()->nodeCount(), size_t{36});
    // What is applied there takes the place of the rest, and a new engine does the same again.
    document().showStep(1, 1);
    QTRY_COMPARE(document().subStep(), 1);
    type(QString::fromLatin1(rulesText));
    document().apply(rule().name);
    QTRY_COMPARE(document().position(), 2);
    QCOMPARE(document().steps()[1].request.value(QLatin1String("upTo")).toInt(), 1);
    QCOMPARE(document().steps()[1].records.size(), size_t{1});
    const QByteArray before = exported();
    QSignalSpy replaced(&document(), &Document::engineReplaced);
    window_->engine().call(QStringLiteral("test/misbehave"), {{QStringLiteral("kind"), QStringLiteral("abort")}}, {});
    QTRY_COMPARE_WITH_TIMEOUT(replaced.size(), 1, 10000);
    QCOMPARE(exported(), before);
  }

  void anOptimizationThatIsStoppedChangesNothing() {
    qputenv("FAKE_ENGINE_STEP", "0.3");
    open();
    QSignalSpy failed(&document(), &Document::failed);
    document().optimize();
    QTRY_VERIFY(window_->findChild<QWidget*>(QStringLiteral("jobStop"))->isVisible());
    QTest::mouseClick(window_->findChild<QWidget*>(QStringLiteral("jobStop")), Qt::LeftButton);
    QTRY_VERIFY(!document().isOptimizing());
    QCOMPARE(document().position(), 0);
    QCOMPARE(failed.size(), 0);
    QVERIFY(card()->isHidden());
  }

  void aNewEngineAndANewWindowHaveTheOptimizedModel() {
    open();
    document().optimize();
    QTRY_COMPARE(document().position(), 1);
    const QByteArray before = exported();
    QVERIFY(before.contains("36 nodes"));
    QSignalSpy replaced(&document(), &Document::engineReplaced);
    window_->engine().call(QStringLiteral("test/misbehave"), {{QStringLiteral("kind"), QStringLiteral("abort")}}, {});
    QTRY_COMPARE_WITH_TIMEOUT(replaced.size(), 1, 10000);
    QCOMPARE(exported(), before);
    const QJsonObject state = document().state();
    window_.reset();
    start();
    document().restore(state);
    QTRY_COMPARE_WITH_TIMEOUT(document().position(), 1, 10000);
    QCOMPARE(document().steps().back().label, QStringLiteral("Encoder"));
    QVERIFY(card()->isHidden());  // nobody asked for it now
    QCOMPARE(exported(), before);
  }

  void changesAreListedAndGoneTo() {
    open();
    type(QString::fromLatin1(rulesText));
    window_->action(QStringLiteral("changes"))->trigger();
    auto* list = window_->panel<ChangesPanel>();
    QVERIFY(list->isVisible());
    QCOMPARE(list->topLevelItemCount(), 0);
    document().apply(rule().name);
    QTRY_COMPARE(list->topLevelItemCount(), 1);
    QCOMPARE(list->topLevelItem(0)->text(0), QStringLiteral("Attention"));
    QCOMPARE(list->topLevelItem(0)->childCount(), 4);
    QCOMPARE(list->topLevelItem(0)->child(2)->text(1), QStringLiteral("5 → 1"));
    list->setFocus();
    list->setCurrentItem(list->topLevelItem(0));
    QTest::keyClick(list, Qt::Key_Down);
    QCOMPARE(document().selection(), QStringList{QStringLiteral("fused_0")});
    document().undo();
    QTRY_COMPARE(list->topLevelItemCount(), 0);
  }

  void theViewStaysOnWhatChanged() {
    open();
    type(QString::fromLatin1(rulesText));
    window_->canvas()->setDepth(-1);
    Canvas& canvas = *window_->canvas();
    const auto heightOf = [&](const char* key) {
      return canvas.toWidget(canvas.scene()->rect(canvas.scene()->boxOf(QString::fromLatin1(key))).topLeft()).y();
    };
    // A node of the third match is in the middle; what takes its place stands there, and back again.
    canvas.reveal(QStringLiteral("softmax_2"));
    canvas.panTo(canvas.scene()->rect(canvas.scene()->boxOf(QStringLiteral("softmax_2"))).center());
    const double before = heightOf("softmax_2");
    document().apply(rule().name);
    QTRY_COMPARE(document().position(), 1);
    QVERIFY2(std::abs(heightOf("fused_2") - before) < 2, qPrintable(QString::number(heightOf("fused_2") - before)));
    document().undo();
    QVERIFY(canvas.rect().contains(QPoint(canvas.width() / 2, static_cast<int>(heightOf("softmax_2")))));
  }
};

}  // namespace

QTEST_MAIN(OutcomeTest)
#include "outcome_test.moc"
