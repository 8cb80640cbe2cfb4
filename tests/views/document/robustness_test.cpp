// The window when its engine misbehaves, its machine is far away, or it is killed itself: it goes on answering, and
// nothing that was done is lost. GRAFT_SOAK_ROUNDS=100 makes the short rounds of CI a long soak.
#include <QApplication>
#include <QDir>
#include <QElapsedTimer>
#include <QFileInfo>
#include <QJsonDocument>
#include <QProcess>
#include <QSettings>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QStatusBar>
#include <QTemporaryDir>
#include <QTest>
#include <climits>
#include <csignal>

#include "tests/views/support/pulse.h"
#include "tests/views/support/window_fixture.h"
#include "views/panels/run/run_panel.h"
#include "views/window/files/session_file.h"

using namespace graft;
using test::fakeEngine;
using test::Heartbeat;
using test::openFiles;
using test::residentBytes;
using test::rulesText;

namespace {

class RobustnessTest : public test::WindowFixture {
  Q_OBJECT

 private:
  void openWithRules(const QStringList& engine = fakeEngine()) {
    open(engine);
    window_->panel<RuleEditor>()->setText(QString::fromLatin1(rulesText));
    QTRY_VERIFY(!document().rules().empty() && document().rules().front().matched);
  }

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void anyNumberOfEnginesMayDie() {
    openWithRules();
    window_->engine().setPatience(150);
    document().apply(QStringLiteral("Attention"), {0, 2});
    QTRY_COMPARE(document().position(), 1);
    const int rounds = std::max(8, qEnvironmentVariableIntValue("GRAFT_SOAK_ROUNDS")), settled = 4;
    qint64 memory = 0, worst = 0, slowest = 0;
    int fewestBeats = INT_MAX;
    qsizetype files = 0;
    const QStringList kinds = {QStringLiteral("kill"),     QStringLiteral("abort"),   QStringLiteral("hang"),
                               QStringLiteral("nonsense"), QStringLiteral("no json"), QStringLiteral("memory")};
    for (int round = 0; round < rounds + settled; ++round) {
      if (round == settled) memory = residentBytes(), files = openFiles();
      const QString kind = kinds[round % kinds.size()];
      QSignalSpy again(&document(), &Document::message);
      Heartbeat heart;
      if (kind == QLatin1String("kill")) {
        kill(static_cast<pid_t>(window_->engine().processId()), SIGKILL);
      } else {
        const int id = window_->engine().call(QStringLiteral("test/misbehave"), {{QStringLiteral("kind"), kind}}, {});
        if (kind == QLatin1String("hang")) {
          QTest::qWait(30);
          window_->engine().cancel(id);
        }
      }
      QElapsedTimer clock;
      clock.start();
      QTRY_VERIFY_WITH_TIMEOUT(!again.isEmpty(), 5000);
      slowest = std::max(slowest, clock.elapsed());
      worst = std::max(worst, heart.worst);
      fewestBeats = std::min(fewestBeats, heart.beats);
      QCOMPARE(document().graph()->nodeCount(), size_t{44});
    }
    window_->panel<RunPanel>()->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty(), 10000);
    QCOMPARE(exported(), QByteArray("exported 44 nodes"));
    const qint64 grown = residentBytes() - memory;
    qInfo(
        "%d engines died: the window was silent for %lld ms at most, a new engine had the document after %lld ms at "
        "most; %.1f MB more memory, %lld more files open",
        rounds, static_cast<long long>(worst), static_cast<long long>(slowest), static_cast<double>(grown) / 1e6,
        static_cast<long long>(openFiles() - files));
    // An engine that comes back has said hello, opened the model, applied a step and matched: the window was told of
    // each in another turn of its event loop, and waited for none of them.
    QVERIFY2(fewestBeats >= 4, qPrintable(QString::number(fewestBeats)));
    QVERIFY(grown < 6'000'000);
    QVERIFY(openFiles() <= files);
  }

  void whatIsUndoneWhileANewEngineGetsTheStepsStaysUndone() {
    openWithRules();
    for (const int match : {0, 1}) {
      document().apply(QStringLiteral("Attention"), {match});
      QTRY_COMPARE(document().position(), match + 1);
    }
    // The new engine has opened the model, and is asked to apply the first step.
    EngineClient& engine = window_->engine();
    connect(&engine, &EngineClient::finished, this, [&] {
      const bool applies = engine.methodOf(engine.oldestPending()) == QLatin1String("rules/apply");
      if (applies && document().position() == 2) document().showStep(0);
    });
    QSignalSpy again(&document(), &Document::engineReplaced), failed(&document(), &Document::failed);
    kill(static_cast<pid_t>(engine.processId()), SIGKILL);
    QTRY_VERIFY_WITH_TIMEOUT(!again.isEmpty(), 10000);
    engine.disconnect(this);
    QVERIFY2(failed.isEmpty(), qPrintable(failed.value(0).value(1).toString()));
    QCOMPARE(document().position(), 0);
    QCOMPARE(exported(), QByteArray("exported 52 nodes"));
    document().showStep(2);
    QCOMPARE(exported(), QByteArray("exported 44 nodes"));
  }

  void anEngineThatDiesOfTheModelIsNotFedItForever() {
    openWithRules();
    qputenv("FAKE_ENGINE_CRASH", "model/open");  // of every engine from now on
    QSignalSpy failed(&document(), &Document::failed);
    kill(static_cast<pid_t>(window_->engine().processId()), SIGKILL);
    QTRY_VERIFY_WITH_TIMEOUT(!failed.isEmpty(), 10000);
    QVERIFY(failed[0][0].toString().contains(QStringLiteral("died 3 times over this model")));
    QTRY_VERIFY(window_->engine().isUp());
    QCOMPARE(document().graph()->nodeCount(), size_t{52});
    QCOMPARE(window_->panel<RuleEditor>()->text(), QString::fromLatin1(rulesText));
  }

  void anEngineThatDiesWhileItOpensIsFollowedByOneThatOpens() {
    openWithRules();
    document().apply(QStringLiteral("Attention"));
    QTRY_COMPARE(document().position(), 1);
    const QString mark = folder_.filePath(QStringLiteral("opening")), other = folder_.filePath(QStringLiteral("b.pt"));
    QVERIFY(QFile::exists(other) || QFile::copy(model_, other));
    qputenv("FAKE_ENGINE_MARK", mark.toLocal8Bit());
    qputenv("FAKE_ENGINE_CRASH", "model/open");  // once
    kill(static_cast<pid_t>(window_->engine().processId()), SIGKILL);
    QTRY_VERIFY_WITH_TIMEOUT(window_->engine().isUp(), 5000);
    window_->openModel(other);
    QTRY_COMPARE_WITH_TIMEOUT(document().path(), other, 10000);
    QCOMPARE(document().steps().size(), size_t{1});
    // One that no engine survives is given up, and what was open is as before.
    qunsetenv("FAKE_ENGINE_MARK");
    document().apply(QStringLiteral("Attention"));
    QTRY_COMPARE(document().position(), 1);
    kill(static_cast<pid_t>(window_->engine().processId()), SIGKILL);
    QSignalSpy failed(&document(), &Document::failed);
    window_->openModel(model_);
    QTRY_VERIFY_WITH_TIMEOUT(!failed.isEmpty(), 20000);
    QVERIFY2(failed[0][1].toString().contains(QStringLiteral("died 3 times over it")),
             qPrintable(failed[0][1].toString()));
    QCOMPARE(document().path(), other);
    QCOMPARE(document().position(), 1);
  }

  void aModelThatMadeWayForAnotherComesBackWithItsSteps() {
    openWithRules();
    document().apply(QStringLiteral("Attention"));
    QTRY_COMPARE(document().position(), 1);
    const QString other = folder_.filePath(QStringLiteral("c.pt"));
    QVERIFY(QFile::exists(other) || QFile::copy(model_, other));
    window_->openModel(other);
    QTRY_COMPARE_WITH_TIMEOUT(document().path(), other, 10000);
    QCOMPARE(document().steps().size(), size_t{1});
    QVERIFY(window_->statusBar()->currentMessage().contains(QStringLiteral("1 step")));
    window_->openModel(model_);
    QTRY_COMPARE_WITH_TIMEOUT(document().path(), model_, 10000);
    QTRY_COMPARE_WITH_TIMEOUT(document().position(), 1, 10000);
    document().undo();
    QTRY_COMPARE(document().position(), 0);
    // Read again on purpose, it begins anew.
    window_->openModel(model_);
    QTRY_COMPARE_WITH_TIMEOUT(document().steps().size(), size_t{1}, 10000);
  }

  void whatCouldNotBeRestoredIsNotForgotten() {
    const QJsonObject state{
        {QStringLiteral("model"), model_},
        {QStringLiteral("inputs"), QString()},
        {QStringLiteral("steps"), QJsonArray{QJsonObject{{QStringLiteral("label"), QStringLiteral("A")}}}},
        {QStringLiteral("position"), 1}};
    MainWindow window({QStringLiteral("/nonexistent/graft")});
    window.show();
    QSignalSpy gaveUp(&window.engine(), &EngineClient::gaveUp);
    window.document().restore(state);
    QTRY_VERIFY_WITH_TIMEOUT(!gaveUp.isEmpty(), 10000);
    QVERIFY(!window.document().isOpening() && !window.document().isOpen());
    QCOMPARE(window.document().state(), state);
  }

  void crashNonsenseAndHangAreSurvived_data() {
    QTest::addColumn<QByteArray>("kind");
    for (const char* kind : {"CRASH", "NONSENSE", "HANG"}) QTest::newRow(kind) << QByteArray(kind);
  }

  void crashNonsenseAndHangAreSurvived() {
    QFETCH(QByteArray, kind);
    const QString mark = folder_.filePath(QString::fromLatin1(kind));
    qputenv("FAKE_ENGINE_MARK", mark.toLocal8Bit());
    qputenv(("FAKE_ENGINE_" + kind).constData(), "model/run");
    open();
    QSignalSpy down(&window_->engine(), &EngineClient::down), message(&document(), &Document::message);
    window_->panel<RunPanel>()->start();
    if (kind == "HANG") document().stopRun();
    QTRY_VERIFY_WITH_TIMEOUT(!down.isEmpty(), 6000);
    QVERIFY(!document().isRunning());
    QTRY_VERIFY_WITH_TIMEOUT(!message.isEmpty(), 5000);
    // What was said of the one before is told to its end.
    auto* said = window_->findChild<QLabel*>(QStringLiteral("failureText"));
    QTRY_VERIFY2(said->text().contains(QStringLiteral("A new engine is at work")), qPrintable(said->text()));
    window_->panel<RunPanel>()->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty(), 10000);
  }

  void anEngineThatIsMissingIsSaidInWords() {
    MainWindow window({QStringLiteral("/nonexistent/graft"), QStringLiteral("engine")});
    window.show();
    QSignalSpy gaveUp(&window.engine(), &EngineClient::gaveUp);
    QTRY_VERIFY_WITH_TIMEOUT(!gaveUp.isEmpty(), 10000);
    bool said = false;
    for (QLabel* l : window.findChildren<QLabel*>())
      said = said || l->text().contains(QStringLiteral("does not start"));
    QVERIFY(said);
    QVERIFY(window.statusText().contains(QStringLiteral("engine: not running")));
  }

  void aLongOpenCanBeCancelled() {
    qputenv("FAKE_ENGINE_SLOW", "30");
    window_ = std::make_unique<MainWindow>(fakeEngine());
    window_->show();
    QTRY_VERIFY_WITH_TIMEOUT(window_->engine().isUp(), 5000);
    window_->openModel(model_);
    auto* stop = window_->findChild<QToolButton*>(QStringLiteral("jobStop"));
    QTRY_VERIFY_WITH_TIMEOUT(stop->isVisible(), 3000);
    QSignalSpy progress(&window_->engine(), &EngineClient::progress);
    stop->click();
    QTRY_VERIFY_WITH_TIMEOUT(!document().isOpening(), 20000);
    // It stops at its next step, not at the last of its 300; a few may have been on their way.
    QVERIFY2(progress.size() < 30, qPrintable(QString::number(progress.size())));
    QVERIFY(!document().isOpen());
    QVERIFY(window_->engine().isUp());
    QTRY_VERIFY(!stop->isVisible());
  }

  void aGraphThatDoesNotComeWholeIsNotShown_data() {
    QTest::addColumn<QByteArray>("fault");
    QTest::addColumn<QString>("words");
    QTest::newRow("a part is lost") << QByteArray("lost") << QStringLiteral("parts of its graph came");
    QTest::newRow("a part is no JSON") << QByteArray("broken") << QStringLiteral("no message");
  }

  void aGraphThatDoesNotComeWholeIsNotShown() {
    QFETCH(QByteArray, fault);
    QFETCH(QString, words);
    qputenv("FAKE_ENGINE_PART", fault);
    start();
    QSignalSpy failed(&document(), &Document::failed);
    window_->openModel(model_);
    QTRY_VERIFY_WITH_TIMEOUT(!failed.isEmpty(), 10000);
    QVERIFY2(failed[0][1].toString().contains(words), qPrintable(failed[0][1].toString()));
    QVERIFY(!document().isOpen() && !document().isOpening());
  }

  void anEnginesCommandIsSplitAsAShellDoes() {
    const auto words = [](const char* line) {
      return commandWords(QString::fromUtf8(line)).value_or(QStringList{"?"});
    };
    QCOMPARE(words("ssh gpu-box graft engine"), (QStringList{"ssh", "gpu-box", "graft", "engine"}));
    QCOMPARE(words("ssh box 'cd \"my graft\" && ./graft engine'"),
             (QStringList{"ssh", "box", "cd \"my graft\" && ./graft engine"}));
    QCOMPARE(words(" \"/opt/my graft/graft\"  engine "), (QStringList{"/opt/my graft/graft", "engine"}));
    QCOMPARE(words("/opt/my\\ graft \"a \\\"b\\\" \\n\" '' x'y'z"),
             (QStringList{"/opt/my graft", "a \"b\" \\n", "", "xyz"}));
    QCOMPARE(words(""), QStringList());
    QVERIFY(!commandWords(QStringLiteral("sh -c 'graft engine")));
  }

  void overSshItIsTheSame() {
    // What ssh does: the host is dropped, the rest goes to a shell there, in another folder.
    const QString ssh = folder_.filePath(QStringLiteral("ssh"));
    QFile script(ssh);
    QVERIFY(script.open(QIODevice::WriteOnly));
    script.write("#!/bin/sh\nshift\ncd /\nexec sh -c \"$*\"\n");
    script.close();
    script.setPermissions(script.permissions() | QFile::ExeUser);
    openWithRules({ssh, QStringLiteral("gpu-box"), QStringLiteral("python3"),
                   QStringLiteral(GRAFT_SOURCE_DIR "/tests/views/support/fake_engine.py")});
    document().apply(QStringLiteral("Attention"));
    QTRY_COMPARE(document().position(), 1);
    window_->panel<RunPanel>()->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty(), 10000);
    QCOMPARE(exported(), QByteArray("exported 36 nodes"));
    QSignalSpy again(&document(), &Document::message);
    kill(static_cast<pid_t>(window_->engine().processId()), SIGKILL);  // the line breaks
    QTRY_VERIFY_WITH_TIMEOUT(!again.isEmpty(), 5000);
    QCOMPARE(exported(), QByteArray("exported 36 nodes"));
  }

  void aKilledWindowIsFollowedByOneThatHasItsWork() {
    QProcess victim;
    victim.setProcessChannelMode(QProcess::ForwardedErrorChannel);
    victim.start(QApplication::applicationFilePath(), {QStringLiteral("--victim"), model_});
    QVERIFY(victim.waitForReadyRead(20000));
    QCOMPARE(victim.readLine().trimmed(), QByteArray("edited"));
    // Until what it has done is in its session's file.
    const QDir sessions(QStandardPaths::writableLocation(QStandardPaths::AppDataLocation) +
                        QStringLiteral("/sessions"));
    const auto isSaved = [&] {
      for (const QString& name : sessions.entryList({QStringLiteral("window-*.json")}))
        if (contents(sessions.filePath(name)).contains("\"softmax_3\"")) return true;
      return false;
    };
    QTRY_VERIFY_WITH_TIMEOUT(isSaved(), 20000);
    kill(static_cast<pid_t>(victim.processId()), SIGKILL);
    QVERIFY(victim.waitForFinished());
    window_ = std::make_unique<MainWindow>(fakeEngine());
    window_->show();
    window_->restoreSession(false);
    QVERIFY(window_->panel<RuleEditor>()->text().endsWith(QStringLiteral("# typed at the end")));
    QVERIFY(window_->panel<RuleEditor>()->isModified());
    QCOMPARE(window_->panel<RunPanel>()->inputsText(), QStringLiteral("f32[1,16,64] f32[1,1,1,16]"));
    QTRY_COMPARE_WITH_TIMEOUT(document().steps().size(), size_t{3}, 10000);
    QTRY_COMPARE(document().position(), 1);  // the other one was taken back, and can be done again
    QCOMPARE(document().graph()->nodeCount(), size_t{48});
    // One stands where one stood.
    QCOMPARE(document().selection(), QStringList{QStringLiteral("softmax_3")});
    const Canvas* canvas = window_->canvas();
    QCOMPARE(canvas->scale(), 1.1);
    const int box = canvas->scene()->boxOf(QStringLiteral("softmax_3"));
    QCOMPARE(canvas->scene()->view.boxes[static_cast<size_t>(box)].key, std::string("softmax_3"));  // it is opened to
    QVERIFY(canvas->visibleSceneRect().contains(canvas->scene()->rect(box)));
    document().redo();
    QCOMPARE(document().graph()->nodeCount(), size_t{44});
    QCOMPARE(exported(), QByteArray("exported 44 nodes"));
  }

  void theNextWindowStandsWhereTheLastOneClosed() {
    const QString other = folder_.filePath(QStringLiteral("other.pt"));
    QFile::copy(model_, other);
    open();
    window_->canvas()->reveal(QStringLiteral("softmax_2"));
    window_->compareWith(other);
    QTRY_COMPARE(document().otherPath(), other);
    window_->close();
    start();
    window_->restoreSession(true);
    QTRY_COMPARE_WITH_TIMEOUT(document().otherPath(), other, 10000);
    QCOMPARE(document().selection(), QStringList{QStringLiteral("softmax_2")});
    QVERIFY(window_->beforeCanvas()->isVisible());
    // Another model begins anew.
    window_->openModel(other);
    QTRY_COMPARE(document().path(), other);
    QVERIFY(document().selection().isEmpty() && document().otherPath().isEmpty());
  }

  void aWindowThatClosedLeavesNothingToRecover() {
    QTemporaryDir there;
    {
      SessionFile first(there.path());
      QString why;
      QVERIFY(first.save({{QStringLiteral("rules"), QStringLiteral("a")}}, why));
      SessionFile second(there.path());
      QVERIFY(second.takeUp().state.isEmpty());  // the first one lives
      first.close({{QStringLiteral("rules"), QStringLiteral("b")}});
      const SessionFile::Found last = second.takeUp();
      QVERIFY(!last.wasKilled);
      QCOMPARE(last.state.value(QLatin1String("rules")).toString(), QStringLiteral("b"));
      QVERIFY(second.save({{QStringLiteral("rules"), QStringLiteral("c")}}, why));
    }
    SessionFile third(there.path());
    const SessionFile::Found found = third.takeUp();
    QVERIFY(found.wasKilled);
    QCOMPARE(found.state.value(QLatin1String("rules")).toString(), QStringLiteral("c"));
    SessionFile fourth(there.path());
    QVERIFY(!fourth.takeUp().wasKilled);  // taken up once
  }

  void whatCannotBeSavedAsideIsSaid() {
    QTemporaryDir there;
    SessionFile session(there.path());
    QVERIFY(there.remove());
    QString why;
    QVERIFY(!session.save({{QStringLiteral("rules"), QStringLiteral("a")}}, why));
    QVERIFY(!why.isEmpty());
  }
};

/// A window that works until it is killed: two steps, one of them taken back, and rules that are not saved.
int victim(const QString& model) {
  MainWindow window(fakeEngine());
  window.show();
  window.openModel(model);
  Document& d = window.document();
  if (!QTest::qWaitFor([&] { return d.isOpen(); }, 10000)) return 1;
  window.panel<RuleEditor>()->setText(QString::fromLatin1(rulesText) + QStringLiteral("# typed at the end"), true);
  if (!QTest::qWaitFor([&] { return !d.rules().empty() && d.rules().front().matched; }, 10000)) return 1;
  d.apply(QStringLiteral("Attention"), {0});
  if (!QTest::qWaitFor([&] { return d.position() == 1; }, 10000)) return 1;
  d.apply(QStringLiteral("Attention"), {1});
  if (!QTest::qWaitFor([&] { return d.position() == 2; }, 10000)) return 1;
  d.undo();
  window.panel<RunPanel>()->setInputs(QStringLiteral("f32[1,16,64] f32[1,1,1,16]"));
  window.canvas()->reveal(QStringLiteral("softmax_3"));
  window.canvas()->zoomToKeys({QStringLiteral("softmax_3")}, 1.1, 1.1);
  std::puts("edited");
  std::fflush(stdout);
  return QApplication::exec();
}

}  // namespace

int main(int argc, char** argv) {
  QApplication app(argc, argv);
  if (argc == 3 && QString::fromLocal8Bit(argv[1]) == QLatin1String("--victim")) {
    QStandardPaths::setTestModeEnabled(true);
    applyTheme(Theme::Light);
    return victim(QString::fromLocal8Bit(argv[2]));
  }
  RobustnessTest test;
  return QTest::qExec(&test, argc, argv);
}
#include "robustness_test.moc"
