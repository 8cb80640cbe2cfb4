// The panels of the arrangement Compile: tables of kernels and pairs, code whose colours and clicks travel, wishes, and
// kernels that are edited.
#include <QHeaderView>
#include <QScrollBar>
#include <QSignalSpy>
#include <QTabWidget>
#include <QToolButton>

#include "tests/views/support/window_fixture.h"
#include "views/document/run_figures.h"
#include "views/panels/compile/code_panel.h"
#include "views/panels/compile/kernels_panel.h"
#include "views/widgets/qscintilla.h"

using namespace graft;

namespace {

class CompileTest : public test::WindowFixture {
  Q_OBJECT

  Compilation& compilation() { return document().compilation(); }
  KernelsPanel* kernels() { return window_->panel<KernelsPanel>(); }
  CodePanel* code() { return window_->panel<CodePanel>(); }
  bool isReady() { return compilation().isKnown() && !compilation().isBusy(); }
  void openCompile() {
    open();
    window_->arrange(Arrangement::Compile);
    QTRY_VERIFY(isReady());
  }
  QTreeWidgetItem* row(const char* kernel) { return kernels()->table()->row(QString::fromLatin1(kernel)); }
  QTreeWidgetItem* pair(const QString& between) {
    const QList<QTreeWidgetItem*> found = kernels()->pairs()->tree()->findItems(between, Qt::MatchExactly);
    return found.value(0);
  }
  void choose(const char* kernel) {
    kernels()->table()->setCurrentItem(row(kernel));
    const QString last = QLatin1String("make_") + compilation().plan().find(QLatin1String(kernel))->coloured.last();
    QTRY_VERIFY2(code()->loops()->text().contains(last), qPrintable(last));
    QTRY_VERIFY(code()->code(CodePanel::Cpp)->text().contains(last));
  }

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void theTableHoldsAllThatRuns() {
    openCompile();
    // Of each of the four layers: two kernels, four products of weights, two of activations, one sum.
    QCOMPARE(compilation().plan().generatedCount(), 8);
    QCOMPARE(kernels()->table()->topLevelItemCount(), 8 + 4 * 7);
    QCOMPARE(row("div_add_softmax")->text(KernelTable::Name), QStringLiteral("div · add · softmax"));
    QCOMPARE(row("div_add_softmax")->text(KernelTable::Origin), QStringLiteral("generated"));
    QCOMPARE(row("linear")->text(KernelTable::Origin), QStringLiteral("library"));
    QCOMPARE(row("linear")->text(KernelTable::Measured), QStringLiteral("–"));
    // One is chosen already, the largest: no part of the arrangement is empty.
    QCOMPARE(compilation().current()->name, QStringLiteral("div_add_softmax"));
    QCOMPARE(kernels()->table()->currentItem(), row("div_add_softmax"));
    QTRY_VERIFY(code()->loops()->text().contains(QStringLiteral("nest")));
    QVERIFY(document().selection().isEmpty());
    QVERIFY(!window_->canvas()->boxDecorations().anyPattern);  // the drawing keeps the colours of kinds
    // In a small window, too, the sentence is read as a whole and the buttons are there.
    window_->resize(1024, 700);
    QTest::qWait(50);
    QVERIFY2(!kernels()->findChild<FixedHeightLabel*>()->isElided(), qPrintable(kernels()->summary()));
    for (const char* name : {"measureKernels", "trySchedules", "applyKernels"}) {
      auto* button = kernels()->findChild<QToolButton*>(QLatin1String(name) + QStringLiteral("Button"));
      QVERIFY2(
          button->isVisible() && kernels()->rect().contains(button->mapTo(kernels(), button->rect().bottomRight())),
          name);
    }
    QVERIFY(row("linear")->toolTip(KernelTable::Name).contains(QStringLiteral("for GPUs alone")));
    QVERIFY2(kernels()->summary().startsWith(QStringLiteral("36 kernels run, 8 generated")),
             qPrintable(kernels()->summary()));
  }

  void measuringFillsTimesAndTheShareOfTheRoofline() {
    openCompile();
    kernels()->findChild<QToolButton*>(QStringLiteral("measureKernelsButton"))->click();
    QVERIFY(compilation().isMeasuring());
    QTRY_VERIFY(compilation().plan().isMeasured());
    QCOMPARE(row("div_add_softmax")->text(KernelTable::Measured), QStringLiteral("3.50 µs"));
    QCOMPARE(row("div_add_softmax")->text(KernelTable::Before), QStringLiteral("13.5 µs"));
    // 3 tensors of 1×4×16×16 floats in 3.5 µs, of 10 kB/µs.
    QCOMPARE(row("div_add_softmax")->text(KernelTable::Share), QStringLiteral("35 %"));
    QVERIFY(row("div_add_softmax")->toolTip(KernelTable::Share).contains(QStringLiteral("its 512 FLOP take less")));
    // A product is held by its arithmetic: 12 of 20 µs.
    QCOMPARE(row("linear")->text(KernelTable::Share), QStringLiteral("60 %"));
    QVERIFY2(row("linear")->toolTip(KernelTable::Share).contains(QStringLiteral("600 kFLOP at 50 GFLOP/s")),
             qPrintable(row("linear")->toolTip(KernelTable::Share)));
    QVERIFY(kernels()->table()->isColumnHidden(KernelTable::Tried));
    QVERIFY(kernels()->summary().contains(QStringLiteral("0.8 ms instead of 1 ms measured")));
    // The timeline has each kernel below the operators that it stands for.
    const auto& lane = kernels()->timeline()->spans(1);
    QCOMPARE(lane.size(), size_t{36});
    QCOMPARE(lane.back().start + lane.back().microseconds, 8 * 3.5 + 28 * 20.0);
    QCOMPARE(kernels()->timeline()->spans(0).back().node, lane.back().node);
    // Sorted by time, the longest first.
    kernels()->table()->sortByColumn(KernelTable::Measured, Qt::DescendingOrder);
    QCOMPARE(kernels()->table()->topLevelItem(0)->text(KernelTable::Measured), QStringLiteral("20.0 µs"));
  }

  void schedulesThatWereTriedAreListedAndOneCanBeTaken() {
    openCompile();
    kernels()->findChild<QToolButton*>(QStringLiteral("trySchedulesButton"))->click();
    QTRY_VERIFY(compilation().plan().isMeasured());
    QVERIFY(!kernels()->table()->isColumnHidden(KernelTable::Tried));
    QCOMPARE(row("div_add_softmax")->text(KernelTable::Tried), QStringLiteral("2.50 µs (lanes i1, registers 2)"));
    QCOMPARE(row("linear")->text(KernelTable::Tried), QStringLiteral("–"));
    QVERIFY(row("div_add_softmax")
                ->toolTip(KernelTable::Tried)
                .contains(QStringLiteral("tried: lanes inner takes 5.00 µs")));
    QMenu menu;
    kernels()->table()->fillMenu(menu, QStringLiteral("div_add_softmax"));
    QCOMPARE(menu.actions().size(), qsizetype{2});
    menu.actions().first()->trigger();
    QTRY_VERIFY(isReady() && compilation().isSteered());
    QTRY_COMPARE(row("div_add_softmax")->text(KernelTable::Schedule),
                 QStringLiteral("lanes i1, registers 2 (4.00 µs as generated)"));
    compilation().undo();
    QTRY_VERIFY(isReady() && row("div_add_softmax")->text(KernelTable::Schedule).isEmpty());
  }

  void timesHaveTheUnitThatFits() {
    QCOMPARE(micros(7.9), QStringLiteral("7.90 µs"));
    QCOMPARE(micros(31.36), QStringLiteral("31.4 µs"));
    QCOMPARE(micros(7910), QStringLiteral("7.91 ms"));
  }

  void measuringCanBeStopped() {
    qputenv("FAKE_ENGINE_STEP", "0.5");
    openCompile();
    window_->action(QStringLiteral("measureKernels"))->trigger();
    auto* stop = window_->findChild<QToolButton*>(QStringLiteral("jobStop"));
    QTRY_VERIFY(stop->isVisible());
    stop->click();
    QTRY_VERIFY(!compilation().isBusy());
    QVERIFY(isReady() && !compilation().plan().isMeasured());
  }

  void aRowSelectsItsNodesAndANodeItsRow() {
    openCompile();
    choose("gelu_layer_norm_1");
    QCOMPARE(window_->canvas()->litNodes(), (QStringList{QStringLiteral("gelu_1"), QStringLiteral("layer_norm_1")}));
    QCOMPARE(document().selection(), QStringList{QStringLiteral("gelu_1")});
    // Its nodes wear the colours of its code.
    QCOMPARE(window_->canvas()->decorations().pattern.value(QStringLiteral("layer_norm_1")), 1);
    window_->canvas()->reveal(QStringLiteral("softmax_2"));
    QCOMPARE(KernelTable::kernelOf(*kernels()->table()->currentItem()), QStringLiteral("div_add_softmax_2"));
    QCOMPARE(compilation().current()->inside.size(), qsizetype{3});
    window_->canvas()->reveal(QStringLiteral("linear_3"));
    QTRY_VERIFY(code()->code(CodePanel::Cpp)->text().contains(QStringLiteral("No kernel is generated")));
  }

  void aNodeHasOnePlaceInGraphLoopsAndCode() {
    openCompile();
    choose("div_add_softmax");
    CodeText *loops = code()->loops(), *cpp = code()->code(CodePanel::Cpp);
    QCOMPARE(loops->linesOf(QStringLiteral("add")), QList<int>{3});
    QCOMPARE(cpp->linesOf(QStringLiteral("add")), QList<int>{5});
    QCOMPARE(loops->nodeAt(static_cast<int>(loops->text().indexOf(QStringLiteral("make_softmax")))),
             QStringLiteral("softmax"));
    // A click on a line of the code selects the node; the canvas and the Python follow.
    code()->showTab(CodePanel::Cpp);
    cpp->editor()->setFocus();
    QTRY_VERIFY(cpp->editor()->hasFocus());
    cpp->editor()->setCursorPosition(6, 14);
    QTRY_COMPARE(document().selection(), QStringList{QStringLiteral("softmax")});
    code()->showTab(CodePanel::Python);
    QTRY_COMPARE(code()->python()->markedLine(), 10);
    window_->canvas()->reveal(QStringLiteral("gelu"));
    QTRY_VERIFY(code()->heading().startsWith(QStringLiteral("gelu · layer_norm")));
  }

  void theLegendIsOneLineAndSelectsNodes() {
    openCompile();
    choose("div_add_softmax");
    NodeLegend* legend = code()->legend();
    QCOMPARE(legend->nodes(), (QStringList{QStringLiteral("div"), QStringLiteral("add"), QStringLiteral("softmax")}));
    QVERIFY(!legend->isScrollable());
    QTest::mouseClick(legend, Qt::LeftButton, {}, legend->rectOf(QStringLiteral("add")).center());
    QTRY_COMPARE(document().selection(), QStringList{QStringLiteral("add")});
    QTest::keyClick(legend, Qt::Key_Right);
    QTRY_COMPARE(document().selection(), QStringList{QStringLiteral("softmax")});
    // Its number stands beside the line that computes it.
    QCOMPARE(code()->loops()->numbersOf(code()->loops()->linesOf(QStringLiteral("softmax")).first()),
             QStringLiteral("3"));
  }

  void numbersBesideTheCodeFollowTheTheme() {
    openCompile();
    choose("div_add_softmax");
    CodeText* text = code()->loops();
    const auto paper = [&] {
      const long style =
          text->editor()->SendScintilla(QsciScintillaBase::SCI_MARGINGETSTYLE,
                                        static_cast<unsigned long>(text->linesOf(QStringLiteral("softmax")).first()));
      const long offset = text->editor()->SendScintilla(QsciScintillaBase::SCI_MARGINGETSTYLEOFFSET);
      return text->editor()->SendScintilla(QsciScintillaBase::SCI_STYLEGETBACK,
                                           static_cast<unsigned long>(style + offset));
    };
    const auto expected = [] {
      const Color c = themePalette().background;
      return static_cast<long>(c.r | c.g << 8 | c.b << 16);
    };
    QCOMPARE(paper(), expected());
    window_->setTheme(Theme::Dark);
    QTest::qWait(50);
    const long now = paper(), dark = expected();
    window_->setTheme(Theme::Light);
    QCOMPARE(now, dark);
  }

  void aLongLegendScrollsAndNoTwoEntriesLookAlike() {
    NodeLegend legend;
    QStringList nodes;
    for (int i = 0; i < 21; ++i) nodes << QStringLiteral("a_long_name_%1").arg(i);
    legend.setNodes(nodes);
    legend.resize(400, legend.minimumSizeHint().height());
    QVERIFY(legend.isScrollable() && legend.height() < 2 * legend.fontMetrics().height());
    QVERIFY(legend.rectOf(nodes.last()).isEmpty());
    legend.setNode(nodes.last());
    QVERIFY(!legend.rectOf(nodes.last()).isEmpty() && legend.rectOf(nodes.first()).isEmpty());
    QSet<std::pair<size_t, int>> marks;
    for (qsizetype i = 0; i < nodes.size(); ++i) marks.insert({nodeMark(i).colour, nodeMark(i).line});
    QCOMPARE(marks.size(), nodes.size());
  }

  void longLinesAreWrappedAndSeveralNodesOfALineNumbered() {
    CodeText text(CodeText::Plain, QStringLiteral("Loops"));
    text.resize(300, 400);
    text.show();
    QStringList nodes;
    QString line = QStringLiteral("y[i0] =");
    QJsonArray spans;
    for (int i = 0; i < 12; ++i) {
      nodes << QStringLiteral("node_%1").arg(i);
      if (i == 3) continue;
      spans << QJsonObject{{QStringLiteral("node"), nodes.last()},
                           {QStringLiteral("begin"), line.size() + 1},
                           {QStringLiteral("end"), line.size() + 9}};
      line += QStringLiteral(" operand%1 +").arg(i % 10);
    }
    text.setCode(line + QStringLiteral("\nend\n"), nodes, spans);
    QsciScintilla* view = text.editor();
    QTRY_VERIFY(view->SendScintilla(QsciScintillaBase::SCI_WRAPCOUNT, 0L) > 1);
    QVERIFY(!view->horizontalScrollBar()->isVisible());
    QCOMPARE(text.numbersOf(0), QStringLiteral("1–3 5–12"));
    // A node is told by pointing at it.
    QCOMPARE(text.nodeAt(9), QStringLiteral("node_0"));
  }

  /// Also where the text before had other margins, and where the panel has another width since.
  void wrappedLinesEndWithinThePanel() {
    CodeText text(CodeText::Plain, QStringLiteral("Loops"));
    text.resize(500, 400);
    text.show();
    QsciScintilla* view = text.editor();
    const auto codeOf = [&](int lines, int nodesOfALine) {
      QString code(lines - 1, QLatin1Char('\n'));
      QStringList nodes;
      QJsonArray spans;
      for (int i = 0; i < 40; ++i) {
        code += i == 0 ? QStringLiteral("y[i0] =") : QStringLiteral(" i%1 + 0 +").arg(i % 10);
        if (i >= nodesOfALine) continue;
        nodes << QStringLiteral("node_%1").arg(i);
        spans << QJsonObject{{QStringLiteral("node"), nodes.last()},
                             {QStringLiteral("begin"), code.size() - 2},
                             {QStringLiteral("end"), code.size() - 1}};
      }
      text.setCode(code + QStringLiteral("\nend\n"), nodes, spans);
    };
    const auto farthest = [&] {
      long x = 0;
      for (long at = 0; at < view->length(); ++at)
        if (view->SendScintilla(QsciScintillaBase::SCI_GETCHARAT, at) != ' ')
          x = std::max(x, view->SendScintilla(QsciScintillaBase::SCI_POINTXFROMPOSITION, 0UL, at + 1));
      return static_cast<int>(x);
    };
    for (const auto& [lines, nodes, width] : std::initializer_list<std::array<int, 3>>{
             {3, 3, 500}, {3, 5, 500}, {2000, 5, 500}, {3, 0, 500}, {3, 3, 620}, {3, 3, 410}, {2000, 1, 333}}) {
      text.resize(width, 400);
      codeOf(lines, nodes);
      QTRY_VERIFY(view->SendScintilla(QsciScintillaBase::SCI_WRAPCOUNT, static_cast<long>(lines - 1)) > 1);
      QTest::qWait(50);
      QVERIFY2(farthest() <= view->viewport()->width(), qPrintable(QStringLiteral("%1 lines, %2 nodes, %3: %4 of %5")
                                                                       .arg(lines)
                                                                       .arg(nodes)
                                                                       .arg(width)
                                                                       .arg(farthest())
                                                                       .arg(view->viewport()->width())));
    }
  }

  void codeOfGpusWearsTheColoursToo() {
    openCompile();
    choose("div_add_softmax");
    for (const CodePanel::Tab tab : {CodePanel::Cuda, CodePanel::Ptx}) {
      code()->showTab(tab);
      CodeText* text = code()->code(tab);
      QTRY_VERIFY(text->text().contains(QStringLiteral("kernel_0")));
      QCOMPARE(text->linesOf(QStringLiteral("softmax")).size(), qsizetype{1});
      // A click there goes to the node, and a node of the canvas to its line.
      text->editor()->setFocus();
      QTRY_VERIFY(text->editor()->hasFocus());
      text->editor()->setCursorPosition(text->linesOf(QStringLiteral("add")).first(), 10);
      QTRY_COMPARE(document().selection(), QStringList{QStringLiteral("add")});
      window_->canvas()->reveal(QStringLiteral("div"));
      QTRY_COMPARE(document().selection(), QStringList{QStringLiteral("div")});
    }
  }

  void codeThatTheEngineCannotMakeSaysWhy() {
    openCompile();
    choose("div_add_softmax");
    code()->showTab(CodePanel::Sass);
    QTRY_VERIFY(code()->code(CodePanel::Sass)->text().startsWith(QStringLiteral("SASS is read by nvdisasm")));
  }

  void aPlanForAGpuSaysWhatKernelsTakeOfIt() {
    openCompile();
    QVERIFY(kernels()->table()->isColumnHidden(KernelTable::Registers));
    window_->action(QStringLiteral("planForGpu"))->trigger();
    QTRY_VERIFY(isReady() && compilation().plan().isForGpu);
    QTRY_COMPARE(row("div_add_softmax")->text(KernelTable::Registers), QStringLiteral("168"));
    QVERIFY(!kernels()->table()->isColumnHidden(KernelTable::Registers));
    // Columns that hold dashes alone leave their room to names, and the code is the GPU's.
    for (const int column : {KernelTable::Measured, KernelTable::Before, KernelTable::Share, KernelTable::Schedule})
      QVERIFY(kernels()->table()->isColumnHidden(column));
    QVERIFY(kernels()->table()->columnWidth(KernelTable::Name) >= 170);
    QCOMPARE(code()->findChild<QTabBar*>()->currentIndex(), static_cast<int>(CodePanel::Cuda));
    QCOMPARE(row("div_add_softmax")->text(KernelTable::Shared), QStringLiteral("2.05 kB"));
    QCOMPARE(row("div_add_softmax")->text(KernelTable::Occupancy), QStringLiteral("13 % (registers)"));
    QCOMPARE(row("div_add_softmax")->text(KernelTable::Spills), QStringLiteral("16 B"));
    QVERIFY(row("gelu_layer_norm")->toolTip(KernelTable::Name).contains(QStringLiteral("NVRTC refuses")));
    QCOMPARE(row("linear")->text(KernelTable::Registers), QStringLiteral("–"));
    QVERIFY2(kernels()->summary().contains(QStringLiteral("for a GPU of capability 9.0")),
             qPrintable(kernels()->summary()));
    kernels()->table()->setCurrentItem(row("div_add_softmax"));
    QTRY_VERIFY(code()->usage().contains(QStringLiteral("168 registers")));
    // What does not run here is neither measured nor put in place.
    QSignalSpy failed(&document(), &Document::failed);
    compilation().apply();
    QCOMPARE(failed.size(), 1);
    compilation().measure();
    QTRY_COMPARE(failed.size(), 2);
    QCOMPARE(document().position(), 0);
    window_->action(QStringLiteral("planForGpu"))->trigger();
    QTRY_VERIFY(isReady() && !compilation().plan().isForGpu);
    QVERIFY(kernels()->table()->isColumnHidden(KernelTable::Registers));
    QVERIFY(!kernels()->table()->isColumnHidden(KernelTable::Predicted));
    QTRY_COMPARE(code()->findChild<QTabBar*>()->currentIndex(), static_cast<int>(CodePanel::Cpp));
  }

  void oneRunHasALaneForEachThread() {
    openCompile();
    kernels()->showTab(KernelsPanel::Timeline);
    TimelinePage* page = kernels()->timelinePage();
    QVERIFY(page->sentence().startsWith(QStringLiteral("Measure")));
    page->oneRun()->click();
    QTRY_COMPARE(page->plot()->lanes().size(), size_t{2});
    const auto& host = page->plot()->lanes()[0];
    QCOMPARE(host.name, QStringLiteral("host"));
    QCOMPARE(host.spans.size(), size_t{53});
    // The lane adds up to the run.
    double sum = 0;
    for (const auto& s : host.spans) sum += s.microseconds;
    QCOMPARE(sum, compilation().timeline().microseconds);
    const auto& thread = compilation().timeline().lanes[1];
    QCOMPARE(thread.busy + thread.idle, compilation().timeline().microseconds);
    QVERIFY2(page->plot()->lanes()[1].total.contains(QStringLiteral("idle")), "the rest of the run is said");
    QVERIFY(page->again()->isVisible());
    QSignalSpy nodeAsked(page, &TimelinePage::nodeChosen);
    Q_EMIT page->plot()->chosen(QStringLiteral("softmax"));
    QCOMPARE(nodeAsked.size(), 1);
    // Another plan: what was recorded is of the one before.
    compilation().keepApart({QStringLiteral("gelu"), QStringLiteral("layer_norm")});
    QTRY_VERIFY(isReady() && compilation().timeline().isEmpty());
    page->medians()->click();
    QCOMPARE(page->plot()->lanes().size(), size_t{2});
  }

  void aPairSaysWhyAndIsFusedThereAndThen() {
    openCompile();
    kernels()->showTab(KernelsPanel::Between);
    PairsList* pairs = kernels()->pairs();
    QCOMPARE(pairs->tree()->topLevelItemCount(), 3);  // between the four layers
    QTreeWidgetItem* between = pair(QStringLiteral("layer_norm → add_3"));
    QVERIFY(between);
    QCOMPARE(between->text(2), QStringLiteral("it would not be faster"));
    QVERIFY(pairs->tree()->columnWidth(2) >= 260);  // the reason is what the table is for
    QCOMPARE(between->text(3), QStringLiteral("5.50 µs"));
    // A long one is read whole: its row is as high as it needs.
    const QString reason = between->text(2);
    const int low = pairs->tree()->visualItemRect(between).height();
    between->setText(2,
                     QStringLiteral("the value is read elsewhere too, and they go over different numbers of elements, ")
                         .repeated(3));
    QTRY_VERIFY(pairs->tree()->visualItemRect(between).height() >= 2 * low);
    between->setText(2, reason);
    // Where a column grows, the reason's gives way: nothing is cut off as long as it has its least width.
    window_->resize(1900, 900);
    const QString names = between->text(0);
    for (const QString& text : {names.repeated(3), names}) {
      between->setText(0, text);
      QTRY_COMPARE(pairs->tree()->header()->length(), pairs->tree()->viewport()->width());
    }
    pairs->tree()->setCurrentItem(between);
    QCOMPARE(window_->canvas()->litNodes(), (QStringList{QStringLiteral("layer_norm"), QStringLiteral("add_3")}));
    QVERIFY(pairs->fuse()->isEnabled() && !pairs->apart()->isEnabled());
    window_->activateWindow();
    QVERIFY(QTest::qWaitForWindowActive(window_.get()));
    pairs->fuse()->setFocus();
    pairs->fuse()->click();
    QTRY_VERIFY(isReady() && compilation().plan().find(QStringLiteral("gelu_layer_norm_add")));
    QCOMPARE(pairs->tree()->topLevelItemCount(), 2);
    QCOMPARE(QApplication::focusWidget(), pairs->tree());  // the button cannot be pressed now
    // What is fused can be kept apart, undone, and done again.
    pairs->onlyApart()->setChecked(false);
    pairs->tree()->setCurrentItem(pair(QStringLiteral("add → softmax")));
    pairs->apart()->click();
    QTRY_VERIFY(isReady() && row("div_add") && row("softmax"));
    QCOMPARE(kernels()->wishes()->tree()->topLevelItemCount(), 2);
    window_->action(QStringLiteral("undoPlan"))->trigger();
    QTRY_VERIFY(isReady() && row("div_add_softmax"));
    window_->action(QStringLiteral("redoPlan"))->trigger();
    QTRY_VERIFY(isReady() && row("div_add"));
    window_->action(QStringLiteral("undoPlan"))->trigger();
    QTRY_VERIFY(isReady() && row("div_add_softmax"));
    window_->action(QStringLiteral("undoPlan"))->trigger();
    QTRY_VERIFY(isReady() && !compilation().plan().find(QStringLiteral("gelu_layer_norm_add")));
    QVERIFY(!compilation().isSteered() && !compilation().canUndo());
  }

  void whatWasMeasuredStaysWhereThePlanDoesNotChange() {
    openCompile();
    kernels()->showTab(KernelsPanel::Between);
    kernels()->pairs()->onlyApart()->setChecked(false);
    compilation().measure();
    QTRY_VERIFY(isReady() && compilation().plan().isMeasured());
    const QString inside = QStringLiteral("gelu → layer_norm"), elsewhere = QStringLiteral("layer_norm_1 → add_5");
    const auto measured = [&](const QString& between) { return pair(between)->text(PairsList::Measured); };
    QCOMPARE(measured(inside), QStringLiteral("3.50 µs"));
    QCOMPARE(measured(elsewhere), QStringLiteral("23.5 µs"));
    compilation().keepApart({QStringLiteral("gelu"), QStringLiteral("layer_norm")});
    QTRY_VERIFY(isReady() && compilation().isSteered());
    // Kernels are numbered as they come: that of the next layer has another name now, and the time that it had.
    QCOMPARE(measured(elsewhere), QStringLiteral("23.5 µs"));
    QCOMPARE(row("gelu_layer_norm")->text(KernelTable::Measured), QStringLiteral("3.50 µs"));
    QCOMPARE(row("linear")->text(KernelTable::Measured), QStringLiteral("20.0 µs"));
    QCOMPARE(row("linear")->text(KernelTable::Share), QStringLiteral("60 %"));
    // Of the rest it is said.
    QCOMPARE(measured(inside), QStringLiteral("not yet"));
    QVERIFY(pair(inside)->toolTip(PairsList::Measured).contains(QStringLiteral("since the plan changed")));
    QCOMPARE(row("gelu")->text(KernelTable::Measured), QStringLiteral("not yet"));
    QVERIFY(row("gelu")->toolTip(KernelTable::Measured).contains(QStringLiteral("since the plan changed")));
    QVERIFY(!compilation().plan().isMeasured());
    QVERIFY2(kernels()->summary().contains(QStringLiteral("generated, 2 not measured since the plan changed")),
             qPrintable(kernels()->summary()));
    // The plan as it was measured, taken back or made again, has all of its times.
    compilation().undo();
    QTRY_VERIFY(isReady() && !compilation().isSteered());
    QVERIFY(compilation().plan().isMeasured() && !compilation().plan().isChangedSince);
    QCOMPARE(measured(inside), QStringLiteral("3.50 µs"));
    QVERIFY(kernels()->summary().contains(QStringLiteral("0.8 ms instead of 1 ms measured")));
    // And so has the graph that one comes back to.
    compilation().apply();
    QTRY_COMPARE(document().position(), 1);
    QTRY_VERIFY(isReady());
    QVERIFY(!compilation().plan().isMeasured() && !compilation().plan().isChangedSince);
    document().undo();
    QTRY_VERIFY(isReady() && compilation().plan().isMeasured());
  }

  void aWishThatCannotBeHadSaysWhyAndIsTakenAway() {
    openCompile();
    document().setSelection({QStringLiteral("matmul"), QStringLiteral("div")});
    window_->action(QStringLiteral("fuseSelection"))->trigger();
    QTRY_VERIFY(isReady() && !compilation().plan().unapplied.empty());
    QVERIFY(kernels()->summary().contains(QStringLiteral("1 override cannot be applied")));
    kernels()->showTab(KernelsPanel::Wishes);
    QTreeWidget* wishes = kernels()->wishes()->tree();
    QVERIFY(wishes->topLevelItem(0)->text(2).contains(QStringLiteral("for GPUs alone")));
    wishes->setCurrentItem(wishes->topLevelItem(0));
    kernels()->wishes()->removeButton()->click();
    QTRY_VERIFY(isReady() && compilation().plan().unapplied.empty());
    QCOMPARE(wishes->topLevelItemCount(), 0);
  }

  void aPlanIsSavedAndReadAgain() {
    openCompile();
    const QString path = folder_.filePath(QStringLiteral("fusion.json"));
    compilation().keepApart({QStringLiteral("gelu"), QStringLiteral("layer_norm")});
    QTRY_VERIFY(isReady() && compilation().isSteered());
    triggerWithFile("savePlan", path);
    QTRY_VERIFY(contents(path).contains("\"apart\""));
    compilation().undo();
    QTRY_VERIFY(isReady() && !compilation().isSteered());
    triggerWithFile("openPlan", path);
    QTRY_VERIFY(isReady() && compilation().isSteered());
    QVERIFY(row("gelu") && row("layer_norm"));
    // A file that is none changes nothing, and is told.
    QFile wrong(folder_.filePath(QStringLiteral("wrong.json")));
    QVERIFY(wrong.open(QIODevice::WriteOnly) && wrong.write("{") > 0);
    wrong.close();
    QSignalSpy failed(&document(), &Document::failed);
    compilation().loadFrom(wrong.fileName());
    QTRY_COMPARE(failed.size(), 1);
    QVERIFY(isReady() && row("gelu"));
  }

  void anEditedKernelIsKeptOnlyWhereItIsRight() {
    openCompile();
    choose("gelu_layer_norm");
    CodeText* loops = code()->loops();
    const QString generated = loops->text();
    QVERIFY(!code()->keep()->isVisible());
    code()->editLoops()->click();
    QVERIFY(code()->keep()->isVisible() && !loops->editor()->isReadOnly());
    loops->setText(QString(generated).replace(QStringLiteral("make_layer_norm"), QStringLiteral("wrong")));
    code()->keep()->click();
    QTRY_VERIFY2(code()->outcome().startsWith(QStringLiteral("Refused: it computes something else")),
                 qPrintable(code()->outcome()));
    QVERIFY2(!code()->outcome().contains(QStringLiteral("kernels[")), qPrintable(code()->outcome()));
    // The first element that differs stands where it is stored.
    QCOMPARE(loops->annotation(loops->lineStoring(QStringLiteral("layer_norm"))),
             QStringLiteral("layer_norm[0,3,1] is 1.25; its operators compute 1.5"));
    QVERIFY(loops->isEditing() && !compilation().isSteered());
    loops->setText(QStringLiteral("loops 1\n  syntax error\n"));
    code()->keep()->click();
    QTRY_COMPARE(loops->annotation(1), QStringLiteral("expected an expression"));
    QCOMPARE(code()->outcome(), QStringLiteral("Refused: line 2: expected an expression"));
    const QString right = generated + QStringLiteral("# by hand\n");
    loops->setText(right);
    code()->keep()->click();
    QTRY_VERIFY(!loops->isEditing());
    QVERIFY(code()->outcome().startsWith(QStringLiteral("Verified and kept")));
    QTRY_COMPARE(loops->text(), right);
    QCOMPARE(row("gelu_layer_norm")->text(KernelTable::Origin), QStringLiteral("edited by hand"));
    QCOMPARE(kernels()->wishes()->tree()->topLevelItemCount(), 1);
    compilation().undo();
    QTRY_COMPARE(loops->text(), generated);
  }

  void cppOfAKernelWhoseSizesVaryCannotBeEdited() {
    openCompile();
    choose("gelu_layer_norm");
    QVERIFY(code()->editSource()->isEnabled());
    code()->loops()->setText(QStringLiteral("loops 1\nsize s0 in 2..\ninput x: f32[s0]\n"));
    Q_EMIT compilation().currentChanged();
    QVERIFY(!code()->editSource()->isEnabled() && code()->editLoops()->isEnabled());
    QVERIFY2(code()->editSource()->toolTip().contains(QStringLiteral("vary")),
             qPrintable(code()->editSource()->toolTip()));
  }

  void whatIsBeingEditedIsNotThrownAway() {
    openCompile();
    choose("gelu_layer_norm");
    code()->editLoops()->click();
    code()->loops()->setText(QStringLiteral("my own words"));
    window_->canvas()->reveal(QStringLiteral("softmax"));
    QTest::qWait(100);
    QCOMPARE(code()->loops()->text(), QStringLiteral("my own words"));
    code()->discard()->click();
    QTRY_VERIFY(code()->loops()->text().contains(QStringLiteral("make_softmax")));
  }

  void kernelsInPlaceAreAStepThatCanBeTakenBack() {
    openCompile();
    kernels()->findChild<QToolButton*>(QStringLiteral("applyKernelsButton"))->click();
    QTRY_COMPARE(document().position(), 1);
    QTRY_VERIFY(isReady());
    QCOMPARE(document().steps()[1].label, QStringLiteral("Kernels"));
    QVERIFY(document().steps()[1].verification.contains(QStringLiteral("verified")));
    QCOMPARE(row("generated_program")->text(KernelTable::Origin), QStringLiteral("generated, in place"));
    kernels()->table()->scrollToItem(row("generated_program"));
    QTest::mouseClick(kernels()->table()->viewport(), Qt::LeftButton, {},
                      kernels()->table()->visualItemRect(row("generated_program")).center());
    QCOMPARE(document().selection(), QStringList{QStringLiteral("generated")});
    QTRY_VERIFY(!code()->editLoops()->isEnabled());
    document().undo();
    QTRY_VERIFY(isReady() && row("div_add_softmax"));
    document().redo();
    QTRY_VERIFY(isReady() && row("generated_program"));
  }

  void aNewEngineHearsOfThePlan() {
    openCompile();
    compilation().keepApart({QStringLiteral("gelu"), QStringLiteral("layer_norm")});
    QTRY_VERIFY(isReady() && row("gelu"));
    compilation().apply();
    QTRY_COMPARE(document().position(), 1);
    window_->engine().call(QStringLiteral("test/misbehave"), {{QStringLiteral("kind"), QStringLiteral("abort")}}, {});
    QSignalSpy replaced(&document(), &Document::engineReplaced);
    QTRY_COMPARE_WITH_TIMEOUT(replaced.size(), 1, 15000);
    document().undo();
    QTRY_VERIFY_WITH_TIMEOUT(isReady(), 10000);
    compilation().fuse({QStringLiteral("layer_norm"), QStringLiteral("add_3")});
    QTRY_VERIFY(isReady() && row("layer_norm_add"));
    QVERIFY(row("gelu"));  // still apart
  }

  void aWindowTakesUpThePlanOfTheOneBefore() {
    openCompile();
    compilation().keepApart({QStringLiteral("gelu"), QStringLiteral("layer_norm")});
    QTRY_VERIFY(isReady() && row("gelu"));
    const QJsonObject state = document().state();
    window_.reset();
    start();
    document().restore(state);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen(), 10000);
    window_->arrange(Arrangement::Compile);
    QTRY_VERIFY(isReady() && row("gelu"));
    QVERIFY(compilation().isSteered());
  }
};

}  // namespace

QTEST_MAIN(CompileTest)
#include "compile_test.moc"
