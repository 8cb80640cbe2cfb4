// The window driven as a person would, against the scripted engine: what it shows, what it keeps when the engine dies.
#include <QAbstractItemModelTester>
#include <QApplication>
#include <QClipboard>
#include <QDockWidget>
#include <QRegularExpression>
#include <QSignalSpy>
#include <QTextBrowser>
#include <QTreeWidget>
#include <csignal>
#include <numeric>

#include "tests/views/frames.h"
#include "tests/views/sample_graphs.h"
#include "tests/views/window_fixture.h"
#include "views/command_palette.h"
#include "views/diff_view.h"
#include "views/explorer.h"
#include "views/history_panel.h"
#include "views/inspector.h"
#include "views/library_panel.h"
#include "views/matches_panel.h"
#include "views/rule_from_selection.h"
#include "views/rule_words.h"
#include "views/run_panel.h"
#include "views/source_view.h"
#include "views/why_not_panel.h"

using namespace graft;
using test::rulesText;

namespace {

class WindowTest : public test::WindowFixture {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
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
    QTRY_VERIFY(window_->inspector()->plain().contains(QStringLiteral("What softmax does.")));
    QVERIFY(window_->inspector()->plain().contains(QStringLiteral("aten::softmax.int(Tensor self) -> Tensor")));
    QTest::keyClick(window_->canvas(), Qt::Key_I);
    QCOMPARE(document().selection(), QStringList{QStringLiteral("add")});
    QTest::keyClick(window_->canvas(), Qt::Key_O);
    QCOMPARE(document().selection(), QStringList{QStringLiteral("softmax")});
  }

  void aClickOnTheSourceLineShowsThePython() {
    open();
    window_->canvas()->reveal(QStringLiteral("softmax_1"));
    Inspector* inspector = window_->inspector();
    QVERIFY(!inspector->source()->isVisible());
    auto* browser = inspector->findChild<QTextBrowser*>();
    Q_EMIT browser->anchorClicked(QUrl(QStringLiteral("%3Fsource")));
    QVERIFY(inspector->source()->isVisible());
    QTRY_COMPARE(inspector->source()->markedLine(), 11);
    QVERIFY(inspector->source()->text().contains(QStringLiteral("softmax_1 = softmax(...)")));
    // Of a long name its end is shown, and no panel grows.
    QVERIFY(inspector->source()->heading().endsWith(QStringLiteral("model.py:11")));
    const int width = inspector->width();
    const QString longName = QString(200, QLatin1Char('d')) + QStringLiteral("/model.py");
    inspector->source()->setSource(
        {{QStringLiteral("file"), longName}, {QStringLiteral("line"), 12}, {QStringLiteral("first"), 12}});
    QTest::qWait(20);
    QCOMPARE(inspector->width(), width);
    QVERIFY(inspector->source()->heading().endsWith(QStringLiteral("model.py:12")));
    QVERIFY(inspector->source()->heading().startsWith(QStringLiteral("…")));
    window_->canvas()->reveal(QStringLiteral("gelu"));  // it follows
    QTRY_COMPARE(inspector->source()->markedLine(), 10);
    window_->canvas()->reveal(QStringLiteral("@encoder"));
    QTRY_COMPARE(inspector->source()->markedLine(), 0);
    Q_EMIT browser->anchorClicked(QUrl(QStringLiteral("%3Fsource")));
    QVERIFY(!inspector->source()->isVisible());
  }

  void aWeightTellsItsStatistics() {
    open();
    window_->canvas()->reveal(QStringLiteral("linear"));
    Inspector* inspector = window_->inspector();
    QTRY_VERIFY(!inspector->weight().isEmpty());
    QCOMPARE(inspector->weight().value(QLatin1String("std")).toDouble(), 0.05);
    QVERIFY(inspector->plain().contains(QStringLiteral("encoder.layer.0.attention.query.weight")));
    window_->canvas()->reveal(QStringLiteral("gelu"));
    QVERIFY(inspector->weight().isEmpty());
  }

  void findingGoesByOperatorShapeAndExpression() {
    open();
    const Graph& g = *document().graph();
    QCOMPARE(findInGraph(g, QStringLiteral("aten.softmax")).size(), size_t{4});
    QCOMPARE(findInGraph(g, QStringLiteral("layer.2 gelu")).size(), size_t{1});
    QVERIFY(findInGraph(g, QStringLiteral("1×64×16")).size() == 4);
    QCOMPARE(findInGraph(g, QStringLiteral("/^gelu(_\\d)? /")).size(), size_t{4});
    QVERIFY(findInGraph(g, QStringLiteral("/((/")).empty());
    QCOMPARE(findInGraph(g, QStringLiteral("1x64x16")).size(), size_t{4});
    QCOMPARE(findInGraph(g, QStringLiteral("/^gelu(_\\d)?$/")).size(), size_t{4});
    window_->explorer()->search()->setText(QStringLiteral("/((/"));
    QVERIFY(window_->explorer()->results()->item(0)->text().contains(QLatin1String("no expression")));
    const QStringList selected = document().selection();
    QTest::keyClick(window_->explorer()->search(), Qt::Key_Return);  // a remark is no result
    QCOMPARE(document().selection(), selected);
    window_->canvas()->setSelection({QStringLiteral(">0")});
    document().setSelection({QStringLiteral(">0")});
    QVERIFY(window_->inspector()->plain().contains(QStringLiteral("Output 0")));
    QVERIFY(window_->inspector()->plain().contains(QStringLiteral("layer_norm_3")));
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

  void nothingFlickersWhileTheAnswerIsOnItsWay() {
    open();
    type(QString::fromLatin1(rulesText));
    auto* list = window_->matches()->findChild<QTreeWidget*>();
    list->topLevelItem(2)->setCheckState(0, Qt::Unchecked);
    window_->matches()->next();
    const QString before = window_->editor()->sentence();
    const auto color = [&] { return list->topLevelItem(0)->foreground(0).color(); };
    const QColor black = color();
    int between = 0;
    const auto seen = connect(&document(), &Document::rulesChanged, this, [&] {
      ++between;  // read, not matched
      QVERIFY(!rule().matched);
      QCOMPARE(window_->editor()->sentence(), before);
      QCOMPARE(list->topLevelItemCount(), 4);
      QCOMPARE(color(), black);
      QSignalSpy told(&document(), &Document::message);
      window_->matches()->applyTicked();  // the matches of this text are not known yet
      QCOMPARE(told.size(), 1);
    });
    window_->editor()->setText(QString::fromLatin1(rulesText) + QStringLiteral("\n# a remark\n"));
    QTRY_COMPARE(between, 1);
    QTRY_VERIFY(rule().matched);
    disconnect(seen);
    // What was unticked still is, and F3 goes on from where one was.
    QCOMPARE(list->topLevelItem(2)->checkState(0), Qt::Unchecked);
    QCOMPARE(window_->matches()->current(), 0);
    window_->matches()->applyTicked();
    QTRY_COMPARE(document().position(), 1);
    QCOMPARE(document().recordsToHere().size(), size_t{3});
  }

  void whyNotNamesTheCauseAndItsEditHeals() {
    open();
    type(QString::fromLatin1(rulesText).replace(QStringLiteral("dim=-1"), QStringLiteral("dim=1")));
    QTRY_COMPARE(document().nearMisses().size(), size_t{1});
    QVERIFY(window_->editor()->sentence().contains(QStringLiteral("dim is -1, the rule wants 1")));
    QCOMPARE(window_->whyNot()->rows(), 1);
    Q_EMIT window_->whyNot()->goThere(document().nearMisses().front());
    QCOMPARE(document().selection(), QStringList{QStringLiteral("softmax")});
    const QString wrong = window_->editor()->text();
    const NearMissInfo miss = document().nearMisses().front();
    auto* change = window_->whyNot()->findChild<QPushButton*>(QStringLiteral("change"));
    QVERIFY(change && change->toolTip().contains(QStringLiteral("1 becomes -1")));
    QTest::mouseClick(change, Qt::LeftButton);
    QTRY_COMPARE(rule().matches.size(), size_t{4});
    QCOMPARE(window_->editor()->text(), QString::fromLatin1(rulesText));
    // One step back takes it away, and the same edit fits no other text.
    window_->editor()->scintilla()->undo();
    QCOMPARE(window_->editor()->text(), wrong);
    window_->editor()->setText(QString(wrong).replace(QStringLiteral("dim=1"), QStringLiteral("dim=2")));
    const QString other = window_->editor()->text();
    Q_EMIT window_->whyNot()->suggested(miss);
    QCOMPARE(window_->editor()->text(), other);
    QVERIFY(window_->findChild<QWidget*>(QStringLiteral("failure"))->isVisible());
  }

  void appliesUndoesRedoesExports() {
    open();
    type(QString::fromLatin1(rulesText));
    window_->matches()->applyTicked();
    QTRY_COMPARE(document().position(), 1);
    QCOMPARE(document().graph()->nodeCount(), size_t{36});
    QCOMPARE(document().recordsToHere().size(), size_t{4});
    QTRY_VERIFY(rule().matches.empty());
    QAction *undo = window_->action(QStringLiteral("undo")), *redo = window_->action(QStringLiteral("redo"));
    QVERIFY(undo->isEnabled() && !redo->isEnabled());
    QCOMPARE(undo->text(), QStringLiteral("Take back Attention"));
    undo->trigger();
    QVERIFY(!undo->isEnabled() && redo->isEnabled());
    QCOMPARE(document().graph()->nodeCount(), size_t{52});
    QTRY_COMPARE(rule().matches.size(), size_t{4});
    document().undoStack()->redo();
    QCOMPARE(document().graph()->nodeCount(), size_t{36});
    const QString out = folder_.filePath(QStringLiteral("out.pt"));
    document().exportTo(out);
    QTRY_VERIFY(QFileInfo(out).size() > 0);
    QFile file(out);
    QVERIFY(file.open(QIODevice::ReadOnly));
    QCOMPARE(file.readAll(), QByteArray("exported 36 nodes"));  // the engine was brought to the same step
  }

  void whatComputesSomethingElseIsTakenBackAndTold() {
    open();
    type(QString::fromLatin1(rulesText).replace(QLatin1String("class Attention"),
                                                QLatin1String("class WrongAttention")));
    QSignalSpy told(&document(), &Document::message);
    window_->matches()->applyTicked();
    QTRY_COMPARE(document().position(), 1);
    QCOMPARE(document().recordsToHere().size(), size_t{3});
    QCOMPARE(document().steps()[1].rolledBack.size(), 1);
    QVERIFY(told.last().first().toString().contains(QLatin1String("1 taken back: `")));
    QVERIFY(told.last().first().toString().contains(QLatin1String("on random values")));
    QVERIFY(told.last().first().toString().endsWith(QLatin1String("all proven")));
    QTreeWidget* list = window_->findChild<HistoryPanel*>()->tree();
    QTRY_COMPARE(list->topLevelItemCount(), 2);
    QVERIFY(list->topLevelItem(1)->text(0).contains(QLatin1String("1 taken back")));
    QCOMPARE(list->topLevelItem(1)->text(1), QStringLiteral("3 of 4"));
    QVERIFY(list->topLevelItem(1)->toolTip(0).contains(QLatin1String("inputs: x f32[2,4]")));
    document().undoStack()->undo();
    // Without proof it stays, and the history says so.
    window_->action(QStringLiteral("prove"))->setChecked(false);
    QTRY_COMPARE(rule().matches.size(), size_t{4});
    window_->matches()->applyTicked();
    QTRY_COMPARE(document().position(), 1);
    QCOMPARE(document().recordsToHere().size(), size_t{4});
    QTRY_VERIFY(list->topLevelItem(1)->text(0).contains(QLatin1String("not proven")));
    QVERIFY(list->topLevelItem(1)->toolTip(0).contains(QLatin1String("proving is switched off")));
    window_->action(QStringLiteral("prove"))->setChecked(true);
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
    Q_EMIT document().failed(QStringLiteral("There is no preview"), QStringLiteral("it only finds"));
    auto* failure = window_->findChild<QWidget*>(QStringLiteral("failure"));
    QVERIFY(failure && failure->isVisible());
    const auto lightness = [&] { return failure->grab().toImage().pixelColor(2, 2).lightness(); };
    const int light = lightness();
    window_->setTheme(Theme::Dark);
    QVERIFY(lightness() < 100 && light > 200);  // its words are light in the dark
    window_->setTheme(Theme::Light);
    window_->matches()->togglePreview();
    QTRY_VERIFY(document().isPreviewing());
    QVERIFY(!failure->isVisible());  // it says nothing that is still so
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
    QTest::qWait(50);
    window_->canvas()->setView(window_->canvas()->origin(), 0.3);
    window_->canvas()->reveal(QStringLiteral("fused_0"));
    QCOMPARE(window_->beforeCanvas()->selection(), QStringList{QStringLiteral("matmul_1")});
    QVERIFY(window_->canvas()->scale() > 0.7);  // so that it can be read: the other follows
    QCOMPARE(window_->beforeCanvas()->scale(), window_->canvas()->scale());
    const auto& changes = window_->beforeCanvas()->boxDecorations();
    const SceneRef scene = window_->beforeCanvas()->scene();
    QCOMPARE(changes.change[static_cast<size_t>(scene->boxOf(QStringLiteral("softmax")))], Change::Removed);
  }

  void aSelectionBecomesAPattern() {
    open();
    const QString text = patternFromNodes(*document().graph(),
                                          {QStringLiteral("div"), QStringLiteral("add"), QStringLiteral("softmax")});
    QVERIFY2(text.contains(QStringLiteral("def pattern(matmul, mask):")), qPrintable(text));
    QVERIFY2(text.contains(QStringLiteral("softmax = torch.ops.aten.softmax(add, -1)")), qPrintable(text));
    QVERIFY(text.contains(QStringLiteral("return softmax\n")));
  }

  void literalsOfASelectionBecomeParametersByChoice() {
    open();
    const QStringList nodes{QStringLiteral("div"), QStringLiteral("softmax")};
    const Graph& g = *document().graph();
    QStringList keys;
    for (const SelectedLiteral& l : literalsOf(g, nodes)) keys << l.key + QLatin1Char(' ') + l.kind;
    QCOMPARE(keys, (QStringList{QStringLiteral("div.other float"), QStringLiteral("softmax.dim Number")}));
    const QString text = patternFromNodes(g, nodes, {QStringLiteral("softmax.dim")});
    QVERIFY2(text.contains(QStringLiteral("softmax_dim: Number")), qPrintable(text));
    QVERIFY2(text.contains(QStringLiteral("aten.softmax(add, softmax_dim)")), qPrintable(text));
    type(QString::fromLatin1(rulesText));
    document().setSelection(nodes);
    window_->action(QStringLiteral("fromSelection"))->trigger();
    auto* dialog = static_cast<RuleFromSelection*>(window_->findChild<QDialog*>(QStringLiteral("ruleFromSelection")));
    QVERIFY(dialog && !dialog->isModal());
    QCOMPARE(dialog->literals()->count(), 2);
    dialog->literals()->item(1)->setCheckState(Qt::Checked);
    QCOMPARE(dialog->text(), text);
    QTest::keyClick(dialog, Qt::Key_Return);
    QVERIFY(window_->editor()->text().endsWith(text));
    QVERIFY(window_->editor()->isModified());
    QTRY_COMPARE(document().rules().size(), size_t{2});
    QTest::qWait(300);  // what the caret's move brings about
    QCOMPARE(document().currentRule(), QStringLiteral("NewRule"));
  }

  void theLibraryShowsPatternsAndGivesRules() {
    start();
    QTRY_VERIFY_WITH_TIMEOUT(window_->engine().isUp(), 5000);
    QTemporaryDir own;
    QFile file(own.filePath(QStringLiteral("mine.py")));
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(
        "import torch\n\n\ndef helper(x):\n    return x\n\n\ndef unused(x):\n    return x\n\n\n"
        "class Mine(Rule):\n    # match: gelu\n    def pattern(x):\n        return helper(gelu(x))\n");
    file.close();
    LibraryPanel* library = window_->library();
    window_->action(QStringLiteral("library"))->trigger();
    QVERIFY(library->isVisible());
    library->addFolder(own.path());
    QTreeWidgetItem* folder = library->tree()->topLevelItem(library->tree()->topLevelItemCount() - 1);
    QCOMPARE(folder->child(0)->text(0), QStringLiteral("mine"));
    folder->child(0)->setExpanded(true);
    QTRY_COMPARE(folder->child(0)->childCount(), 2);  // the rule, and the recipe that the engine tells of
    Q_EMIT library->tree()->itemEntered(folder->child(0)->child(0), 0);
    QTRY_VERIFY(library->preview()->scene());
    QCOMPARE(library->preview()->scene()->graph->nodeCount(), size_t{1});
    Q_EMIT library->addAsked(file.fileName(), QStringLiteral("Mine"));
    const QString text = window_->editor()->text();
    QVERIFY(text.startsWith(QStringLiteral("import torch\n")));
    QVERIFY(text.contains(QStringLiteral("def helper")) && text.contains(QStringLiteral("class Mine(Rule)")));
    QVERIFY(!text.contains(QStringLiteral("unused")));
    QTRY_VERIFY(document().rule(QStringLiteral("Mine")));
    Q_EMIT library->addAsked(file.fileName(), QStringLiteral("Mine"));  // not twice
    QCOMPARE(window_->editor()->text(), text);
  }

  void completionOffersWhatCanBeCalled() {
    start();
    window_->arrange(Arrangement::Rewrite);
    auto* scintilla = window_->editor()->scintilla();
    auto* area = reinterpret_cast<QAbstractScrollArea*>(scintilla);
    QTRY_VERIFY_WITH_TIMEOUT(window_->engine().isUp(), 5000);
    QTest::qWait(200);
    area->setFocus();
    QTest::keyClicks(area, QStringLiteral("x = kernels.a"));
    QTRY_VERIFY(window_->editor()->isCompleting());
    QTest::keyClick(area, Qt::Key_Tab);
    QCOMPARE(window_->editor()->text(), QStringLiteral("x = kernels.attention"));
  }

  void aNewLineIsANewLineWhereTheListWouldChangeNothing() {
    start();
    window_->arrange(Arrangement::Rewrite);
    auto* area = reinterpret_cast<QAbstractScrollArea*>(window_->editor()->scintilla());
    QTRY_VERIFY_WITH_TIMEOUT(window_->engine().isUp(), 5000);
    QTest::qWait(200);
    area->setFocus();
    QTest::keyClicks(area, QStringLiteral("import torch"));
    QTest::keyClick(area, Qt::Key_Return);
    QTest::keyClicks(area, QStringLiteral("# torch"));
    QCOMPARE(window_->editor()->text(), QStringLiteral("import torch\n# torch"));
    QTest::keyClick(area, Qt::Key_Return);
    QTest::keyClicks(area, QStringLiteral("kernels.att"));
    QTRY_VERIFY(window_->editor()->isCompleting());
    QTest::keyClick(area, Qt::Key_Return);  // this one is taken
    QVERIFY(window_->editor()->text().endsWith(QStringLiteral("\nkernels.attention")));
  }

  void aCallTellsItsParameters() {
    for (const auto& [text, callee, argument, keyword] :
         {std::tuple{"y = F.gelu(", "F.gelu", 0, ""},
          {"y = torch.matmul(F.softmax(a, dim=-1), ", "torch.matmul", 1, ""},
          {"f(a, [1, 2], (b + ", "f", 2, ""},
          {"f(g(1, 2), approximate=", "f", 1, "approximate"},
          {"f(\"a, (\", k.transpose(-1, ", "k.transpose", 1, ""},
          {"class A(Rule):\n    def pattern(x, ", "", 0, ""},
          {"f(a)", "", 0, ""},
          {"F.softmax(\n    x,\n    dim", "F.softmax", 1, ""}}) {
      const OpenCall call = openCall(QString::fromLatin1(text));
      QCOMPARE(call.callee, QString::fromLatin1(callee));
      QVERIFY2(call.argument == argument || call.callee.isEmpty(), text);
      QCOMPARE(call.keyword, QString::fromLatin1(keyword));
    }
    start();
    window_->arrange(Arrangement::Rewrite);
    window_->activateWindow();
    auto* area = reinterpret_cast<QAbstractScrollArea*>(window_->editor()->scintilla());
    QTRY_VERIFY_WITH_TIMEOUT(window_->engine().isUp(), 5000);
    QTest::qWait(200);
    area->setFocus();
    QTest::keyClicks(area, QStringLiteral("x = F.gelu(y, "));
    QLabel* tip = window_->editor()->callTip();
    QTRY_VERIFY(tip->isVisible());
    static const QRegularExpression bold(QStringLiteral("<b[^>]*>([^<]*)</b>"));
    QCOMPARE(bold.match(tip->text()).captured(1), QStringLiteral("approximate"));
    QTest::keyClick(area, Qt::Key_Escape);
    QVERIFY(!tip->isVisible());
    QTest::keyClicks(area, QStringLiteral("z) + torch.matmul("));
    QTRY_VERIFY(tip->isVisible());
    QTest::keyClicks(area, QStringLiteral("a, b)"));
    QTRY_VERIFY(!tip->isVisible());
  }

  void theTextOfBothIsComparedLineByLine() {
    open();
    type(QString::fromLatin1(rulesText));
    document().apply(QStringLiteral("Attention"), {1});
    QTRY_COMPARE(document().position(), 1);
    window_->setTextDiff(true);
    QTRY_VERIFY(window_->diffView()->text().contains(QStringLiteral("−  %softmax_1 = aten.softmax.int()")));
    QVERIFY(window_->diffView()->text().contains(QStringLiteral("+  %fused_0 = graft.attention.default()")));
    QVERIFY(!window_->diffView()->text().contains(QStringLiteral("%gelu_3")));
    QCOMPARE(window_->diffView()->headline(), QStringLiteral("Against the model as opened: − 5 lines, + 1 line"));
    document().undoStack()->undo();
    QTRY_COMPARE(window_->diffView()->headline(), QStringLiteral("No line differs from the model as opened."));
  }

  void twoFilesAreCompared() {
    open();
    const QString other = folder_.filePath(QStringLiteral("other.pt"));
    QVERIFY(QFile::exists(other) || QFile::copy(model_, other));
    window_->compareWith(other);
    QTRY_COMPARE(document().otherPath(), other);
    QVERIFY(window_->beforeCanvas()->isVisible());
    QCOMPARE(window_->beforeCanvas()->scene()->graph->nodeCount(), size_t{26});
    // All of it is in the other: it fades beside what was added there.
    QVERIFY(window_->canvas()->boxDecorations().anyChange && window_->beforeCanvas()->boxDecorations().anyChange);
    const Canvas* now = window_->canvas();
    auto change = [&](const QString& node) {
      return now->boxDecorations().change[static_cast<size_t>(now->scene()->boxOf(node))];
    };
    ViewOptions all;
    all.depth = -1;
    window_->canvas()->setViewOptions(all);
    QCOMPARE(change(QStringLiteral("softmax")), Change::Changed);  // ×4: two of the four are new
    all.foldRepeats = false;
    window_->canvas()->setViewOptions(all);
    QCOMPARE(change(QStringLiteral("softmax_3")), Change::Added);
    QCOMPARE(change(QStringLiteral("softmax")), Change::None);
    window_->setTextDiff(true);
    QTRY_VERIFY(window_->diffView()->headline().startsWith(QStringLiteral("Against other.pt")));
    // A new engine is given both again.
    QSignalSpy again(&document(), &Document::message);
    kill(static_cast<pid_t>(window_->engine().processId()), SIGKILL);
    QTRY_VERIFY_WITH_TIMEOUT(!again.isEmpty(), 5000);
    window_->runPanel()->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty(), 10000);
    window_->action(QStringLiteral("compare"))->trigger();
    QVERIFY(document().otherPath().isEmpty());
    QCOMPARE(document().original()->nodeCount(), size_t{52});
  }

  void aPanelThatGoesLeavesTheMiddleInTheMiddle() {
    open();
    Canvas* canvas = window_->canvas();
    canvas->setDepth(-1);
    canvas->zoomToKeys({QStringLiteral("softmax")});
    const auto middle = [&] {
      return canvas->toWidget(canvas->scene()->rect(canvas->scene()->boxOf(QStringLiteral("softmax"))).center()).x() -
             canvas->width() / 2.0;
    };
    QVERIFY(std::abs(middle()) < 2);
    const int width = canvas->width();
    for (QDockWidget* dock : window_->findChildren<QDockWidget*>()) dock->hide();
    QTRY_VERIFY(canvas->width() > width + 200);
    QVERIFY(std::abs(middle()) < 3);
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

QTEST_MAIN(WindowTest)
#include "window_test.moc"
