// Two graphs beside each other: the original and the rewritten one, their texts, two files.
#include <QSignalSpy>
#include <csignal>

#include "tests/views/support/window_fixture.h"
#include "views/panels/diff_view.h"
#include "views/panels/run/run_panel.h"

using namespace graft;
using test::rulesText;

namespace {

class SideBySideTest : public test::WindowFixture {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

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
    document().undo();
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
    window_->panel<RunPanel>()->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty(), 10000);
    window_->action(QStringLiteral("compare"))->trigger();
    QVERIFY(document().otherPath().isEmpty());
    QCOMPARE(document().original()->nodeCount(), size_t{52});
  }
};

}  // namespace

QTEST_MAIN(SideBySideTest)
#include "side_by_side_test.moc"
