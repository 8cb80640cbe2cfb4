// The inspector, its Python and its weights, and the explorer that finds what it is to show.
#include <QTextBrowser>

#include "tests/views/support/window_fixture.h"
#include "views/panels/explorer.h"
#include "views/panels/inspector.h"
#include "views/panels/source_view.h"

using namespace graft;

namespace {

class InspectorTest : public test::WindowFixture {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void aClickSelectsAndTheInspectorTells() {
    open();
    window_->canvas()->reveal(QStringLiteral("softmax"));
    QCOMPARE(document().selection(), QStringList{QStringLiteral("softmax")});
    QVERIFY(window_->panel<Inspector>()->plain().contains(QStringLiteral("aten.softmax.int")));
    QTRY_VERIFY(window_->panel<Inspector>()->plain().contains(QStringLiteral("What softmax does.")));
    QVERIFY(window_->panel<Inspector>()->plain().contains(QStringLiteral("aten::softmax.int(Tensor self) -> Tensor")));
    QTest::keyClick(window_->canvas(), Qt::Key_I);
    QCOMPARE(document().selection(), QStringList{QStringLiteral("add")});
    QTest::keyClick(window_->canvas(), Qt::Key_O);
    QCOMPARE(document().selection(), QStringList{QStringLiteral("softmax")});
  }

  void aClickOnTheSourceLineShowsThePython() {
    open();
    window_->canvas()->reveal(QStringLiteral("softmax_1"));
    Inspector* inspector = window_->panel<Inspector>();
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
    Inspector* inspector = window_->panel<Inspector>();
    QTRY_VERIFY(!inspector->weight().isEmpty());
    QCOMPARE(inspector->weight().value(QLatin1String("std")).toDouble(), 0.05);
    QVERIFY(inspector->plain().contains(QStringLiteral("encoder.layer.0.attention.query.weight")));
    window_->canvas()->reveal(QStringLiteral("gelu"));
    QVERIFY(inspector->weight().isEmpty());
  }

  void whatIsGoneIsToldToBeGone() {
    open();
    document().setSelection({QStringLiteral("no_longer_here")});
    const QString text = window_->panel<Inspector>()->plain();
    QVERIFY2(text.contains(QStringLiteral("no_longer_here is not in the model as it is now")), qPrintable(text));
    QVERIFY(text.contains(QStringLiteral("Operators")));  // what there is follows
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
    window_->panel<Explorer>()->search()->setText(QStringLiteral("/((/"));
    QVERIFY(window_->panel<Explorer>()->results()->item(0)->text().contains(QLatin1String("not a regular expression")));
    const QStringList selected = document().selection();
    QTest::keyClick(window_->panel<Explorer>()->search(), Qt::Key_Return);  // a remark is no result
    QCOMPARE(document().selection(), selected);
    window_->canvas()->setSelection({QStringLiteral(">0")});
    document().setSelection({QStringLiteral(">0")});
    QVERIFY(window_->panel<Inspector>()->plain().contains(QStringLiteral("Output 0")));
    QVERIFY(window_->panel<Inspector>()->plain().contains(QStringLiteral("layer_norm_3")));
    window_->panel<Explorer>()->search()->setText(QStringLiteral("softmax"));
    QCOMPARE(window_->panel<Explorer>()->results()->count(), 4);
    QTest::keyClick(window_->panel<Explorer>()->search(), Qt::Key_Return);
    QCOMPARE(document().selection().size(), 1);
  }
};

}  // namespace

QTEST_MAIN(InspectorTest)
#include "inspector_test.moc"
