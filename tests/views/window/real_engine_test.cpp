// The window with the real engine, which is killed, aborted, stopped, starved of memory and replaced by what is none,
// while it idles, opens, matches and runs: the window goes on answering, a new engine has everything again, and the
// next run is right. GRAFT_SOAK_ROUNDS=30 makes the short rounds of CI a long soak.
#include <sys/resource.h>

#include <QLabel>
#include <QProcess>
#include <QSettings>
#include <QSignalSpy>
#include <QToolButton>
#include <climits>
#include <csignal>

#include "tests/views/support/pulse.h"
#include "tests/views/support/window_fixture.h"
#include "views/panels/compile/code_panel.h"
#include "views/panels/compile/kernels_panel.h"
#include "views/panels/rules/why_not_panel.h"
#include "views/panels/run/run_panel.h"
#include "views/widgets/qscintilla.h"

using namespace graft;
using test::Heartbeat;

namespace {

constexpr int layers = 6;

/// Products and each activation twice: something to rewrite, and a run of some milliseconds. No weights: a graph as
/// text has none.
QByteArray modelText() {
  QByteArray text = "graph Twice {\n  input %x : f32[64,256]\n  input %w : f32[256,256]\n";
  QByteArray last = "%x";
  for (int i = 0; i < layers; ++i) {
    const QByteArray n = QByteArray::number(i);
    text += "  %product_" + n + " = aten.matmul.default(" + last + ", %w) : f32[64,256]\n";
    text += "  %tanh_" + n + " = aten.tanh.default(%product_" + n + ") : f32[64,256]\n";
    text += "  %relu_" + n + " = aten.relu.default(%tanh_" + n + ") : f32[64,256]\n";
    text += "  %again_" + n + " = aten.relu.default(%relu_" + n + ") : f32[64,256]\n";
    last = "%again_" + n;
  }
  return text + "  return " + last + "\n}\n";
}

constexpr const char* rules = R"(import torch
from graft import Rule


class Once(Rule):
    def pattern(x):
        return torch.relu(torch.relu(x))

    def replacement(x):
        return torch.relu(x)
)";

class RealEngineTest : public test::WindowFixture {
  Q_OBJECT

  QStringList real() { return {QStringLiteral(GRAFT_ENGINE), QStringLiteral("engine")}; }
  pid_t engine() { return static_cast<pid_t>(window_->engine().processId()); }

  void openModel(const QStringList& command) {
    start(command);
    window_->engine().setPatience(300);
    window_->openModel(model_);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen(), 60000);
    window_->panel<RuleEditor>()->setText(QString::fromLatin1(rules));
    QTRY_VERIFY_WITH_TIMEOUT(!document().rules().empty() && document().rules().front().matched, 20000);
    QCOMPARE(document().rules().front().matches.size(), size_t{layers});
    window_->panel<RunPanel>()->setSeconds(0.1);
  }

  void runIsRight() {
    QTRY_VERIFY_WITH_TIMEOUT(!document().isRunning(), 20000);
    QSignalSpy ran(&document(), &Document::runChanged);
    window_->panel<RunPanel>()->start();
    QTRY_VERIFY_WITH_TIMEOUT(!ran.isEmpty() && !document().isRunning(), 60000);
    QVERIFY2(document().lastRunWorked(), qPrintable(document().lastRunError()));
    QVERIFY2(window_->panel<RunPanel>()->headlineText().contains(QStringLiteral("outputs agree")),
             qPrintable(window_->panel<RunPanel>()->headlineText()));
    QCOMPARE(document()
                 .lastRun()
                 .value(QLatin1String("calls"))[QLatin1String("rewritten")][QLatin1String("aten.relu.default")]
                 .toInt(),
             layers);
  }

  QString said() {
    for (QLabel* l : window_->findChildren<QLabel*>(QStringLiteral("failureText")))
      if (l->isVisible()) return l->text();
    return {};
  }

 private Q_SLOTS:
  void initTestCase() {
    prepare();
    model_ = folder_.filePath(QStringLiteral("twice.txt"));
    QFile file(model_);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(modelText());
  }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void kernelsArePlannedSteeredEditedAndPutInPlace() {
    openModel(real());
    Compilation& compilation = document().compilation();
    const auto isReady = [&] { return compilation.isKnown() && !compilation.isBusy(); };
    window_->arrange(Arrangement::Compile);
    QTRY_VERIFY_WITH_TIMEOUT(isReady(), 60000);
    QCOMPARE(compilation.plan().generatedCount(), layers);  // tanh, relu and relu of each
    QCOMPARE(compilation.plan().kernelOf(QStringLiteral("product_0"))->origin, KernelOrigin::Library);
    // Loops and C++ say which part computes which node.
    compilation.setCurrent(compilation.plan().kernelOf(QStringLiteral("tanh_0"))->name);
    auto* code = window_->panel<CodePanel>();
    for (CodeText* text : {code->loops(), code->code(CodePanel::Cpp)}) {
      QTRY_VERIFY_WITH_TIMEOUT(!text->linesOf(QStringLiteral("tanh_0")).isEmpty(), 20000);
      const int byte = static_cast<int>(text->text().toUtf8().indexOf("tanh(product_0"));
      QVERIFY2(byte > 0, qPrintable(text->text()));
      QCOMPARE(text->nodeAt(byte), QStringLiteral("tanh_0"));
    }
    compilation.measure();
    QTRY_VERIFY_WITH_TIMEOUT(isReady() && compilation.plan().isMeasured(), 60000);
    const KernelInfo measured = *compilation.current();
    QVERIFY(measured.measured > 0 && measured.operators > 0 && compilation.plan().share(measured) > 0);
    // Loops that compute something else are refused at the place that differs; those that are right are kept.
    const QString generated = code->loops()->text();
    code->editLoops()->click();
    code->loops()->setText(QString(generated).replace(QStringLiteral("tanh("), QStringLiteral("sin(")));
    code->keep()->click();
    QTRY_VERIFY_WITH_TIMEOUT(code->outcome().startsWith(QStringLiteral("Refused: it computes something else")), 60000);
    const int line = code->loops()->lineStoring(QStringLiteral("again_0"));
    QVERIFY2(code->loops()->annotation(line).startsWith(QStringLiteral("again_0[")), qPrintable(code->outcome()));
    code->loops()->setText(generated);
    code->keep()->click();
    QTRY_VERIFY_WITH_TIMEOUT(code->outcome().startsWith(QStringLiteral("Verified and kept")), 60000);
    QCOMPARE(compilation.current()->origin, KernelOrigin::Edited);
    compilation.undo();
    QTRY_VERIFY_WITH_TIMEOUT(isReady() && compilation.current()->origin == KernelOrigin::Generated, 20000);
    compilation.keepApart({QStringLiteral("tanh_0"), QStringLiteral("relu_0")});
    QTRY_VERIFY_WITH_TIMEOUT(isReady() && compilation.isSteered(), 20000);
    QVERIFY(compilation.plan().kernelOf(QStringLiteral("tanh_0")) !=
            compilation.plan().kernelOf(QStringLiteral("relu_0")));
    compilation.apply();
    QTRY_COMPARE_WITH_TIMEOUT(document().position(), 1, 120000);
    QVERIFY2(document().steps()[1].verification.contains(QStringLiteral("verified")),
             qPrintable(document().steps()[1].verification));
    QVERIFY(!document().graph()->findNode("tanh_1"));
    QTRY_VERIFY_WITH_TIMEOUT(isReady(), 20000);
    QCOMPARE(compilation.plan().generatedCount(), layers + 1);  // two of the first layer
    QVERIFY(compilation.plan().kernels.back().isInPlace);
  }

  void theEditOfANearMissFixesTheRule() {
    openModel(real());
    window_->arrange(Arrangement::Rewrite);
    // The product is followed by another activation in the model.
    const QString wrong = QStringLiteral(
        "import torch\nfrom graft import Rule\n\n\nclass Between(Rule):\n    def pattern(x, w):\n"
        "        return torch.relu(torch.matmul(x, w))\n");
    window_->panel<RuleEditor>()->setText(QStringLiteral("# über the rule\n") + wrong);
    QTRY_VERIFY_WITH_TIMEOUT(!document().nearMisses().empty(), 20000);
    const QString message = document().nearMisses().front().message;
    QVERIFY2(message.startsWith(QStringLiteral("the operator is aten.tanh, but the rule wants aten.relu")),
             qPrintable(message));
    window_->showRuleTab(RulesPanel::WhyNot);
    auto* change = window_->panel<WhyNotPanel>()->findChild<QPushButton*>(QStringLiteral("change"));
    QVERIFY(change);
    QTest::mouseClick(change, Qt::LeftButton);
    QVERIFY2(window_->panel<RuleEditor>()->text().contains(QStringLiteral("torch.tanh(torch.matmul(x, w))")),
             qPrintable(window_->panel<RuleEditor>()->text()));
    QTRY_COMPARE_WITH_TIMEOUT(document().rules().front().matches.size(), size_t{layers}, 20000);
    window_->panel<RuleEditor>()->scintilla()->undo();
    QCOMPARE(window_->panel<RuleEditor>()->text(), QStringLiteral("# über the rule\n") + wrong);
  }

  void aLoadedLibraryIsThereForTheModelTheRulesAndTheNextEngine() {
    const QString library =
        QFileInfo(QStringLiteral(GRAFT_ENGINE)).path() + QStringLiteral("/../lib/tests/libmy_ops.so");
    if (!QFileInfo::exists(library)) QSKIP("the library of the end-to-end tests is not built");
    const QString model = folder_.filePath(QStringLiteral("fused.txt"));
    QFile file(model);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(
        "graph Fused {\n  input %x : f32[4,4]\n  %fused = my.fused.default(%x) : f32[4,4]\n"
        "  %relu = aten.relu.default(%fused) : f32[4,4]\n  return %relu\n}\n");
    file.close();
    start(real());
    window_->openModel(model);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen(), 60000);
    window_->panel<RuleEditor>()->setText(
        QStringLiteral("import torch\nfrom graft import Rule\n\n\nclass Fused(Rule):\n    def pattern(x):\n"
                       "        return torch.relu(torch.ops.my.fused(x))\n"));
    QTRY_VERIFY_WITH_TIMEOUT(document().ruleError().message.contains(QStringLiteral("torch.ops.my.fused")), 20000);
    window_->files().loadLibrary(folder_.filePath(QStringLiteral("gone.so")));
    QTRY_VERIFY_WITH_TIMEOUT(said().contains(QStringLiteral("there is no library")), 20000);
    QSignalSpy opened(&document(), &Document::opened);
    window_->files().loadLibrary(library);
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), 60000);
    QTRY_VERIFY_WITH_TIMEOUT(!document().rules().empty() && document().rules().front().matched, 20000);
    QCOMPARE(document().rules().front().matches.size(), size_t{1});
    const auto runs = [&] {
      QSignalSpy ran(&document(), &Document::runChanged);
      window_->panel<RunPanel>()->setSeconds(0.1);
      window_->panel<RunPanel>()->start();
      QTRY_VERIFY_WITH_TIMEOUT(!ran.isEmpty() && !document().isRunning(), 60000);
      QVERIFY2(document().lastRunWorked(), qPrintable(document().lastRunError()));
    };
    runs();
    QSignalSpy replaced(&document(), &Document::engineReplaced);
    ::kill(engine(), SIGKILL);
    QTRY_VERIFY_WITH_TIMEOUT(!replaced.isEmpty(), 60000);
    runs();
  }

  void whateverBefallsItTheNextRunIsRight() {
    openModel(real());
    document().apply(QStringLiteral("Once"));
    QTRY_COMPARE_WITH_TIMEOUT(document().position(), 1, 20000);
    runIsRight();
    const int rounds = std::max(6, qEnvironmentVariableIntValue("GRAFT_SOAK_ROUNDS")), settled = 2;
    const QStringList fates = {QStringLiteral("kill"), QStringLiteral("abort"), QStringLiteral("stop")};
    const QStringList times = {QStringLiteral("idle"), QStringLiteral("matching"), QStringLiteral("running"),
                               QStringLiteral("opening")};
    qint64 memory = 0, worst = 0, slowest = 0;
    int fewestBeats = INT_MAX;
    qsizetype files = 0;
    for (int round = 0; round < rounds + settled; ++round) {
      if (round == settled) memory = test::residentBytes(), files = test::openFiles();
      const QString fate = fates[round % 3], when = times[round % 4];
      QSignalSpy again(&document(), &Document::engineReplaced), opened(&document(), &Document::opened),
          down(&window_->engine(), &EngineClient::down);
      const pid_t before = engine();
      Heartbeat heart;
      if (when == QLatin1String("matching"))
        document().setRules(QString::fromLatin1(rules) + QStringLiteral("# %1\n").arg(round), {}, true);
      else if (when == QLatin1String("running"))
        window_->panel<RunPanel>()->start(), QTest::qWait(60);
      else if (when == QLatin1String("opening"))
        window_->openModel(model_);
      QElapsedTimer clock;
      clock.start();
      if (fate != QLatin1String("stop")) {
        kill(before, fate == QLatin1String("kill") ? SIGKILL : SIGABRT);
      } else {
        kill(before, SIGSTOP);
        if (when == QLatin1String("idle")) document().setRules(QString::fromLatin1(rules), {}, true);
        QTRY_VERIFY(window_->engine().oldestPending() != 0);
        QTest::qWait(50);
        window_->engine().cancel(window_->engine().oldestPending());
      }
      if (when == QLatin1String("opening"))
        QTRY_VERIFY2_WITH_TIMEOUT(!opened.isEmpty(), qPrintable(fate), 20000);
      else
        QTRY_VERIFY2_WITH_TIMEOUT(!again.isEmpty(), qPrintable(fate + QLatin1Char(' ') + when), 20000);
      slowest = std::max(slowest, clock.elapsed());
      worst = std::max(worst, heart.worst);
      fewestBeats = std::min(fewestBeats, heart.beats);
      if (fate != QLatin1String("stop"))
        QVERIFY2(down[0][0].toString().contains(fate == QLatin1String("kill") ? u"was killed" : u"aborted"),
                 qPrintable(down[0][0].toString()));
      QVERIFY(engine() != before);
      QTRY_VERIFY(!document().isRunning());
      if (when == QLatin1String("opening")) {
        QCOMPARE(document().steps().size(), size_t{1});
        QTRY_VERIFY_WITH_TIMEOUT(!document().rules().empty() && document().rules().front().matched, 20000);
        document().apply(QStringLiteral("Once"));
        QTRY_COMPARE_WITH_TIMEOUT(document().position(), 1, 20000);
      }
      QCOMPARE(document().graph()->nodeCount(), size_t{layers * 3});
      runIsRight();
    }
    const qint64 grown = test::residentBytes() - memory;
    qInfo(
        "%d engines went: the window was silent for %lld ms at most, a new engine had the document after %lld ms at "
        "most; %.1f MB more memory, %lld more files open",
        rounds, static_cast<long long>(worst), static_cast<long long>(slowest), static_cast<double>(grown) / 1e6,
        static_cast<long long>(test::openFiles() - files));
    // The window was told of each answer of the new engine in another turn of its event loop, and waited for none.
    QVERIFY2(fewestBeats >= 4, qPrintable(QString::number(fewestBeats)));
    QVERIFY(grown < 8'000'000);
    QVERIFY(test::openFiles() <= files);
  }

  void withoutMemoryTheRunFailsAndTheNextOneIsRight() {
    openModel(real());
    document().apply(QStringLiteral("Once"));
    QTRY_COMPARE_WITH_TIMEOUT(document().position(), 1, 20000);
    runIsRight();
    QFile statm(QStringLiteral("/proc/%1/statm").arg(engine()));
    QVERIFY(statm.open(QIODevice::ReadOnly));
    const rlim_t room = statm.readAll().split(' ').value(0).toULongLong() * 4096 + (rlim_t{400} << 20);
    const rlimit limit{room, room};
    QCOMPARE(prlimit(engine(), RLIMIT_AS, &limit, nullptr), 0);
    // Its types say 64 x 256; what a run of others takes is asked for before anything is compared.
    window_->panel<RunPanel>()->setInputs(QStringLiteral("f32[64,256] f32[256,256]"));
    QSignalSpy failed(&document(), &Document::failed);
    window_->openModel(hungry());
    QTRY_COMPARE_WITH_TIMEOUT(document().path(), hungry(), 20000);
    window_->panel<RunPanel>()->setInputs(QStringLiteral("f32[16384,16384]:zeros"));
    window_->panel<RunPanel>()->start();
    QTRY_VERIFY_WITH_TIMEOUT(!failed.isEmpty(), 60000);
    QVERIFY2(failed[0][1].toString().contains(QStringLiteral("memory")), qPrintable(failed[0][1].toString()));
    QVERIFY(!document().lastRunWorked());
    window_->panel<RunPanel>()->setInputs(QString());
    window_->openModel(model_);
    QTRY_COMPARE_WITH_TIMEOUT(document().path(), model_, 60000);
    QTRY_VERIFY_WITH_TIMEOUT(document().rules().front().matched, 20000);
    document().apply(QStringLiteral("Once"));
    QTRY_COMPARE_WITH_TIMEOUT(document().position(), 1, 20000);
    runIsRight();
  }

  void whatIsNoEngineIsSaidInWords_data() {
    QTest::addColumn<QStringList>("command");
    QTest::addColumn<QString>("words");
    const auto sh = [](const char* script) {
      return QStringList{QStringLiteral("/bin/sh"), QStringLiteral("-c"), QString::fromLatin1(script)};
    };
    QTest::newRow("nonsense") << sh("yes nonsense") << QStringLiteral("does not start");
    QTest::newRow("ends at once") << sh("echo no such device >&2; exit 7") << QStringLiteral("does not start");
    QTest::newRow("an echo") << sh("cat") << QStringLiteral("has not answered");
    QTest::newRow("silence") << sh("exec sleep 1000") << QStringLiteral("has not answered");
    QTest::newRow("another version")
        << sh(R"(printf 'Content-Length: 48\r\n\r\n{"jsonrpc":"2.0","id":1,"result":{"version":99}}'; cat >/dev/null)")
        << QStringLiteral("does not start");
  }

  void whatIsNoEngineIsSaidInWords() {
    QFETCH(QStringList, command);
    QFETCH(QString, words);
    start(command);
    window_->engine().setStartPatience(1500);
    Heartbeat heart;
    QTRY_VERIFY2_WITH_TIMEOUT(said().contains(words), qPrintable(said()), 20000);
    QVERIFY(!window_->engine().isUp());
    // What ends at once may be told of after a beat or two.
    const bool isWaitedFor = words.startsWith(QLatin1String("has not"));
    QVERIFY2(heart.beats >= (isWaitedFor ? 4 : 1), qPrintable(QString::number(heart.beats)));
    if (!isWaitedFor) return;
    auto* stop = window_->findChild<QToolButton*>(QStringLiteral("jobStop"));
    QVERIFY(stop->isVisible());
    QSignalSpy gaveUp(&window_->engine(), &EngineClient::gaveUp);
    stop->click();
    QCOMPARE(gaveUp.size(), 1);  // not five times the same
    QVERIFY2(said().contains(QStringLiteral("does not start")), qPrintable(said()));
  }

  void anEngineThatComesBackIsGivenTheDocument() {
    // What is started is read anew each time, as a line to another machine may go and come back.
    const QString script = folder_.filePath(QStringLiteral("engine.sh"));
    const auto become = [&](const QByteArray& command) {
      QFile file(script);
      QVERIFY(file.open(QIODevice::WriteOnly));
      file.write("#!/bin/sh\nexec " + command + "\n");
      file.close();
      file.setPermissions(file.permissions() | QFile::ExeUser);
    };
    become(GRAFT_ENGINE " engine");
    openModel({script});
    document().apply(QStringLiteral("Once"));
    QTRY_COMPARE_WITH_TIMEOUT(document().position(), 1, 20000);
    become("yes nonsense");
    kill(engine(), SIGKILL);
    QSignalSpy gaveUp(&window_->engine(), &EngineClient::gaveUp);
    QTRY_VERIFY_WITH_TIMEOUT(!gaveUp.isEmpty(), 30000);
    window_->panel<RunPanel>()->start();  // nobody can
    QVERIFY(!document().isRunning() && !document().lastRunWorked());
    QVERIFY(!document().lastRunError().isEmpty());
    QCOMPARE(document().position(), 1);
    become(GRAFT_ENGINE " engine");
    QSignalSpy again(&document(), &Document::engineReplaced);
    window_->engine().start();
    QTRY_VERIFY_WITH_TIMEOUT(!again.isEmpty(), 30000);
    runIsRight();
  }

 private:
  QString hungry() {
    const QString path = folder_.filePath(QStringLiteral("hungry.txt"));
    QFile file(path);
    if (!file.exists() && file.open(QIODevice::WriteOnly))
      file.write(
          "graph Hungry {\n  input %x : f32[s0,s1]\n  %y = aten.relu.default(%x) : f32[s0,s1]\n  return %y\n}\n");
    return path;
  }
};

}  // namespace

QTEST_MAIN(RealEngineTest)
#include "real_engine_test.moc"
