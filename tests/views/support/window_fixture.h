// WindowFixture: a window on the scripted engine with a model that it opens, as tests drive it. Derive, add slots.
#pragma once

#include <QAction>
#include <QApplication>
#include <QDir>
#include <QFile>
#include <QFileDialog>
#include <QLineEdit>
#include <QMenu>
#include <QSettings>
#include <QStandardPaths>
#include <QTemporaryDir>
#include <QTest>
#include <QTimer>
#include <memory>

#include "views/canvas/canvas.h"
#include "views/panels/rules/rule_editor.h"
#include "views/widgets/theme.h"
#include "views/window/main_window.h"

namespace graft::test {

/// Matches four times in the scripted engine's encoder.
inline const char* const rulesText = R"(class Attention(Rule):
    # match: matmul, div, add, softmax, matmul
    def pattern(q, k, v, mask):
        return torch.matmul(torch.softmax(torch.matmul(q, k) / 4 + mask, dim=-1), v)

    def replacement(q, k, v, mask):
        return kernels.attention(q, k, v, mask)
)";

inline QStringList fakeEngine() {
  return {QStringLiteral("python3"), QStringLiteral(GRAFT_SOURCE_DIR "/tests/views/support/fake_engine.py")};
}

class WindowFixture : public QObject {
 protected:
  QTemporaryDir folder_;
  QString model_;
  std::unique_ptr<MainWindow> window_;

  /// Before all tests.
  void prepare() {
    QStandardPaths::setTestModeEnabled(true);
    applyTheme(Theme::Light);
    model_ = folder_.filePath(QStringLiteral("model.pt"));
    QFile file(model_);
    QVERIFY(file.open(QIODevice::WriteOnly));
  }
  /// Before each: no settings, no sessions, an engine that behaves.
  void forget() {
    QSettings().clear();
    QDir(QStandardPaths::writableLocation(QStandardPaths::AppDataLocation) + QStringLiteral("/sessions"))
        .removeRecursively();
    for (const char* name : {"FAKE_ENGINE_CRASH", "FAKE_ENGINE_HANG", "FAKE_ENGINE_NONSENSE", "FAKE_ENGINE_MARK",
                             "FAKE_ENGINE_SLOW", "FAKE_ENGINE_STEP", "FAKE_ENGINE_PART", "FAKE_ENGINE_DIFFERS",
                             "FAKE_ENGINE_FAST", "FAKE_ENGINE_SPREAD", "FAKE_ENGINE_PLAIN", "FAKE_ENGINE_PADDING"})
      qunsetenv(name);
  }
  void start(const QStringList& engine = fakeEngine()) {
    window_ = std::make_unique<MainWindow>(engine);
    window_->show();
  }
  Document& document() { return window_->document(); }
  void open(const QStringList& engine = fakeEngine()) {
    start(engine);
    window_->openModel(model_);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen(), 10000);
  }
  void type(const QString& text) {
    window_->arrange(Arrangement::Rewrite);
    window_->panel<RuleEditor>()->setText(text);
    QTRY_VERIFY(!document().rules().empty() && document().rules().front().matched);
  }
  const RuleInfo& rule() { return document().rules().front(); }
  /// Triggers the action and gives the dialog, which is Qt's own, that file.
  void triggerWithFile(const char* action, const QString& path) {
    QTimer poll;
    connect(&poll, &QTimer::timeout, this, [&] {
      auto* dialog = qobject_cast<QFileDialog*>(QApplication::activeModalWidget());
      if (!dialog) return;
      poll.stop();
      auto* name = dialog->findChild<QLineEdit*>(QStringLiteral("fileNameEdit"));
      name->setText(path);
      QTest::keyClick(name, Qt::Key_Return);
    });
    poll.start(20);
    window_->action(QString::fromLatin1(action))->trigger();
  }
  QByteArray contents(const QString& path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
  }
  /// All that can be chosen in the menus, submenus too.
  static void leaves(const QList<QAction*>& actions, QList<QAction*>& out) {
    for (QAction* a : actions) {
      if (a->menu())
        leaves(a->menu()->actions(), out);
      else if (!a->isSeparator())
        out << a;
    }
  }
  /// What the engine writes for the model as it is shown.
  QByteArray exported() {
    const QString out = folder_.filePath(QStringLiteral("exported.pt"));
    QFile::remove(out);
    document().exportTo(out);
    if (!QTest::qWaitFor([&] { return QFileInfo(out).size() > 0; }, 10000)) return {};
    return contents(out);
  }
};

}  // namespace graft::test
