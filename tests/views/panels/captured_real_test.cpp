// Captured graphs in the window with the real engine: graft_fx.capture writes a training step and a model whose capture
// breaks; the window opens them, cuts the step, moves a tensor, and `graft partition` takes the file that it wrote.
#include <QJsonDocument>
#include <QProcess>

#include "tests/views/support/window_fixture.h"
#include "views/panels/captured/break_strip.h"
#include "views/panels/captured/training_page.h"

using namespace graft;

namespace {

constexpr const char* script = R"(
import sys
import torch
sys.path.insert(0, sys.argv[1])
import graft_fx


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.GELU())
        self.norm, self.second = torch.nn.LayerNorm(64), torch.nn.Linear(64, 4)

    def forward(self, x, breaks=False):
        y = self.norm(self.first(x))
        if breaks and y.sum() > 1e9:
            y = -y
        return self.second(y)


torch.manual_seed(0)
x = torch.randn(16, 8)
graft_fx.capture(Net(), (x,), sys.argv[2] + "/step.fx", joint=True)
graft_fx.capture(Net().eval(), (x, True), sys.argv[2] + "/broken.fx")
)";

class CapturedRealTest : public test::WindowFixture {
  Q_OBJECT

  void openGraph(const char* name, const char* graph) {
    start({QStringLiteral(GRAFT_ENGINE), QStringLiteral("engine")});
    window_->openModel(folder_.filePath(QString::fromLatin1(name)), {}, QString::fromLatin1(graph));
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen() && !window_->capture().graphs().empty(), 60000);
  }
  TrainingCut& cut() { return window_->cut(); }
  void settle() { QTRY_VERIFY_WITH_TIMEOUT(!cut().isBusy(), 60000); }

 private Q_SLOTS:
  void initTestCase() {
    prepare();
    QProcess python;
    python.start(QStringLiteral(GRAFT_PYTHON), {QStringLiteral("-c"), QString::fromLatin1(script),
                                                QStringLiteral(GRAFT_SOURCE_DIR "/resources/python"), folder_.path()});
    QVERIFY(python.waitForFinished(120000));
    QVERIFY2(python.exitCode() == 0, python.readAllStandardError().constData());
  }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void theStepIsCutAndATensorMoved() {
    openGraph("step.fx", "joint");
    QVERIFY(document().isJoint());
    window_->setTraining(true);
    QTRY_VERIFY_WITH_TIMEOUT(!cut().report().isEmpty() && !cut().isBusy(), 60000);
    const CutReport first = cut().report();
    QVERIFY(first.saved.size() > 2 && first.savedBytes > 0);
    QCOMPARE(first.savedBytes, first.defaultBytes);
    QVERIFY(!first.backward.empty() && first.peakBackward >= first.savedBytes);
    QVERIFY(cut().curve().size() > 1);
    // Each budget of the curve saves no more than the one before, and costs no less time.
    for (size_t i = 1; i < cut().curve().size(); ++i) {
      QVERIFY(cut().curve()[i].savedBytes <= cut().curve()[i - 1].savedBytes);
      QVERIFY(cut().curve()[i].microseconds >= cut().curve()[i - 1].microseconds);
    }
    QString moved;
    for (const SavedTensorInfo& s : first.saved)
      if (s.kind == Crossing::Dear && moved.isEmpty()) moved = s.name;
    QVERIFY(!moved.isEmpty());
    cut().computeAgain(moved);
    settle();
    QVERIFY2(cut().error().isEmpty(), qPrintable(cut().error()));
    for (const SavedTensorInfo& s : cut().report().saved) QVERIFY(s.name != moved);
    // What the window wrote, the command takes.
    const QString file = folder_.filePath(QStringLiteral("cut.json"));
    cut().write(file);
    QTRY_VERIFY_WITH_TIMEOUT(QFileInfo(file).size() > 0, 60000);
    QProcess graft;
    graft.start(QStringLiteral(GRAFT_ENGINE), {QStringLiteral("partition"), document().path(), QStringLiteral("--cut"),
                                               file, QStringLiteral("--json")});
    QVERIFY(graft.waitForFinished(120000));
    QCOMPARE(graft.exitCode(), 0);
    const QJsonObject told = QJsonDocument::fromJson(graft.readAllStandardOutput()).object();
    QCOMPARE(told.value(QLatin1String("savedBytes")).toInteger(), cut().report().savedBytes);
    QVERIFY(told.value(QLatin1String("verification")).toObject().value(QLatin1String("passed")).toBool());
    // A budget that cannot be met says so, and what is shown stays.
    const qint64 before = cut().report().savedBytes;
    cut().setMemory(0.001);
    settle();
    QVERIFY(cut().error().contains(QStringLiteral("cannot be met")));
    QCOMPARE(cut().report().savedBytes, before);
  }

  void breaksAndGuardsAreTold() {
    openGraph("broken.fx", "");
    auto* strip = window_->findChild<BreakStrip*>();
    QVERIFY(strip->isVisible());
    QCOMPARE(strip->shown().size(), 3);
    QVERIFY2(strip->shown()[1].contains(QStringLiteral("depends on the values of a tensor")),
             qPrintable(strip->shown()[1]));
    bool told = false;
    for (const GuardInfo& g : window_->capture().guards())
      told |= g.about == QStringLiteral("arguments") && g.brokenBy.contains(QStringLiteral("breaks"));
    QVERIFY(told);
    window_->openModel(document().path(), {}, QStringLiteral("forward.1"));
    QTRY_COMPARE_WITH_TIMEOUT(document().method(), QStringLiteral("forward.1"), 60000);
  }
};

}  // namespace

QTEST_MAIN(CapturedRealTest)
#include "captured_real_test.moc"
