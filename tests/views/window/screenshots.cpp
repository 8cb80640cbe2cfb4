// screenshots [OPTIONS] FOLDER ENGINE... -- MODEL RULES [INPUTS]: the window's pictures for README and docs, made with
// the given engine; with --measure only those of a run, with --compile only those of kernels. --size and --theme are
// for looking at other windows. INPUTS is a file of tensors or a line of specifications. Waits for each state instead
// of sleeping; says which one did not come, and ends with 1.
#include <QApplication>
#include <QCommandLineParser>
#include <QDir>
#include <QElapsedTimer>
#include <QSettings>
#include <QStandardPaths>
#include <QTest>
#include <cstdio>
#include <functional>

#include "views/canvas/canvas.h"
#include "views/panels/compile/code_panel.h"
#include "views/panels/compile/kernels_panel.h"
#include "views/panels/diff_view.h"
#include "views/panels/inspector.h"
#include "views/panels/rules/library_panel.h"
#include "views/panels/rules/matches_panel.h"
#include "views/panels/rules/rule_editor.h"
#include "views/panels/rules/why_not_panel.h"
#include "views/panels/run/run_panel.h"
#include "views/widgets/theme.h"
#include "views/window/command_palette.h"
#include "views/window/compile/compile_view.h"
#include "views/window/main_window.h"

using namespace graft;

namespace {

struct Wanted {
  QString folder, model, rules, inputs, device, dtype, recipe, capture;
  double seconds = 4;
};

class Photographer {
 public:
  Photographer(MainWindow& window, Wanted wanted)
      : window_(window), document_(window.document()), wanted_(std::move(wanted)) {}
  bool failed() const { return failed_; }

  bool welcome() {
    if (!until("the engine", [&] { return window_.engine().isUp(); })) return false;
    shoot("welcome");
    return true;
  }

  bool open() {
    const bool isFile = QFileInfo::exists(wanted_.inputs);
    window_.openModel(wanted_.model, isFile ? wanted_.inputs : QString());
    if (!until("the model", [&] { return document_.isOpen() && window_.canvas()->scene(); })) return false;
    if (!isFile && !wanted_.inputs.isEmpty()) window_.panel<RunPanel>()->setInputs(wanted_.inputs);
    return true;
  }

  void explore() {
    window_.canvas()->setDepth(0);
    shoot("collapsed");
    window_.canvas()->setDepth(4);
    QString linear;
    for (const NodeId n : document_.graph()->order())
      if (document_.graph()->node(n).op->baseName() == "linear" && document_.graph()->node(n).name.ends_with("_2") &&
          linear.isEmpty())
        linear = QString::fromStdString(document_.graph()->node(n).name);
    window_.canvas()->reveal(linear);
    window_.panel<Inspector>()->showSource(true);
    until(
        "the weight", [&] { return !window_.panel<Inspector>()->weight().isEmpty(); }, 8000);
    shoot("explore");
    window_.panel<Inspector>()->showSource(false);
  }

  bool rules() {
    window_.openRules(wanted_.rules);
    window_.arrange(Arrangement::Rewrite);
    return until("matches", [&] { return !document_.rules().empty() && document_.rules().front().matched; });
  }

  void rewrite() {
    const RuleInfo* attention = document_.rule(QStringLiteral("Attention"));
    const int line = attention ? attention->line : 1;
    const QString name = attention ? attention->name : document_.rules().front().name;
    showLine(line);
    document_.setCurrentRule(name);
    window_.panel<MatchesPanel>()->next();
    shoot("rewrite");

    const QString text = window_.panel<RuleEditor>()->text();
    window_.panel<RuleEditor>()->setText(QString(text).replace(QStringLiteral("dim=-1"), QStringLiteral("dim=1")));
    showLine(line);
    document_.setCurrentRule(name);
    window_.showRuleTab(RulesPanel::WhyNot);
    if (until(
            "near misses", [&] { return !document_.nearMisses().empty(); }, 8000))
      Q_EMIT window_.panel<WhyNotPanel>()->goThere(document_.nearMisses().front());
    shoot("whynot");

    window_.panel<RuleEditor>()->setText(text);
    until("matches again", [&] {
      const RuleInfo* rule = document_.rule(name);
      return rule && rule->matched && !rule->matches.empty();
    });
    showLine(line);
    window_.showRuleTab(RulesPanel::Matches);
    window_.panel<MatchesPanel>()->next();
    document_.preview(name);
    until("the preview", [&] { return document_.isPreviewing(); });
    shoot("preview");
    document_.endPreview();
  }

  bool apply() {
    if (!wanted_.recipe.isEmpty() || !document_.recipes().empty())
      document_.applyRecipe(wanted_.recipe.isEmpty() ? document_.recipes().front().name : wanted_.recipe);
    else
      document_.apply(document_.currentRule());
    return until(
        "the rewrite", [&] { return document_.position() == 1; }, 400000);
  }

  void difference() {
    shoot("applied");
    window_.setTextDiff(true);
    until("the difference", [&] { return window_.diffView()->text().contains(QLatin1Char('+')); });
    shoot("diff");
    window_.setTextDiff(false);
  }

  bool measure() {
    window_.arrange(Arrangement::Measure);
    QTest::qWait(200);
    RunPanel* panel = window_.panel<RunPanel>();
    panel->setSeconds(wanted_.seconds);
    if (!panel->setDevice(wanted_.device, wanted_.dtype)) {
      std::fprintf(stderr, "screenshots: the engine has no device %s, or there is no dtype %s\n",
                   qPrintable(wanted_.device), qPrintable(wanted_.dtype));
      return false;
    }
    panel->start();
    if (!until(
            "the run", [&] { return !document_.isRunning(); }, 580000) ||
        !document_.lastRunWorked())
      return false;
    showFused();
    shoot("measure");
    panel->showTab(RunPanel::Timeline);
    window_.setOverlay(Overlay::Time);
    shoot("heat");
    window_.setOverlay(Overlay::Kind);
    panel->showTab(RunPanel::Outputs);
    std::printf("%s\n%s", qPrintable(panel->headlineText()), qPrintable(panel->report()));
    return true;
  }

  /// As opened: rules leave few operators to generate kernels for.
  void goBack() {
    document_.showStep(0);
    until("the model as opened", [&] { return document_.position() == 0; });
    document_.setSelection({});
  }

  /// The kernels that Graft would generate, measured: the one that gains most as loops and code, and the drawing by
  /// kernels.
  bool compile() {
    Compilation& compilation = document_.compilation();
    window_.arrange(Arrangement::Compile);
    const auto isReady = [&] { return compilation.isKnown() && !compilation.isBusy(); };
    if (!until("the plan of kernels", isReady, 120000)) return false;
    compilation.measure();
    if (!until(
            "times of kernels", [&] { return isReady() && compilation.plan().isMeasured(); }, 300000))
      return false;
    const auto gainOf = [](const KernelInfo& k) { return k.operators - k.measured; };
    constexpr qsizetype few = 4;  // nodes, whose lines of code fit in the picture
    const KernelInfo* most = nullptr;
    for (const KernelInfo& k : compilation.plan().kernels)
      if (k.isGenerated() && k.coloured.size() > 1 && k.coloured.size() <= few && (!most || gainOf(k) > gainOf(*most)))
        most = &k;
    if (!most) return true;  // there is nothing to show
    const QString kernel = most->name, last = most->nodes.last();
    auto* panel = window_.panel<KernelsPanel>();
    panel->table()->setCurrentItem(panel->table()->row(kernel));
    until("the code",
          [&] { return window_.panel<CodePanel>()->code(CodePanel::Cpp)->text().contains(QLatin1String("int run(")); });
    window_.canvas()->reveal(last);
    shoot("compile");
    window_.compileView().setByKernels(true);
    panel->showTab(KernelsPanel::Between);
    shoot("kernels");
    panel->showTab(KernelsPanel::Timeline);
    window_.panel<CodePanel>()->showTab(CodePanel::Python);
    shoot("kernels_timeline");
    panel->showTab(KernelsPanel::Kernels);
    window_.panel<CodePanel>()->showTab(CodePanel::Cpp);
    window_.compileView().setByKernels(false);
    return true;
  }

  /// Other schedules, a kernel that is edited, and two plans beside each other.
  bool steering() {
    Compilation& compilation = document_.compilation();
    const auto isReady = [&] { return compilation.isKnown() && !compilation.isBusy(); };
    auto* panel = window_.panel<KernelsPanel>();
    auto* code = window_.panel<CodePanel>();
    compilation.trySchedules();
    if (!until("other schedules", isReady, 300000)) return false;
    const KernelInfo* first = nullptr;
    for (const KernelInfo& k : compilation.plan().kernels)
      if (!first && k.isGenerated() && !k.tried.empty() && k.coloured.size() > 1) first = &k;
    if (!first) return true;
    const QStringList nodes = first->coloured;
    panel->table()->setCurrentItem(panel->table()->row(first->name));
    until("its loops", [&] { return code->loops()->text().contains(QLatin1String("nest")); });
    shoot("schedules");
    code->editLoops()->click();
    code->loops()->setText(code->loops()->text() + QStringLiteral("  by hand\n"));
    code->keep()->click();
    until("the verdict", [&] { return isReady() && !code->outcome().isEmpty(); });
    shoot("edit");
    code->discard()->click();
    compilation.keepApart({nodes.first(), nodes.last()});
    if (!until("the other plan", isReady)) return false;
    window_.compileView().comparePlans();
    shoot("plans");
    return true;
  }

  void rewriteDark() {
    window_.setTheme(Theme::Dark);
    window_.arrange(Arrangement::Rewrite);
    document_.showStep(0);
    until("matches in the dark", [&] {
      const RuleInfo* rule = document_.rule(document_.currentRule());
      return rule && rule->matched && !rule->matches.empty();
    });
    window_.panel<MatchesPanel>()->next();
    shoot("rewrite_dark");
    window_.action(QStringLiteral("palette"))->trigger();
    shoot("palette");
    window_.palette()->hide();
    window_.setTheme(Theme::Light);
  }

  void library() {
    window_.action(QStringLiteral("library"))->trigger();
    QTreeWidget* tree = window_.panel<LibraryPanel>()->tree();
    QTreeWidgetItem* file = tree->topLevelItem(0)->child(tree->topLevelItem(0)->childCount() - 1);
    file->setExpanded(true);
    until("the library", [&] { return file->childCount() > 2; });
    tree->setCurrentItem(file->child(1));
    shoot("library");
  }

  /// A captured training step at its cut.
  void training() {
    if (wanted_.capture.isEmpty()) return;
    window_.openModel(wanted_.capture, {}, QStringLiteral("joint"));
    if (!until("the training step", [&] { return document_.isJoint(); })) return;
    window_.arrange(Arrangement::Explore);
    window_.setTraining(true);
    TrainingCut& cut = window_.cut();
    const auto isCut = [&] { return !cut.report().isEmpty() && !cut.curve().empty() && !cut.isBusy(); };
    if (!until("its cut", isCut)) return;
    cut.setMemory(0.7);
    until("the smaller cut", isCut);
    shoot("training");
    window_.setTraining(false);
  }

 private:
  bool until(const char* what, const std::function<bool()>& done, int ms = 60000) {
    QElapsedTimer timer;
    timer.start();
    while (!done() && timer.elapsed() < ms) QTest::qWait(20);
    if (done()) return true;
    std::fprintf(stderr, "screenshots: gave up waiting for %s\n", what);
    failed_ = true;
    return false;
  }

  void shoot(const char* name) {
    QTest::qWait(300);
    const QString path = wanted_.folder + QLatin1Char('/') + QString::fromLatin1(name) + QStringLiteral(".png");
    if (!window_.grab().save(path)) {
      std::fprintf(stderr, "screenshots: cannot write %s\n", qPrintable(path));
      failed_ = true;
    }
    std::printf("%s\n", qPrintable(path));
  }

  /// The rule that begins on that line stands at the top.
  void showLine(int line) {
    window_.panel<RuleEditor>()->showLine(1);
    window_.panel<RuleEditor>()->showLine(line);
  }

  /// A fused attention in the middle of both canvases.
  void showFused() {
    QString fused;
    for (const RecordInfo& r : document_.recordsToHere())
      // What a later rule took into a larger operator is no longer there.
      if (!r.added.isEmpty() && document_.graph()->findNode(r.added.last().toStdString()) &&
          (fused.isEmpty() ||
           (r.rule.contains(QLatin1String("Attention")) && !fused.contains(QLatin1String("attention")))))
        fused = r.added.last();
    if (fused.isEmpty()) return;
    Canvas* canvas = window_.canvas();
    canvas->reveal(fused);
    QTest::qWait(300);
    constexpr double scale = 0.75;
    if (!canvas->scene() || canvas->scene()->boxOf(fused) < 0) return;
    canvas->setView(canvas->origin(), scale);
    canvas->panTo(canvas->scene()->rect(canvas->scene()->boxOf(fused)).center());  // the other canvas follows
  }

  MainWindow& window_;
  Document& document_;
  Wanted wanted_;
  bool failed_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  QApplication app(argc, argv);
  QStandardPaths::setTestModeEnabled(true);
  QApplication::setOrganizationName(QStringLiteral("graft-screenshots"));
  QSettings().clear();
  QStringList words = QApplication::arguments();
  const qsizetype split = words.indexOf(QStringLiteral("--"));
  QCommandLineParser parser;
  parser.setOptionsAfterPositionalArgumentsMode(QCommandLineParser::ParseAsPositionalArguments);
  const QCommandLineOption measure(QStringLiteral("measure"), QStringLiteral("Only the pictures of a run"));
  const auto option = [](const char* name, const char* text, const char* value) {
    return QCommandLineOption(QString::fromLatin1(name), QString::fromLatin1(text), QStringLiteral("VALUE"),
                              QString::fromLatin1(value));
  };
  const QCommandLineOption device = option("device", "Where the run is", "cpu"),
                           dtype = option("dtype", "Converted to this before running", ""),
                           recipe = option("recipe", "Of the rules; the first by default", ""),
                           seconds = option("seconds", "How long to measure", "4"),
                           size = option("size", "Of the window", "1440x900"),
                           theme = option("theme", "light or dark", "light"),
                           capture = option("capture", "A captured training step, for its picture", "");
  const QCommandLineOption compile(QStringLiteral("compile"), QStringLiteral("Only the pictures of kernels"));
  parser.addOptions({measure, compile, device, dtype, recipe, seconds, size, theme, capture});
  if (split < 0 || words.size() < split + 3 || !parser.parse(words.mid(0, split)) ||
      parser.positionalArguments().size() < 2)
    return std::fprintf(stderr,
                        "usage: screenshots [--measure] [--device D] [--dtype T] [--recipe R] [--seconds S] [--size "
                        "WxH] [--theme T] [--capture F] FOLDER "
                        "ENGINE... -- MODEL RULES [INPUTS]\n"),
           2;
  const QStringList own = parser.positionalArguments();
  const Wanted wanted{own[0],
                      words[split + 1],
                      words[split + 2],
                      words.value(split + 3),
                      parser.value(device),
                      parser.value(dtype),
                      parser.value(recipe),
                      parser.value(capture),
                      parser.value(seconds).toDouble()};
  if (!QDir().mkpath(wanted.folder))
    return std::fprintf(stderr, "screenshots: cannot make the folder %s\n", qPrintable(wanted.folder)), 1;
  // Nothing of this machine's folders stands in a picture: HOME is where the models are.
  QSettings().setValue(QStringLiteral("recent"), QStringList{QFileInfo(wanted.model).absoluteFilePath()});
  const QStringList sides = parser.value(size).split(QLatin1Char('x'));
  applyTheme(parser.value(theme) == QLatin1String("dark") ? Theme::Dark : Theme::Light);
  MainWindow window(own.mid(1));
  window.resize(sides.value(0).toInt(), sides.value(1).toInt());
  window.show();
  Photographer p(window, wanted);
  if (!p.welcome() || !p.open()) return 1;
  if (parser.isSet(compile)) return p.compile() && p.steering() && !p.failed() ? 0 : 1;
  if (parser.isSet(measure)) return p.rules() && p.apply() && p.measure() && !p.failed() ? 0 : 1;
  p.explore();
  if (!p.rules()) return 1;
  p.rewrite();
  if (!p.apply()) return 1;
  p.difference();
  if (!p.measure()) return 1;
  p.goBack();
  if (!p.compile()) return 1;
  p.rewriteDark();
  p.library();
  p.training();
  return p.failed() ? 1 : 0;
}
