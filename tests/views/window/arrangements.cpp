// arrangements [--size WxH] [--theme T] [--method NAME] [--only NAME]... FOLDER ENGINE... -- MODEL [RULES]: pictures of
// every arrangement of the window with a model, to look at: Explore collapsed, all open and at 100 %, Rewrite, Compare,
// Measure, Compile with its timeline and pairs, a kernel edited by hand, two plans side by side, the picker and the
// guards of a capture, the training step of a joint graph, and the model beside its own file in the table of several.
// Last, the first rule with matches is applied, both models run, and FOLDER has the HTML report. At double scale:
// QT_SCALE_FACTOR=2.
#include <QApplication>
#include <QCommandLineParser>
#include <QDir>
#include <QElapsedTimer>
#include <QFileInfo>
#include <QPushButton>
#include <QSettings>
#include <QStandardPaths>
#include <QTableWidget>
#include <QTest>
#include <cstdio>
#include <functional>

#include "views/canvas/canvas.h"
#include "views/panels/captured/graph_picker.h"
#include "views/panels/compile/code_panel.h"
#include "views/panels/compile/kernels_panel.h"
#include "views/panels/rules/matches_panel.h"
#include "views/panels/run/run_panel.h"
#include "views/panels/run/side_by_side_panel.h"
#include "views/widgets/theme.h"
#include "views/window/compile/compile_view.h"
#include "views/window/files/report.h"
#include "views/window/files/session_file.h"
#include "views/window/main_window.h"

using namespace graft;

namespace {

class Looker {
 public:
  Looker(MainWindow& window, QString stem, QStringList only)
      : window_(window), document_(window.document()), stem_(std::move(stem)), only_(std::move(only)) {}

  bool open(const QString& model, const QString& method) {
    window_.openModel(model, {}, method);
    return until("the model", [&] { return document_.isOpen() && isDrawn(); });
  }

  void explore() {
    window_.arrange(Arrangement::Explore);
    shoot("explore");
    window_.canvas()->setDepth(-1);
    until("all modules", [&] { return isDrawn(); });
    window_.canvas()->fit();
    shoot("open_fit");
    const auto& order = document_.graph()->order();
    window_.canvas()->reveal(QString::fromStdString(document_.graph()->node(order[order.size() / 2]).name));
    until("the node", [&] { return isDrawn(); });
    window_.canvas()->zoomToKeys(window_.canvas()->selection(), 1, 1);
    shoot("open_100");
    window_.canvas()->setSelection({});
    window_.canvas()->setDepth(1);
  }

  void rewrite(const QString& rules) {
    window_.openRules(rules);
    window_.arrange(Arrangement::Rewrite);
    if (!until("matches", [&] { return !document_.rules().empty() && document_.rules().front().matched; })) return;
    window_.panel<MatchesPanel>()->next();
    shoot("rewrite");
    document_.preview(document_.currentRule());
    if (until(
            "a preview", [&] { return document_.isPreviewing(); }, 10000))
      shoot("compare");
    document_.endPreview();
  }

  void measure() {
    window_.arrange(Arrangement::Measure);
    shoot("measure");
  }

  void compile() {
    window_.arrange(Arrangement::Compile);
    const Compilation& compilation = document_.compilation();
    if (!until("the plan of kernels", [&] { return compilation.isKnown() && !compilation.isBusy(); })) return;
    shoot("compile");
    window_.compileView().setByKernels(true);
    shoot("kernels");
    window_.compileView().setByKernels(false);
    document_.compilation().measure();
    const auto isMeasured = [&] { return !compilation.isBusy() && compilation.plan().isMeasured(); };
    if (!until("times of kernels", isMeasured, 300000)) return;
    auto* panel = window_.panel<KernelsPanel>();
    panel->showTab(KernelsPanel::Between);
    shoot("between");
    panel->showTab(KernelsPanel::Timeline);
    shoot("timeline");
    panel->showTab(KernelsPanel::Kernels);
  }

  /// A kernel of which its author has the last word, and the plan beside the one without it.
  void edited() {
    window_.arrange(Arrangement::Compile);
    const Compilation& compilation = document_.compilation();
    if (!until("the plan of kernels", [&] { return compilation.isKnown() && !compilation.isBusy(); })) return;
    auto* code = window_.panel<CodePanel>();
    if (!until("the loops", [&] { return code->editLoops()->isEnabled() && !code->loops()->text().isEmpty(); })) return;
    code->editLoops()->click();
    code->loops()->setText(code->loops()->text() + QStringLiteral("# by hand\n"));
    shoot("editing");
    code->keep()->click();
    if (!until("the verdict", [&] { return !code->isEditing() && !compilation.isBusy(); })) return;
    shoot("kept");
    window_.compileView().comparePlans();
    shoot("plans");
    window_.arrange(Arrangement::Explore);
  }

  /// The plan without its largest kernel, beside the one before: as a whole, and at the first difference.
  void plans() {
    window_.arrange(Arrangement::Compile);
    Compilation& compilation = document_.compilation();
    const auto isReady = [&] { return compilation.isKnown() && !compilation.isBusy(); };
    if (!until("the plan of kernels", isReady)) return;
    const KernelInfo* largest = compilation.plan().largest();
    if (!largest) return;
    compilation.keepApart(largest->coloured);
    if (!until("the other plan", [&] { return isReady() && compilation.canUndo(); })) return;
    window_.compileView().comparePlans();
    shoot("plans_whole");
    window_.comparison().nextChange(1);
    shoot("plans_difference");
    window_.setCompare(false);
    compilation.undo();
    until("the plan before", isReady);
    window_.compileView().setByKernels(false);
  }

  void report(const QString& rules) {
    window_.openRules(rules);
    QString rule;
    const auto isMatched = [&] {
      for (const RuleInfo& r : document_.rules())
        if (rule.isEmpty() && !r.matches.empty()) rule = r.name;
      return !rule.isEmpty();
    };
    if (!until("a rule that matches", isMatched)) return;
    document_.apply(rule);
    if (!until("the step", [&] { return document_.position() > 0; })) return;
    window_.arrange(Arrangement::Explore);
    shoot("applied");
    window_.panel<RunPanel>()->start();
    if (!until("the run", [&] { return !document_.isRunning() && !document_.lastRun().isEmpty(); })) return;
    window_.arrange(Arrangement::Measure);
    shoot("run");
    const QString path = stem_ + QStringLiteral("_report.html");
    QString why;
    const int depth = window_.canvas()->viewOptions().depth;
    if (!writeWhole(path, reportHtml(document_, *window_.panel<RunPanel>(), depth).toUtf8(), why)) failed_ = true;
    std::printf("%s\n", qPrintable(path));
  }

  void captured() {
    auto* picker = window_.findChild<GraphPicker*>();
    if (!picker || !picker->isVisible() || !picker->menu()) return;
    window_.arrange(Arrangement::Explore);
    window_.docks().show(QStringLiteral("guards"));
    shoot("guards");
    picker->menu()->popup(picker->mapToGlobal(QPoint(0, -picker->menu()->sizeHint().height())));
    QTest::qWait(100);
    const QString path = pathOf("picker");
    if (!picker->menu()->grab().save(path)) failed_ = true;
    std::printf("%s\n", qPrintable(path));
    picker->menu()->hide();
  }

  void several() {
    window_.arrange(Arrangement::Measure);
    window_.docks().show(QStringLiteral("sideBySide"));
    auto* panel = window_.panel<SideBySidePanel>();
    panel->list().addStep(0);
    panel->list().addFile(document_.path(), document_.capturedGraphs().isEmpty() ? QString() : document_.method());
    // The same model in other formats, where they lie beside it.
    const QFileInfo file(document_.path());
    for (const char* suffix : {"pt", "pt2", "fx"}) {
      const QString other = file.dir().filePath(file.completeBaseName() + QLatin1Char('.') + QLatin1String(suffix));
      if (other != document_.path() && QFile::exists(other)) panel->list().addFile(other);
    }
    if (!until("the other files", [&] { return panel->list().canRun(); })) return;
    panel->list().run(1);
    if (!until("their runs", [&] { return !panel->list().isRunning(); })) return;
    shoot("several");
    QTableWidget* table = panel->table();
    for (const int row : {0, table->rowCount() - 1})
      table->setRangeSelected(QTableWidgetSelectionRange(row, 0, row, table->columnCount() - 1), true);
    panel->openDrawings();
    if (until("both drawings", [&] { return isDrawn(); })) shoot("several_drawings");
    window_.setCompare(false);
  }

  void training() {
    if (!document_.isJoint()) return;
    window_.arrange(Arrangement::Explore);
    window_.setTraining(true);
    const TrainingCut& cut = window_.cut();
    if (until("the cut", [&] { return !cut.report().isEmpty() && !cut.isBusy(); })) shoot("training");
  }

  bool wants(const char* name) const { return only_.isEmpty() || only_.contains(QLatin1String(name)); }
  bool failed() const { return failed_; }

 private:
  bool isDrawn() { return window_.canvas()->scene() && !window_.canvas()->isPartial(); }

  bool until(const char* what, const std::function<bool()>& done, int ms = 120000) {
    QElapsedTimer timer;
    timer.start();
    while (!done() && timer.elapsed() < ms) QTest::qWait(20);
    if (done()) return true;
    std::fprintf(stderr, "arrangements: gave up waiting for %s\n", what);
    failed_ = true;
    return false;
  }

  QString pathOf(const char* name) const { return QStringLiteral("%1_%2.png").arg(stem_, QLatin1String(name)); }

  void shoot(const char* name) {
    QTest::qWait(500);
    const QString path = pathOf(name);
    if (!window_.grab().save(path)) failed_ = true;
    std::printf("%s\n", qPrintable(path));
  }

  MainWindow& window_;
  Document& document_;
  QString stem_;
  QStringList only_;
  bool failed_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  QApplication app(argc, argv);
  QStandardPaths::setTestModeEnabled(true);
  QApplication::setOrganizationName(QStringLiteral("graft-arrangements"));
  QSettings().clear();
  const QStringList words = QApplication::arguments();
  const qsizetype split = words.indexOf(QStringLiteral("--"));
  QCommandLineParser parser;
  parser.setOptionsAfterPositionalArgumentsMode(QCommandLineParser::ParseAsPositionalArguments);
  const QCommandLineOption size(QStringLiteral("size"), QStringLiteral("Of the window"), QStringLiteral("WxH"),
                                QStringLiteral("1440x900")),
      theme(QStringLiteral("theme"), QStringLiteral("light or dark"), QStringLiteral("T"), QStringLiteral("light")),
      method(QStringLiteral("method"), QStringLiteral("Which graph of a capture"), QStringLiteral("NAME")),
      only(QStringLiteral("only"), QStringLiteral("Only this arrangement"), QStringLiteral("NAME"));
  parser.addOptions({size, theme, method, only});
  if (split < 0 || words.size() < split + 2 || !parser.parse(words.mid(0, split)) ||
      parser.positionalArguments().size() < 2)
    return std::fprintf(stderr,
                        "usage: arrangements [--size WxH] [--theme T] [--method NAME] [--only NAME]... FOLDER "
                        "ENGINE... -- MODEL [RULES]\n"),
           2;
  const QStringList own = parser.positionalArguments();
  QDir().mkpath(own[0]);
  const Theme shown = parser.value(theme) == QLatin1String("dark") ? Theme::Dark : Theme::Light;
  applyTheme(shown);
  MainWindow window(own.mid(1));
  const QStringList sides = parser.value(size).split(QLatin1Char('x'));
  window.resize(sides.value(0).toInt(), sides.value(1).toInt());
  window.setTheme(shown);
  window.show();
  const QString model = words[split + 1];
  Looker look(window,
              QStringLiteral("%1/%2_%3_%4%5")
                  .arg(own[0], QFileInfo(model).completeBaseName(), parser.value(size), parser.value(theme),
                       window.devicePixelRatioF() > 1 ? QStringLiteral("_double") : QString()),
              parser.values(only));
  if (!look.open(model, parser.value(method))) return 1;
  if (look.wants("explore")) look.explore();
  const QString rules = words.value(split + 2);
  if (!rules.isEmpty() && look.wants("rewrite")) look.rewrite(rules);
  if (look.wants("measure")) look.measure();
  if (look.wants("compile")) look.compile();
  if (look.wants("edited")) look.edited();
  if (look.wants("plans")) look.plans();
  if (look.wants("captured")) look.captured();
  if (look.wants("training")) look.training();
  if (look.wants("several")) look.several();
  if (!rules.isEmpty() && look.wants("report")) look.report(rules);
  return look.failed() ? 1 : 0;
}
