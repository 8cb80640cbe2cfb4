// The matches panel: matches as one types, why there are none, applying, taking back, previews.
#include <QSignalSpy>
#include <QTreeWidget>

#include "tests/views/support/window_fixture.h"
#include "views/panels/history_panel.h"
#include "views/panels/rules/matches_panel.h"
#include "views/panels/rules/pattern_panel.h"
#include "views/panels/rules/why_not_panel.h"
#include "views/widgets/qscintilla.h"

using namespace graft;
using test::rulesText;

namespace {

class MatchesTest : public test::WindowFixture {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void matchesAppearAsOneTypes() {
    open();
    type(QString::fromLatin1(rulesText));
    QCOMPARE(rule().matches.size(), size_t{4});
    QVERIFY2(window_->panel<RuleEditor>()->sentence().startsWith(QStringLiteral("Attention: 4 matches in 52 nodes")),
             qPrintable(window_->panel<RuleEditor>()->sentence()));
    // One colour for each pattern node, on canvas as in the list.
    window_->canvas()->setDepth(-1);
    const Canvas* canvas = window_->canvas();
    QCOMPARE(canvas->boxDecorations().pattern[static_cast<size_t>(canvas->scene()->boxOf(QStringLiteral("softmax")))],
             3);
    QCOMPARE(canvas->boxDecorations().pattern[static_cast<size_t>(canvas->scene()->boxOf(QStringLiteral("gelu")))], -1);
    QCOMPARE(window_->panel<PatternPanel>()->scene()->graph->nodeCount(), size_t{5});
  }

  void whereNoRulesAreInSightNodesHaveTheColoursOfTheirKinds() {
    open();
    type(QString::fromLatin1(rulesText));
    QVERIFY(window_->canvas()->boxDecorations().anyPattern);
    window_->arrange(Arrangement::Explore);
    QVERIFY(!window_->canvas()->boxDecorations().anyPattern);
    window_->openModel(model_);  // of another model as well
    QTRY_VERIFY(!document().isOpening() && rule().matched && !rule().matches.empty());
    QVERIFY(!window_->canvas()->boxDecorations().anyPattern);
    window_->arrange(Arrangement::Rewrite);
    QVERIFY(window_->canvas()->boxDecorations().anyPattern);
  }

  void rulesAreSortedByTheirMatches() {
    open();
    const QString text = QStringLiteral(
        "class %1(Rule):\n    # match: %2\n    def pattern(x):\n        return x\n\n    def "
        "replacement(x):\n        return x\n\n\n");
    type(text.arg(QStringLiteral("Norm"), QStringLiteral("layer_norm")) +
         text.arg(QStringLiteral("Never"), QStringLiteral("conv2d")) +
         text.arg(QStringLiteral("Linear"), QStringLiteral("linear")));
    auto* rules = window_->findChild<QTreeWidget*>(QStringLiteral("ruleList"));
    const auto row = [&](int i) {
      return rules->topLevelItem(i)->text(0) + QLatin1Char(' ') + rules->topLevelItem(i)->text(1);
    };
    QTRY_COMPARE(rules->topLevelItemCount(), 3);
    QTRY_COMPARE(row(0), QStringLiteral("Linear 16"));
    QCOMPARE(row(1), QStringLiteral("Norm 4"));
    QCOMPARE(row(2), QStringLiteral("Never 0"));
    QVERIFY(rules->isVisible());
    // The keys choose, too; what is chosen is shown below.
    rules->setFocus();
    rules->setCurrentItem(rules->topLevelItem(0));
    QTest::keyClick(rules, Qt::Key_Down);
    QCOMPARE(document().currentRule(), QStringLiteral("Norm"));
    QCOMPARE(window_->panel<MatchesPanel>()->findChild<QTreeWidget*>()->topLevelItemCount(), 4);
    QVERIFY(rules->hasFocus());
  }

  void whatIsPressedInAScrolledListIsTheCurrentRule() {
    open();
    QString text;
    for (int i = 0; i < 12; ++i)
      text += QStringLiteral(
                  "class Norm%1(Rule):\n    # match: layer_norm\n    def pattern(x):\n        return x\n\n    def "
                  "replacement(x):\n        return x\n\n\n")
                  .arg(i, 2, 10, QLatin1Char('0'));
    type(text);
    auto* rules = window_->findChild<QTreeWidget*>(QStringLiteral("ruleList"));
    QTRY_COMPARE(rules->topLevelItemCount(), 12);
    document().setCurrentRule(QStringLiteral("Norm11"));
    const auto isSeen = [&] {
      return rules->viewport()->rect().contains(rules->visualItemRect(rules->currentItem()).center());
    };
    QTRY_VERIFY(isSeen());  // the current one comes into view
    // The first row in view, by the mouse: the row that is marked is the rule that Apply applies.
    const QTreeWidgetItem* first = rules->itemAt(4, 4);
    const QString name = first->text(0);
    QVERIFY(name != QStringLiteral("Norm00") && name != document().currentRule());
    QTest::mouseClick(rules->viewport(), Qt::LeftButton, {}, QPoint(10, 6));
    QCOMPARE(document().currentRule(), name);
    QCOMPARE(rules->selectedItems().size(), 1);
    QCOMPARE(rules->selectedItems().front()->text(0), name);
    QCOMPARE(rules->currentItem()->text(0), name);
    window_->resize(1024, 600);
    QTRY_VERIFY(isSeen());
  }

  void lastMatchesStayGreyWhileTheTextIsWrong() {
    open();
    type(QString::fromLatin1(rulesText));
    window_->panel<RuleEditor>()->setText(QString::fromLatin1(rulesText) + QStringLiteral("\n  syntax error\n"));
    QTRY_VERIFY(document().ruleError().any());
    QCOMPARE(document().ruleError().line, 9);
    QCOMPARE(rule().matches.size(), size_t{4});
    QVERIFY(!rule().matched);
    QVERIFY(window_->panel<RuleEditor>()->sentence().startsWith(QStringLiteral("Line 9: expected an expression")));
  }

  void nothingFlickersWhileTheAnswerIsOnItsWay() {
    open();
    type(QString::fromLatin1(rulesText));
    auto* list = window_->panel<MatchesPanel>()->findChild<QTreeWidget*>();
    list->topLevelItem(2)->setCheckState(0, Qt::Unchecked);
    window_->panel<MatchesPanel>()->next();
    const QString before = window_->panel<RuleEditor>()->sentence();
    const auto color = [&] { return list->topLevelItem(0)->foreground(0).color(); };
    const QColor black = color();
    int between = 0;
    const auto seen = connect(&document(), &Document::rulesChanged, this, [&] {
      ++between;  // read, not matched
      QVERIFY(!rule().matched);
      QCOMPARE(window_->panel<RuleEditor>()->sentence(), before);
      QCOMPARE(list->topLevelItemCount(), 4);
      QCOMPARE(color(), black);
      QSignalSpy told(&document(), &Document::message);
      window_->panel<MatchesPanel>()->applyTicked();  // the matches of this text are not known yet
      QCOMPARE(told.size(), 1);
    });
    window_->panel<RuleEditor>()->setText(QString::fromLatin1(rulesText) + QStringLiteral("\n# a remark\n"));
    QTRY_COMPARE(between, 1);
    QTRY_VERIFY(rule().matched);
    disconnect(seen);
    // What was unticked still is, and F3 goes on from where one was.
    QCOMPARE(list->topLevelItem(2)->checkState(0), Qt::Unchecked);
    QCOMPARE(window_->panel<MatchesPanel>()->current(), 0);
    window_->panel<MatchesPanel>()->applyTicked();
    QTRY_COMPARE(document().position(), 1);
    QCOMPARE(document().recordsToHere().size(), size_t{3});
  }

  void whyNotNamesTheCauseAndItsEditFixesTheRule() {
    open();
    type(QString::fromLatin1(rulesText).replace(QStringLiteral("dim=-1"), QStringLiteral("dim=1")));
    QTRY_COMPARE(document().nearMisses().size(), size_t{1});
    QVERIFY(window_->panel<RuleEditor>()->sentence().contains(QStringLiteral("dim is -1, but the rule wants 1")));
    QCOMPARE(window_->panel<WhyNotPanel>()->rows(), 1);
    Q_EMIT window_->panel<WhyNotPanel>()->goThere(document().nearMisses().front());
    QCOMPARE(document().selection(), QStringList{QStringLiteral("softmax")});
    const QString wrong = window_->panel<RuleEditor>()->text();
    const NearMissInfo miss = document().nearMisses().front();
    auto* change = window_->panel<WhyNotPanel>()->findChild<QPushButton*>(QStringLiteral("change"));
    QVERIFY(change && change->toolTip().contains(QStringLiteral("1 becomes -1")));
    QTest::mouseClick(change, Qt::LeftButton);
    QTRY_COMPARE(rule().matches.size(), size_t{4});
    QCOMPARE(window_->panel<RuleEditor>()->text(), QString::fromLatin1(rulesText));
    // One step back takes it away, and the same edit fits no other text.
    window_->panel<RuleEditor>()->scintilla()->undo();
    QCOMPARE(window_->panel<RuleEditor>()->text(), wrong);
    window_->panel<RuleEditor>()->setText(QString(wrong).replace(QStringLiteral("dim=1"), QStringLiteral("dim=2")));
    const QString other = window_->panel<RuleEditor>()->text();
    Q_EMIT window_->panel<WhyNotPanel>()->suggested(miss);
    QCOMPARE(window_->panel<RuleEditor>()->text(), other);
    QVERIFY(window_->findChild<QWidget*>(QStringLiteral("failure"))->isVisible());
  }

  void escapeEndsAPreview() {
    open();
    type(QString::fromLatin1(rulesText));
    auto* panel = window_->panel<MatchesPanel>();
    for (QWidget* from :
         {static_cast<QWidget*>(panel->findChild<QPushButton*>()), static_cast<QWidget*>(window_->canvas())}) {
      document().preview(QStringLiteral("Attention"), {1});
      QTRY_VERIFY(document().isPreviewing());
      QTest::keyClick(from, Qt::Key_Escape);
      QVERIFY(!document().isPreviewing());
    }
  }

  void theHistoryCutsNoStepShort() {
    open();
    type(QString::fromLatin1(rulesText));
    document().apply(QStringLiteral("Attention"));
    QTRY_COMPARE(document().position(), 1);
    auto* panel = window_->panel<HistoryPanel>();
    QTreeWidget* tree = panel->tree();
    QTRY_COMPARE(tree->topLevelItemCount(), 2);
    const int words = tree->fontMetrics().horizontalAdvance(tree->topLevelItem(1)->text(0));
    panel->resize(words + 130, 300);  // no room for the times as well
    QTRY_VERIFY(tree->isColumnHidden(2));
    QVERIFY(tree->columnWidth(0) >= words);
    QVERIFY(tree->topLevelItem(1)->toolTip(0).contains(QStringLiteral("Took ")));
    panel->resize(words + 400, 300);
    QTRY_VERIFY(!tree->isColumnHidden(2));
  }

  void placesWithOneReasonAreOneEntry() {
    open();
    type(QString::fromLatin1(rulesText).replace(QStringLiteral("dim=-1"), QStringLiteral("dim=1")) +
         QStringLiteral("# everywhere\n"));
    QTRY_COMPARE(document().nearMisses().size(), size_t{4});
    auto* panel = window_->panel<WhyNotPanel>();
    QCOMPARE(panel->rows(), 1);
    bool isCounted = false;
    for (const QLabel* label : panel->findChildren<QLabel*>())
      isCounted |= label->text().contains(QStringLiteral("and so in 3 places more"));
    QVERIFY(isCounted);
    // Go there goes from one to the next, and round.
    QSignalSpy gone(panel, &WhyNotPanel::goThere);
    for (QPushButton* there : panel->findChildren<QPushButton*>())
      if (there->text() == QStringLiteral("Go there"))
        for (int i = 0; i < 5; ++i) there->click();
    QCOMPARE(gone.size(), 5);
    QStringList places;
    for (const QList<QVariant>& one : gone) places << one.front().value<NearMissInfo>().scope;
    QCOMPARE(QSet<QString>(places.begin(), places.end()).size(), 4);
    QCOMPARE(places.first(), places.last());
  }

  void appliesUndoesRedoesExports() {
    open();
    type(QString::fromLatin1(rulesText));
    window_->panel<MatchesPanel>()->applyTicked();
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
    document().redo();
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
    window_->panel<MatchesPanel>()->applyTicked();
    QTRY_COMPARE(document().position(), 1);
    QCOMPARE(document().recordsToHere().size(), size_t{3});
    QCOMPARE(document().steps()[1].rolledBack.size(), 1);
    QVERIFY(told.last().first().toString().contains(QLatin1String("1 taken back: `")));
    QVERIFY(told.last().first().toString().contains(QLatin1String("on random values")));
    QVERIFY(told.last().first().toString().endsWith(QLatin1String("all verified")));
    QTreeWidget* list = window_->findChild<HistoryPanel*>()->tree();
    QTRY_COMPARE(list->topLevelItemCount(), 2);
    QVERIFY(list->topLevelItem(1)->text(0).contains(QLatin1String("1 taken back")));
    QVERIFY(!list->topLevelItem(1)->icon(0).isNull());
    QCOMPARE(list->topLevelItem(1)->text(1), QStringLiteral("3 of 4"));
    QVERIFY(list->topLevelItem(1)->toolTip(0).contains(QLatin1String("inputs: x f32[2,4]")));
    document().undo();
    // Where nothing is verified it stays, and the history says so.
    window_->action(QStringLiteral("verifyEach"))->setChecked(false);
    QTRY_COMPARE(rule().matches.size(), size_t{4});
    window_->panel<MatchesPanel>()->applyTicked();
    QTRY_COMPARE(document().position(), 1);
    QCOMPARE(document().recordsToHere().size(), size_t{4});
    QTRY_VERIFY(list->topLevelItem(1)->text(0).contains(QLatin1String("not verified")));
    QVERIFY(list->topLevelItem(1)->toolTip(0).contains(QLatin1String("verification is switched off")));
    QVERIFY(!list->topLevelItem(1)->icon(0).isNull());  // a warning, also where the line is cut short
    window_->action(QStringLiteral("verifyEach"))->setChecked(true);
  }

  void onlyTickedMatchesAreApplied() {
    open();
    type(QString::fromLatin1(rulesText));
    auto* list = window_->panel<MatchesPanel>()->findChild<QTreeWidget*>();
    list->topLevelItem(1)->setCheckState(0, Qt::Unchecked);
    window_->panel<MatchesPanel>()->applyTicked();
    QTRY_COMPARE(document().position(), 1);
    QCOMPARE(document().recordsToHere().size(), size_t{3});
    QTreeWidget* steps = window_->findChild<HistoryPanel*>()->tree();
    QTRY_COMPARE(steps->topLevelItemCount(), 2);
    QVERIFY(steps->topLevelItem(1)->icon(0).isNull());  // nothing to warn of
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
    window_->panel<MatchesPanel>()->togglePreview();
    QTRY_VERIFY(document().isPreviewing());
    QVERIFY(!failure->isVisible());  // it says nothing that is still so
    QVERIFY(window_->beforeCanvas()->isVisible());
    QVERIFY(window_->canvas()->boxDecorations().anyChange);
    QCOMPARE(document().position(), 0);
    document().endPreview();
    QVERIFY(!window_->beforeCanvas()->isVisible());
    QCOMPARE(document().graph()->nodeCount(), size_t{52});
  }
};

}  // namespace

QTEST_MAIN(MatchesTest)
#include "matches_test.moc"
