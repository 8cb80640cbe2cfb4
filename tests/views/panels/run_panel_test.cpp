// The run panel driven as a person would, against the scripted engine: inputs, devices, baselines, what a run tells.
#include <QAbstractButton>
#include <QAbstractSpinBox>
#include <QAccessible>
#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QFileInfo>
#include <QHeaderView>
#include <QPushButton>
#include <QSignalSpy>
#include <QTableWidget>

#include "tests/views/support/window_fixture.h"
#include "views/panels/run/run_inputs.h"
#include "views/panels/run/run_panel.h"

using namespace graft;
using test::rulesText;

namespace {

class RunPanelTest : public test::WindowFixture {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void aRunTellsInOneLine() {
    open();
    type(QString::fromLatin1(rulesText));
    window_->arrange(Arrangement::Measure);
    window_->panel<RunPanel>()->start();
    QVERIFY(document().isRunning());
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty(), 10000);
    QCOMPARE(window_->panel<RunPanel>()->headlineText(),
             QStringLiteral("1.12 ms instead of 3.14 ms with frozen TorchScript: 2.80 times as fast, outputs agree "
                            "(max 4e-07, cosine 1.000000)"));
    window_->setOverlay(Overlay::Time);
    QVERIFY(window_->canvas()->boxDecorations().anyHeat);
    // Error: of a module the largest inside, not the sum.
    window_->setOverlay(Overlay::Error);
    window_->canvas()->setDepth(0);
    const Canvas* canvas = window_->canvas();
    const int encoder = canvas->scene()->boxOf(QStringLiteral("@encoder"));
    QCOMPARE(canvas->boxDecorations().heat[static_cast<size_t>(encoder)], 3e-3);
    // Beside it the original has the same colours.
    window_->setCompare(true);
    const BoxDecorations& before = window_->beforeCanvas()->boxDecorations();
    QCOMPARE(before.heat[static_cast<size_t>(window_->beforeCanvas()->scene()->boxOf(QStringLiteral("@encoder")))],
             3e-3);
    QVERIFY(!before.anyChange);
  }

  void whatTheRunsCannotTellIsNotClaimed() {
    const auto says = [&](const char* fast, const char* spread) {
      window_.reset();
      forget();
      qputenv("FAKE_ENGINE_FAST", fast);
      qputenv("FAKE_ENGINE_SPREAD", spread);
      open();
      window_->panel<RunPanel>()->setAgainst(QStringLiteral("graft"));
      window_->panel<RunPanel>()->start();
      if (!QTest::qWaitFor([&] { return !document().lastRun().isEmpty(); }, 10000)) return QString();
      return window_->panel<RunPanel>()->headlineText().section(QLatin1String(", outputs"), 0, 0);
    };
    // A busy machine: half as fast again in the median, and the pairs say nothing.
    QCOMPARE(
        says("2.1", "0.4"),
        QStringLiteral("2.1 ms beside 3.14 ms: no difference that these runs can tell (0.90 to 2.09 times as fast)"));
    // A quiet one: one in a hundred, and all pairs agree.
    QCOMPARE(says("3.11", "0.001"), QStringLiteral("3.11 ms instead of 3.14 ms: 1.01 times as fast"));
    QCOMPARE(says("3.2", "0.001"), QStringLiteral("3.2 ms instead of 3.14 ms: 0.98 times as fast"));
  }

  void whatIsMeasuredAgainstIsChosenAndSaid() {
    open();
    RunPanel* panel = window_->panel<RunPanel>();
    QCOMPARE(panel->against(), QStringLiteral("torchscript"));
    panel->setAgainst(QStringLiteral("graft"));
    panel->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty(), 10000);
    QVERIFY2(panel->headlineText().startsWith(QStringLiteral("1.12 ms instead of 3.14 ms: 2.80 times as fast")),
             qPrintable(panel->headlineText()));
    // PyTorch freezes nothing but TorchScript.
    const QString exported = folder_.filePath(QStringLiteral("model.pt2"));
    QVERIFY(QFile::exists(exported) || QFile::copy(model_, exported));
    window_->openModel(exported);
    QTRY_COMPARE(document().path(), exported);
    QCOMPARE(panel->against(), QStringLiteral("graft"));
    panel->setAgainst(QStringLiteral("torchscript"));
    QCOMPARE(panel->against(), QStringLiteral("graft"));
    // Two files compared: what counts is the file that stands as the original.
    window_->compareWith(model_);
    QTRY_COMPARE(document().otherPath(), model_);
    QCOMPARE(panel->against(), QStringLiteral("torchscript"));
  }

  void theRunPanelTellsOfMemoryOperatorsAndTheInside() {
    open();
    RunPanel* panel = window_->panel<RunPanel>();
    window_->arrange(Arrangement::Measure);
    panel->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty(), 10000);
    QCOMPARE(RunPanel::memoryLine(document().lastRun()),
             QStringLiteral("52 operators. Intermediates at most 20 kB instead of 50 kB; weights 200 kB."));
    QCOMPARE(panel->table(RunPanel::Inside)->rowCount(), 52);
    QTableWidget* operators = panel->table(RunPanel::Operators);
    const QList<QTableWidgetItem*> linear =
        operators->findItems(QStringLiteral("aten.linear.default"), Qt::MatchExactly);
    QCOMPARE(linear.size(), 1);
    QCOMPARE(operators->item(linear[0]->row(), 1)->text(), QStringLiteral("16"));
    QCOMPARE(panel->timeline()->spans(0).size(), size_t{52});
    // A click on a row of the inside goes to the node.
    Q_EMIT panel->table(RunPanel::Inside)->cellClicked(20, 0);
    QCOMPARE(document().selection(), QStringList{panel->table(RunPanel::Inside)->item(20, 0)->text()});
    // Tables are copied whole, plots are saved.
    QTest::keyClick(panel->table(RunPanel::Outputs), Qt::Key_C, Qt::ControlModifier);
    QVERIFY(QApplication::clipboard()->text().startsWith(QStringLiteral("Output\tType\tmax abs")));
    for (const char* name : {"latency.svg", "latency.png"}) {
      const QString path = folder_.filePath(QString::fromLatin1(name));
      QVERIFY(panel->latency()->save(path));
      QVERIFY(QFileInfo(path).size() > 500);
    }
    QVERIFY(!panel->latency()->save(folder_.filePath(QStringLiteral("none/latency.png"))));
  }

  void plotsAreReadByTheKeyboard() {
    open();
    RunPanel* panel = window_->panel<RunPanel>();
    window_->arrange(Arrangement::Measure);
    QCOMPARE(panel->latency()->focusPolicy(), Qt::NoFocus);  // there is nothing to read yet
    panel->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty(), 10000);
    const auto told = [](QWidget* w) {
      return QAccessible::queryAccessibleInterface(w)->text(QAccessible::Description);
    };
    LatencyPlot* latency = panel->latency();
    QCOMPARE(latency->focusPolicy(), Qt::StrongFocus);
    QCOMPARE(latency->stopCount(), 2);
    const QImage before = latency->grab().toImage();
    latency->setFocus(Qt::TabFocusReason);
    QTRY_VERIFY(latency->hasFocus());
    QVERIFY(latency->grab().toImage() != before);
    QTest::keyClick(latency, Qt::Key_Down);
    QVERIFY2(told(latency).startsWith(QStringLiteral("original")), qPrintable(told(latency)));
    QTest::keyClick(latency, Qt::Key_End);
    QVERIFY(told(latency).startsWith(QStringLiteral("rewritten: ")));
    QVERIFY(told(latency).contains(QStringLiteral("ms at the median")));
    QTest::keyClick(latency, Qt::Key_Down);
    QCOMPARE(latency->stop(), 1);  // the last
    QTest::keyClick(latency, Qt::Key_Escape);
    QCOMPARE(latency->stop(), -1);
    QApplication::clipboard()->clear();
    QTest::keyClick(latency, Qt::Key_C, Qt::ControlModifier);
    QVERIFY(!QApplication::clipboard()->pixmap().isNull());
    // The timeline: along a lane, to the other lane, closer, and to the node.
    TimelinePlot* timeline = panel->timeline();
    const auto& spans = timeline->spans(0);
    QTest::keyClick(timeline, Qt::Key_Right);
    QTest::keyClick(timeline, Qt::Key_Right);
    QCOMPARE(timeline->stop(), 1);
    QVERIFY(told(timeline).contains(spans[1].label));
    QTest::keyClick(timeline, Qt::Key_Down);
    const int below = timeline->stop() - static_cast<int>(spans.size());
    QVERIFY(below >= 0);
    const auto& other = timeline->spans(1)[static_cast<size_t>(below)];
    const double middle = spans[1].start + spans[1].microseconds / 2;
    QVERIFY(other.start <= middle && middle <= other.start + other.microseconds + 1e-6);
    QTest::keyClick(timeline, Qt::Key_Up);
    QVERIFY(timeline->stop() < static_cast<int>(spans.size()));
    timeline->resize(400, 120);
    const QImage whole = timeline->grab().toImage();
    QTest::keyClick(timeline, Qt::Key_Plus);
    QVERIFY(timeline->grab().toImage() != whole);
    QTest::keyClick(timeline, Qt::Key_0);
    QCOMPARE(timeline->grab().toImage(), whole);
    timeline->setStop(4);
    QTest::keyClick(timeline, Qt::Key_Return);
    QCOMPARE(document().selection(), QStringList{spans[4].node});
  }

  void aPinnedRunIsWhatLaterOnesAreMeasuredAgainst() {
    open();
    RunPanel* panel = window_->panel<RunPanel>();
    panel->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty(), 10000);
    panel->pin();
    QVERIFY(panel->deltaText().isEmpty());
    const auto buttons = panel->findChildren<QPushButton*>();
    QVERIFY(
        std::any_of(buttons.begin(), buttons.end(), [](QPushButton* b) { return b->text().startsWith(u"Pinned"); }));
    QSignalSpy ran(&document(), &Document::runChanged);
    panel->start();
    QTRY_COMPARE_WITH_TIMEOUT(ran.size(), 2, 10000);
    QCOMPARE(panel->deltaText(),
             QStringLiteral("Against the pinned run: rewritten −12.5 % (1.12 ms → 0.98 ms), original +0.0 %"));
  }

  void sizesAreSwept() {
    open();
    RunPanel* panel = window_->panel<RunPanel>();
    panel->setInputs(QStringLiteral("f32[B,16,64] f32[B,1,1,16] B=1,2,4"));
    panel->start();
    QTRY_COMPARE_WITH_TIMEOUT(panel->table(RunPanel::Sweep)->rowCount(), 3, 20000);
    QCOMPARE(panel->table(RunPanel::Sweep)->item(2, 0)->text(), QStringLiteral("B=4"));
    QCOMPARE(panel->table(RunPanel::Sweep)->item(2, 1)->text(), QStringLiteral("12.6 ms"));
    QVERIFY(!document().isRunning());
    panel->setInputs(QStringLiteral("f32[B,16,64] f32[B,1,1,16]"));
    panel->start();
    QVERIFY(!document().isRunning());
    QVERIFY2(panel->headlineText().contains(QStringLiteral("how large is B?")), qPrintable(panel->headlineText()));
  }

  void anOutputWithoutNumbersIsSaidToBeNotCompared() {
    const QJsonObject numbers{{"name", "0"}, {"passed", true}, {"why", ""}};
    const QJsonObject none{{"name", "1"}, {"passed", true}, {"nothingCompared", true}, {"why", "nan everywhere"}};
    const auto run = [](const QJsonArray& outputs) { return QJsonObject{{"outputs", outputs}}; };
    QVERIFY(RunPanel::headline(run({numbers})).contains(QStringLiteral("outputs agree")));
    const QString headline = RunPanel::headline(run({numbers, none}));
    QVERIFY2(headline.startsWith(QStringLiteral("Nothing was compared of output 1: nan everywhere.")),
             qPrintable(headline));
  }

  void aFailedCheckIsSaidBeforeAnySpeed() {
    qputenv("FAKE_ENGINE_DIFFERS", "2");
    open();
    RunPanel* panel = window_->panel<RunPanel>();
    panel->setInputs(QStringLiteral("f32[B,16,64] f32[B,1,1,16] B=1,2,4"));
    panel->start();
    QTRY_COMPARE_WITH_TIMEOUT(panel->table(RunPanel::Sweep)->rowCount(), 3, 20000);
    // The last size agrees; the one that does not is told all the same.
    QVERIFY2(panel->headlineText().startsWith(QStringLiteral("1 of 3 sizes fail, B=2: output 0 differs: max abs 0.5")),
             qPrintable(panel->headlineText()));
    QVERIFY(RunPanel::agrees(document().lastRun()));
    QCOMPARE(panel->noteText(), QStringLiteral("Below: B=4."));
    QVERIFY(panel->table(RunPanel::Inside)->rowCount() > 0);  // of the size whose figures are shown
    panel->setInputs(QStringLiteral("f32[2,16,64] f32[2,1,1,16]"));
    panel->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().isRunning(), 20000);
    QVERIFY2(panel->headlineText().startsWith(
                 QStringLiteral("A check failed: output 0 differs: max abs 0.5; the numbers first differ at ")),
             qPrintable(panel->headlineText()));
    qunsetenv("FAKE_ENGINE_DIFFERS");
  }

  void figuresThatAreNotOfThisModelOrRunSaySo() {
    open();
    type(QString::fromLatin1(rulesText));
    window_->arrange(Arrangement::Measure);
    RunPanel* panel = window_->panel<RunPanel>();
    document().apply(QStringLiteral("Attention"));
    QTRY_COMPARE(document().position(), 1);
    panel->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty(), 10000);
    QCOMPARE(panel->noteText(), QString());
    document().undo();
    QVERIFY2(panel->noteText().contains(QStringLiteral("has been changed since")), qPrintable(panel->noteText()));
    QCOMPARE(panel->timeline()->spans(1).size(), size_t{36});  // still of what ran
    document().redo();
    QCOMPARE(panel->noteText(), QString());
    // A run that was asked for while a rewrite was under way is of the rewritten model.
    document().apply(QStringLiteral("Attention"));
    panel->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().isRunning() && document().position() == 2, 10000);
    QCOMPARE(panel->noteText(), QString());
    panel->start();
    QVERIFY2(panel->noteText().contains(QStringLiteral("Measuring")), qPrintable(panel->noteText()));
    document().stopRun();
    QTRY_VERIFY_WITH_TIMEOUT(!document().isRunning(), 5000);
    QCOMPARE(panel->noteText(), QStringLiteral("Stopped. Below: the run before."));
    QVERIFY(panel->headlineText().contains(QStringLiteral("times as fast")));
  }

  void everyControlSaysWhatItDoesAndTabGoesAsTheEyeDoes() {
    open();
    window_->arrange(Arrangement::Measure);
    RunPanel* panel = window_->panel<RunPanel>();
    panel->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty() && !document().isRunning(), 10000);
    int controls = 0;
    for (QWidget* w : panel->findChildren<QWidget*>()) {
      const bool isControl = qobject_cast<QAbstractButton*>(w) || qobject_cast<QComboBox*>(w) ||
                             qobject_cast<QAbstractSpinBox*>(w) || qobject_cast<QTableWidget*>(w) ||
                             (qobject_cast<QLineEdit*>(w) && !qobject_cast<QAbstractSpinBox*>(w->parentWidget()));
      if (!isControl || w->inherits("QTableCornerButton") || !w->isVisibleTo(panel) || w->parent()->inherits("QTabBar"))
        continue;
      ++controls;
      QVERIFY2(!w->toolTip().isEmpty(), w->metaObject()->className());
      if (auto* table = qobject_cast<QTableWidget*>(w))
        for (int c = 0; c < table->columnCount(); ++c) QVERIFY(!table->horizontalHeaderItem(c)->toolTip().isEmpty());
    }
    QVERIFY(controls >= 10);
    // From the line of inputs on, each next one is further right or further down.
    auto* w = panel->findChild<QLineEdit*>();
    QPoint last = w->mapTo(panel, w->rect().center());
    QSet<QString> passed;
    for (QWidget* next = w->nextInFocusChain(); next != w; next = next->nextInFocusChain()) {
      if (!panel->isAncestorOf(next) || !next->isVisible() || !(next->focusPolicy() & Qt::TabFocus) ||
          next->focusProxy() || qobject_cast<QAbstractSpinBox*>(next->parentWidget()))
        continue;
      const QPoint at = next->mapTo(panel, next->rect().center());
      QVERIFY2(at.x() > last.x() || at.y() > last.y() + 12,
               qPrintable(QStringLiteral("%1 at %2,%3 after %4,%5")
                              .arg(QString::fromLatin1(next->metaObject()->className()))
                              .arg(at.x())
                              .arg(at.y())
                              .arg(last.x())
                              .arg(last.y())));
      last = at;
      passed << QString::fromLatin1(next->metaObject()->className());
    }
    QVERIFY(passed.contains(QStringLiteral("QComboBox")) && passed.contains(QStringLiteral("QTableWidget")));
  }

  void linesOfInputsAreRead() {
    QCOMPARE(parseRunInputs(QString()).sets.size(), size_t{1});
    QCOMPARE(parseRunInputs(QStringLiteral("a/b.pt")).file, QStringLiteral("a/b.pt"));
    const RunInputs two = parseRunInputs(QStringLiteral("f32[B,S]:randn i64[S] B=1,2 S=8,16"));
    QCOMPARE(two.sets.size(), size_t{4});
    QCOMPARE(two.sets[3].label, QStringLiteral("B=2 S=16"));
    QCOMPARE(two.sets[3].specs, (QStringList{QStringLiteral("f32[2,16]:randn"), QStringLiteral("i64[16]")}));
    QVERIFY(parseRunInputs(QStringLiteral("f32[2] B=x")).error.contains(QStringLiteral("B=x is no size")));
    QString many = QStringLiteral("f32[A,B]");
    for (const char* name : {" A=", " B="}) {
      many += QString::fromLatin1(name);
      for (int i = 1; i < 10; ++i) many += QString::number(i) + (i < 9 ? QStringLiteral(",") : QString());
    }
    QVERIFY(parseRunInputs(many).error.contains(QStringLiteral("more than 64 runs")));
    Graph g;
    g.addBlockParameter(g.root(), "x", Type::tensor(DType::Float32, {Dim("s0"), Dim(4), Dim()}));
    QCOMPARE(specificationOf(g), QStringLiteral("f32[s0,4,N1] s0=8 N1=8"));
  }

  void devicesAreTheEnginesOwn() {
    start();
    auto devices = [&] {
      for (QComboBox* box : window_->panel<RunPanel>()->findChildren<QComboBox*>())
        if (box->itemText(0) == QLatin1String("cpu")) return box->count();
      return 0;
    };
    QTRY_COMPARE_WITH_TIMEOUT(devices(), 2, 5000);
    QVERIFY(window_->panel<RunPanel>()->setDevice(QStringLiteral("cuda:0"), QStringLiteral("float16")));
    QVERIFY(!window_->panel<RunPanel>()->setDevice(QStringLiteral("abacus")));
    QVERIFY(window_->statusText().contains(QStringLiteral("cuda:0")));
  }

  void aRunCanBeStopped() {
    qputenv("FAKE_ENGINE_STEP", "0.2");
    open();
    window_->panel<RunPanel>()->start();
    QVERIFY(document().isRunning());
    QTest::qWait(100);
    document().stopRun();
    QTRY_VERIFY_WITH_TIMEOUT(!document().isRunning(), 2000);
    QVERIFY(document().lastRun().isEmpty());
    QVERIFY(window_->engine().isUp());
  }
};

}  // namespace

QTEST_MAIN(RunPanelTest)
#include "run_panel_test.moc"
