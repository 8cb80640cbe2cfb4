// What a good desktop program does besides its job: it takes what is dropped on it, remembers, lists its actions,
// writes its pictures and reports, and can be read in both themes.
#include <QCheckBox>
#include <QClipboard>
#include <QDragEnterEvent>
#include <QDropEvent>
#include <QFileDialog>
#include <QListWidget>
#include <QMenu>
#include <QMenuBar>
#include <QMimeData>
#include <QScreen>
#include <QSignalSpy>
#include <QTableWidget>
#include <QTimer>

#include "tests/views/window_fixture.h"
#include "views/command_palette.h"
#include "views/graph_decode.h"
#include "views/library_panel.h"
#include "views/lists.h"
#include "views/qscintilla.h"
#include "views/run_panel.h"
#include "views/welcome.h"

using namespace graft;
using test::rulesText;

namespace {

class MannersTest : public test::WindowFixture {
  Q_OBJECT

  /// Triggers the action and gives the dialog that it opens that file.
  void triggerWithFile(const char* action, const QString& path) {
    QTimer poll;
    connect(&poll, &QTimer::timeout, this, [&] {
      auto* dialog = qobject_cast<QFileDialog*>(QApplication::activeModalWidget());
      if (!dialog) return;
      poll.stop();
      auto* name = dialog->findChild<QLineEdit*>(QStringLiteral("fileNameEdit"));
      name->setText(path);
      QTest::keyClick(name, Qt::Key_Return);
    });
    poll.start(20);
    window_->action(QString::fromLatin1(action))->trigger();
  }

  static void drop(QWidget* on, const QMimeData& data) {
    QDragEnterEvent enter(QPoint(30, 30), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(on, &enter);
    QVERIFY(enter.isAccepted());
    QDropEvent drop(QPointF(30, 30), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(on, &drop);
  }

  QByteArray contents(const QString& path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
  }

  /// All that can be chosen in the menus, submenus too.
  static void leaves(const QList<QAction*>& actions, QList<QAction*>& out) {
    for (QAction* a : actions) {
      if (a->menu())
        leaves(a->menu()->actions(), out);
      else if (!a->isSeparator())
        out << a;
    }
  }

  static QPoint middle(Canvas& canvas, const QString& key) {
    const int box = canvas.scene()->boxOf(key);
    return canvas.toWidget(canvas.scene()->rect(box).center()).toPoint();
  }

 private Q_SLOTS:
  void initTestCase() {
    prepare();
    QApplication::setAttribute(Qt::AA_DontUseNativeDialogs);
  }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void drawingsAreWrittenInFourFormats() {
    open();
    for (const auto& [ending, begins] :
         {std::pair{"svg", "<svg"}, {"png", "\x89PNG"}, {"pdf", "%PDF"}, {"dot", "digraph"}}) {
      const QString path = folder_.filePath(QStringLiteral("drawing.") + QString::fromLatin1(ending));
      triggerWithFile("exportDrawing", path);
      const QByteArray written = contents(path);
      QVERIFY2(written.startsWith(begins), ending);
      QVERIFY2(written.size() > 500, ending);
    }
    const QImage picture(folder_.filePath(QStringLiteral("drawing.png")));
    QVERIFY(picture.width() > 200 && picture.height() > 200);
    QVERIFY(contents(folder_.filePath(QStringLiteral("drawing.svg"))).contains("FakeEncoder"));
  }

  void theReportHoldsTheRunTheStepsTheDrawingAndTheRules() {
    open();
    type(QString::fromLatin1(rulesText));
    document().apply(QStringLiteral("Attention"));
    QTRY_COMPARE(document().position(), 1);
    window_->runPanel()->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty(), 10000);
    const QString path = folder_.filePath(QStringLiteral("report.html"));
    triggerWithFile("exportReport", path);
    const QByteArray html = contents(path);
    for (const char* part : {"model.pt", "times faster", "<td>Attention</td><td>4</td>", "<svg", "def pattern"})
      QVERIFY2(html.contains(part), part);
  }

  void whatIsDroppedOpens() {
    start();
    QMimeData data;
    data.setUrls({QUrl::fromLocalFile(model_)});
    drop(window_->findChild<WelcomePage*>(), data);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen(), 10000);
    const QString rules = folder_.filePath(QStringLiteral("dropped.py"));
    QFile file(rules);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(rulesText);
    file.close();
    QMimeData text;
    text.setUrls({QUrl::fromLocalFile(rules)});
    drop(window_->canvas(), text);
    QCOMPARE(window_->editor()->text(), QString::fromLatin1(rulesText));
  }

  void whatWasOpenedIsRemembered() {
    open();
    const QStringList recent = QSettings().value(QStringLiteral("recent")).toStringList();
    QCOMPARE(recent.value(0), model_);
    window_.reset();
    start();
    QList<QAction*> all;
    leaves(window_->menuBar()->actions(), all);
    QVERIFY(
        std::any_of(all.begin(), all.end(), [](QAction* a) { return a->text().endsWith(QLatin1String("model.pt")); }));
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
      const bool isFile = a->text().endsWith(QLatin1String("model.pt"));
      if (!isFile && a->objectName() != QLatin1String("palette")) QVERIFY2(listed.contains(a), qPrintable(a->text()));
    }
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
    auto* list = history->findChild<QListWidget*>();
    QTRY_COMPARE(list->count(), 4);
    document().showStep(0);
    QCOMPARE(document().graph()->nodeCount(), size_t{52});
    history->findChild<QCheckBox*>()->setChecked(true);
    QCOMPARE(list->count(), 3);
    QTRY_COMPARE(list->currentRow(), 0);
    list->setCurrentRow(2);
    QTRY_COMPARE(document().position(), 2);
    QCOMPARE(document().graph()->nodeCount(), size_t{36});
    while (document().undoStack()->canUndo()) document().undoStack()->undo();
    QCOMPARE(document().position(), 0);
    while (document().undoStack()->canRedo()) document().undoStack()->redo();
    QCOMPARE(document().position(), 3);
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
    Canvas* pattern = window_->patternCanvas();
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
    QCOMPARE(window_->editor()->lit(), node);
    QEvent leave(QEvent::Leave);
    QApplication::sendEvent(pattern, &leave);
    QVERIFY(window_->canvas()->litNodes().isEmpty() && window_->editor()->lit().isEmpty());
    point(window_->canvas(), rule().matches.front().map.value(node));
    QCOMPARE(window_->editor()->lit(), node);
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

  void anEmptyEditorOffersAnExample() {
    open();
    window_->arrange(Arrangement::Rewrite);
    RuleEditor* editor = window_->editor();
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
    window_->editor()->scintilla()->setFocus();
    QSignalSpy why(window_->action(QStringLiteral("whyNot")), &QAction::triggered);
    QSignalSpy library(window_->action(QStringLiteral("library")), &QAction::triggered);
    const QString text = window_->editor()->text();
    QTest::keyClick(window_->editor()->scintilla(), Qt::Key_Y, Qt::ControlModifier);
    QTest::keyClick(window_->editor()->scintilla(), Qt::Key_L, Qt::ControlModifier);
    QCOMPARE(why.size(), 1);
    QCOMPARE(library.size(), 1);
    QCOMPARE(window_->editor()->text(), text);
  }

  void namesCanBeReadAtFirstSight() {
    start();
    window_->resize(820, 600);  // narrower than the drawing
    window_->openModel(model_);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen() && window_->canvas()->scene(), 10000);
    QCOMPARE(window_->focusWidget(), window_->canvas());  // "/" finds without a click
    window_->canvas()->setDepth(3);
    Canvas& canvas = *window_->canvas();
    QVERIFY(canvas.scale() >= 0.7);
    QVERIFY(canvas.rect().contains(
        canvas.toWidget(canvas.scene()->rect(canvas.scene()->view.roots.front()).center()).toPoint()));
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
      }
    }
  }
};

}  // namespace

QTEST_MAIN(MannersTest)
#include "manners_test.moc"
