// screenshots FOLDER ENGINE... -- MODEL RULES [INPUTS]: the window's pictures for README and docs, made with the given
// engine. Waits for each state instead of sleeping; says which one did not come.
#include <QApplication>
#include <QElapsedTimer>
#include <QSettings>
#include <QStandardPaths>
#include <QTest>
#include <cstdio>
#include <functional>

#include "views/canvas.h"
#include "views/command_palette.h"
#include "views/diff_view.h"
#include "views/library_panel.h"
#include "views/main_window.h"
#include "views/matches_panel.h"
#include "views/rule_editor.h"
#include "views/run_panel.h"
#include "views/theme.h"

using namespace graft;

namespace {

bool until(const char* what, const std::function<bool()>& done, int ms = 60000) {
  QElapsedTimer timer;
  timer.start();
  while (!done() && timer.elapsed() < ms) QTest::qWait(20);
  if (!done()) std::fprintf(stderr, "screenshots: gave up waiting for %s\n", what);
  return done();
}

}  // namespace

int main(int argc, char** argv) {
  QApplication app(argc, argv);
  QStandardPaths::setTestModeEnabled(true);
  QApplication::setOrganizationName(QStringLiteral("graft-screenshots"));
  QSettings().clear();
  QStringList words = QApplication::arguments().mid(1);
  const qsizetype split = words.indexOf(QStringLiteral("--"));
  if (split < 2 || words.size() < split + 3)
    return std::fprintf(stderr, "usage: screenshots FOLDER ENGINE... -- MODEL RULES [INPUTS]\n"), 2;
  const QString folder = words[0], model = words[split + 1], rules = words[split + 2], inputs = words.value(split + 3);
  QSettings().setValue(QStringLiteral("recent"), QStringList{QFileInfo(model).absoluteFilePath()});
  applyTheme(Theme::Light);
  MainWindow window(words.mid(1, split - 1));
  window.resize(1440, 900);
  window.show();
  auto shoot = [&](const char* name) {
    QTest::qWait(250);
    const QString path = folder + QLatin1Char('/') + QString::fromLatin1(name) + QStringLiteral(".png");
    if (!window.grab().save(path)) std::fprintf(stderr, "screenshots: cannot write %s\n", qPrintable(path));
    std::printf("%s\n", qPrintable(path));
  };
  Document& d = window.document();
  // Nothing of this machine's folders stands in a picture: HOME is where the models are.
  until("the engine", [&] { return window.engine().isUp(); });
  shoot("welcome");
  window.openModel(model, inputs);
  if (!until("the model", [&] { return d.isOpen() && window.canvas()->scene(); })) return 1;
  window.canvas()->setDepth(0);
  shoot("collapsed");
  window.canvas()->setDepth(4);
  QString linear;
  for (const NodeId n : d.graph()->order())
    if (linear.isEmpty() && d.graph()->node(n).op->baseName() == "softmax")
      linear = QString::fromStdString(d.graph()->node(n).name);
  window.canvas()->reveal(linear);
  shoot("explore");
  window.openRules(rules);
  window.arrange(Arrangement::Rewrite);
  until("matches", [&] { return !d.rules().empty() && d.rules().front().matched; });
  const RuleInfo* attention = d.rule(QStringLiteral("Attention"));
  const int line = attention ? attention->line : 1;
  window.editor()->showLine(line + 30);
  window.editor()->showLine(line + 4);
  const QString name = attention ? attention->name : d.rules().front().name;
  d.setCurrentRule(name);
  window.matches()->next();
  shoot("rewrite");
  QString text = window.editor()->text();
  const QString broken = QString(text).replace(QStringLiteral("dim=-1"), QStringLiteral("dim=1"));
  window.editor()->setText(broken);
  window.editor()->showLine(line + 4);
  d.setCurrentRule(name);
  window.showRuleTab(1);
  until(
      "near misses", [&] { return !d.nearMisses().empty(); }, 8000);
  shoot("whynot");
  window.editor()->setText(text);
  until(
      "matches again",
      [&] { return !d.rules().empty() && d.rules().front().matched && !d.rules().front().matches.empty(); }, 8000);
  window.showRuleTab(0);
  window.matches()->next();
  d.preview(d.currentRule());
  until(
      "the preview", [&] { return d.isPreviewing(); }, 8000);
  shoot("preview");
  d.endPreview();
  if (!d.recipes().empty())
    d.applyRecipe(d.recipes().front().name);
  else
    d.apply(d.currentRule());
  until("the rewrite", [&] { return d.position() == 1; });
  window.setTextDiff(true);
  until("the difference", [&] { return window.diffView()->text().contains(QLatin1Char('+')); });
  shoot("diff");
  window.setTextDiff(false);
  window.arrange(Arrangement::Measure);
  QTest::qWait(200);
  window.runPanel()->setSeconds(4);
  window.runPanel()->start();
  until(
      "the run", [&] { return !d.isRunning(); }, 400000);
  QString fused;
  for (const RecordInfo& r : d.recordsToHere())
    if (fused.isEmpty() && !r.added.isEmpty()) fused = r.added.first();
  if (!fused.isEmpty()) window.canvas()->reveal(fused);
  shoot("measure");
  window.runPanel()->showTab(RunPanel::Timeline);
  window.setOverlay(Overlay::Time);
  shoot("heat");
  window.runPanel()->showTab(RunPanel::Inside);
  window.setOverlay(Overlay::Error);
  shoot("error");
  window.runPanel()->showTab(RunPanel::Operators);
  shoot("operators");
  window.runPanel()->showTab(RunPanel::Outputs);
  window.setOverlay(Overlay::Kind);
  window.setTheme(Theme::Dark);
  shoot("measure_dark");
  window.arrange(Arrangement::Rewrite);
  d.showStep(0);
  until(
      "matches in the dark", [&] { return !d.rules().empty() && d.rules().front().matched; }, 8000);
  window.matches()->next();
  shoot("rewrite_dark");
  window.action(QStringLiteral("palette"))->trigger();
  shoot("palette");
  window.palette()->hide();
  window.setTheme(Theme::Light);
  window.action(QStringLiteral("library"))->trigger();
  QTreeWidget* tree = window.library()->tree();
  tree->topLevelItem(0)->child(tree->topLevelItem(0)->childCount() - 1)->setExpanded(true);
  QTreeWidgetItem* file = tree->topLevelItem(0)->child(tree->topLevelItem(0)->childCount() - 1);
  until(
      "the library", [&] { return file->childCount() > 2; }, 8000);
  tree->setCurrentItem(file->child(1));
  shoot("library");
  return 0;
}
