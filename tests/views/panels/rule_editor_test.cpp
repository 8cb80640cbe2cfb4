// The rule editor: completion, parameters, rules made of a selection or taken from the library.
#include <QRegularExpression>
#include <QTreeWidget>

#include "tests/views/support/window_fixture.h"
#include "views/panels/rules/library_panel.h"
#include "views/panels/rules/rule_from_selection.h"
#include "views/panels/rules/rule_words.h"
#include "views/widgets/qscintilla.h"

using namespace graft;
using test::rulesText;

namespace {

class RuleEditorTest : public test::WindowFixture {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void anEditImportsWhatItUses() {
    start();
    RuleEditor* editor = window_->panel<RuleEditor>();
    const auto change = [&](const QString& text, const QString& before, const QString& after) {
      editor->setText(text);
      const auto at = static_cast<int>(text.indexOf(before));
      if (!editor->change({{at, static_cast<int>(at + before.size()), 3, before, after}})) return QString();
      return editor->text();
    };
    const QString body = QStringLiteral("\n\ndef pattern(x):\n    return f(x)\n");
    const QString f = QStringLiteral("f(x)"), optional = QStringLiteral("optional(f, x)");
    QCOMPARE(change(QStringLiteral("from graft import Rule") + body, f, optional).section(QLatin1Char('\n'), 0, 0),
             QStringLiteral("from graft import Rule, optional"));
    QCOMPARE(
        change(QStringLiteral("from graft import Rule, optional") + body, f, optional).section(QLatin1Char('\n'), 0, 0),
        QStringLiteral("from graft import Rule, optional"));
    QCOMPARE(change(QStringLiteral("import torch") + body, f, optional).section(QLatin1Char('\n'), 0, 1),
             QStringLiteral("from graft import optional\nimport torch"));
    QCOMPARE(change(QStringLiteral("import torch") + body, f, QStringLiteral("g(x)")).section(QLatin1Char('\n'), 0, 0),
             QStringLiteral("import torch"));
    editor->scintilla()->undo();  // one step takes both back
    QVERIFY(editor->text().contains(f));
  }

  void completionOffersWhatCanBeCalled() {
    start();
    window_->arrange(Arrangement::Rewrite);
    auto* scintilla = window_->panel<RuleEditor>()->scintilla();
    auto* area = reinterpret_cast<QAbstractScrollArea*>(scintilla);
    // The engine is up, and has answered what can be called.
    QTRY_VERIFY_WITH_TIMEOUT(window_->engine().isUp() && window_->engine().oldestPending() == 0, 10000);
    area->setFocus();
    QTest::keyClicks(area, QStringLiteral("x = kernels.a"));
    QTRY_VERIFY(window_->panel<RuleEditor>()->isCompleting());
    QTest::keyClick(area, Qt::Key_Tab);
    QCOMPARE(window_->panel<RuleEditor>()->text(), QStringLiteral("x = kernels.attention"));
  }

  void aNewLineIsANewLineWhereTheListWouldChangeNothing() {
    start();
    window_->arrange(Arrangement::Rewrite);
    auto* area = reinterpret_cast<QAbstractScrollArea*>(window_->panel<RuleEditor>()->scintilla());
    // The engine is up, and has answered what can be called.
    QTRY_VERIFY_WITH_TIMEOUT(window_->engine().isUp() && window_->engine().oldestPending() == 0, 10000);
    area->setFocus();
    QTest::keyClicks(area, QStringLiteral("import torch"));
    QTest::keyClick(area, Qt::Key_Return);
    QTest::keyClicks(area, QStringLiteral("# torch"));
    QCOMPARE(window_->panel<RuleEditor>()->text(), QStringLiteral("import torch\n# torch"));
    QTest::keyClick(area, Qt::Key_Return);
    QTest::keyClicks(area, QStringLiteral("kernels.att"));
    QTRY_VERIFY(window_->panel<RuleEditor>()->isCompleting());
    QTest::keyClick(area, Qt::Key_Return);  // this one is taken
    QVERIFY(window_->panel<RuleEditor>()->text().endsWith(QStringLiteral("\nkernels.attention")));
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
    auto* area = reinterpret_cast<QAbstractScrollArea*>(window_->panel<RuleEditor>()->scintilla());
    // The engine is up, and has answered what can be called.
    QTRY_VERIFY_WITH_TIMEOUT(window_->engine().isUp() && window_->engine().oldestPending() == 0, 10000);
    area->setFocus();
    QTest::keyClicks(area, QStringLiteral("x = F.gelu(y, "));
    QLabel* tip = window_->panel<RuleEditor>()->callTip();
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
    QVERIFY(window_->panel<RuleEditor>()->text().endsWith(text));
    QVERIFY(window_->panel<RuleEditor>()->isModified());
    QTRY_COMPARE(document().rules().size(), size_t{2});
    // What the caret's move brings about: the text is read, and its rules are matched.
    QTRY_VERIFY(document().rulesAreRead() && window_->engine().oldestPending() == 0);
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
    LibraryPanel* library = window_->panel<LibraryPanel>();
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
    const QString text = window_->panel<RuleEditor>()->text();
    QVERIFY(text.startsWith(QStringLiteral("import torch\n")));
    QVERIFY(text.contains(QStringLiteral("def helper")) && text.contains(QStringLiteral("class Mine(Rule)")));
    QVERIFY(!text.contains(QStringLiteral("unused")));
    QTRY_VERIFY(document().rule(QStringLiteral("Mine")));
    Q_EMIT library->addAsked(file.fileName(), QStringLiteral("Mine"));  // not twice
    QCOMPARE(window_->panel<RuleEditor>()->text(), text);
  }

  /// Each key has all rules read again; only what changed is another graph, which is laid out and drawn.
  void patternsThatOneDoesNotEditStayTheSameGraphs() {
    open();
    const QString gelu = QStringLiteral(
        "\n\nclass Gelu(Rule):\n    # match: %1\n    def pattern(x):\n        return %1(x)\n\n"
        "    def replacement(x):\n        return x\n");
    type(QString::fromLatin1(test::rulesText) + gelu.arg(QStringLiteral("gelu")));
    QCOMPARE(document().rules().size(), size_t{2});
    const GraphRef first = document().rules()[0].pattern, second = document().rules()[1].pattern;
    type(QString::fromLatin1(test::rulesText) + gelu.arg(QStringLiteral("softmax")));
    QTRY_VERIFY(document().rules()[1].pattern != second);
    QCOMPARE(document().rules()[0].pattern, first);
  }
};

}  // namespace

QTEST_MAIN(RuleEditorTest)
#include "rule_editor_test.moc"
