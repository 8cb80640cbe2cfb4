// What a good desktop program does besides its job: it takes what is dropped on it, remembers, lists its actions,
// writes its pictures and reports, and can be read in both themes.
#include <QCheckBox>
#include <QClipboard>
#include <QComboBox>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QDropEvent>
#include <QFileDialog>
#include <QJsonDocument>
#include <QLabel>
#include <QListWidget>
#include <QMenu>
#include <QMenuBar>
#include <QMimeData>
#include <QPushButton>
#include <QRegularExpression>
#include <QScreen>
#include <QSignalSpy>
#include <QStatusBar>
#include <QTableWidget>
#include <QTimer>
#include <QToolBar>
#include <QTreeWidget>
#include <csignal>

#include "tests/views/support/named_boxes.h"
#include "tests/views/support/window_fixture.h"
#include "views/document/compile/compilation.h"
#include "views/document/graph_decode.h"
#include "views/document/run_figures.h"
#include "views/layout/heat_scale.h"
#include "views/panels/compile/kernel_table.h"
#include "views/panels/explorer.h"
#include "views/panels/history_panel.h"
#include "views/panels/rules/library_panel.h"
#include "views/panels/rules/matches_panel.h"
#include "views/panels/rules/pattern_panel.h"
#include "views/panels/run/run_inputs.h"
#include "views/panels/run/run_panel.h"
#include "views/panels/run/side_by_side_panel.h"
#include "views/picture/picture.h"
#include "views/widgets/qscintilla.h"
#include "views/widgets/theme.h"
#include "views/window/command_palette.h"
#include "views/window/files/opening_note.h"
#include "views/window/files/session_file.h"
#include "views/window/tour.h"
#include "views/window/welcome.h"

using namespace graft;
using test::rulesText;

namespace {

class ConventionsTest : public test::WindowFixture {
  Q_OBJECT

  static QPoint middle(Canvas& canvas, const QString& key) {
    const int box = canvas.scene()->boxOf(key);
    return canvas.toWidget(canvas.scene()->rect(box).center()).toPoint();
  }

  /// What a window that is killed now leaves behind, once the next one may take it up.
  void killTheWindow() {
    const QJsonObject state = window_->sessionState();
    window_.reset();
    const QString folder =
        QStandardPaths::writableLocation(QStandardPaths::AppDataLocation) + QStringLiteral("/sessions");
    QDir(folder).removeRecursively();  // it closed as well
    QVERIFY(QDir().mkpath(folder));
    QString why;
    QVERIFY2(writeWhole(folder + QStringLiteral("/window-1-0.json"), QJsonDocument(state).toJson(), why),
             qPrintable(why));
  }

 private Q_SLOTS:
  void initTestCase() {
    prepare();
    QApplication::setAttribute(Qt::AA_DontUseNativeDialogs);
  }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void figuresHaveNoExponentInFrontOfAUnit() {
    QCOMPARE(ms(1743.2), QStringLiteral("1743 ms"));
    QCOMPARE(ms(99.97), QStringLiteral("100 ms"));
    QCOMPARE(ms(7.912), QStringLiteral("7.91 ms"));
    QCOMPARE(bytes(999.7e3), QStringLiteral("1000 kB"));
    QCOMPARE(bytes(2.5e6), QStringLiteral("2.5 MB"));
  }

  void iconsAreDrawnAtTheSizesThatAreAskedFor() {
    const QIcon open = icon(QStringLiteral("open"));
    for (const int size : {16, 20, 47}) QCOMPARE(open.pixmap(size, size).size(), QSize(size, size));
    const QImage normal = open.pixmap(32, 32).toImage(), disabled = open.pixmap(32, 32, QIcon::Disabled).toImage();
    QVERIFY(normal != disabled);
    QVERIFY(icon(QStringLiteral("no such icon")).isNull());
  }

  void thePaletteListsEveryActionOfTheMenusWithItsShortcut() {
    open();
    window_->action(QStringLiteral("palette"))->trigger();
    QVERIFY(window_->palette()->isVisible());
    auto* list = window_->palette()->findChild<QListWidget*>();
    QSet<QObject*> listed;
    for (int i = 0; i < list->count(); ++i) listed << list->item(i)->data(Qt::UserRole).value<QObject*>();
    QList<QAction*> all;
    leaves(window_->menuBar()->actions(), all);
    QVERIFY(all.size() > 40);
    for (QAction* a : all) {
      if (a->objectName() != QLatin1String("palette")) QVERIFY2(listed.contains(a), qPrintable(a->text()));
    }
  }

  /// Each is chosen as in the palette, before a model is open, with one, and with a rule that matches; what it asks is
  /// cancelled. None ends the window, hangs it, or stays silent about having nothing to do.
  void everyEntryOfThePaletteCanBeChosen() {
    start();
    QTimer cancel;
    connect(&cancel, &QTimer::timeout, this, [] {
      if (auto* dialog = qobject_cast<QDialog*>(QApplication::activeModalWidget())) dialog->reject();
    });
    cancel.start(5);
    const auto chooseAll = [&] {
      int chosen = 0;
      for (QAction* a : window_->actions()) {
        if (!a->isEnabled() || a->objectName() == QLatin1String("quit")) continue;
        a->trigger();
        QCoreApplication::processEvents();
        ++chosen;
      }
      for (QWidget* w : QApplication::topLevelWidgets())
        if (auto* dialog = qobject_cast<QDialog*>(w)) dialog->close();
      return chosen;
    };
    QVERIFY(chooseAll() > 15);
    window_->openModel(model_);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen(), 10000);
    QVERIFY(chooseAll() > 45);
    QTRY_VERIFY_WITH_TIMEOUT(!document().isRunning(), 20000);
    type(QString::fromLatin1(rulesText));
    chooseAll();
    QTRY_VERIFY_WITH_TIMEOUT(!document().isRunning(), 20000);
    QTRY_VERIFY(document().position() > 0);  // it was applied
    QVERIFY(window_->engine().isUp() && document().isOpen());
    window_->setTheme(Theme::Light);
  }

  void whatHasNothingToDoSaysSo() {
    open();
    const auto says = [&](const char* action, const char* words) {
      window_->statusBar()->clearMessage();
      window_->action(QString::fromLatin1(action))->trigger();
      const QString said = window_->statusBar()->currentMessage();
      QVERIFY2(said.contains(QString::fromLatin1(words)), qPrintable(QString::fromLatin1(action) + said));
    };
    for (const char* action : {"apply", "preview", "nextMatch"}) says(action, "no rule yet");
    says("nextChange", "Nothing has been changed");
    type(QString::fromLatin1(rulesText));
    auto* list = window_->panel<MatchesPanel>()->findChild<QTreeWidget*>();
    for (int i = 0; i < list->topLevelItemCount(); ++i) list->topLevelItem(i)->setCheckState(0, Qt::Unchecked);
    for (const char* action : {"apply", "preview"}) says(action, "No match is ticked");
    QVERIFY(!document().isPreviewing());
    type(QString::fromLatin1(rulesText).replace(QLatin1String("matmul, div, add, softmax, matmul"),
                                                QLatin1String("relu")));
    QTRY_VERIFY(rule().matched && rule().matches.empty());
    says("nextMatch", "Attention matches nowhere");
  }

  void whatIsAboutAModelWaitsForOne() {
    start();
    for (const char* name : {"apply", "run", "exportModel", "exportDrawing", "whyNot", "find", "compare"})
      QVERIFY2(!window_->action(QString::fromLatin1(name))->isEnabled(), name);
    for (const char* name : {"open", "openRules", "library", "tour", "palette"})
      QVERIFY2(window_->action(QString::fromLatin1(name))->isEnabled(), name);
    window_->openModel(model_);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen(), 10000);
    for (const char* name : {"apply", "run", "exportModel", "exportDrawing", "whyNot", "find", "compare"})
      QVERIFY2(window_->action(QString::fromLatin1(name))->isEnabled(), name);
  }

  void theTourTicksWhatHasBeenDoneAndItsLinksDoIt() {
    start();
    window_->action(QStringLiteral("tour"))->trigger();
    Tour* tour = window_->tour();
    QVERIFY(tour && tour->isVisible() && !tour->isModal());
    QVERIFY(tour->done().isEmpty());
    window_->openModel(model_);
    QTRY_COMPARE(tour->done(), (QSet<int>{1}));
    document().setSelection({QStringLiteral("@encoder")});
    QCOMPARE(tour->done(), (QSet<int>{1}));
    document().setSelection({QStringLiteral("softmax")});
    QCOMPARE(tour->done(), (QSet<int>{1, 2}));
    // Each link is an action of the window.
    static const QRegularExpression link(QStringLiteral("href=\"(\\w+)\""));
    QSet<QString> links;
    QCOMPARE(tour->current(), 3);  // the first that has not been done
    for (int step = 1; step <= Tour::count(); ++step) {
      Q_EMIT tour->text()->anchorClicked(QUrl(QStringLiteral("#%1").arg(step)));
      QCOMPARE(tour->current(), step);
      for (auto it = link.globalMatch(tour->text()->toHtml()); it.hasNext();) {
        const QString name = it.next().captured(1);
        QVERIFY2(window_->action(name), qPrintable(name));
        links << name;
      }
      // The window is as high as what stands in it.
      QVERIFY(std::abs(tour->text()->document()->size().height() - tour->height()) < 24);
      QVERIFY(tour->height() < 420);
    }
    QVERIFY(links.size() >= 11);
    tour->goTo(3);
    Q_EMIT tour->text()->anchorClicked(QUrl(QStringLiteral("rewrite")));
    QVERIFY(window_->panel<RuleEditor>()->isVisible());
    type(QString::fromLatin1(rulesText));
    QVERIFY(tour->done().contains(3) && !tour->done().contains(4));
    QCOMPARE(tour->current(), 4);  // done, it gives way to the next
    Q_EMIT tour->text()->anchorClicked(QUrl(QStringLiteral("whyNot")));
    QTRY_VERIFY(tour->done().contains(4));
    Q_EMIT tour->text()->anchorClicked(QUrl(QStringLiteral("apply")));
    QTRY_VERIFY(tour->done().contains(5));
    Q_EMIT tour->text()->anchorClicked(QUrl(QStringLiteral("run")));
    QTRY_VERIFY_WITH_TIMEOUT(tour->done().contains(6), 10000);
    triggerWithFile("exportDrawing", folder_.filePath(QStringLiteral("toured.svg")));
    QTRY_COMPARE(tour->done().size(), Tour::count());
    window_->setTheme(Theme::Dark);
    QVERIFY(tour->text()->toHtml().contains(css(themePalette().accent)));
    window_->setTheme(Theme::Light);
  }

  void theTourStandsInNobodysWay() {
    open();
    window_->resize(1300, 760);  // the screen of these tests has 800 × 800: there is no room beside
    window_->action(QStringLiteral("tour"))->trigger();
    const QRect own = window_->tour()->frameGeometry();
    for (const char* name : {"inspector", "explorer"}) {
      QWidget* panel = window_->findChild<QDockWidget*>(QString::fromLatin1(name));
      QVERIFY2(!QRect(panel->mapToGlobal(QPoint()), panel->size()).intersects(own), name);
    }
    window_->arrange(Arrangement::Rewrite);  // it follows the drawing
    QTest::qWait(100);
    const QRect there = window_->tour()->frameGeometry();
    for (const char* name : {"rules", "history"}) {
      QWidget* panel = window_->findChild<QDockWidget*>(QString::fromLatin1(name));
      QVERIFY2(!QRect(panel->mapToGlobal(QPoint()), panel->size()).intersects(there), name);
    }
    QTest::qWait(700);
    window_->tour()->move(5, 5);  // by its user: it stays
    QTest::qWait(50);
    window_->arrange(Arrangement::Explore);
    QTest::qWait(100);
    QCOMPARE(window_->tour()->pos(), QPoint(5, 5));
  }

  void sizesOfWeightsAreToldOnBothSides() {
    open();
    window_->canvas()->setDepth(-1);
    window_->setOverlay(Overlay::Weights);
    const BoxDecorations& now = window_->canvas()->boxDecorations();
    QVERIFY(now.anyHeat);
    QCOMPARE(now.most, 4 * 4.0 * (64 * 64 + 64));  // one block stands for four
    QCOMPARE(heatText(now.most, QStringLiteral("B")), QStringLiteral("66.6 kB"));
    type(QString::fromLatin1(rulesText));
    document().apply(QStringLiteral("Attention"));
    QTRY_COMPARE(document().position(), 1);
    window_->setCompare(true);
    // What changed would be a second meaning of the same colours.
    for (Canvas* canvas : {window_->canvas(), window_->beforeCanvas()})
      QVERIFY(canvas->boxDecorations().anyHeat && !canvas->boxDecorations().anyChange);
    window_->setOverlay(Overlay::Kind);
    QVERIFY(window_->canvas()->boxDecorations().anyChange);
  }

  void panelsThatWereMovedGoBack() {
    open();
    const auto panel = [&](const char* name) { return window_->findChild<QDockWidget*>(QString::fromLatin1(name)); };
    const int width = panel("inspector")->width();
    panel("inspector")->setFloating(true);
    panel("explorer")->hide();
    window_->addDockWidget(Qt::RightDockWidgetArea, panel("rules"));
    panel("rules")->show();
    window_->arrange(Arrangement::Rewrite);  // remembers that
    window_->arrange(Arrangement::Explore);
    QVERIFY(panel("inspector")->isFloating() && !panel("explorer")->isVisible());
    window_->action(QStringLiteral("resetPanels"))->trigger();
    QVERIFY(!panel("inspector")->isFloating() && panel("inspector")->isVisible() && panel("explorer")->isVisible());
    QVERIFY(!panel("rules")->isVisible());
    QCOMPARE(window_->dockWidgetArea(panel("rules")), Qt::LeftDockWidgetArea);
    QTRY_VERIFY(std::abs(panel("inspector")->width() - width) < 12);
  }

  void historyHidesWhatChangedNothingAndGoesAnywhere() {
    open();
    type(QString::fromLatin1(rulesText));
    document().apply(QStringLiteral("Attention"), {0});
    QTRY_COMPARE(document().position(), 1);
    document().apply(QStringLiteral("Attention"));
    QTRY_COMPARE(document().position(), 2);
    document().apply(QStringLiteral("Attention"));  // nothing is left to rewrite
    QTRY_COMPARE(document().position(), 3);
    auto* history = window_->findChild<HistoryPanel*>();
    QTreeWidget* list = history->tree();
    QTRY_COMPARE(list->topLevelItemCount(), 4);
    document().showStep(0);
    QCOMPARE(document().graph()->nodeCount(), size_t{52});
    QTRY_COMPARE(list->topLevelItemCount(), 3);  // hidden from the first
    history->hide()->setChecked(false);
    QCOMPARE(list->topLevelItemCount(), 4);
    history->hide()->setChecked(true);
    QCOMPARE(list->topLevelItemCount(), 3);
    QTRY_COMPARE(list->currentItem(), list->topLevelItem(0));
    list->setCurrentItem(list->topLevelItem(2));
    QTRY_COMPARE(document().position(), 2);
    QCOMPARE(document().graph()->nodeCount(), size_t{36});
    while (document().canUndo()) document().undo();
    QCOMPARE(document().position(), 0);
    while (document().canRedo()) document().redo();
    QCOMPARE(document().position(), 3);
  }

  void aRecipesRulesStandBelowItAndEachCanBeGoneTo() {
    open();
    const QString gelu = QStringLiteral(
        "\n\nclass Never(Rule):\n    # match: conv\n    def pattern(x):\n        return conv(x)\n\n"
        "    def replacement(x):\n        return x\n\n\nclass Gelu(Rule):\n    # match: gelu\n"
        "    def pattern(x):\n        return gelu(x)\n\n    def replacement(x):\n        return x\n\n\n"
        "class Norm(Rule):\n    # match: layer_norm\n    def pattern(x):\n        return layer_norm(x)\n\n"
        "    def replacement(x):\n        return x\n");
    type(QString::fromLatin1(rulesText) + gelu);
    document().applyRecipe(QStringLiteral("All"));
    QTRY_COMPARE(document().position(), 1);
    auto* history = window_->findChild<HistoryPanel*>();
    QTreeWidget* tree = history->tree();
    QTRY_COMPARE(tree->topLevelItemCount(), 2);
    QTreeWidgetItem* recipe = tree->topLevelItem(1);
    QVERIFY(recipe->isExpanded());
    QCOMPARE(recipe->text(0), QStringLiteral("All · 52 → 36"));
    QCOMPARE(recipe->text(1), QStringLiteral("12 of 12"));
    QCOMPARE(recipe->childCount(), 3);  // Never changed nothing
    history->hide()->setChecked(false);
    QCOMPARE(tree->topLevelItem(1)->childCount(), 4);
    history->hide()->setChecked(true);
    const auto child = [&](int i) { return tree->topLevelItem(1)->child(i); };
    QCOMPARE(child(1)->text(0), QStringLiteral("Gelu"));
    QCOMPARE(child(1)->text(1), QStringLiteral("4 of 4"));
    QCOMPARE(child(1)->text(2), QStringLiteral("1.5 ms"));

    // Behind its first rule: the fused attention stands there, GELUs are as they were; Ctrl+Z takes the recipe back.
    tree->setCurrentItem(child(0));
    QTRY_COMPARE(document().subStep(), 1);
    QCOMPARE(document().position(), 1);
    QVERIFY(document().graph()->findNode("gelu") && document().graph()->findNode("fused_0"));
    QCOMPARE(document().recordsToHere().size(), size_t{4});
    QCOMPARE(exported(), QByteArray("exported 36 nodes"));
    QTRY_COMPARE(tree->currentItem(), child(0));
    QTRY_COMPARE(document().rule(QStringLiteral("Gelu"))->matches.size(), size_t{4});
    QVERIFY(document().canRedo() && window_->action(QStringLiteral("redo"))->isEnabled());
    document().redo();
    QCOMPARE(document().subStep(), -1);
    QVERIFY(!document().graph()->findNode("gelu"));
    QTRY_COMPARE(tree->currentItem(), tree->topLevelItem(1));
    tree->setCurrentItem(child(1));
    QTRY_COMPARE(document().subStep(), 3);  // Never was the second step
    document().undo();
    QCOMPARE(document().position(), 0);
    QCOMPARE(document().graph()->nodeCount(), size_t{52});

    // From the model as opened into the recipe, and on with a rule of one's own: the recipe's rest is gone.
    QTRY_COMPARE(tree->currentItem(), tree->topLevelItem(0));
    tree->setCurrentItem(child(0));
    QTRY_COMPARE(document().subStep(), 1);
    QTRY_COMPARE(document().rule(QStringLiteral("Norm"))->matches.size(), size_t{4});
    document().apply(QStringLiteral("Norm"), {0});
    QTRY_COMPARE(document().position(), 2);
    QTRY_COMPARE(tree->topLevelItemCount(), 3);
    QCOMPARE(tree->topLevelItem(1)->childCount(), 1);
    QCOMPARE(document().recordsToHere().size(), size_t{5});
    document().undo();
    QCOMPARE(document().subStep(), -1);
    QVERIFY(document().graph()->findNode("gelu"));
    QVERIFY(document().canRedo());
    // A new engine is brought there, too.
    tree->setCurrentItem(tree->topLevelItem(0));
    document().redo();
    QSignalSpy again(&document(), &Document::message);
    kill(static_cast<pid_t>(window_->engine().processId()), SIGKILL);
    QTRY_VERIFY_WITH_TIMEOUT(!again.isEmpty(), 5000);
    QCOMPARE(exported(), QByteArray("exported 36 nodes"));
  }

  void aKilledWindowsModelNamedAgainOpensWithItsStepsEachTime() {
    open();
    type(QString::fromLatin1(rulesText));
    document().apply(QStringLiteral("Attention"), {1});
    QTRY_COMPARE(document().position(), 1);
    for (int round = 0; round < 5; ++round) {
      killTheWindow();
      window_ = std::make_unique<MainWindow>(test::fakeEngine());
      window_->restoreSession(false);  // as `graft-gui MODEL` does
      window_->show();
      window_->openModel(model_);
      QTRY_COMPARE_WITH_TIMEOUT(document().position(), 1, 10000);
      QVERIFY(window_->engine().isUp());
      QCOMPARE(document().steps().size(), size_t{2});
      QVERIFY(document().graph()->findNode("fused_0"));
    }
  }

  void thePaletteGivesTheKeyboardBack() {
    open();
    window_->activateWindow();
    QVERIFY(QTest::qWaitForWindowActive(window_.get()));
    window_->canvas()->setFocus();
    window_->openPalette();
    QTRY_VERIFY(window_->palette()->line()->hasFocus());
    QTest::keyClick(window_->palette()->line(), Qt::Key_Escape);
    QVERIFY(!window_->palette()->isVisible() && window_->canvas()->hasFocus());
  }

  void theKeyboardGoesToTheDrawingWhereItsPanelIsGone() {
    open();
    window_->activateWindow();
    QVERIFY(QTest::qWaitForWindowActive(window_.get()));
    window_->panel<Explorer>()->search()->setFocus();
    window_->openPalette();
    QTRY_VERIFY(window_->palette()->line()->hasFocus());
    window_->palette()->line()->setText(QStringLiteral("Compile"));
    QTest::keyClick(window_->palette()->line(), Qt::Key_Return);
    QTRY_COMPARE(window_->docks().arrangement(), Arrangement::Compile);
    QTRY_COMPARE(QApplication::focusWidget(), window_->canvas());
    // Nor does it land anywhere where nothing had it before.
    QApplication::focusWidget()->clearFocus();
    window_->openPalette();
    QTRY_VERIFY(window_->palette()->line()->hasFocus());
    QTest::keyClick(window_->palette()->line(), Qt::Key_Escape);
    QTRY_COMPARE(QApplication::focusWidget(), window_->canvas());
  }

  void panelsThatASmallWindowNarrowedAreWideOnALargeOne() {
    start();
    window_->resize(1024, 700);
    window_->openModel(model_);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen(), 10000);
    const auto width = [&] { return window_->docks().dock(QStringLiteral("inspector"))->width(); };
    QTRY_VERIFY(width() < 300);
    window_->resize(2560, 1400);
    QTRY_VERIFY2(width() >= 400, qPrintable(QString::number(width())));
    // Small again, and closed; the next window is large.
    window_->resize(1024, 700);
    QTRY_VERIFY(width() < 300);
    window_->close();
    window_.reset();
    start();
    window_->resize(2560, 1400);
    window_->openModel(model_);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen(), 10000);
    QTRY_VERIFY2(width() >= 400, qPrintable(QString::number(width())));
    // What somebody has narrowed in a window of about that size stays narrow.
    window_->resizeDocks({window_->docks().dock(QStringLiteral("inspector"))}, {250}, Qt::Horizontal);
    QTRY_VERIFY(width() < 270);
    window_->close();
    window_.reset();
    start();
    window_->resize(2600, 1400);
    window_->openModel(model_);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen(), 10000);
    QTest::qWait(100);
    QVERIFY2(width() < 270, qPrintable(QString::number(width())));
  }

  void openingIsSaidAtOnceAndCanBeStopped() {
    qputenv("FAKE_ENGINE_SLOW", "2");
    start();
    window_->openModel(model_);
    auto* page = window_->findChild<OpeningNote*>(QStringLiteral("openingPage"));
    auto* bar = window_->findChild<OpeningNote*>(QStringLiteral("openingBar"));
    QVERIFY(page->isVisible() && page->cancel()->isVisible());  // before anything has been read
    QCOMPARE(page->text(), QStringLiteral("Opening model.pt …"));
    QCOMPARE(page->doing(), QStringLiteral("Starting the engine"));
    QTRY_COMPARE(page->doing(), QStringLiteral("Reading"));  // the engine's word
    page->cancel()->click();
    QVERIFY(!document().isOpening() && !page->isVisible());
    QVERIFY(window_->findChild<WelcomePage*>()->isVisible());
    window_->openModel(model_);
    QVERIFY(page->isVisible());
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen(), 10000);
    QVERIFY(window_->canvas()->isVisible() && !page->isVisible() && !bar->isVisible());
    // Over a drawing it is said after a moment, and the drawing stays until the next one is there.
    const QString other = folder_.filePath(QStringLiteral("other.pt"));
    QVERIFY(QFile::exists(other) || QFile::copy(model_, other));
    window_->openModel(other);
    QVERIFY(!bar->isVisible() && window_->canvas()->isVisible());
    QTRY_VERIFY(bar->isVisible());
    QCOMPARE(bar->text(), QStringLiteral("Opening other.pt …"));
    QVERIFY(window_->canvas()->isVisible());
    bar->cancel()->click();
    QVERIFY(!bar->isVisible());
    QCOMPARE(document().path(), model_);
  }

  void aMessageThatHasNoRoomKeepsItsEnds() {
    open();
    window_->resize(900, 600);
    const QString text = QStringLiteral("Attention: 3 rewrites, 2 taken back: %1, all verified")
                             .arg(QStringLiteral("on random values, `matmul_1` differs ").repeated(8));
    Q_EMIT document().message(text);
    const QString shown = window_->statusBar()->currentMessage();
    QVERIFY2(shown.startsWith(QStringLiteral("Attention: 3 rewrites")) && shown.endsWith(QStringLiteral("verified")),
             qPrintable(shown));
    QVERIFY(shown.size() < text.size() && shown.contains(QStringLiteral("…")));
    QVERIFY(window_->statusBar()->fontMetrics().horizontalAdvance(shown) < window_->statusBar()->width());
    QVERIFY(window_->statusBar()->toolTip().contains(text.toHtmlEscaped()));
    window_->resize(1400, 600);
    QTRY_VERIFY(window_->statusBar()->currentMessage().size() > shown.size());
    window_->statusBar()->clearMessage();
    QVERIFY(window_->statusBar()->toolTip().isEmpty());
  }

  void noMenuIsLongerThanAHandful() {
    start();
    for (QAction* menu : window_->menuBar()->actions())
      QVERIFY2(menu->menu()->actions().size() <= 24,
               qPrintable(QStringLiteral("%1: %2").arg(menu->text()).arg(menu->menu()->actions().size())));
  }

  void aWindowThatWasKilledBesideAnotherDrawingShowsThatPlaceAgain_data() {
    QTest::addColumn<bool>("isComparison");
    QTest::newRow("preview") << false;
    QTest::newRow("comparison") << true;
  }
  void aWindowThatWasKilledBesideAnotherDrawingShowsThatPlaceAgain() {
    open();
    type(QString::fromLatin1(rulesText));
    window_->canvas()->setDepth(-1);
    QFETCH(bool, isComparison);
    if (isComparison)
      window_->setCompare(true);
    else
      document().preview(QStringLiteral("Attention"), {3});
    QTRY_VERIFY(document().isPreviewing() != isComparison && window_->beforeCanvas()->isVisible());
    if (isComparison) window_->canvas()->zoomToKeys({QStringLiteral("softmax_3")}, 0.75, 0.7);
    const auto nearest = [](const Canvas& canvas) {
      const QPointF middle = canvas.visibleSceneRect().center();
      QString key;
      double best = 1e9;
      for (const auto& [k, box] : canvas.scene()->boxOfKey.asKeyValueRange()) {
        const double far = (canvas.scene()->rect(box).center() - middle).manhattanLength();
        if (!canvas.scene()->view.boxes[static_cast<size_t>(box)].open && far < best) key = k, best = far;
      }
      return key;
    };
    QTest::qWait(100);
    const QString place = nearest(isComparison ? *window_->canvas() : *window_->beforeCanvas());
    killTheWindow();
    window_ = std::make_unique<MainWindow>(test::fakeEngine());
    window_->restoreSession(true);
    window_->show();
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen() && window_->canvas()->scene(), 10000);
    // No preview beside it, and so a drawing that is laid out otherwise: the same place is in view.
    const Canvas& canvas = *window_->canvas();
    QTRY_VERIFY(canvas.visibleSceneRect().contains(canvas.scene()->rect(canvas.scene()->boxOf(place)).center()));
    QTest::qWait(100);  // panels that come later leave it there
    QVERIFY(canvas.visibleSceneRect().contains(canvas.scene()->rect(canvas.scene()->boxOf(place)).center()));
  }

  void anotherModelThanTheKilledWindowsLosesNoneOfItsSteps() {
    open();
    type(QString::fromLatin1(rulesText));
    document().apply(QStringLiteral("Attention"), {1});
    QTRY_COMPARE(document().position(), 1);
    killTheWindow();
    const QString other = folder_.filePath(QStringLiteral("another.pt"));
    QVERIFY(QFile::copy(model_, other));
    window_ = std::make_unique<MainWindow>(test::fakeEngine());
    window_->restoreSession(false);
    window_->show();
    window_->openModel(other);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen(), 10000);
    QCOMPARE(document().path(), other);
    QTest::qWait(200);
    QCOMPARE(document().position(), 0);  // the steps are the other model's
    window_->openModel(model_);
    QTRY_COMPARE_WITH_TIMEOUT(document().position(), 1, 10000);
    QCOMPARE(document().path(), model_);
  }

  void numbersOfAFileColourTheirNodes() {
    open();
    Canvas* canvas = window_->canvas();
    canvas->setDepth(-1);
    const auto write = [&](const QByteArray& text) {
      QFile file(folder_.filePath(QStringLiteral("cost.json")));
      QVERIFY(file.open(QIODevice::WriteOnly));
      file.write(text);
    };
    write(R"({"softmax": 2.5, "softmax_1": 1})");
    triggerWithFile("colourNumbers", folder_.filePath(QStringLiteral("cost.json")));
    QCOMPARE(window_->comparison().overlay(), Overlay::Numbers);
    QCOMPARE(canvas->decorations().heat.value(QStringLiteral("softmax")), 2.5);
    QCOMPARE(canvas->decorations().heatTitle, QStringLiteral("cost"));
    const int encoder = canvas->scene()->boxOf(QStringLiteral("@encoder"));
    QCOMPARE(canvas->boxDecorations().heat[static_cast<size_t>(encoder)], 3.5);
    QCOMPARE(canvas->boxDecorations().most, 3.5);  // one block stands for four
    // The box of colours says so, and offers them again.
    auto* colours = window_->findChild<QToolBar*>()->findChild<QComboBox*>();
    QCOMPARE(colours->currentText(), QStringLiteral("Colour: numbers"));
    window_->setOverlay(Overlay::Kind);
    Q_EMIT colours->activated(static_cast<int>(Overlay::Numbers));
    QCOMPARE(window_->comparison().overlay(), Overlay::Numbers);
    // What names no node says so, and the colours stay.
    QSignalSpy failed(&window_->files(), &WindowFiles::failed);
    write(R"({"nobody": 1})");
    triggerWithFile("colourNumbers", folder_.filePath(QStringLiteral("cost.json")));
    QCOMPARE(failed.size(), 1);
    QCOMPARE(canvas->decorations().heat.size(), qsizetype{2});
  }

  void numbersOfAFileAreATableInExplore() {
    open();
    QTreeWidget* table = window_->panel<Explorer>()->numbers();
    QVERIFY(!table->isVisible());
    const QString path = folder_.filePath(QStringLiteral("cost.json"));
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(R"({"softmax": 1, "softmax_1": 2.5, "gelu_1": -30, "nobody": 7})");
    file.close();
    triggerWithFile("colourNumbers", path);
    QVERIFY(table->isVisible());
    QCOMPARE(table->headerItem()->text(1), QStringLiteral("cost"));
    QStringList rows;
    for (int i = 0; i < table->topLevelItemCount(); ++i)
      rows << table->topLevelItem(i)->text(0) + QLatin1Char(' ') + table->topLevelItem(i)->text(1);
    QCOMPARE(rows,
             (QStringList{QStringLiteral("gelu_1 -30"), QStringLiteral("softmax_1 2.5"), QStringLiteral("softmax 1")}));
    const auto labels = window_->panel<Explorer>()->findChildren<QLabel*>();
    QVERIFY(std::any_of(labels.begin(), labels.end(), [](const QLabel* label) {
      return label->isVisible() && label->text() == QStringLiteral("1 of 4 names are of no node here.");
    }));
    // A click selects the node, and opens what hides it.
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, table->visualItemRect(table->topLevelItem(1)).center());
    QCOMPARE(document().selection(), QStringList{QStringLiteral("softmax_1")});
    QTRY_VERIFY(window_->canvas()->scene()->boxOf(QStringLiteral("softmax_1")) >= 0);
    // What is selected elsewhere is marked.
    document().setSelection({QStringLiteral("softmax")});
    QCOMPARE(table->currentItem(), table->topLevelItem(2));
    document().setSelection({QStringLiteral("linear")});
    QVERIFY(!table->currentItem());
    // Another model has none.
    const QString other = folder_.filePath(QStringLiteral("without.pt"));
    QVERIFY(QFile::exists(other) || QFile::copy(model_, other));
    window_->openModel(other);
    QTRY_COMPARE(document().path(), other);
    QTRY_VERIFY(!table->isVisible());
  }

  void whatWasOpenInOneModelIsClosedInTheNext() {
    open();
    window_->action(QStringLiteral("depthAll"))->trigger();
    QCOMPARE(window_->canvas()->viewOptions().depth, -1);
    const QString other = folder_.filePath(QStringLiteral("next.pt"));
    QVERIFY(QFile::copy(model_, other));
    window_->openModel(other);
    QTRY_COMPARE_WITH_TIMEOUT(document().path(), other, 10000);
    QCOMPARE(window_->canvas()->viewOptions().depth, ViewOptions().depth);
    window_->action(QStringLiteral("depthAll"))->trigger();
    window_->openModel(other);  // the same one again keeps what is open
    QTest::qWait(300);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen() && !document().isOpening(), 10000);
    QCOMPARE(window_->canvas()->viewOptions().depth, -1);
  }

  void numbersBelowZeroHaveColoursOfTheirOwn() {
    open();
    Canvas* canvas = window_->canvas();
    canvas->setDepth(-1);
    NodeNumbers numbers;
    numbers.title = "change";
    numbers.adds = false;
    const auto show = [&](std::map<std::string, double, std::less<>> values) {
      numbers.values = std::move(values);
      window_->comparison().showNumbers(numbers);
      return HeatScale{canvas->boxDecorations().least, canvas->boxDecorations().most};
    };
    const auto color = [&](const HeatScale& s, double v) { return s.color(themePalette(), v).hex(); };
    // Both signs: the ends are what there is, and the same size has the same depth on either side of 0.
    HeatScale scale = show({{"softmax", -4}, {"gelu", 2}, {"linear", 0.5}});
    QCOMPARE(scale.least, -4.0);
    QCOMPARE(scale.most, 2.0);
    QVERIFY(scale.parts());
    QCOMPARE(color(scale, 0), themePalette().heat(0).hex());
    QCOMPARE(color(scale, 2), themePalette().heat(std::sqrt(0.5)).hex());
    QVERIFY(color(scale, -2) != color(scale, 2) && color(scale, -4) != color(scale, -2));
    // One sign: they span what there is.
    scale = show({{"softmax", -104}, {"gelu", -101}});
    QCOMPARE(scale.least, -104.0);
    QCOMPARE(scale.most, -101.0);
    QVERIFY(color(scale, -104) != color(scale, -101));
    scale = show({{"softmax", 12340}, {"gelu", 12345}});
    QCOMPARE(heatText(scale.least, {}), QStringLiteral("12340"));
    QCOMPARE(heatText(scale.most, QStringLiteral("steps")), QStringLiteral("12345 steps"));
    QCOMPARE(color(scale, 12345), themePalette().heat(1).hex());
    QCOMPARE(heatText(-2e6, QStringLiteral("B")), QStringLiteral("-2 MB"));
    // Weights begin at 0 as ever.
    window_->setOverlay(Overlay::Weights);
    QCOMPARE(canvas->boxDecorations().least, 0.0);
    // Two drawings have one scale.
    window_->setCompare(true);
    show({{"softmax", -4}, {"gelu", 2}});
    for (const Canvas* c : {window_->canvas(), window_->beforeCanvas()}) QCOMPARE(c->boxDecorations().least, -4.0);
  }

  void aNewWindowShowsWhatWasMeasured() {
    const auto kernels = [&] { return window_->panel<KernelTable>(); };
    const auto isPlanned = [&] {
      const Compilation& compilation = document().compilation();
      return compilation.isKnown() && !compilation.isBusy();
    };
    const auto historyTime = [&] {
      window_->arrange(Arrangement::Rewrite);
      const QTreeWidgetItem* last = window_->findChild<HistoryPanel*>()->tree()->topLevelItem(1);
      return last ? last->text(2) : QString();
    };
    open();
    type(QString::fromLatin1(rulesText));
    document().optimize();
    QTRY_COMPARE(document().position(), 1);
    QTRY_VERIFY(!historyTime().isEmpty());
    const QString took = historyTime(), gain = document().steps().back().gain;
    const double gained = document().gains().value(QStringLiteral("Attention"));
    QVERIFY(!gain.isEmpty() && gained > 1);
    window_->panel<RunPanel>()->setInputs(QStringLiteral("f32[B,16,64] f32[B,1,1,16] B=1,2"));
    window_->panel<RunPanel>()->start();
    QTRY_VERIFY_WITH_TIMEOUT(window_->panel<RunPanel>()->table(RunPanel::Sweep)->rowCount() == 2, 10000);
    QTRY_VERIFY(!document().isRunning());
    window_->panel<RunPanel>()->pin();
    const QString headline = window_->panel<RunPanel>()->headlineText();
    SideBySideList& list = window_->panel<SideBySidePanel>()->list();
    list.addStep(0);
    list.addStep(1);
    list.run(1);
    QTRY_VERIFY_WITH_TIMEOUT(!list.isRunning() && list.entries()[1].wasRun, 10000);
    window_->arrange(Arrangement::Compile);
    QTRY_VERIFY(isPlanned());
    document().compilation().measure();
    QTRY_VERIFY(isPlanned() && document().compilation().plan().isMeasured());
    for (int times = 0; times < 2; ++times) {  // what is restored is left to the next one, too
      killTheWindow();
      start();
      window_->restoreSession(true);
      QTRY_COMPARE_WITH_TIMEOUT(document().position(), 1, 10000);
      QTRY_VERIFY(!document().isRestoring());
      QCOMPARE(document().steps().back().gain, gain);
      QCOMPARE(document().gains().value(QStringLiteral("Attention")), gained);
      QTRY_COMPARE(historyTime(), took);
      // The run, of this model, with when it was.
      window_->arrange(Arrangement::Measure);
      QTRY_COMPARE(window_->panel<RunPanel>()->headlineText(), headline);
      QVERIFY(document().lastRunIsCurrent() && document().lastRunOfBefore().isValid());
      QVERIFY2(window_->panel<RunPanel>()->noteText().startsWith(QStringLiteral("Measured at ")),
               qPrintable(window_->panel<RunPanel>()->noteText()));
      QCOMPARE(window_->panel<RunPanel>()->table(RunPanel::Sweep)->rowCount(), 2);
      QVERIFY(window_->panel<RunPanel>()->table(RunPanel::Operators)->rowCount() > 2);
      QCOMPARE(window_->panel<SideBySidePanel>()->table()->item(1, 5)->text(), QStringLiteral("×2.00"));
      window_->arrange(Arrangement::Compile);
      QTRY_VERIFY(isPlanned() && document().compilation().plan().isMeasured());
      QCOMPARE(kernels()->row(QStringLiteral("gelu_layer_norm"))->text(KernelTable::Measured),
               QStringLiteral("3.50 µs"));
      QVERIFY(document().compilation().plan().isMeasuredBefore);
    }
    // A run of this window is this window's.
    window_->panel<RunPanel>()->start();
    QTRY_VERIFY(!document().isRunning() && !document().lastRunOfBefore().isValid());
  }

  void aStepThatGivesAnotherModelThanBeforeHasNoneOfItsFigures() {
    open();
    type(QString::fromLatin1(rulesText));
    document().optimize();
    QTRY_COMPARE(document().position(), 1);
    window_->panel<RunPanel>()->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty(), 10000);
    QJsonObject state = document().state();
    QJsonArray steps = state.value(QLatin1String("steps")).toArray();
    QJsonObject step = steps[0].toObject();
    step.insert(QStringLiteral("nodes"), 99);
    state.insert(QStringLiteral("steps"), QJsonArray{step});
    window_.reset();
    start();
    QSignalSpy failed(&document(), &Document::failed);
    document().restore(state);
    QTRY_COMPARE_WITH_TIMEOUT(document().position(), 1, 10000);
    QTRY_COMPARE(failed.size(), 1);
    QVERIFY(failed[0].value(1).toString().startsWith(QStringLiteral("Encoder")));
    QVERIFY(document().steps().back().gain.isEmpty() && document().gains().isEmpty());
    QVERIFY(!document().lastRunIsCurrent() && document().isAsBefore(0) && !document().isAsBefore(1));
  }

  void aModelNamedAgainHasWhatWasMeasuredWithoutAnyStep() {
    open();
    window_->panel<RunPanel>()->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty(), 10000);
    const QString headline = window_->panel<RunPanel>()->headlineText();
    killTheWindow();
    start();
    window_->restoreSession(false);  // as `graft-gui MODEL` does
    window_->openModel(model_);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen(), 10000);
    QTRY_COMPARE(window_->panel<RunPanel>()->headlineText(), headline);
    // Another model has none of it.
    const QString other = folder_.filePath(QStringLiteral("another.pt"));
    QVERIFY(QFile::exists(other) || QFile::copy(model_, other));
    window_->openModel(other);
    QTRY_COMPARE_WITH_TIMEOUT(document().path(), other, 10000);
    QVERIFY(document().lastRun().isEmpty());
  }

  void aWindowThatWasKilledInsideARecipeStandsThereAgain() {
    open();
    type(QString::fromLatin1(rulesText) +
         QStringLiteral("\n\nclass Gelu(Rule):\n    # match: gelu\n    def pattern(x):\n        return gelu(x)\n\n"
                        "    def replacement(x):\n        return x\n"));
    document().applyRecipe(QStringLiteral("All"));
    QTRY_COMPARE(document().position(), 1);
    document().showStep(1, 1);
    QTRY_COMPARE(document().subStep(), 1);
    const QJsonObject state = window_->sessionState();
    window_.reset();
    start();
    document().restore(state);
    QTRY_COMPARE_WITH_TIMEOUT(document().subStep(), 1, 10000);
    QCOMPARE(document().position(), 1);
    // What was verified is not verified again, which may take minutes; the history still says that it was.
    QCOMPARE(document().steps()[1].request.value(QLatin1String("verify")), QJsonValue(false));
    QCOMPARE(document().steps()[1].verification, QStringLiteral("all verified"));
    QVERIFY(document().graph()->findNode("gelu") && document().graph()->findNode("fused_0"));
  }

  void repeatedBlocksAreOneUntilTheyAreAskedFor() {
    open();
    Canvas* canvas = window_->canvas();
    canvas->setDepth(1);
    QTRY_VERIFY(canvas->scene() && canvas->scene()->boxOf(QStringLiteral("@encoder.layer.0")) >= 0);
    const auto box = [&](const char* key) { return canvas->scene()->boxOf(QString::fromLatin1(key)); };
    const int first = box("@encoder.layer.0");
    QCOMPARE(canvas->scene()->view.boxes[static_cast<size_t>(first)].repeat, size_t{4});
    canvas->fit();
    const QRectF r = canvas->scene()->rect(first);
    const QPoint badge = canvas->toWidget(QPointF(r.right() - 12, r.top() + 10)).toPoint();
    QTest::mouseDClick(canvas, Qt::LeftButton, Qt::NoModifier, badge);
    QTRY_VERIFY(box("@encoder.layer.3") >= 0 && box("@encoder.layer.3") != box("@encoder.layer.0"));
    // Now each is opened alone, and stays where the pointer is.
    canvas->fit();
    const QPoint at = middle(*canvas, QStringLiteral("@encoder.layer.2"));
    const QPointF corner = canvas->toWidget(canvas->scene()->rect(box("@encoder.layer.2")).topLeft());
    QTest::mouseDClick(canvas, Qt::LeftButton, Qt::NoModifier, at);
    const auto isOpen = [&](const char* key) {
      return canvas->scene()->view.boxes[static_cast<size_t>(box(key))].open;
    };
    QTRY_VERIFY(isOpen("@encoder.layer.2"));
    QVERIFY(!isOpen("@encoder.layer.1"));
    const QPointF now = canvas->toWidget(canvas->scene()->rect(box("@encoder.layer.2")).topLeft());
    QVERIFY((now - corner).manhattanLength() < 1.5);
  }

  void whatIsClosedStaysUnderThePointer() {
    open();
    Canvas* canvas = window_->canvas();
    canvas->setDepth(-1);
    const auto box = [&] { return canvas->scene()->boxOf(QStringLiteral("@encoder")); };
    const auto at = [&] {
      const QRectF r = canvas->scene()->rect(box());
      return QRectF(canvas->toWidget(r.topLeft()), r.size() * canvas->scale());
    };
    // Far below the container's head, on its rim.
    canvas->setView(canvas->scene()->rect(box()).bottomLeft() - QPointF(30, 500), 1);
    const QPoint pointer = canvas->toWidget(canvas->scene()->rect(box()).bottomLeft() + QPointF(4, -60)).toPoint();
    QVERIFY(at().top() < -200);
    QTest::mouseDClick(canvas, Qt::LeftButton, Qt::NoModifier, pointer);
    QVERIFY(!canvas->scene()->view.boxes[static_cast<size_t>(box())].open);
    QVERIFY(at().contains(pointer));
    // Space does so without a pointer: the box is in view.
    canvas->reveal(QStringLiteral("layer_norm_3"));
    QVERIFY(at().top() < 0);
    canvas->setSelection({QStringLiteral("@encoder")});
    QTest::keyClick(canvas, Qt::Key_Space);
    QVERIFY(!canvas->scene()->view.boxes[static_cast<size_t>(box())].open);
    QVERIFY(QRectF(canvas->rect()).intersects(at()));
  }

  void whatIsLookedForComesOutOfTheRepeat() {
    open();
    Canvas* canvas = window_->canvas();
    canvas->setDepth(1);
    canvas->reveal(QStringLiteral("softmax_2"));  // in the third of four equal layers
    const auto& boxes = canvas->scene()->view.boxes;
    const int box = canvas->scene()->boxOf(QStringLiteral("softmax_2"));
    QVERIFY(box >= 0);
    QCOMPARE(toQt(canvas->scene()->graph->node(boxes[static_cast<size_t>(box)].node).name),
             QStringLiteral("softmax_2"));
    const int first = canvas->scene()->boxOf(QStringLiteral("@encoder.layer.0"));
    QVERIFY(!boxes[static_cast<size_t>(first)].open);
    QVERIFY(canvas->visibleSceneRect().intersects(canvas->scene()->rect(box)));
  }

  void pointingAtAPatternNodeLightsItsTextItsDrawingAndItsMatches() {
    open();
    type(QString::fromLatin1(rulesText));
    window_->canvas()->setDepth(9);
    QTRY_VERIFY(window_->canvas()->scene()->boxOf(QStringLiteral("softmax")) >= 0);
    Canvas* pattern = window_->panel<PatternPanel>();
    QTRY_VERIFY(pattern->scene());
    const QString node = rule().patternOrder.value(3);
    QVERIFY(node.startsWith(QLatin1String("softmax")));
    const auto point = [](Canvas* canvas, const QString& key) {
      const QPointF at = middle(*canvas, key);
      QMouseEvent move(QEvent::MouseMove, at, canvas->mapToGlobal(at), Qt::NoButton, Qt::NoButton, Qt::NoModifier);
      QApplication::sendEvent(canvas, &move);
    };
    point(pattern, node);
    QCOMPARE(window_->canvas()->litNodes().size(), 4);
    QVERIFY(window_->canvas()->litNodes().contains(rule().matches.front().map.value(node)));
    QCOMPARE(window_->panel<RuleEditor>()->lit(), node);
    QEvent leave(QEvent::Leave);
    QApplication::sendEvent(pattern, &leave);
    QVERIFY(window_->canvas()->litNodes().isEmpty() && window_->panel<RuleEditor>()->lit().isEmpty());
    point(window_->canvas(), rule().matches.front().map.value(node));
    QCOMPARE(window_->panel<RuleEditor>()->lit(), node);
    QCOMPARE(pattern->litNodes(), QStringList{node});
  }

  void aPreviewOfTheLibraryShowsTheWholePattern() {
    start();
    Canvas picture;
    picture.resize(280, 220);
    picture.setAutoFit(true, LibraryPanel::smallestPreview);
    auto wide = std::make_shared<Graph>();
    for (int i = 0; i < 14; ++i) wide->addInput("input_" + std::to_string(i), Type::tensor());
    picture.setGraph(wide);
    QVERIFY(picture.scene());
    QVERIFY(picture.visibleSceneRect().width() >= picture.scene()->bounds().width());
  }

  void theWholePatternIsInViewHoweverSmallItsPaneIs() {
    open();
    type(
        QStringLiteral("class Long(Rule):\n    # match: add, add, add, add, add, add\n    def pattern(x):\n"
                       "        return x\n\n    def replacement(x):\n        return x\n"));
    auto* pattern = window_->panel<PatternPanel>();
    QTRY_VERIFY(pattern->scene());
    for (const QSize size : {QSize(300, 460), QSize(220, 260), QSize(500, 200)}) {
      pattern->resize(size);
      QVERIFY2(
          pattern->visibleSceneRect().contains(pattern->scene()->bounds()),
          qPrintable(QStringLiteral("%1 × %2, scale %3").arg(size.width()).arg(size.height()).arg(pattern->scale())));
    }
  }

  void anEmptyEditorOffersAnExample() {
    open();
    window_->arrange(Arrangement::Rewrite);
    RuleEditor* editor = window_->panel<RuleEditor>();
    QVERIFY(editor->sentence().contains(QLatin1String("href=\"start\"")));
    editor->startRule();
    QTRY_COMPARE(document().rules().size(), size_t{1});
    QVERIFY(editor->text().contains(QLatin1String("from graft import")));
    QVERIFY(!editor->sentence().contains(QLatin1String("href")));
    editor->scintilla()->undo();
    QVERIFY(editor->text().isEmpty());
  }

  void shortcutsWorkWhileOneTypes() {
    open();
    type(QString::fromLatin1(rulesText));
    window_->activateWindow();
    window_->panel<RuleEditor>()->scintilla()->setFocus();
    QSignalSpy why(window_->action(QStringLiteral("whyNot")), &QAction::triggered);
    QSignalSpy library(window_->action(QStringLiteral("library")), &QAction::triggered);
    const QString text = window_->panel<RuleEditor>()->text();
    QTest::keyClick(window_->panel<RuleEditor>()->scintilla(), Qt::Key_Y, Qt::ControlModifier);
    QTest::keyClick(window_->panel<RuleEditor>()->scintilla(), Qt::Key_L, Qt::ControlModifier);
    QCOMPARE(why.size(), 1);
    QCOMPARE(library.size(), 1);
    QCOMPARE(window_->panel<RuleEditor>()->text(), text);
  }

  void namesCanBeReadAtFirstSight() {
    start();
    window_->resize(820, 600);  // narrower than the drawing
    window_->openModel(model_);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen() && window_->canvas()->scene(), 10000);
    QCOMPARE(window_->focusWidget(), window_->canvas());  // "/" finds without a click
    window_->canvas()->setDepth(3);
    Canvas& canvas = *window_->canvas();
    QVERIFY(canvas.scale() >= 0.7 || test::namedBoxes(*canvas.scene(), canvas.scale()).words >= 0.9);
    QVERIFY(canvas.rect().contains(
        canvas.toWidget(canvas.scene()->rect(canvas.scene()->view.roots.front()).center()).toPoint()));
  }

  void theToolBarFitsASmallWindow() {
    open();
    window_->resize(1024, 700);
    for (const Arrangement arrangement : allArrangements) {
      window_->arrange(arrangement);
      QTest::qWait(50);
      QCOMPARE(window_->size(), QSize(1024, 700));
      auto* bar = window_->findChild<QToolBar*>(QStringLiteral("mainBar"));
      for (const char* name : {"open", "measure", "compare", "apply", "run", "exportModel", "optimize"}) {
        QWidget* button = bar->widgetForAction(window_->action(QString::fromLatin1(name)));
        QVERIFY2(button->isVisible() && bar->rect().contains(button->geometry()), name);
      }
    }
  }

  void aWindowThatIsMadeSmallerTakesOfItsPanelsToo() {
    open();
    for (const Arrangement arrangement : allArrangements) {
      window_->resize(1440, 900);
      window_->arrange(arrangement);
      QTest::qWait(50);
      window_->resize(1024, 700);
      QTRY_VERIFY2(
          window_->centralWidget()->width() >= 490,
          qPrintable(
              QStringLiteral("%1: %2").arg(PanelDocks::nameOf(arrangement)).arg(window_->centralWidget()->width())));
      QTRY_VERIFY(window_->centralWidget()->height() >= 230);
    }
    // An arrangement that was left when the window was large.
    window_->resize(1440, 900);
    window_->arrange(Arrangement::Rewrite);
    QTest::qWait(50);
    window_->arrange(Arrangement::Explore);
    window_->resize(1024, 700);
    window_->arrange(Arrangement::Rewrite);
    QTRY_VERIFY(window_->centralWidget()->width() >= 490);
  }

  void aFileOfRulesOpensAtTheRuleThatMatchesMost() {
    open();
    const QString path = folder_.filePath(QStringLiteral("several.py"));
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(
        QByteArray(rulesText).replace("Attention", "Nowhere").replace("matmul, div, add, softmax, matmul", "cosh"));
    file.write("\n\n");
    file.write(rulesText);
    file.close();
    window_->openRules(path);
    QTRY_COMPARE(document().currentRule(), QStringLiteral("Attention"));
    QTRY_COMPARE(rule().name, QStringLiteral("Nowhere"));
    // Only at first: who goes to another rule stays there.
    document().setCurrentRule(QStringLiteral("Nowhere"));
    document().readRulesAgain();
    QTRY_VERIFY(document().rule(QStringLiteral("Attention"))->matched);
    QCOMPARE(document().currentRule(), QStringLiteral("Nowhere"));
  }

  void aScreenTooSmallIsFilled() {
    start();
    const QSize room = window_->screen()->availableSize();
    window_->restoreSession(false);
    QCOMPARE(window_->isMaximized(), room.width() < 1440 || room.height() < 940);
    QVERIFY(window_->normalGeometry().width() <= room.width());
  }

  void textCanBeReadInBothThemes() {
    for (const Theme theme : {Theme::Light, Theme::Dark}) {
      const Palette p = graft::palette(theme);
      QVERIFY(contrast(p.text, p.background) >= 7);
      QVERIFY(contrast(p.dim, p.background) >= 4.5);
      for (int kind = 0; kind <= static_cast<int>(BoxKind::Output); ++kind) {
        QVERIFY(contrast(p.text, p.fill(static_cast<BoxKind>(kind))) >= 4.5);
        QVERIFY(contrast(p.dim, p.fill(static_cast<BoxKind>(kind))) >= 4.5);
        QVERIFY2(
            contrast(p.text, p.block(static_cast<BoxKind>(kind))) >= 4.5,
            qPrintable(QStringLiteral("%1 %2").arg(kind).arg(contrast(p.text, p.block(static_cast<BoxKind>(kind))))));
      }
    }
  }
};

}  // namespace

QTEST_MAIN(ConventionsTest)
#include "conventions_test.moc"
