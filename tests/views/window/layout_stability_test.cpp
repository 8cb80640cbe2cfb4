// What stays where it is while everything else changes: the text below the editor's sentence, the drawing beside panels
// that fill, the two drawings of a comparison, panels that come back.
#include <QDockWidget>
#include <QListWidget>
#include <QPushButton>
#include <QSignalSpy>
#include <QSplitter>

#include "tests/views/support/window_fixture.h"
#include "views/panels/rules/why_not_panel.h"
#include "views/panels/run/run_panel.h"
#include "views/widgets/empty_hint.h"
#include "views/widgets/fixed_height_label.h"
#include "views/widgets/qscintilla.h"

using namespace graft;
using test::rulesText;

namespace {

class LayoutStabilityTest : public test::WindowFixture {
  Q_OBJECT

  /// Where the widget stands in the window.
  QRect place(const QWidget* w) const { return {w->mapTo(window_.get(), QPoint()), w->size()}; }
  /// What asks for another layout has it.
  static void settle() { QTest::qWait(30); }

  /// How far apart in height the two drawings have what is in the middle of the main one, in pixels; -1: nothing that
  /// is there stands in the other.
  double apart() {
    const Canvas *now = window_->canvas(), *before = window_->beforeCanvas();
    const SceneRef a = now->scene(), b = before->scene();
    double nearest = 1e9, out = -1;
    for (const Box& box : a->view.boxes) {
      const QString key = selectionKey(*a->graph, box);
      const int here = a->boxOf(key), there = b->boxOf(key);
      if (box.open || there < 0 || document().graph()->findNode(key.toStdString()).index == 0) continue;
      const QPointF at = now->toWidget(a->rect(here).center());
      const double y = at.y(), far = std::abs(y - now->height() / 2.0) * 3 + std::abs(at.x() - now->width() / 2.0);
      if (far >= nearest) continue;
      nearest = far;
      out = std::abs(before->toWidget(b->rect(there).center()).y() - y);
    }
    return out;
  }

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void aLabelHasItsLinesWhateverItSays() {
    FixedHeightLabel label(2);
    label.setContentsMargins(12, 8, 12, 8);
    label.resize(300, label.sizeHint().height());
    label.show();
    const QSize hint = label.sizeHint();
    label.showText(QStringLiteral("short"));
    QVERIFY(!label.isElided() && label.toolTip().isEmpty());
    QCOMPARE(label.text(), QStringLiteral("short"));
    const QString longText = QStringLiteral("a sentence that is told <at length> ").repeated(8).trimmed();
    label.showText(longText);
    QVERIFY(label.isElided());
    QCOMPARE(label.text().count(QLatin1Char('\n')), 1);
    QVERIFY(label.text().endsWith(QChar(0x2026)));
    QVERIFY(label.toolTip().contains(longText.toHtmlEscaped()));
    QCOMPARE(label.fullText(), longText);
    QCOMPARE(label.sizeHint(), hint);
    QVERIFY(label.fontMetrics().boundingRect(label.contentsRect(), 0, label.text()).width() <=
            label.contentsRect().width());
    label.resize(4000, label.height());
    QVERIFY(!label.isElided() && label.toolTip().isEmpty());
    QCOMPARE(label.text(), longText);
    label.showText(QStringLiteral("word").repeated(4000));  // nowhere to break
    QVERIFY(label.isElided());
    QCOMPARE(label.sizeHint(), hint);
  }

  void theTextBelowTheSentenceNeverMoves() {
    start();
    window_->arrange(Arrangement::Rewrite);
    auto* rules = window_->findChild<QDockWidget*>(QStringLiteral("rules"));
    auto* sentence = window_->panel<RuleEditor>()->findChild<FixedHeightLabel*>();
    for (const int width : {480, 300}) {
      window_->resizeDocks({rules}, {width}, Qt::Horizontal);
      settle();
      const QRect text = place(window_->panel<RuleEditor>()->scintilla());
      const auto tells = [&](const QString& rulesOf, const QString& part) {
        window_->panel<RuleEditor>()->setText(rulesOf);
        QTRY_VERIFY2(window_->panel<RuleEditor>()->sentence().contains(part),
                     qPrintable(window_->panel<RuleEditor>()->sentence()));
        settle();
        QCOMPARE(place(window_->panel<RuleEditor>()->scintilla()), text);
        QCOMPARE(sentence->toolTip().isEmpty(), !sentence->isElided());
      };
      const QString good = QString::fromLatin1(rulesText), name = QStringLiteral("Attention");
      QString longName = good;
      longName.replace(name, name.repeated(12));
      tells({}, QStringLiteral("Write a rule"));
      tells(QStringLiteral("# nothing yet\n"), QStringLiteral("no rule"));
      tells(good + QStringLiteral("syntax error"), QStringLiteral("expected an expression"));
      tells(good + QStringLiteral("long syntax error"), QStringLiteral("nothing else will do"));
      QVERIFY(sentence->isElided());
      if (!document().isOpen()) {
        tells(good, QStringLiteral("Open a model"));
        window_->openModel(model_);
        QTRY_VERIFY_WITH_TIMEOUT(document().isOpen(), 10000);
        window_->arrange(Arrangement::Rewrite);
        window_->resizeDocks({rules}, {width}, Qt::Horizontal);
        settle();
      }
      tells(good, QStringLiteral("4 matches"));
      tells(longName, QStringLiteral("4 matches"));
      tells(QString(longName).replace(QStringLiteral("dim=-1"), QStringLiteral("dim=1")),
            QStringLiteral("dim is -1, but the rule wants 1"));
      QVERIFY(sentence->isElided());
    }
  }

  void theDrawingKeepsItsPlaceWhileAPanelFills() {
    qputenv("FAKE_ENGINE_STEP", "0.05");  // so long that the status bar shows it
    qputenv("FAKE_ENGINE_DIFFERS", "3");
    open();
    type(QString::fromLatin1(rulesText));
    for (const QSize size : {QSize(1440, 900), QSize(1024, 700)}) {
      window_->resize(size);
      window_->arrange(Arrangement::Measure);
      settle();
      const QRect before = place(window_->canvas());
      QVERIFY(before.height() >= 150);
      RunPanel* panel = window_->panel<RunPanel>();
      const auto ran = [&](const QString& inputs) {
        panel->setInputs(inputs);
        panel->start();
        QTRY_VERIFY(window_->findChild<QWidget*>(QStringLiteral("jobStop"))->isVisible());
        settle();
        QCOMPARE(place(window_->canvas()), before);
        QTRY_VERIFY_WITH_TIMEOUT(!document().isRunning(), 20000);
        settle();
        QCOMPARE(place(window_->canvas()), before);
      };
      ran({});
      for (const auto tab : {RunPanel::Inside, RunPanel::Operators, RunPanel::Timeline, RunPanel::Outputs}) {
        panel->showTab(tab);
        settle();
        QCOMPARE(place(window_->canvas()), before);
      }
      if (size.width() == 1440) panel->pin();  // what comes later is told against it
      ran(QStringLiteral("f32[B,16,64]:randn B=1,3"));
      QVERIFY(panel->headlineText().contains(QLatin1String("fail")) && !panel->deltaText().isEmpty());
      panel->setInputs(QStringLiteral("f32[B,2]:randn"));
      panel->start();
      QVERIFY(panel->headlineText().startsWith(QLatin1String("Not run")));
      settle();
      QCOMPARE(place(window_->canvas()), before);
      document().apply(rule().name);
      QTRY_COMPARE(document().position(), 1);
      QVERIFY(!panel->noteText().isEmpty());
      settle();
      QCOMPARE(place(window_->canvas()), before);
      document().undo();
      QTRY_VERIFY(rule().matched);
      panel->setInputs({});
    }
  }

  void theDrawingKeepsItsPlaceWhileARuleIsWritten() {
    open();
    window_->arrange(Arrangement::Rewrite);
    settle();
    const QRect before = place(window_->canvas());
    const QRect text = place(window_->panel<RuleEditor>()->scintilla());
    const auto stays = [&] {
      settle();
      QCOMPARE(place(window_->canvas()), before);
      QCOMPARE(place(window_->panel<RuleEditor>()->scintilla()), text);
    };
    type(QString::fromLatin1(rulesText));
    stays();
    window_->showRuleTab(RulesPanel::WhyNot);
    stays();
    type(QString::fromLatin1(rulesText).replace(QStringLiteral("dim=-1"), QStringLiteral("dim=1")));
    QTRY_VERIFY(!document().nearMisses().empty());
    stays();
    window_->showRuleTab(RulesPanel::Matches);
    stays();
    type(QString::fromLatin1(rulesText));
    document().applyRecipe(QStringLiteral("All"));
    QTRY_COMPARE(document().position(), 1);
    stays();
  }

  void theHistoryHasItsHeightBackWhenTheLibraryIsClosed() {
    open();
    window_->arrange(Arrangement::Rewrite);
    settle();
    auto* library = window_->findChild<QDockWidget*>(QStringLiteral("library"));
    auto* history = window_->findChild<QDockWidget*>(QStringLiteral("history"));
    for (const int height : {history->height(), 340}) {
      window_->resizeDocks({history}, {height}, Qt::Vertical);
      settle();
      const QRect before = place(history), drawing = place(window_->canvas());
      for (const bool byItsCross : {false, true}) {
        window_->action(QStringLiteral("library"))->trigger();
        settle();
        QVERIFY(library->isVisible() && history->height() < 160 && library->height() > 500);
        if (byItsCross)
          library->close();
        else
          window_->action(QStringLiteral("library"))->trigger();
        settle();
        QVERIFY(!library->isVisible());
        QCOMPARE(place(history), before);
        QCOMPARE(place(window_->canvas()), drawing);
      }
    }
    // Left open in one arrangement, closed after another: as high as before, too.
    const int before = history->height();
    window_->action(QStringLiteral("library"))->trigger();
    window_->arrange(Arrangement::Explore);
    window_->arrange(Arrangement::Rewrite);
    settle();
    QVERIFY(library->isVisible());
    window_->action(QStringLiteral("library"))->trigger();
    settle();
    QCOMPARE(history->height(), before);
  }

  void listsWithoutRowsSayWhatIsMissing() {
    QListWidget list;
    list.resize(200, 100);
    auto* hint = new EmptyHint(&list, QStringLiteral("Nothing yet."));
    list.show();
    QVERIFY(hint->isVisible());
    QCOMPARE(hint->size(), list.viewport()->size());
    list.addItem(QStringLiteral("a row"));
    QVERIFY(!hint->isVisible());
    list.clear();
    QVERIFY(hint->isVisible());
    list.resize(300, 140);
    QCOMPARE(hint->size(), list.viewport()->size());
  }

  void whyNotWaitsWhileTheTextIsWrong() {
    open();
    type(QString::fromLatin1(rulesText).replace(QStringLiteral("dim=-1"), QStringLiteral("dim=1")));
    QTRY_VERIFY(!document().nearMisses().empty());
    window_->showRuleTab(RulesPanel::WhyNot);
    auto* list = window_->panel<WhyNotPanel>()->findChild<QListWidget*>();
    auto* change = window_->panel<WhyNotPanel>()->findChild<QPushButton*>(QStringLiteral("change"));
    QVERIFY(list->isEnabled() && change->isEnabled());
    const QString text = window_->panel<RuleEditor>()->text();
    window_->panel<RuleEditor>()->setText(text + QStringLiteral("syntax error"));
    QTRY_VERIFY(document().ruleError().any());
    QCOMPARE(window_->panel<WhyNotPanel>()->rows(), 1);  // it stays, greyed
    QVERIFY(!change->isEnabled());
    window_->panel<RuleEditor>()->setText(text);
    QTRY_VERIFY(list->isEnabled() && window_->panel<WhyNotPanel>()->rows() == 1);
  }

  void fittedTogetherLongDrawingsShowWhatCanBeRead() {
    open();
    type(QString::fromLatin1(rulesText));
    document().apply(rule().name, {2});
    QTRY_COMPARE(document().position(), 1);
    window_->resize(1100, 640);
    Canvas *now = window_->canvas(), *before = window_->beforeCanvas();
    ViewOptions all = now->viewOptions();
    all.depth = -1;
    all.foldRepeats = false;
    now->setViewOptions(all);
    window_->setCompare(true);
    settle();
    QVERIFY(std::min(now->wholeScale(), before->wholeScale()) < 0.4);
    const auto shows = [](Canvas* c, const char* node) {
      return c->visibleSceneRect().contains(c->scene()->rect(c->scene()->boxOf(QString::fromLatin1(node))).center());
    };
    QSignalSpy said(&window_->comparison(), &Comparison::message);
    // Nothing is selected: the change, in both.
    document().setSelection({});
    window_->action(QStringLiteral("fit"))->trigger();
    settle();
    QVERIFY(now->scale() >= 0.4 && before->scale() == now->scale());
    QVERIFY(shows(now, "fused_0") && shows(before, "softmax_2"));
    QVERIFY(said.value(0).value(0).toString().contains(QStringLiteral("Fit again shows all")));
    // Again: all of it.
    window_->action(QStringLiteral("fit"))->trigger();
    QCOMPARE(now->scale(), std::min(now->wholeScale(), before->wholeScale()));
    // What is selected comes first.
    document().setSelection({QStringLiteral("gelu_3")});
    window_->action(QStringLiteral("fit"))->trigger();
    settle();
    QVERIFY(now->scale() >= 0.4 && shows(now, "gelu_3") && shows(before, "gelu_3"));
    // One drawing alone is fitted whole, and so are two that can be read.
    window_->setCompare(false);
    settle();
    window_->action(QStringLiteral("fit"))->trigger();
    QCOMPARE(now->scale(), now->wholeScale());
  }

  void bothDrawingsStayLevel() {
    open();
    type(QString::fromLatin1(rulesText));
    window_->canvas()->setDepth(-1);
    window_->setCompare(true);
    const auto level = [&](const char* when) {
      settle();
      QVERIFY(window_->beforeCanvas()->isVisible());
      QCOMPARE(window_->beforeCanvas()->height(), window_->canvas()->height());
      QCOMPARE(window_->beforeCanvas()->scale(), window_->canvas()->scale());
      QVERIFY2(apart() >= 0 && apart() < 1.5,
               qPrintable(QStringLiteral("%1: %2").arg(QLatin1String(when)).arg(apart())));
    };
    level("opened");
    window_->resize(1100, 760);
    level("before anything was touched, smaller");
    window_->resize(1440, 900);
    level("and larger");
    document().apply(rule().name);
    QTRY_COMPARE(document().position(), 1);
    level("applied");
    window_->canvas()->reveal(QStringLiteral("linear_9"));
    level("another node shown");
    window_->resize(1200, 700);
    level("smaller");
    window_->resize(1440, 900);
    level("larger");
    auto* splitter = qobject_cast<QSplitter*>(window_->canvas()->parentWidget());
    QVERIFY(splitter);
    splitter->setSizes({300, 700});
    level("the line between them moved");
    window_->arrange(Arrangement::Measure);
    level("measure");
    window_->resizeDocks({window_->findChild<QDockWidget*>(QStringLiteral("run"))}, {500}, Qt::Vertical);
    level("a higher panel");
    document().undo();
    level("taken back");
    document().redo();
    level("done again");
    window_->canvas()->setDepth(2);
    level("closed to a depth");
    window_->canvas()->setDepth(-1);
    level("all open");
    window_->canvas()->zoomBy(0.5, QPointF(40, 40));
    level("smaller scale");
    window_->setCompare(false);
    window_->canvas()->zoomBy(1.7, QPointF(400, 40));
    window_->setCompare(true);
    level("compared again");
    window_->beforeCanvas()->setFocus();  // whoever has the focus leads
    const auto middle = [](Canvas* canvas, const char* node) {
      return canvas->scene()->rect(canvas->scene()->boxOf(QLatin1String(node))).center();
    };
    // In the middle stands what was replaced: what took its place is level with it, and nothing else need be.
    Canvas *before = window_->beforeCanvas(), *now = window_->canvas();
    before->panTo(middle(before, "softmax"));
    settle();
    const double apart = before->toWidget(middle(before, "softmax")).y() - now->toWidget(middle(now, "fused_0")).y();
    QVERIFY2(std::abs(apart) < 1.5, qPrintable(QString::number(apart)));
    before->panTo(middle(before, "linear_9"));
    level("led by the other");
    window_->resize(1000, 800);
    level("resized, led by the other");
  }
};

}  // namespace

QTEST_MAIN(LayoutStabilityTest)
#include "layout_stability_test.moc"
