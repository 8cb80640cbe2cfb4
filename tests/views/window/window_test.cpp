// The window driven as a person would, against the scripted engine: opening, its panels, the palette.
#include <QDockWidget>
#include <QSignalSpy>

#include "tests/views/support/window_fixture.h"
#include "views/window/command_palette.h"

using namespace graft;

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

  /// Styling all widgets anew takes as long as making them.
  void aThemeThatIsThereStylesNothingAnew() {
    start();
    struct Counter : QObject {
      int styled = 0;
      bool eventFilter(QObject*, QEvent* e) override {
        styled += e->type() == QEvent::StyleChange;
        return false;
      }
    } counter;
    window_->canvas()->installEventFilter(&counter);
    window_->setTheme(currentTheme());
    QCOMPARE(counter.styled, 0);
    window_->setTheme(Theme::Dark);
    QVERIFY(counter.styled > 0);
    window_->setTheme(Theme::Light);
  }
};

}  // namespace

QTEST_MAIN(WindowTest)
#include "window_test.moc"
