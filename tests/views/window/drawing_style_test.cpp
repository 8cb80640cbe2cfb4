// Which way drawings run, what of them is folded, and that the window remembers both.
#include "tests/views/support/window_fixture.h"
#include "views/canvas/hover_card.h"
#include "views/window/comparison.h"

using namespace graft;

namespace {

class DrawingStyleTest : public test::WindowFixture {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void leftToRightTurnsBothDrawingsAndIsRemembered() {
    open();
    const auto layout = [&] { return window_->canvas()->scene()->layout; };
    // Long ways are folded into columns or rows, so that either drawing may be wider than it is high.
    const auto aspect = [&] { return layout().width / layout().height; };
    QVERIFY(layout().flow == Flow::Down);
    const double down = aspect();
    window_->action(QStringLiteral("leftToRight"))->trigger();
    QVERIFY(layout().flow == Flow::Right);
    QVERIFY2(aspect() > down, qPrintable(QStringLiteral("%1 after %2").arg(aspect()).arg(down)));
    // What is compared runs the same way, above it.
    window_->action(QStringLiteral("compare"))->trigger();
    QTRY_VERIFY(window_->beforeCanvas()->scene());
    QVERIFY(window_->beforeCanvas()->scene()->layout.flow == Flow::Right);
    QTRY_VERIFY(window_->beforeCanvas()->geometry().bottom() <= window_->canvas()->geometry().top());
    window_.reset();
    open();
    QVERIFY(layout().flow == Flow::Right);
    QVERIFY(window_->action(QStringLiteral("leftToRight"))->isChecked());
    window_->action(QStringLiteral("leftToRight"))->trigger();
    QVERIFY(layout().flow == Flow::Down);
  }

  void whetherDeadEndsAreFoldedIsRemembered() {
    open();
    QVERIFY(window_->canvas()->viewOptions().foldDeadEnds);
    window_->action(QStringLiteral("deadEnds"))->trigger();
    QVERIFY(!window_->canvas()->viewOptions().foldDeadEnds);
    window_.reset();
    open();
    QVERIFY(!window_->canvas()->viewOptions().foldDeadEnds);
  }

  void aShortcutTellsOfTheSelectedNode() {
    open();
    window_->canvas()->reveal(QStringLiteral("softmax"));
    window_->action(QStringLiteral("card"))->trigger();
    QVERIFY(window_->canvas()->card()->isVisible());
    window_->action(QStringLiteral("card"))->trigger();
    QVERIFY(!window_->canvas()->card()->isVisible());
  }
};

}  // namespace

QTEST_MAIN(DrawingStyleTest)
#include "drawing_style_test.moc"
