// What a key in the rule editor costs: patterns that the window holds are not sent again, whatever moves or is lost
// meanwhile.
#include <QJsonArray>
#include <QSignalSpy>
#include <QTest>
#include <csignal>

#include "tests/views/support/window_fixture.h"

using namespace graft;
using test::rulesText;

namespace {

/// A rule with a long pattern, which matches nowhere.
QString longRule(int operators, const QString& last = QStringLiteral("relu")) {
  QStringList ops(operators, QStringLiteral("relu"));
  ops.last() = last;
  return QStringLiteral(
             "\n\nclass Long(Rule):\n    # match: %1\n    def pattern(x):\n        return relu(x)\n\n"
             "    def replacement(x):\n        return x\n")
      .arg(ops.join(QStringLiteral(", ")));
}

class TypingTest : public test::WindowFixture {
  Q_OBJECT

 private:
  void typeMore(const QString& text) {
    document().setRules(text, {}, true);
    QTRY_VERIFY(document().rulesAreRead() && window_->engine().oldestPending() == 0);
  }
  /// The rules of the text as an engine sends them to a client that holds none.
  QJsonArray sentWhole(const QString& text) {
    QJsonArray rules;
    bool isHere = false;
    window_->engine().call(QStringLiteral("rules/check"),
                           {{QStringLiteral("text"), text}, {QStringLiteral("file"), QString()}},
                           [&](const EngineReply& reply) {
                             rules = reply.result.value(QLatin1String("rules")).toArray();
                             isHere = true;
                           });
    return QTest::qWaitFor([&] { return isHere; }) ? rules : QJsonArray();
  }
  qint64 received() { return window_->engine().bytesReceived(); }

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void patternsThatTheWindowHoldsAreNotSentAgain() {
    open();
    const QString text = QString::fromLatin1(rulesText) + longRule(60);
    type(text);
    typeMore(text);
    const GraphRef first = document().rules()[0].pattern, second = document().rules()[1].pattern;
    QCOMPARE(second->nodeCount(), size_t{60});
    const qint64 before = received();
    typeMore(text + QStringLiteral("# "));
    const qint64 forAKey = received() - before;
    QCOMPARE(sentWhole(text).size(), 2);
    const qint64 whole = received() - before - forAKey;
    QVERIFY2(2 * forAKey < whole, qPrintable(QStringLiteral("%1 of %2 bytes").arg(forAKey).arg(whole)));
    QCOMPARE(document().rules()[0].pattern, first);
    QCOMPARE(document().rules()[1].pattern, second);
    QCOMPARE(document().rules()[1].patternOrder.size(), 60);
    QCOMPARE(rule().matches.size(), size_t{4});
  }

  void aPatternThatHasChangedIsSent() {
    open();
    type(QString::fromLatin1(rulesText) + longRule(60));
    typeMore(QString::fromLatin1(rulesText) + longRule(60));
    const GraphRef first = document().rules()[0].pattern, second = document().rules()[1].pattern;
    typeMore(QString::fromLatin1(rulesText) + longRule(61, QStringLiteral("gelu")));
    QCOMPARE(document().rules()[0].pattern, first);
    QVERIFY(document().rules()[1].pattern != second);
    QCOMPARE(document().rules()[1].pattern->nodeCount(), size_t{61});
    QCOMPARE(document().rules()[1].patternOrder.last(), QStringLiteral("gelu_p60"));
  }

  /// The editor's colours and the cards of nodes say where a pattern stands.
  void placesOfAHeldPatternMoveWithItsRule() {
    open();
    const QString text = QString::fromLatin1(rulesText) + longRule(60);
    type(text);
    typeMore(text);
    const QString further = QStringLiteral("# one\n# two\n# three\n") + text;
    const qint64 before = received();
    typeMore(further);
    const qint64 forALine = received() - before;
    const QJsonArray whole = sentWhole(further);
    QCOMPARE(whole.size(), 2);
    const qint64 forWhole = received() - before - forALine;
    for (int i = 0; i < 2; ++i) {
      const QJsonObject sent = whole[i].toObject();
      RuleInfo expected;
      expected.line = sent.value(QLatin1String("line")).toInt();
      readPattern(sent, {}, expected);
      const RuleInfo& moved = document().rules()[static_cast<size_t>(i)];
      QCOMPARE(moved.line, expected.line);
      QCOMPARE(moved.lines.size(), expected.lines.size());
      QVERIFY(!expected.lines.isEmpty());
      for (auto it = expected.lines.begin(); it != expected.lines.end(); ++it)
        QCOMPARE(moved.lines.value(it.key()).line, it.value().line);
      for (NodeId id : expected.pattern->order()) {
        const SourceLocation* s = moved.pattern->sourceOf(moved.pattern->node(id));
        QVERIFY(s && *s == *expected.pattern->sourceOf(expected.pattern->node(id)));
      }
    }
    QVERIFY2(2 * forALine < forWhole, qPrintable(QStringLiteral("%1 of %2 bytes").arg(forALine).arg(forWhole)));
  }

  /// What a fingerprint stands for does not depend on who computed it.
  void patternsOutliveTheEngineThatSentThem() {
    open();
    const QString text = QString::fromLatin1(rulesText) + longRule(60);
    type(text);
    typeMore(text);
    const GraphRef second = document().rules()[1].pattern;
    QSignalSpy again(&document(), &Document::engineReplaced);
    kill(static_cast<pid_t>(window_->engine().processId()), SIGKILL);
    QTRY_VERIFY_WITH_TIMEOUT(!again.isEmpty(), 10000);
    QTRY_VERIFY(document().rulesAreRead() && rule().matched);
    QCOMPARE(document().rules()[1].pattern, second);
    QCOMPARE(rule().matches.size(), size_t{4});
  }

  void anEngineWithoutFingerprintsSendsAll() {
    qputenv("FAKE_ENGINE_PLAIN", "1");
    open();
    type(QString::fromLatin1(rulesText) + longRule(60));
    typeMore(QString::fromLatin1(rulesText) + longRule(61));
    QVERIFY(document().rules()[1].fingerprint.isEmpty());
    QCOMPARE(document().rules()[1].pattern->nodeCount(), size_t{61});
    QVERIFY(!rule().lines.isEmpty());
    QCOMPARE(rule().matches.size(), size_t{4});
  }

  /// A long answer is parsed on another thread; the matches, which are short, are there before it.
  void matchesMayComeBeforeTheRules() {
    qputenv("FAKE_ENGINE_PADDING", "20");
    open();
    type(QString::fromLatin1(rulesText) + longRule(60));
    QTRY_COMPARE(document().rules().size(), size_t{2});
    QTRY_VERIFY(rule().matched && document().rules()[1].matched);
    QCOMPARE(rule().matches.size(), size_t{4});
  }

  void aStepTakenBackMeanwhileIsMatchedAsItIsThen() {
    open();
    const QString text = QString::fromLatin1(rulesText);
    type(text);
    document().apply(QStringLiteral("Attention"));
    QTRY_COMPARE(document().position(), 1);
    QTRY_VERIFY(rule().matched && rule().matches.empty());
    document().setRules(text + QStringLiteral("# "), {}, true);
    document().undo();
    QTRY_COMPARE(rule().matches.size(), size_t{4});
    QVERIFY(rule().matched);
  }

  /// "No match" would be said of the model before.
  void rulesAreNotMatchedYetWhenAModelIsOpened() {
    open();
    type(QString::fromLatin1(rulesText));
    bool isMatched = true;
    connect(&document(), &Document::opened, this, [&] { isMatched = rule().matched; });
    document().open(model_);
    QTRY_VERIFY(!isMatched);
    QTRY_VERIFY(rule().matched);
    QCOMPARE(rule().matches.size(), size_t{4});
  }

  void aMistakeIsToldOnce() {
    open();
    type(QString::fromLatin1(rulesText));
    QSignalSpy failed(&document(), &Document::failed);
    document().setRules(QString::fromLatin1(rulesText) + QStringLiteral("syntax error"), {}, true);
    QTRY_VERIFY(document().ruleError().any());
    QTRY_COMPARE(window_->engine().oldestPending(), 0);
    QVERIFY(failed.isEmpty());
    QVERIFY(!rule().matched);
    QCOMPARE(rule().matches.size(), size_t{4});  // the last good ones
    typeMore(QString::fromLatin1(rulesText));
    QVERIFY(rule().matched);
  }
};

}  // namespace

QTEST_MAIN(TypingTest)
#include "typing_test.moc"
