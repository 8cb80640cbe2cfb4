// The window driven as a person would, against the scripted engine: what it shows, what it keeps when the engine dies.
#include <QAbstractItemModelTester>
#include <QApplication>
#include <QElapsedTimer>
#include <QFileInfo>
#include <QLabel>
#include <QSettings>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QTemporaryDir>
#include <QTest>
#include <QTreeWidget>
#include <csignal>

#include "tests/views/sample_graphs.h"
#include "views/canvas.h"
#include "views/command_palette.h"
#include "views/explorer.h"
#include "views/inspector.h"
#include "views/lists.h"
#include "views/main_window.h"
#include "views/matches_panel.h"
#include "views/rule_editor.h"
#include "views/rule_from_selection.h"
#include "views/run_panel.h"
#include "views/theme.h"

using namespace graft;

namespace {

const char* const rulesText = R"(class Attention(Rule):
    # match: matmul, div, add, softmax, matmul
    def pattern(q, k, v, mask):
        return torch.matmul(torch.softmax(torch.matmul(q, k) / 4 + mask, dim=-1), v)

    def replacement(q, k, v, mask):
        return kernels.attention(q, k, v, mask)
)";

class WindowTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  QString model_;
  std::unique_ptr<MainWindow> window_;

  void start() {
    window_ = std::make_unique<MainWindow>(
        QStringList{QStringLiteral("python3"), QStringLiteral(GRAFT_SOURCE_DIR "/tests/views/fake_engine.py")});
    window_->show();
  }
  Document& document() { return window_->document(); }
  void open() {
    start();
    window_->openModel(model_);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen(), 10000);
  }
  void type(const QString& text) {
    window_->arrange(Arrangement::Rewrite);
    window_->editor()->setText(text);
    QTRY_VERIFY(!document().rules().empty() && document().rules().front().matched);
  }
  const RuleInfo& rule() { return document().rules().front(); }

 private Q_SLOTS:
  void initTestCase() {
    QStandardPaths::setTestModeEnabled(true);
    applyTheme(Theme::Light);
    model_ = folder_.filePath(QStringLiteral("model.pt"));
    QFile file(model_);
    QVERIFY(file.open(QIODevice::WriteOnly));
  }
  void init() {
    QSettings().clear();
    for (const char* name :
         {"FAKE_ENGINE_CRASH", "FAKE_ENGINE_HANG", "FAKE_ENGINE_NONSENSE", "FAKE_ENGINE_MARK", "FAKE_ENGINE_STEP"})
      qunsetenv(name);
  }
  void cleanup() { window_.reset(); }

  void opensAModelAndDrawsIt() {
    open();
    QCOMPARE(document().graph()->nodeCount(), size_t{52});
    QVERIFY(window_->canvas()->scene());
    window_->canvas()->setDepth(0);
    const auto& boxes = window_->canvas()->scene()->view.boxes;
    QCOMPARE(boxes.size(), size_t{4});  // x, mask, encoder, output
    QVERIFY(window_->windowTitle().contains(QStringLiteral("model.pt")));
    QVERIFY(window_->statusText().contains(QStringLiteral("52 nodes")));
  }

  void aMissingFileIsReportedAndNothingElseChanges() {
    open();
    QSignalSpy failed(&document(), &Document::failed);
    window_->openModel(folder_.filePath(QStringLiteral("none.pt")));
    QTRY_COMPARE(failed.size(), 1);
    QVERIFY(failed[0][1].toString().contains(QStringLiteral("no such file")));
    QCOMPARE(document().graph()->nodeCount(), size_t{52});
  }

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

  void aClickSelectsAndTheInspectorTells() {
    open();
    window_->canvas()->reveal(QStringLiteral("softmax"));
    QCOMPARE(document().selection(), QStringList{QStringLiteral("softmax")});
    QVERIFY(window_->inspector()->plain().contains(QStringLiteral("aten.softmax.int")));
    QTest::keyClick(window_->canvas(), Qt::Key_I);
    QCOMPARE(document().selection(), QStringList{QStringLiteral("add")});
    QTest::keyClick(window_->canvas(), Qt::Key_O);
    QCOMPARE(document().selection(), QStringList{QStringLiteral("softmax")});
  }

  void findingGoesByOperatorShapeAndExpression() {
    open();
    const Graph& g = *document().graph();
    QCOMPARE(findInGraph(g, QStringLiteral("aten.softmax")).size(), size_t{4});
    QCOMPARE(findInGraph(g, QStringLiteral("layer.2 gelu")).size(), size_t{1});
    QVERIFY(findInGraph(g, QStringLiteral("1×64×16")).size() == 4);
    QCOMPARE(findInGraph(g, QStringLiteral("/^gelu(_\\d)? /")).size(), size_t{4});
    QVERIFY(findInGraph(g, QStringLiteral("/((/")).empty());
    window_->explorer()->search()->setText(QStringLiteral("softmax"));
    QCOMPARE(window_->explorer()->results()->count(), 4);
    QTest::keyClick(window_->explorer()->search(), Qt::Key_Return);
    QCOMPARE(document().selection().size(), 1);
  }

  void matchesAppearAsOneTypes() {
    open();
    type(QString::fromLatin1(rulesText));
    QCOMPARE(rule().matches.size(), size_t{4});
    QVERIFY2(window_->editor()->sentence().startsWith(QStringLiteral("Attention: 4 matches in 52 nodes")),
             qPrintable(window_->editor()->sentence()));
    // One colour for each pattern node, on canvas as in the list.
    window_->canvas()->setDepth(-1);
    const Canvas* canvas = window_->canvas();
    QCOMPARE(canvas->boxDecorations().pattern[static_cast<size_t>(canvas->scene()->boxOf(QStringLiteral("softmax")))],
             3);
    QCOMPARE(canvas->boxDecorations().pattern[static_cast<size_t>(canvas->scene()->boxOf(QStringLiteral("gelu")))], -1);
    QCOMPARE(window_->patternCanvas()->scene()->graph->nodeCount(), size_t{5});
  }

  void lastMatchesStayGreyWhileTheTextIsWrong() {
    open();
    type(QString::fromLatin1(rulesText));
    window_->editor()->setText(QString::fromLatin1(rulesText) + QStringLiteral("\n  syntax error\n"));
    QTRY_VERIFY(document().ruleError().any());
    QCOMPARE(document().ruleError().line, 9);
    QCOMPARE(rule().matches.size(), size_t{4});
    QVERIFY(!rule().matched);
    QVERIFY(window_->editor()->sentence().startsWith(QStringLiteral("Line 9: expected an expression")));
  }

  void whyNotNamesTheCauseAndItsEditHeals() {
    open();
    type(QString::fromLatin1(rulesText).replace(QStringLiteral("dim=-1"), QStringLiteral("dim=1")));
    QTRY_COMPARE(document().nearMisses().size(), size_t{1});
    QVERIFY(window_->editor()->sentence().contains(QStringLiteral("dim is -1, the rule wants 1")));
    QCOMPARE(window_->whyNot()->rows(), 1);
    Q_EMIT window_->whyNot()->goThere(document().nearMisses().front());
    QCOMPARE(document().selection(), QStringList{QStringLiteral("softmax")});
    Q_EMIT window_->whyNot()->suggested(document().nearMisses().front());
    QTRY_COMPARE(rule().matches.size(), size_t{4});
  }

  void appliesUndoesRedoesExports() {
    open();
    type(QString::fromLatin1(rulesText));
    window_->matches()->applyTicked();
    QTRY_COMPARE(document().position(), 1);
    QCOMPARE(document().graph()->nodeCount(), size_t{36});
    QCOMPARE(document().recordsToHere().size(), size_t{4});
    QTRY_VERIFY(rule().matches.empty());
    document().undoStack()->undo();
    QCOMPARE(document().graph()->nodeCount(), size_t{52});
    QTRY_COMPARE(rule().matches.size(), size_t{4});
    document().undoStack()->redo();
    QCOMPARE(document().graph()->nodeCount(), size_t{36});
    const QString out = folder_.filePath(QStringLiteral("out.pt"));
    document().exportTo(out);
    QTRY_VERIFY(QFileInfo::exists(out));
    QFile file(out);
    QVERIFY(file.open(QIODevice::ReadOnly));
    QCOMPARE(file.readAll(), QByteArray("exported 36 nodes"));  // the engine was brought to the same step
  }

  void onlyTickedMatchesAreApplied() {
    open();
    type(QString::fromLatin1(rulesText));
    auto* list = window_->matches()->findChild<QTreeWidget*>();
    list->topLevelItem(1)->setCheckState(0, Qt::Unchecked);
    window_->matches()->applyTicked();
    QTRY_COMPARE(document().position(), 1);
    QCOMPARE(document().recordsToHere().size(), size_t{3});
    QTRY_COMPARE(rule().matches.size(), size_t{1});
  }

  void aPreviewChangesNothing() {
    open();
    type(QString::fromLatin1(rulesText));
    window_->matches()->togglePreview();
    QTRY_VERIFY(document().isPreviewing());
    QVERIFY(window_->beforeCanvas()->isVisible());
    QVERIFY(window_->canvas()->boxDecorations().anyChange);
    QCOMPARE(document().position(), 0);
    document().endPreview();
    QVERIFY(!window_->beforeCanvas()->isVisible());
    QCOMPARE(document().graph()->nodeCount(), size_t{52});
  }

  void sideBySideSelectsCounterparts() {
    open();
    type(QString::fromLatin1(rulesText));
    document().apply(QStringLiteral("Attention"));
    QTRY_COMPARE(document().position(), 1);
    window_->setCompare(true);
    window_->canvas()->reveal(QStringLiteral("fused_0"));
    QCOMPARE(window_->beforeCanvas()->selection(), QStringList{QStringLiteral("matmul_1")});
    const auto& changes = window_->beforeCanvas()->boxDecorations();
    const SceneRef scene = window_->beforeCanvas()->scene();
    QCOMPARE(changes.change[static_cast<size_t>(scene->boxOf(QStringLiteral("softmax")))], Change::Removed);
  }

  void aRunTellsInOneLine() {
    open();
    type(QString::fromLatin1(rulesText));
    window_->arrange(Arrangement::Measure);
    window_->runPanel()->start();
    QVERIFY(document().isRunning());
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty(), 10000);
    QCOMPARE(
        window_->runPanel()->headlineText(),
        QStringLiteral("1.12 ms instead of 3.14 ms: 2.80 times faster, outputs agree (max 4e-07, cosine 1.000000)"));
    window_->setOverlay(Overlay::Time);
    QVERIFY(window_->canvas()->boxDecorations().anyHeat);
  }

  void aRunCanBeStopped() {
    qputenv("FAKE_ENGINE_STEP", "0.2");
    open();
    window_->runPanel()->start();
    QVERIFY(document().isRunning());
    QTest::qWait(100);
    document().stopRun();
    QTRY_VERIFY_WITH_TIMEOUT(!document().isRunning(), 2000);
    QVERIFY(document().lastRun().isEmpty());
    QVERIFY(window_->engine().isUp());
  }

  void aKilledEngineIsReplacedWithTheDocumentReplayed() {
    open();
    type(QString::fromLatin1(rulesText));
    document().apply(QStringLiteral("Attention"), {0, 2});
    QTRY_COMPARE(document().position(), 1);
    for (int round = 0; round < 3; ++round) {
      QSignalSpy message(&document(), &Document::message);
      QElapsedTimer timer;
      timer.start();
      kill(static_cast<pid_t>(window_->engine().processId()), SIGKILL);
      QTRY_VERIFY_WITH_TIMEOUT(!message.isEmpty(), 5000);
      QVERIFY(timer.elapsed() < 5000);
      QCOMPARE(document().graph()->nodeCount(), size_t{44});
    }
    const QString out = folder_.filePath(QStringLiteral("after_crash.pt"));
    document().exportTo(out);
    QTRY_VERIFY(QFileInfo::exists(out));
    QFile file(out);
    QVERIFY(file.open(QIODevice::ReadOnly));
    QCOMPARE(file.readAll(), QByteArray("exported 44 nodes"));
  }

  void crashNonsenseAndHangAreSurvived_data() {
    QTest::addColumn<QByteArray>("kind");
    for (const char* kind : {"CRASH", "NONSENSE", "HANG"}) QTest::newRow(kind) << QByteArray(kind);
  }
  void crashNonsenseAndHangAreSurvived() {
    QFETCH(QByteArray, kind);
    const QString mark = folder_.filePath(QString::fromLatin1(kind));
    qputenv("FAKE_ENGINE_MARK", mark.toLocal8Bit());
    qputenv(("FAKE_ENGINE_" + kind).constData(), "model/run");
    open();
    QSignalSpy down(&window_->engine(), &EngineClient::down), message(&document(), &Document::message);
    window_->runPanel()->start();
    if (kind == "HANG") {
      QTest::qWait(100);
      document().stopRun();
    }
    QTRY_VERIFY_WITH_TIMEOUT(!down.isEmpty(), 6000);
    QVERIFY(!document().isRunning());
    QTRY_VERIFY_WITH_TIMEOUT(!message.isEmpty(), 5000);
    window_->runPanel()->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty(), 10000);
  }

  void anEngineThatIsMissingIsSaidInWords() {
    MainWindow window({QStringLiteral("/nonexistent/graft"), QStringLiteral("engine")});
    window.show();
    QSignalSpy gaveUp(&window.engine(), &EngineClient::gaveUp);
    QTRY_VERIFY_WITH_TIMEOUT(!gaveUp.isEmpty(), 10000);
    bool said = false;
    for (QLabel* l : window.findChildren<QLabel*>())
      said = said || l->text().contains(QStringLiteral("does not start"));
    QVERIFY(said);
  }

  void aSelectionBecomesAPattern() {
    open();
    const QString text = patternFromNodes(*document().graph(),
                                          {QStringLiteral("div"), QStringLiteral("add"), QStringLiteral("softmax")});
    QVERIFY2(text.contains(QStringLiteral("def pattern(matmul, mask):")), qPrintable(text));
    QVERIFY2(text.contains(QStringLiteral("softmax = torch.ops.aten.softmax(add, -1)")), qPrintable(text));
    QVERIFY(text.contains(QStringLiteral("return softmax\n")));
  }

  void thePaletteFindsByPartsOfWords() {
    QVERIFY(fuzzyScore(QStringLiteral("exm"), QStringLiteral("Export rewritten model…")) > 0);
    QCOMPARE(fuzzyScore(QStringLiteral("xyz"), QStringLiteral("Export rewritten model…")), 0);
    QVERIFY(fuzzyScore(QStringLiteral("fit"), QStringLiteral("Fit")) >
            fuzzyScore(QStringLiteral("fit"), QStringLiteral("Find in the thing")));
    start();
    window_->action(QStringLiteral("palette"))->trigger();
    QVERIFY(window_->palette()->isVisible());
    QTest::keyClicks(window_->palette()->line(), QStringLiteral("dark"));
    QCOMPARE(window_->palette()->list()->count(), 1);
    QTest::keyClick(window_->palette()->line(), Qt::Key_Return);
    QTRY_COMPARE(currentTheme(), Theme::Dark);
    window_->setTheme(Theme::Light);
  }

  void unsavedRulesAreRecovered() {
    start();
    window_->editor()->setText(QString());
    QTest::keyClicks(reinterpret_cast<QWidget*>(window_->editor()->scintilla()), QStringLiteral("import torch"));
    QTRY_VERIFY_WITH_TIMEOUT(QFileInfo::exists(QStandardPaths::writableLocation(QStandardPaths::AppDataLocation) +
                                               QStringLiteral("/recovered_rules.py")),
                             10000);
    window_.reset();  // as if killed: nothing asks, nothing is cleaned up
    start();
    window_->restoreSession(true);
    QCOMPARE(window_->editor()->text(), QStringLiteral("import torch"));
    QFile::remove(QStandardPaths::writableLocation(QStandardPaths::AppDataLocation) +
                  QStringLiteral("/recovered_rules.py"));
  }

  void panningTenThousandBoxesKeepsUp() {
    Canvas canvas;
    canvas.resize(1200, 800);
    canvas.show();
    ViewOptions all;
    all.depth = -1;
    all.foldRepeats = false;
    canvas.setViewOptions(all);
    canvas.setGraph(std::make_shared<Graph>(test::encoder(340)));
    QTRY_VERIFY_WITH_TIMEOUT(canvas.scene(), 10000);
    QVERIFY(canvas.scene()->view.boxes.size() > 10000);
    for (const double scale : {0.02, 0.15, 0.8}) {
      canvas.setView(canvas.scene()->bounds().center(), scale);
      canvas.repaint();
      QElapsedTimer timer;
      timer.start();
      constexpr int frames = 40;
      for (int i = 0; i < frames; ++i) {
        QTest::keyClick(&canvas, i % 2 ? Qt::Key_Left : Qt::Key_Down);
        canvas.repaint();
      }
      const double ms = static_cast<double>(timer.elapsed()) / frames;
      qInfo("panning %zu boxes at scale %.2f: %.1f ms a frame", canvas.scene()->view.boxes.size(), scale, ms);
      QVERIFY(ms < 80);  // a quarter of that where nothing else runs
    }
  }

  void framesAreCutWhereTheyEnd() {
    FrameDecoder frames;
    QByteArray body;
    frames.feed("Content-Le");
    QVERIFY(!frames.next(body));
    frames.feed("ngth: 2\r\nX: y\r\n\r\n{}Content-Length: 3\r\n\r\n[1");
    QVERIFY(frames.next(body));
    QCOMPARE(body, QByteArray("{}"));
    QVERIFY(!frames.next(body));
    frames.feed("]");
    QVERIFY(frames.next(body));
    QCOMPARE(body, QByteArray("[1]"));
    frames.feed("Content-Length: -5\r\n\r\n");
    QVERIFY(!frames.next(body));
    QVERIFY(!frames.broken().isEmpty());
  }
};

}  // namespace

QTEST_MAIN(WindowTest)
#include "window_test.moc"
